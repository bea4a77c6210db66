// SPDX-License-Identifier: Apache-2.0
//
// Running sums and products, in as many steps as the size has bits: step s combines each element with the one 2^s places before it. So
// each result is a tree of that depth, which bounds its rounding error, and a NaN or an infinity reaches the elements behind it only.

#include "compiler/frontend/ops/scan.h"
#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

// A tensor moved along one dim, `neutral` where nothing moves to.
struct Shift {
  const Node &node;
  int64_t axis, size;
  bool toFront;
  double neutral;

  Value by(Value x, int64_t places) const {
    SmallVector<int64_t> shape(shapeOf(x));
    shape[axis] = places;
    Value fill = splatConstant(node, typeOf(x).clone(shape), neutral);
    Value rest = toFront ? sliceAlong(node, x, axis, places, size) : sliceAlong(node, x, axis, 0, size - places);
    return node.create<nn::ConcatOp>(toFront ? ValueRange{rest, fill} : ValueRange{fill, rest}, axis);
  }
};

template <typename Op> Value scan(const Shift &shift, Value x) {
  for (int64_t places = 1; places < shift.size; places *= 2) {
    x = shift.node.create<Op>(x, shift.by(x, places));
  }
  return x;
}

// Op has `neutral` as its neutral element.
template <typename Op> void importScan(Node &node, double neutral) {
  RankedTensorType type = node.inputType(0);
  SmallVector<int64_t> axes = node.intsInput(1, "axis");
  if (axes.size() != 1) {
    node.fail("input \"axis\" has " + Twine(axes.size()) + " elements, not 1");
  }
  const int64_t axis = node.normalizeAxis(axes.front(), type.getRank()), size = type.getDimSize(axis);
  const bool exclusive = node.getInt("exclusive", 0) != 0, reverse = node.getInt("reverse", 0) != 0;
  if (size == 0 || (size == 1 && !exclusive)) {
    return node.aliasResult(0, 0);
  }
  const Shift shift{node, axis, size, /*toFront=*/reverse, neutral};
  Value result = widen(node, node.input(0));
  if (exclusive) {
    result = shift.by(result, 1);
  }
  node.setResult(0, convertTo(node, scan<Op>(shift, result), type.getElementType()));
}

void importCumSum(Node &node) {
  importScan<nn::AddOp>(node, /*neutral=*/0);
}

void importCumProd(Node &node) {
  importScan<nn::MulOp>(node, /*neutral=*/1);
}

constexpr RegistryRow kScanRows[] = {
    {"CumProd", importCumProd, Accepts::Numbers},
    {"CumSum", importCumSum, Accepts::Numbers},
};

} // namespace

Value multiplyUpTo(const Node &node, Value value, int64_t dim) {
  return scan<nn::MulOp>({node, dim, shapeOf(value)[dim], /*toFront=*/false, /*neutral=*/1}, value);
}

Value sumUpTo(const Node &node, Value value, int64_t dim) {
  return scan<nn::AddOp>({node, dim, shapeOf(value)[dim], /*toFront=*/false, /*neutral=*/0}, value);
}

ArrayRef<RegistryRow> scanRows() {
  return kScanRows;
}

} // namespace ashlar::frontend
