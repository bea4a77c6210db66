// SPDX-License-Identifier: Apache-2.0
//
// Tiles go from global to shared memory, some terms at a time, and from there to registers. Multiply-adds: 16 x 8 threads, each with own
// rows 16 apart and other rows 8 apart. Tensor cores (mma.m16n8k16 of the PTX ISA): a warp has 16 own rows; the registers in which a
// product leaves a tile of scores are the ones in which the next product takes it.

#include "passes/lower/kernels/gpu/attention_tiles.h"

#include "passes/lower/kernels/gpu/gpu_shape.h"

#include "dialects/support/element_type.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

constexpr int64_t kAccessBytes = 16;
constexpr int64_t kAlignedElements = 16;                             // tensors of at least so many begin on a boundary
constexpr int64_t kDown = 16, kAcross = 8;                           // threads of multiply-adds
constexpr int64_t kCoreRows = 16, kCoreColumns = 8, kCoreTerms = 16; // of a product of tensor cores

// An element as the number of another float type.
Value convert(ImplicitLocOpBuilder &b, Value element, Type type) {
  if (element.getType() == type) {
    return element;
  }
  Value wide = isNarrowFloat(element.getType()) ? Value(arith::ExtFOp::create(b, b.getF32Type(), element)) : element;
  return type.isF32() ? wide : Value(arith::TruncFOp::create(b, type, wide));
}

} // namespace

AttentionTileShape::AttentionTileShape(Type elements, int64_t accumulated, int64_t rows) : isNarrow(!elements.isF32()) {
  constexpr int64_t kFew = 128; // of at most TargetTraits::attentionColumns
  if (isNarrow) {
    ofRows = 2;
    own = kThreads / kWarp * kCoreRows;
    others = accumulated <= kFew ? 64 : 32;
    sharing = 4;
    return;
  }
  ofRows = std::min<int64_t>(accumulated <= kFew ? 4 : 2, std::max<int64_t>(1, llvm::divideCeil(rows, kDown)));
  own = kDown * ofRows;
  others = 64;
  sharing = kAcross;
}

AttentionTiles::AttentionTiles(exec::FusionOp fusion, func::FuncOp function, ArrayRef<int64_t> alias, const AttentionTileShape &tile,
                               Type elements)
    : GpuCode(fusion, function, alias), tile(tile), staged(elements) {}

void AttentionTiles::prepareTiles(int64_t width, int64_t columns) {
  const int64_t terms = std::min(mostTerms(), static_cast<int64_t>(llvm::alignTo(width, tile.isNarrow ? kCoreTerms : accessed())));
  int64_t ofOthers = tile.others * padded(terms);
  if (tile.isNarrow) {
    const int64_t sides = std::min(mostTerms(), static_cast<int64_t>(llvm::alignTo(columns, kCoreColumns)));
    ofOthers = std::max(ofOthers, sides * padded(tile.others));
  } else {
    ofOthers = tile.others * padded(mostTerms());
    weightMemory = allocateShared(staged, tile.own * padded(tile.others));
  }
  ownMemory = allocateShared(staged, tile.own * padded(terms));
  otherMemory = allocateShared(staged, ofOthers);
  warp = divide(thread, kWarp);
  lane = remainder(thread, kWarp);
}

//===-- Places ------------------------------------------------------------------------------------------------------------------------===//

AttentionTiles::Values AttentionTiles::ownRows() {
  Values rows;
  Value first = tile.isNarrow ? add(scale(warp, kCoreRows), divide(lane, tile.sharing)) : divide(thread, kAcross);
  for (int64_t i = 0; i < tile.ofRows; ++i) {
    rows.push_back(add(first, constant(i * (tile.isNarrow ? kCoreRows / 2 : kDown))));
  }
  return rows;
}

AttentionTiles::Values AttentionTiles::otherRows() {
  if (tile.isNarrow) {
    return accumulatedColumns(tile.others);
  }
  Values rows;
  for (int64_t j = 0; j < tile.others / kAcross; ++j) {
    rows.push_back(add(remainder(thread, kAcross), constant(j * kAcross)));
  }
  return rows;
}

