// SPDX-License-Identifier: Apache-2.0

#include "passes/lower/kernels/gpu/attention_nest.h"

#include "dialects/nn/ops/scalar_code.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace ashlar::lower {

AttentionNest::AttentionNest(exec::FusionOp fusion, func::FuncOp function, ArrayRef<int64_t> alias, Attention attention, bool isByKeys,
                             int64_t accumulated)
    : AttentionTiles(fusion, function, alias,
                     AttentionTileShape(typeOf(attention.query).getElementType(), accumulated,
                                        nn::rowsOf(typeOf(isByKeys ? attention.key : attention.query))),
                     typeOf(attention.query).getElementType()),
      attention(std::move(attention)), isByKeys(isByKeys), rows(nn::rowsOf(typeOf(this->attention.query))),
      keys(nn::rowsOf(typeOf(this->attention.key))) {}

AttentionMatrix AttentionNest::matrixIn(Value memory, RankedTensorType type, bool hasHeadsInside) {
  ArrayRef<int64_t> shape = type.getShape();
  const auto rank = static_cast<int64_t>(shape.size());
  const SmallVector<int64_t> strides = rowMajorStrides(shape);
  auto dimOf = [&](int64_t d) { return hasHeadsInside && d == rank - 3 ? rank - 2 : hasHeadsInside && d == rank - 2 ? rank - 3 : d; };
  Value offset = zero;
  for (auto [d, place] : llvm::enumerate(batch)) {
    offset = add(offset, scale(place, strides[dimOf(static_cast<int64_t>(d))]));
  }
  return {memory, offset, type, shape[dimOf(rank - 2)], shape.back(), strides[dimOf(rank - 2)]};
}

AttentionMatrix AttentionNest::matrixOf(Value value) {
  auto swap = value.getDefiningOp<nn::TransposeOp>();
  auto argument = cast<BlockArgument>(swap ? swap.getInput() : value);
  return matrixIn(function.getArgument(argument.getArgNumber()), typeOf(argument), swap != nullptr);
}

AttentionMatrix AttentionNest::resultOf(Value value) {
  auto inside = [](Value yielded) {
    auto swap = yielded.getDefiningOp<nn::TransposeOp>();
    return swap ? swap.getInput() : yielded;
  };
  auto found = llvm::find_if(yielded(), [&](Value yielded) { return inside(yielded) == value; });
  return matrixIn(outputOf(*found), typeOf(*found), inside(*found) != *found);
}

void AttentionNest::begin(int64_t width, int64_t columns) {
  ArrayRef<int64_t> sizes = shapeOf(attention.query).drop_back(2);
  const int64_t entries = ShapedType::getNumElements(sizes), tiles = llvm::divideCeil(isByKeys ? keys : rows, tile.own);
  setGrid(entries * tiles, AttentionTileShape::kThreads);
  prepareTiles(width, columns);
  // Blocks that see most begin first: of a causal one the last rows, or the first keys.
  Value number = divide(block, entries);
  if (attention.isCausal && !isByKeys) {
    number = arith::SubIOp::create(b, constant(tiles - 1), number);
  }
  ownFirst = scale(number, tile.own);
  entry = remainder(block, entries);
  batch.assign(sizes.size(), zero);
  Value flat = entry;
  for (size_t d = sizes.size(); d-- > 0;) {
    batch[d] = d == 0 ? flat : remainder(flat, sizes[d]);
    flat = d == 0 ? flat : divide(flat, sizes[d]);
  }
  own = ownRows();
  others = otherRows();
  setDistances();
}

// A key is seen where firstDistance <= key - row <= diagonal, both in this block's counting.
void AttentionNest::setDistances() {
  if (!attention.isCausal) {
    return;
  }
  Type wide = b.getI64Type();
  auto integer = [&](int64_t value) { return arith::ConstantOp::create(b, b.getIntegerAttr(wide, value)); };
  Value shift; // of keys against rows
  if (!attention.positions.empty()) {
    auto first = [&](Value position) { return scalars.emit(position, indexIn(position, {zero})); };
    shift = arith::SubIOp::create(b, first(attention.positions[0]), first(attention.positions[1]));
  }
  auto asIndex = [&](int64_t distance) -> Value {
    const int64_t most = rows + keys;
    if (!shift) {
      return constant(std::clamp(distance, -most, most));
    }
    Value sum = arith::AddIOp::create(b, shift, integer(distance));
    sum = arith::MaxSIOp::create(b, arith::MinSIOp::create(b, sum, integer(most)), integer(-most));
    return arith::IndexCastOp::create(b, b.getIndexType(), sum);
  };
  diagonal = asIndex(attention.diagonal);
  if (attention.hasWindow) {
    firstDistance = asIndex(attention.firstDistance);
  }
}

