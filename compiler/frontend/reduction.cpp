// SPDX-License-Identifier: Apache-2.0
//
// Reductions and the softmax family.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/shape_rules.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

enum class Kind { Sum, SumAbs, SumSquare, Mean, Max, Min };

// What is reduced: the elements, or a function of each.
Value prepare(Node &node, Kind kind, Value input) {
  switch (kind) {
  case Kind::SumAbs:
    return node.create<nn::AbsOp>(input);
  case Kind::SumSquare:
    return node.create<nn::MulOp>(input, input);
  default:
    return input;
  }
}

Reduction reductionOf(Kind kind) {
  return kind == Kind::Max ? Reduction::Max : kind == Kind::Min ? Reduction::Min : Reduction::Sum;
}

Value meanFromSum(Node &node, Value sum, int64_t count) {
  RankedTensorType type = typeOf(sum);
  if (isa<FloatType>(type.getElementType())) {
    return node.create<nn::MulOp>(sum, splatConstant(node, type, 1.0 / count));
  }
  return node.create<nn::DivOp>(sum, splatConstant(node, type, count));
}

// `axesInputSince`: the opset that turned the attribute `axes` into an input.
void importReduce(Node &node, Kind kind, int64_t axesInputSince) {
  RankedTensorType type = node.inputType(0);
  SmallVector<int64_t> axes = readAxes(node, 1, axesInputSince, type.getRank());
  bool keep = node.getInt("keepdims", 1) != 0;
  bool noAxesNoReduction = node.getOpset() >= axesInputSince && node.getInt("noop_with_empty_axes", 0) != 0;
  if (axes.empty() && noAxesNoReduction) { // each element by itself
    Value input = node.input(0), each = prepare(node, kind, input);
    return each == input ? node.aliasResult(0, 0) : node.setResult(0, each);
  }
  if (axes.empty()) {
    axes = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  }
  SmallVector<int64_t> kept;
  int64_t count = 1;
  for (auto [i, dim] : llvm::enumerate(type.getShape())) {
    bool reduced = llvm::is_contained(axes, i);
    count *= reduced ? dim : 1;
    if (!reduced || keep) {
      kept.push_back(reduced ? 1 : dim);
    }
  }
  if (count == 0 && (kind == Kind::Mean || reductionOf(kind) != Reduction::Sum)) {
    node.fail("has no elements to reduce");
  }
  Value result = reduce(node, reductionOf(kind), prepare(node, kind, node.input(0)), axes);
  if (kind == Kind::Mean) {
    result = meanFromSum(node, result, count);
  }
  result = reshape(node, result, kept);
  result == node.input(0) ? node.aliasResult(0, 0) : node.setResult(0, result);
}

void importReduceSum(Node &node) {
  importReduce(node, Kind::Sum, /*axesInputSince=*/13);
}
template <Kind kind> void importReduceSince18(Node &node) {
  importReduce(node, kind, /*axesInputSince=*/18);
}

// From opset 13 on along one axis (default the last); before, over all dims from `axis` (default 1) on taken together.
template <typename Op> void importSoftmax(Node &node) {
  Value input = node.input(0);
  SmallVector<int64_t> shape(shapeOf(input));
  int64_t rank = shape.size();
  if (rank == 0) {
    node.fail("input is a scalar");
  }
  bool oneAxis = node.getOpset() >= 13;
  int64_t axis = node.getAxis("axis", oneAxis ? -1 : (rank == 1 ? 0 : 1), rank);
  if (axis == rank - 1) {
    node.setResult(0, node.create<Op>(input).getResult());
  } else if (oneAxis) {
    SmallVector<int64_t> swapped = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    std::swap(swapped[axis], swapped[rank - 1]); // its own inverse
    node.setResult(0, transpose(node, node.create<Op>(transpose(node, input, swapped)).getResult(), swapped));
  } else {
    int64_t columns = 1;
    for (int64_t dim : ArrayRef(shape).drop_front(axis)) {
      columns *= dim;
    }
    SmallVector<int64_t> flat(ArrayRef(shape).take_front(axis));
    flat.push_back(columns);
    node.setResult(0, reshape(node, node.create<Op>(reshape(node, input, flat)).getResult(), shape));
  }
}

constexpr RegistryRow kRows[] = {
    {"LogSoftmax", importSoftmax<nn::LogSoftmaxOp>, Accepts::Floats},
    {"ReduceL1", importReduceSince18<Kind::SumAbs>, Accepts::Numbers},
    {"ReduceMax", importReduceSince18<Kind::Max>, Accepts::Numbers},
    {"ReduceMean", importReduceSince18<Kind::Mean>, Accepts::Numbers},
    {"ReduceMin", importReduceSince18<Kind::Min>, Accepts::Numbers},
    {"ReduceSum", importReduceSum, Accepts::Numbers},
    {"ReduceSumSquare", importReduceSince18<Kind::SumSquare>, Accepts::Numbers},
    {"Softmax", importSoftmax<nn::SoftmaxOp>, Accepts::Floats},
};

} // namespace

ArrayRef<RegistryRow> reductionRows() {
  return kRows;
}

} // namespace ashlar::frontend