AttentionTiles::Values AttentionTiles::accumulatedColumns(int64_t columns) {
  const int64_t apart = runLength() * tile.sharing;
  Value first = scale(remainder(thread, tile.sharing), runLength());
  Values result;
  for (int64_t run = 0; run < static_cast<int64_t>(llvm::divideCeil(columns, apart)); ++run) {
    for (int64_t i = 0; i < runLength(); ++i) {
      result.push_back(add(first, constant(run * apart + i)));
    }
  }
  return result;
}

Value AttentionTiles::isFirstOfRow() {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, remainder(thread, tile.sharing), zero);
}

Value AttentionTiles::combineRow(Value value, llvm::function_ref<Value(Value, Value)> combine) {
  for (int64_t distance = tile.sharing / 2; distance > 0; distance /= 2) {
    value = combine(value, shuffle(value, distance));
  }
  return value;
}

//===-- Global memory -----------------------------------------------------------------------------------------------------------------===//

// `count` elements of a row from a column on, as they are; what is outside is read inside.
AttentionTiles::Values AttentionTiles::loadGlobal(const AttentionMatrix &matrix, Value row, Value column, int64_t count) {
  Value inRow = arith::MinUIOp::create(b, row, constant(matrix.rows - 1));
  Value first = add(matrix.offset, scale(inRow, matrix.rowStride));
  Type element = matrix.type.getElementType();
  Values elements;
  if (matrix.columns % count == 0 && matrix.type.getNumElements() >= kAlignedElements) {
    Value inside = arith::MinUIOp::create(b, column, constant(matrix.columns - count));
    auto type = VectorType::get({count}, element);
    Value vector = vector::LoadOp::create(b, type, matrix.memory, ValueRange(add(first, inside)), /*nontemporal=*/false,
                                          llvm::MaybeAlign(std::min(kAccessBytes, count * elementBytes(element))));
    for (int64_t i = 0; i < count; ++i) {
      elements.push_back(vector::ExtractOp::create(b, vector, i));
    }
    return elements;
  }
  for (int64_t i = 0; i < count; ++i) {
    Value inside = arith::MinUIOp::create(b, add(column, constant(i)), constant(matrix.columns - 1));
    elements.push_back(memref::LoadOp::create(b, matrix.memory, add(first, inside)));
  }
  return elements;
}

Value AttentionTiles::readElement(const AttentionMatrix &matrix, Value row, Value column) {
  Value at = add(add(matrix.offset, scale(row, matrix.rowStride)), column);
  return convert(b, memref::LoadOp::create(b, matrix.memory, at), b.getF32Type());
}

void AttentionTiles::storeRows(const AttentionMatrix &matrix, ArrayRef<Value> numbers, Value first) {
  Type element = matrix.type.getElementType();
  const int64_t run = runLength(), apart = run * tile.sharing;
  const bool isWhole = matrix.columns % run == 0 && matrix.type.getNumElements() >= kAlignedElements;
  const Values columns = accumulatedColumns(matrix.columns), rows = ownRows();
  for (int64_t i = 0; i < tile.ofRows; ++i) {
    Value row = add(first, rows[i]);
    emitIf(isBelow(row, matrix.rows), [&] {
      Value begin = add(matrix.offset, scale(row, matrix.rowStride));
      for (int64_t j = 0; j < static_cast<int64_t>(columns.size()); j += run) {
        const bool isInside = (j / run + 1) * apart <= matrix.columns;
        auto stored = [&](int64_t of) { return convert(b, numbers[i * columns.size() + of], element); };
        if (isWhole) {
          emitIf(isInside ? Value() : isBelow(columns[j], matrix.columns), [&] {
            auto elements = llvm::map_to_vector(llvm::seq(j, j + run), stored);
            Value vector = vector::FromElementsOp::create(b, VectorType::get({run}, element), elements);
            vector::StoreOp::create(b, vector, matrix.memory, ValueRange(add(begin, columns[j])), /*nontemporal=*/false,
                                    llvm::MaybeAlign(run * elementBytes(element)));
          });
          continue;
        }
        for (int64_t of = j; of < j + run; ++of) {
          emitIf(isBelow(columns[of], matrix.columns),
                 [&] { memref::StoreOp::create(b, stored(of), matrix.memory, add(begin, columns[of])); });
        }
      }
    });
  }
}

//===-- Shared memory -----------------------------------------------------------------------------------------------------------------===//