AttentionNest::Values AttentionNest::forOthers(ArrayRef<Value> carried, llvm::function_ref<Values(Value, ArrayRef<Value>)> step) {
  const int64_t count = isByKeys ? rows : keys;
  auto clamp = [&](Value place) -> Value { return arith::MinSIOp::create(b, arith::MaxSIOp::create(b, place, zero), constant(count)); };
  Value first = zero, end = constant(count), behind = add(ownFirst, constant(tile.own));
  if (isByKeys) {
    first = diagonal ? clamp(arith::SubIOp::create(b, ownFirst, diagonal)) : first;
    end = firstDistance ? clamp(arith::SubIOp::create(b, behind, firstDistance)) : end;
  } else {
    end = diagonal ? clamp(add(behind, diagonal)) : end;
    first = firstDistance ? clamp(add(ownFirst, firstDistance)) : first;
  }
  return emitFor(scale(divide(first, tile.others), tile.others), end, tile.others, carried, step);
}

// The index of an element of a mask or an index tensor, which repeats along dims of size 1; `last`: along the dims behind those of the
// batch.
AttentionNest::Index AttentionNest::indexIn(Value value, ArrayRef<Value> last) {
  Index index(batch);
  index.append(last.begin(), last.end());
  for (auto [place, size] : llvm::zip_equal(index, shapeOf(value))) {
    place = size == 1 ? zero : place;
  }
  return index;
}

Value AttentionNest::inside(Value place, int64_t size, int64_t part) {
  return size % part == 0 ? place : Value(arith::MinUIOp::create(b, place, constant(size - 1)));
}

AttentionNest::Place AttentionNest::placeOf(Value ownRow, Value otherRow) {
  Value row = isByKeys ? otherRow : ownRow, key = isByKeys ? ownRow : otherRow, isSeen;
  const int64_t ofRows = isByKeys ? tile.others : tile.own, ofKeys = isByKeys ? tile.own : tile.others;
  if (keys % ofKeys != 0) {
    isSeen = isBelow(key, keys);
  }
  if (isByKeys && rows % ofRows != 0) {
    isSeen = both(isSeen, isBelow(row, rows));
  }
  if (diagonal) {
    Value distance = arith::SubIOp::create(b, key, row);
    isSeen = both(isSeen, arith::CmpIOp::create(b, arith::CmpIPredicate::sle, distance, diagonal));
    if (firstDistance) {
      isSeen = both(isSeen, arith::CmpIOp::create(b, arith::CmpIPredicate::sge, distance, firstDistance));
    }
  }
  return {inside(row, rows, ofRows), inside(key, keys, ofKeys), isSeen};
}

AttentionNest::Scores AttentionNest::emitScores(ArrayRef<Value> dots, Value otherFirst) {
  Scores result;
  Value hidden = number(nn::kHidden), factor = number(attention.softcap == 0 ? attention.scale : attention.scale / attention.softcap);
  for (auto [i, dot] : llvm::enumerate(dots)) {
    Place place = placeOf(add(ownFirst, own[i / others.size()]), add(otherFirst, others[i % others.size()]));
    Value score = times(dot, factor);
    if (attention.softcap != 0) { // 0 outside of the matrix, where infinity times a staged 0 is NaN
      Value tanh = math::TanhOp::create(b, score);
      result.tanhs.push_back(place.isSeen ? Value(arith::SelectOp::create(b, place.isSeen, tanh, number(0))) : tanh);
      score = times(result.tanhs.back(), number(attention.softcap));
    }
    if (Value mask = attention.mask) {
      Value element = scalars.emit(mask, indexIn(mask, {place.row, place.key}));
      const bool isBool = typeOf(mask).getElementType().isInteger(1);
      score = isBool ? Value(arith::SelectOp::create(b, element, score, hidden)) : plus(score, element);
    }
    result.scores.push_back(place.isSeen ? Value(arith::SelectOp::create(b, place.isSeen, score, hidden)) : score);
    result.places.push_back(place);
  }
  return result;
}

Value AttentionNest::emitKept(const Place &place) {
  if (attention.draw.empty()) {
    return {};
  }
  auto read = [&](size_t i, ArrayRef<Value> last) { return scalars.emit(attention.draw[i], indexIn(attention.draw[i], last)); };
  auto readScalar = [&](size_t i) { return scalars.emit(attention.draw[i], {}); };
  Value element = arith::AddIOp::create(b, read(1, {place.key}), read(0, {place.row}));
  Value drawn = nn::scalar::uniform(b, b.getF32Type(), {element, readScalar(2), readScalar(3), readScalar(4)});
  Value isKept = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, drawn, number(attention.dropout));
  return arith::SelectOp::create(b, isKept, number(1 / (1 - attention.dropout)), number(0));
}

void AttentionNest::storeRowNumbers(Value value, llvm::function_ref<Value(size_t)> numberOf) {
  if (!llvm::is_contained(yielded(), value)) {
    return;
  }
  Value isFirst = isFirstOfRow(), memory = outputOf(value);
  for (auto [i, place] : llvm::enumerate(own)) {
    Value row = add(ownFirst, place);
    Value stored = numberOf(i);
    emitIf(both(isFirst, isBelow(row, rows)), [&] { memref::StoreOp::create(b, stored, memory, add(scale(entry, rows), row)); });
  }
}

} // namespace ashlar::lower
