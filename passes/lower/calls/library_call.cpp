// SPDX-License-Identifier: Apache-2.0
//
// The rows.

#include "passes/lower/calls/library_call.h"

#include "passes/lower/calls/library_attention.h"
#include "passes/lower/calls/library_convolution.h"
#include "passes/lower/calls/library_insert.h"
#include "passes/lower/calls/library_product.h"
#include "runtime/abi/ashlar_rt.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

constexpr LibraryCall kCalls[] = {
    {exec::FusionKind::Gemm, beginsProduct, followsInProduct, accumulatesIn, buildProductCall},
    {exec::FusionKind::Conv, beginsConvolution, followsInConvolution, [](Value) { return true; }, buildConvolutionCall},
    {exec::FusionKind::Attention, nullptr, nullptr, nullptr, buildAttentionCall},
    {exec::FusionKind::Insert, beginsInsert, followsInsert, nullptr, buildInsertCall},
};

} // namespace

const LibraryCall *findCall(Operation *op) {
  const LibraryCall *found = llvm::find_if(kCalls, [&](const LibraryCall &call) { return call.begins && call.begins(op); });
  return found == std::end(kCalls) ? nullptr : found;
}

const LibraryCall *findCall(exec::FusionKind kind) {
  const LibraryCall *found = llvm::find_if(kCalls, [&](const LibraryCall &call) { return call.kind == kind; });
  return found == std::end(kCalls) ? nullptr : found;
}

Value getAddend(Operation *op, Operation *last) {
  return isa<nn::AddOp>(op) ? op->getOperand(op->getOperand(0).getDefiningOp() == last ? 1 : 0) : Value();
}

Value getFactor(Operation *op, Operation *last) {
  return isa<nn::MulOp>(op) ? op->getOperand(op->getOperand(0).getDefiningOp() == last ? 1 : 0) : Value();
}

uint32_t narrowOf(exec::BufferAttr buffer) {
  Type element = buffer.getType().getElementType();
  return element.isBF16() ? ASHLAR_RT_BF16 : element.isF16() ? ASHLAR_RT_F16 : 0;
}

Value getBias(Value value) {
  auto broadcast = value ? value.getDefiningOp<nn::BroadcastOp>() : nn::BroadcastOp();
  bool isBias = broadcast && broadcast.getDims() == ArrayRef<int64_t>{broadcast.getType().getRank() - 1};
  return isBias ? Value(broadcast.getInput()) : Value();
}

} // namespace ashlar::lower
