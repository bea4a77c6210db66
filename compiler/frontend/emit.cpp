// SPDX-License-Identifier: Apache-2.0
//
// The ops that several handlers need.

#include "compiler/frontend/emit.h"

using namespace mlir;

namespace ashlar::frontend {

Value reshape(const Node &node, Value value, ArrayRef<int64_t> shape) {
  return shapeOf(value) == shape ? value : node.create<nn::ReshapeOp>(typeOf(value).clone(shape), value).getResult();
}

Value transpose(const Node &node, Value value, ArrayRef<int64_t> permutation) {
  return llvm::is_sorted(permutation) ? value : node.create<nn::TransposeOp>(value, permutation).getResult();
}

Value broadcastTo(const Node &node, Value value, ArrayRef<int64_t> shape) {
  RankedTensorType from = typeOf(value);
  if (from.getShape() == shape) {
    return value;
  }
  int64_t offset = static_cast<int64_t>(shape.size()) - from.getRank();
  SmallVector<int64_t> kept, dims;
  for (int64_t i = 0; i < from.getRank(); ++i) {
    if (from.getDimSize(i) == shape[offset + i]) {
      kept.push_back(from.getDimSize(i));
      dims.push_back(offset + i);
    }
  }
  Value narrow = reshape(node, value, kept);
  return node.create<nn::BroadcastOp>(from.clone(shape), narrow, dims);
}

Value splatConstant(const Node &node, RankedTensorType type, double value) {
  return node.create<nn::ConstantOp>(type, nn::splat(type, value));
}

Value cast(const Node &node, Value value, Type element) {
  RankedTensorType from = typeOf(value);
  return from.getElementType() == element ? value
                                          : node.create<nn::CastOp>(RankedTensorType::get(from.getShape(), element), value).getResult();
}

Value reduce(const Node &node, Reduction kind, Value value, ArrayRef<int64_t> dims) {
  return dims.empty() ? value : node.create<nn::ReduceOp>(kind, value, dims).getResult();
}

} // namespace ashlar::frontend