AttentionTiles::Values AttentionTiles::readShared(Value memory, Value at, int64_t count) {
  Value vector = vector::LoadOp::create(b, VectorType::get({count}, staged), memory, ValueRange(at), /*nontemporal=*/false,
                                        llvm::MaybeAlign(count * elementBytes(staged)));
  Values elements;
  for (int64_t i = 0; i < count; ++i) {
    elements.push_back(vector::ExtractOp::create(b, vector, i));
  }
  return elements;
}

void AttentionTiles::writeShared(Value memory, Value at, ArrayRef<Value> elements) {
  const auto count = static_cast<int64_t>(elements.size());
  Value vector = vector::FromElementsOp::create(b, VectorType::get({count}, staged), elements);
  vector::StoreOp::create(b, vector, memory, ValueRange(at), /*nontemporal=*/false, llvm::MaybeAlign(count * elementBytes(staged)));
}

// Copies rows from `first` and `terms` columns from `column` on; zeros outside of the matrix. Threads side by side read a row.
void AttentionTiles::stage(Value memory, int64_t rows, int64_t terms, const AttentionMatrix &matrix, Value first, Value column) {
  const int64_t parts = terms / accessed(), all = rows * parts;
  for (int64_t begin = 0; begin < all; begin += AttentionTileShape::kThreads) {
    Value number = add(thread, constant(begin));
    emitIf(begin + AttentionTileShape::kThreads > all ? isBelow(number, all) : Value(), [&] {
      Value row = divide(number, parts), part = scale(remainder(number, parts), accessed());
      Values elements = loadOrZero(matrix, add(first, row), add(column, part));
      writeShared(memory, place(row, padded(terms), part), elements);
    });
  }
}

// Copies all other rows of a tile and `columns` columns, a multiple of accessed(), each column's numbers side by side.
void AttentionTiles::stageByColumns(int64_t columns, const AttentionMatrix &matrix, Value first, int64_t column) {
  const int64_t parts = AttentionTileShape::kThreads / tile.others, all = columns / accessed();
  Value row = remainder(thread, tile.others);
  for (int64_t begin = 0; begin < all; begin += parts) {
    Value part = add(divide(thread, tile.others), constant(begin));
    emitIf(begin + parts > all ? isBelow(part, all) : Value(), [&] {
      Value side = scale(part, accessed());
      Values elements = loadOrZero(matrix, add(first, row), add(constant(column), side));
      for (auto [i, element] : llvm::enumerate(elements)) {
        Value at = place(add(side, constant(static_cast<int64_t>(i))), padded(tile.others), row);
        memref::StoreOp::create(b, element, otherMemory, at);
      }
    });
  }
}

// accessed() elements of a row as they are staged; zeros outside of the matrix.
AttentionTiles::Values AttentionTiles::loadOrZero(const AttentionMatrix &matrix, Value row, Value column) {
  Values elements = loadGlobal(matrix, row, column, accessed());
  Value none = arith::ConstantOp::create(b, b.getZeroAttr(staged)), isRow = isBelow(row, matrix.rows);
  for (auto [i, element] : llvm::enumerate(elements)) {
    Value isInside = both(isRow, isBelow(add(column, constant(static_cast<int64_t>(i))), matrix.columns));
    element = arith::SelectOp::create(b, isInside, convert(b, element, staged), none);
  }
  return elements;
}

//===-- Products ----------------------------------------------------------------------------------------------------------------------===//

AttentionTiles::Values AttentionTiles::emitDots(const AttentionMatrix &own, Value ownFirst, const AttentionMatrix &other,
                                                Value otherFirst) {
  const int64_t width = own.columns, parts = llvm::divideCeil(width, mostTerms());
  const int64_t terms = llvm::alignTo(llvm::divideCeil(width, parts), tile.isNarrow ? kCoreTerms : accessed());
  Value none = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  Values sums(tile.ofRows * tile.others / tile.sharing, none);
  return emitFor(zero, constant(parts * terms), terms, sums, [&](Value column, ArrayRef<Value> carried) {
    gpu::BarrierOp::create(b); // what was here before is read
    stage(ownMemory, tile.own, terms, own, ownFirst, column);
    stage(otherMemory, tile.others, terms, other, otherFirst, column);
    gpu::BarrierOp::create(b);
    return tile.isNarrow ? addDotsOfCores(terms, Values(carried)) : addDotsOfF32(terms, Values(carried));
  });
}

