// SPDX-License-Identifier: Apache-2.0
//
// A row is what lies together: the dims behind the one along which rows are inserted.

#include "passes/lower/calls/library_insert.h"

#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

nn::InsertOp findInsert(exec::FusionOp fusion) {
  return fusion.getKind() == exec::FusionKind::Insert ? dyn_cast<nn::InsertOp>(fusion.getBody().front().front()) : nn::InsertOp();
}

} // namespace

bool beginsInsert(Operation *op) {
  return isa<nn::InsertOp>(op);
}

bool followsInsert(Operation *, Operation *, exec::Target) {
  return false;
}

std::optional<unsigned> findInsertBase(exec::FusionOp fusion) {
  nn::InsertOp insert = findInsert(fusion);
  auto base = insert ? dyn_cast<BlockArgument>(insert.getBase()) : BlockArgument();
  return base ? std::optional(base.getArgNumber()) : std::nullopt;
}

bool insertsOver(exec::FusionOp fusion, unsigned operand) {
  return findInsertBase(fusion) == operand && fusion.getBody().getArgument(operand).hasOneUse();
}

LogicalResult buildInsertCall(const CallSite &site) {
  exec::FusionOp fusion = site.fusion;
  nn::InsertOp insert = findInsert(fusion);
  if (!insert || site.results.size() != 1) {
    return fusion.emitOpError("has no single nn.insert");
  }
  auto bufferOf = [&](Value value) -> Attribute { return site.operands[cast<BlockArgument>(value).getArgNumber()]; };
  RankedTensorType type = insert.getType();
  const auto dim = static_cast<int64_t>(insert.getDim());
  const int64_t outer = llvm::product_of(type.getShape().take_front(dim)), row = llvm::product_of(type.getShape().drop_front(dim + 1));
  const int64_t elementBytes = byteSize(RankedTensorType::get({1}, type.getElementType()));
  auto buffers = site.builder.getArrayAttr({bufferOf(insert.getRows()), bufferOf(insert.getIndex()), site.results[0]});
  exec::InsertOp::create(site.builder, site.loc, buffers, outer, shapeOf(insert.getRows())[dim], type.getDimSize(dim), row * elementBytes);
  return success();
}

} // namespace ashlar::lower
