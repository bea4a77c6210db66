// SPDX-License-Identifier: Apache-2.0
//
// Ops that compare the index of an element: with that of another dim, or with what an input says.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/tensor_data.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

// Where column - row, in the last two dims of a tensor of `shape`, compares with `diagonal` as the predicate says.
Value compareDiagonal(const Node &node, ArrayRef<int64_t> shape, nn::Predicate predicate, int64_t diagonal) {
  SmallVector<int64_t> strides(shape.size(), 0);
  strides.end()[-1] = 1;
  strides.end()[-2] = -1;
  auto indexType = RankedTensorType::get(shape, node.builder().getI64Type());
  Value above = node.create<nn::IndexOp>(indexType, strides);
  return node.create<nn::CompareOp>(indexType.clone(node.builder().getI1Type()), predicate, above,
                                    splatConstant(node, indexType, static_cast<double>(diagonal)));
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
  Value isKept = compareDiagonal(node, type.getShape(), kept, diagonal.front());
  node.setResult(0, node.create<nn::SelectOp>(type, isKept, input, splatConstant(node, type, 0)).getResult());
}

// Ones on diagonal k. The input says nothing but its type.
void importEyeLike(Node &node) {
  RankedTensorType type = node.inputType(0);
  if (type.getRank() != 2) {
    node.fail("input has rank " + Twine(type.getRank()) + ", not 2");
  }
  Type element = type.getElementType();
  if (node.hasAttribute("dtype")) {
    element = convertElementType(node.getInt("dtype", 0), node.builder().getContext(), "node \"" + node.getPath() + "\"");
  }
  node.setResult(0, convertTo(node, compareDiagonal(node, type.getShape(), nn::Predicate::Eq, node.getInt("k", 0)), element));
}

// Returns element `i` of the two in `values`, for every element of `type`.
Value valueOf(const Node &node, RankedTensorType type, int64_t i) {
  constexpr size_t kValues = 2;
  if (DenseElementsAttr known = node.constantInput(kValues)) {
    return node.create<nn::ConstantOp>(type, DenseElementsAttr::get(type, *std::next(known.value_begin<Attribute>(), i)));
  }
  Value one = node.create<nn::SliceOp>(node.input(kValues), ArrayRef<int64_t>{i}, ArrayRef<int64_t>{i + 1}, ArrayRef<int64_t>{1});
  return broadcastTo(node, one, type.getShape());
}

// Along the new dim, the second of `values` at the place that the index names, and the first elsewhere.
void importOneHot(Node &node) {
  RankedTensorType from = node.inputType(0), values = node.inputType(2);
  if (values.getShape() != ArrayRef<int64_t>{2}) {
    node.fail("input \"values\" is " + describeTensor(values) + ", not two elements, off and on");
  }
  std::optional<double> depth = node.inputType(1).getNumElements() == 1 ? splatInput(node, 1) : std::nullopt;
  constexpr double kMost = 0x1p46; // bytes of a tensor
  if (!depth || !(*depth >= 0 && *depth <= kMost)) {
    node.fail("input \"depth\" has to be one number that is not negative, known at compile time" + node.whyUnknown());
  }
  const int64_t axis = node.getAxis("axis", -1, from.getRank() + 1);
  SmallVector<int64_t> shape(from.getShape()), strides(shape.size() + 1, 0), others;
  shape.insert(shape.begin() + axis, static_cast<int64_t>(*depth));
  node.checkSize(shape, node.builder().getI64Type());
  strides[axis] = 1;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    if (d != axis) {
      others.push_back(d);
    }
  }
  Value places = convertTo(node, node.input(0), node.builder().getI64Type());
  if (node.getOpset() >= 11) { // before, a negative index named no place
    places = countFromFront(node, places, shape[axis]);
  }
  auto indexType = RankedTensorType::get(shape, node.builder().getI64Type());
  Value named = node.create<nn::BroadcastOp>(indexType, places, others);
  Value isOn = node.create<nn::CompareOp>(indexType.clone(node.builder().getI1Type()), nn::Predicate::Eq,
                                          node.create<nn::IndexOp>(indexType, strides), named);
  RankedTensorType type = values.clone(shape);
  Value on = valueOf(node, type, 1), off = valueOf(node, type, 0);
  node.setResult(0, node.create<nn::SelectOp>(type, isOn, on, off).getResult());
}

constexpr RegistryRow kIndexMaskRows[] = {
    {"EyeLike", importEyeLike},
    {"OneHot", importOneHot, Accepts::Numbers, /*knownFloats=*/0b110},
    {"Trilu", importTrilu},
};

} // namespace

ArrayRef<RegistryRow> indexMaskRows() {
  return kIndexMaskRows;
}

} // namespace ashlar::frontend
