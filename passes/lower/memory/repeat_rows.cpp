// SPDX-License-Identifier: Apache-2.0
//
// The place of a row is a first offset and a stride for each repeat around it.

#include "passes/lower/memory/repeat_rows.h"

#include "dialects/dist/dist.h"
#include "dialects/exec/exec.h"
#include "dialects/exec/target_traits.h"
#include "dialects/support/element_type.h"
#include "passes/lower/memory/storage_uses.h"

using namespace mlir;

namespace ashlar::lower {

Operation *endOf(nn::RepeatOp repeat) {
  return repeat.getBody().front().getTerminator();
}

bool isStack(Value value) {
  auto repeat = value.getDefiningOp<nn::RepeatOp>();
  return repeat && cast<OpResult>(value).getResultNumber() >= repeat.getCarried().size();
}

Storage rowOf(nn::RepeatOp repeat, unsigned index, const Storage &rows, RankedTensorType type) {
  const int64_t bytes = byteSize(type), count = repeat.getCount();
  unsigned depth = 0;
  for (auto around = repeat->getParentOfType<nn::RepeatOp>(); around; around = around->getParentOfType<nn::RepeatOp>()) {
    ++depth;
  }
  Storage row{rows.space, /*temporary=*/false, 0, {}, index, rows.strides};
  row.strides.resize(depth);
  row.strides.push_back(repeat.getReversed() ? -bytes : bytes);
  row.offset = repeat.getReversed() && count > 0 ? (count - 1) * bytes : 0;
  return row;
}

bool isAlignedRow(Type row, exec::Target target) {
  return byteSize(cast<ShapedType>(row)) % exec::traitsOf(target).rowAlignment == 0;
}

bool meetsDevices(Value value) {
  auto meets = [](Operation *op) { return isa_and_nonnull<dist::CollectiveOpInterface, dist::SliceOp, exec::AwaitOp>(op); };
  SmallVector<Value> pending = {value};
  bool found = meets(value.getDefiningOp());
  while (!found && !pending.empty()) {
    SmallVector<OpOperand *> uses;
    collectStorageUses(pending.pop_back_val(), uses);
    for (OpOperand *use : uses) {
      auto repeat = dyn_cast<nn::RepeatOp>(use->getOwner());
      const unsigned entering = repeat ? repeat.getEntering().size() : 0; // without the condition
      if (repeat && use->getOperandNumber() >= repeat.getCarried().size() && use->getOperandNumber() < entering) {
        pending.push_back(repeat.getBody().getArgument(use->getOperandNumber()));
      }
      found |= meets(use->getOwner());
    }
  }
  return found;
}

} // namespace ashlar::lower
