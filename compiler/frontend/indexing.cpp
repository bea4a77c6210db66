// SPDX-License-Identifier: Apache-2.0
//
// Ops that look at the index of an element. A negative index counts from the end; nn.gather counts from the front only.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

// Indices of a dim of `size` that are known at import: checked, and counted from the front.
DenseElementsAttr countKnownFromFront(const Node &node, DenseElementsAttr indices, int64_t size) {
  SmallVector<APInt> counted;
  node.spend(indices.getNumElements());
  for (const APInt &index : indices.getValues<APInt>()) {
    int64_t value = index.getSExtValue();
    if (value < -size || value >= size) {
      node.fail("index " + Twine(value) + " is not in [" + Twine(-size) + ", " + Twine(size) + ")");
    }
    counted.push_back(APInt(index.getBitWidth(), value < 0 ? value + size : value));
  }
  return DenseElementsAttr::get(indices.getType(), counted);
}

Value countFromFront(const Node &node, Value indices, int64_t size) {
  RankedTensorType type = typeOf(indices);
  auto boolType = RankedTensorType::get(type.getShape(), node.builder().getI1Type());
  Value isNegative = node.create<nn::CompareOp>(boolType, nn::Predicate::Lt, indices, splatConstant(node, type, 0));
  Value fromEnd = node.create<nn::AddOp>(indices, splatConstant(node, type, size));
  return node.create<nn::SelectOp>(type, isNegative, fromEnd, indices);
}

// One known index: the slice at that place, without the axis.
void takeSlice(Node &node, int64_t axis, int64_t at) {
  RankedTensorType type = node.inputType(0);
  SmallVector<int64_t> starts(type.getRank(), 0), limits(type.getShape()), steps(type.getRank(), 1), shape(type.getShape());
  starts[axis] = at;
  limits[axis] = at + 1;
  shape.erase(shape.begin() + axis);
  node.setResult(0, reshape(node, node.create<nn::SliceOp>(node.input(0), starts, limits, steps), shape));
}

// The axis goes to the front, its rows are gathered, and the dims of the indices go to where the axis was.
void takeRows(Node &node, int64_t axis, Value indices) {
  int64_t rank = node.inputType(0).getRank(), places = typeOf(indices).getRank();
  SmallVector<int64_t> axisFirst = llvm::to_vector(llvm::seq<int64_t>(0, rank)), axisBack;
  std::rotate(axisFirst.begin(), axisFirst.begin() + axis, axisFirst.begin() + axis + 1);
  llvm::append_range(axisBack, llvm::seq<int64_t>(places, places + axis));
  llvm::append_range(axisBack, llvm::seq<int64_t>(0, places));
  llvm::append_range(axisBack, llvm::seq<int64_t>(places + axis, places + rank - 1));
  Value rows = node.create<nn::GatherOp>(transpose(node, node.input(0), axisFirst), indices);
  node.setResult(0, transpose(node, rows, axisBack));
}

void importGather(Node &node) {
  RankedTensorType data = node.inputType(0), indices = node.inputType(1);
  if (data.getRank() == 0 || data.getElementType().isInteger(1) || !indices.getElementType().isInteger() ||
      indices.getElementType().isInteger(1)) {
    std::string types;
    llvm::raw_string_ostream(types) << data << " by indices of " << indices;
    node.fail("data of " + types + " is not supported; data has a dim and is no bool, indices are int32 or int64");
  }
  int64_t axis = node.getAxis("axis", 0, data.getRank()), size = data.getDimSize(axis);
  DenseElementsAttr known = node.constantInput(1);
  if (!known) {
    return takeRows(node, axis, countFromFront(node, node.input(1), size));
  }
  known = countKnownFromFront(node, known, size);
  if (indices.getRank() == 0) {
    return takeSlice(node, axis, known.getSplatValue<APInt>().getSExtValue());
  }
  takeRows(node, axis, node.create<nn::ConstantOp>(indices, known));
}

// Zeros below diagonal k, or above it.
void importTrilu(Node &node) {
  Value input = node.input(0);
  RankedTensorType type = typeOf(input);
  if (type.getRank() < 2) {
    node.fail("input has rank " + Twine(type.getRank()) + ", not at least 2");
  }
  SmallVector<int64_t> diagonal = node.hasInput(1) ? node.intsInput(1, "k") : SmallVector<int64_t>{0};
  if (diagonal.size() != 1) {
    node.fail("input \"k\" has " + Twine(diagonal.size()) + " elements, not 1");
  }
  nn::Predicate kept = node.getInt("upper", 1) != 0 ? nn::Predicate::Ge : nn::Predicate::Le;
  SmallVector<int64_t> strides(type.getRank(), 0); // column - row
  strides.end()[-1] = 1;
  strides.end()[-2] = -1;
  auto indexType = RankedTensorType::get(type.getShape(), node.builder().getI64Type());
  auto boolType = RankedTensorType::get(type.getShape(), node.builder().getI1Type());
  Value above = node.create<nn::IndexOp>(indexType, strides);
  Value isKept = node.create<nn::CompareOp>(boolType, kept, above, splatConstant(node, indexType, diagonal.front()));
  node.setResult(0, node.create<nn::SelectOp>(type, isKept, input, splatConstant(node, type, 0)).getResult());
}

constexpr RegistryRow kRows[] = {{"Gather", importGather}, {"Trilu", importTrilu}};

} // namespace

ArrayRef<RegistryRow> indexingRows() {
  return kRows;
}

} // namespace ashlar::frontend
