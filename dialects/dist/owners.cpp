// SPDX-License-Identifier: Apache-2.0
//
// One walk, from the last op to the first: users come before what they use.

#include "dialects/dist/owners.h"

#include "dialects/dist/dist.h"

using namespace mlir;

namespace ashlar::dist {

namespace {

// Whether all devices take part in an op: in a collective, and in waiting for one.
bool isOfAll(Operation &op) {
  const bool awaits = op.hasTrait<AliasesOperands>() && isa_and_present<CollectiveOpInterface>(op.getOperand(0).getDefiningOp());
  return awaits || isa<CollectiveOpInterface, SliceOp>(op);
}

} // namespace

Owners::Owners(Block &body) {
  for (Operation &op : llvm::reverse(body)) {
    if (op.use_empty() || !isMemoryEffectFree(&op) || isOfAll(op) || op.hasTrait<RepeatsBody>()) {
      continue;
    }
    std::optional<int64_t> owner = takerOf(*op.user_begin());
    if (owner && llvm::all_of(op.getUsers(), [&](Operation *user) { return takerOf(user) == owner; })) {
      owners[&op] = *owner;
    }
  }
}

std::optional<int64_t> Owners::of(Operation *op) const {
  auto found = owners.find(op);
  return found == owners.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int64_t> Owners::takerOf(Operation *op) const {
  std::optional<int64_t> named = getOwner(op);
  return named ? named : of(op);
}

std::optional<int64_t> getOwner(Operation *op) {
  auto owner = op->getAttrOfType<IntegerAttr>(kOwnerAttr);
  return owner ? std::optional(owner.getInt()) : std::nullopt;
}

} // namespace ashlar::dist
