// SPDX-License-Identifier: Apache-2.0
//
// Offsets of constants, and their form in the IR.

#include "passes/lower/memory/constant_pool.h"

#include "dialects/exec/exec.h"
#include "dialects/support/element_type.h"
#include "passes/lower/memory/arena.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace ashlar::lower {

uint64_t ConstantPool::offsetOf(ElementsAttr value) {
  auto [it, isNew] = offsets.try_emplace(value, bytes);
  if (isNew) {
    bytes += alignedBytes(byteSize(value.getShapedType()));
  }
  return it->second;
}

void ConstantPool::read(ModuleOp module) {
  for (auto op : module.getOps<exec::ConstantOp>()) {
    offsets.try_emplace(op.getValue(), op.getOffset());
    bytes = std::max(bytes, op.getOffset() + alignedBytes(byteSize(op.getValue().getShapedType())));
  }
}

void ConstantPool::write(ModuleOp module) const {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  for (auto [value, offset] : offsets) {
    exec::ConstantOp::create(builder, module.getLoc(), offset, cast<ElementsAttr>(value));
  }
}

} // namespace ashlar::lower