AttentionTiles::Values AttentionTiles::addDotsOfF32(int64_t terms, Values sums) {
  const int64_t ofOthers = tile.others / kAcross, stride = padded(terms);
  const Values own = ownRows(), others = otherRows();
  return emitFor(zero, constant(terms), accessed(), sums, [&](Value term, ArrayRef<Value> carried) {
    Values next(carried);
    auto read = [&](Value memory) { return [&, memory](Value row) { return readShared(memory, place(row, stride, term), accessed()); }; };
    auto a = llvm::map_to_vector(own, read(ownMemory)), c = llvm::map_to_vector(others, read(otherMemory));
    for (int64_t t = 0; t < accessed(); ++t) {
      for (int64_t i = 0; i < tile.ofRows; ++i) {
        for (int64_t j = 0; j < ofOthers; ++j) {
          Value &sum = next[i * ofOthers + j];
          sum = math::FmaOp::create(b, a[i][t], c[j][t], sum);
        }
      }
    }
    return next;
  });
}

AttentionTiles::Values AttentionTiles::addDotsOfCores(int64_t terms, Values sums) {
  const int64_t stride = padded(terms), ofRow = tile.others / tile.sharing;
  Value group = divide(lane, tile.sharing), pair = scale(remainder(lane, tile.sharing), 2);
  const Values own = ownRows();
  return emitFor(zero, constant(terms), kCoreTerms, sums, [&](Value term, ArrayRef<Value> carried) {
    Values next(carried);
    Value near = add(term, pair), far = add(near, constant(kCoreTerms / 2));
    Value a[] = {readPair(ownMemory, place(own[0], stride, near)), readPair(ownMemory, place(own[1], stride, near)),
                 readPair(ownMemory, place(own[0], stride, far)), readPair(ownMemory, place(own[1], stride, far))};
    for (int64_t side = 0; side < tile.others / kCoreColumns; ++side) {
      Value row = add(group, constant(side * kCoreColumns));
      Value c[] = {readPair(otherMemory, place(row, stride, near)), readPair(otherMemory, place(row, stride, far))};
      multiply(a, c, {&next[2 * side], &next[2 * side + 1], &next[ofRow + 2 * side], &next[ofRow + 2 * side + 1]});
    }
    return next;
  });
}

AttentionTiles::Values AttentionTiles::accumulate(Values sums, ArrayRef<Value> weights, const AttentionMatrix &other, Value otherFirst) {
  const int64_t ofRow = static_cast<int64_t>(sums.size()) / tile.ofRows;
  const int64_t ofPart = mostTerms() / tile.sharing; // numbers of a row of the columns that are staged at once
  for (int64_t column = 0, number = 0; column < other.columns; column += mostTerms(), number += ofPart) {
    gpu::BarrierOp::create(b); // what was here before is read
    if (tile.isNarrow) {
      const int64_t left = llvm::alignTo(other.columns - column, kCoreColumns);
      stageByColumns(std::min(mostTerms(), left), other, otherFirst, column);
    } else {
      if (column == 0) {
        stageWeights(weights);
      }
      stage(otherMemory, tile.others, mostTerms(), other, otherFirst, constant(column));
    }
    gpu::BarrierOp::create(b);
    const int64_t count = std::min(ofPart, ofRow - number);
    SmallVector<Value *> part;
    for (int64_t i = 0; i < tile.ofRows; ++i) {
      for (int64_t j = 0; j < count; ++j) {
        part.push_back(&sums[i * ofRow + number + j]);
      }
    }
    tile.isNarrow ? addProductsOfCores(weights, part) : addProductsOfF32(part);
  }
  return sums;
}

void AttentionTiles::stageWeights(ArrayRef<Value> weights) {
  const Values own = ownRows(), others = otherRows();
  for (auto [i, weight] : llvm::enumerate(weights)) {
    Value at = place(own[i / others.size()], padded(tile.others), others[i % others.size()]);
    memref::StoreOp::create(b, weight, weightMemory, at);
  }
}

