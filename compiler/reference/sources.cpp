// SPDX-License-Identifier: Apache-2.0
//
// nn ops without a computed operand: constants, indices, random numbers.

#include "compiler/reference/philox.h"
#include "compiler/reference/semantics.h"

#include "dialects/nn/nn.h"

#include <cmath>

using namespace mlir;

namespace ashlar::reference {

namespace {

Tensor constant(Operation *op, ArrayRef<Tensor>) {
  FailureOr<Tensor> value = Tensor::fromAttribute(cast<nn::ConstantOp>(op).getValue());
  if (failed(value)) {
    llvm::report_fatal_error("nn.constant without readable data");
  }
  return *value;
}

Tensor index(Operation *op, ArrayRef<Tensor>) {
  ArrayRef<int64_t> strides = cast<nn::IndexOp>(op).getStrides();
  Tensor result(resultType(op));
  forEachIndex(result.getShape(), [&](ArrayRef<int64_t> position, int64_t i) {
    int64_t value = 0;
    for (auto [p, stride] : llvm::zip_equal(position, strides)) {
      value += p * stride;
    }
    result.setInt(i, value);
  });
  return result;
}

// [0, 1) with the 24 upper bits of a word, or with 53 bits of two words.
double uniform24(uint32_t word) {
  return (word >> 8) * 0x1p-24;
}
double uniform53(uint32_t high, uint32_t low) {
  return ((high >> 5) * 0x1p26 + (low >> 6)) * 0x1p-53;
}

Tensor random(Operation *op, ArrayRef<Tensor> operands) {
  auto randomOp = cast<nn::RandomOp>(op);
  Tensor result(resultType(op));
  bool wide = result.getType().getElementType().isF64();
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    PhiloxWords w = philoxOfElement(operands[0].getInt(i), operands[1].getInt(0), operands[2].getInt(0), operands[3].getInt(0));
    double u = wide ? uniform53(w[0], w[1]) : uniform24(w[0]);
    if (randomOp.getDistribution() == nn::Distribution::Normal) {
      double v = wide ? uniform53(w[2], w[3]) : uniform24(w[1]);
      u = std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * M_PI * v);
    }
    result.setFloat(i, u);
  }
  return result;
}

} // namespace

void addSourceSemantics(SemanticsTable &table) {
  table.add<nn::ConstantOp>(constant);
  table.add<nn::IndexOp>(index);
  table.add<nn::RandomOp>(random);
}

} // namespace ashlar::reference