void AttentionTiles::addProductsOfF32(ArrayRef<Value *> sums) {
  const int64_t ofRow = static_cast<int64_t>(sums.size()) / tile.ofRows;
  const Values own = ownRows();
  Value column = scale(remainder(thread, kAcross), accessed());
  Values first = llvm::map_to_vector(sums, [](Value *sum) { return *sum; });
  Values last = emitFor(zero, constant(tile.others), accessed(), first, [&](Value row, ArrayRef<Value> carried) {
    Values next(carried);
    auto weights =
        llvm::map_to_vector(own, [&](Value of) { return readShared(weightMemory, place(of, padded(tile.others), row), accessed()); });
    for (int64_t t = 0; t < accessed(); ++t) {
      Values elements = readShared(otherMemory, place(add(row, constant(t)), padded(mostTerms()), column), accessed());
      for (int64_t i = 0; i < tile.ofRows; ++i) {
        for (int64_t j = 0; j < ofRow; ++j) {
          Value &sum = next[i * ofRow + j];
          sum = math::FmaOp::create(b, weights[i][t], elements[j], sum);
        }
      }
    }
    return next;
  });
  for (auto [sum, number] : llvm::zip_equal(sums, last)) {
    *sum = number;
  }
}

void AttentionTiles::addProductsOfCores(ArrayRef<Value> weights, ArrayRef<Value *> sums) {
  const int64_t ofRow = static_cast<int64_t>(sums.size()) / tile.ofRows, ofScores = tile.others / tile.sharing;
  Value group = divide(lane, tile.sharing), pair = scale(remainder(lane, tile.sharing), 2);
  for (int64_t term = 0; term < tile.others; term += kCoreTerms) {
    Values a;
    for (int64_t of = term / tile.sharing; of < (term + kCoreTerms) / tile.sharing; of += 2) {
      for (int64_t i = 0; i < tile.ofRows; ++i) {
        Value low = convert(b, weights[i * ofScores + of], staged), high = convert(b, weights[i * ofScores + of + 1], staged);
        a.push_back(asRegister(vector::FromElementsOp::create(b, VectorType::get({2}, staged), ValueRange{low, high})));
      }
    }
    Value near = add(pair, constant(term)), far = add(near, constant(kCoreTerms / 2));
    for (int64_t side = 0; side < ofRow / 2; ++side) {
      Value row = add(group, constant(side * kCoreColumns));
      Value c[] = {readPair(otherMemory, place(row, padded(tile.others), near)),
                   readPair(otherMemory, place(row, padded(tile.others), far))};
      multiply(a, c, {sums[2 * side], sums[2 * side + 1], sums[ofRow + 2 * side], sums[ofRow + 2 * side + 1]});
    }
  }
}

//===-- Tensor cores ------------------------------------------------------------------------------------------------------------------===//

// Two neighbouring elements of shared memory as a register of a tensor core.
Value AttentionTiles::readPair(Value memory, Value at) {
  return asRegister(vector::LoadOp::create(b, VectorType::get({2}, staged), memory, ValueRange(at), /*nontemporal=*/false,
                                           llvm::MaybeAlign(2 * elementBytes(staged))));
}

// f16 is a vector of two there, bf16 an integer.
Value AttentionTiles::asRegister(Value pair) {
  if (staged.isF16()) {
    return pair;
  }
  Value word = vector::BitCastOp::create(b, VectorType::get({1}, b.getI32Type()), pair);
  return vector::ExtractOp::create(b, word, 0);
}

void AttentionTiles::multiply(ArrayRef<Value> a, ArrayRef<Value> c, ArrayRef<Value *> sums) {
  const auto type = staged.isF16() ? NVVM::MMATypes::f16 : NVVM::MMATypes::bf16;
  auto numbers = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(4, b.getF32Type()));
  Values before = llvm::map_to_vector(sums, [](Value *sum) { return *sum; });
  Value product = NVVM::MmaOp::create(b, numbers, ValueRange(a), ValueRange(c), ValueRange(before),
                                      ArrayRef<int64_t>{kCoreRows, kCoreColumns, kCoreTerms}, std::nullopt, std::nullopt,
                                      std::array{type, type}, std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
  for (auto [i, sum] : llvm::enumerate(sums)) {
    *sum = LLVM::ExtractValueOp::create(b, product, static_cast<int64_t>(i));
  }
}

} // namespace ashlar::lower
