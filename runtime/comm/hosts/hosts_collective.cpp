// SPDX-License-Identifier: Apache-2.0
//
// Collectives between hosts: the groups of this process, one after the other, between two barriers of the processes of the host, which read
// and write each other's arenas.

#include "runtime/comm/collective.h"
#include "runtime/comm/hosts/hosts_movement.h"
#include "runtime/comm/hosts/hosts_reduction.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

// Groups are ordered alike everywhere, so no two processes wait crosswise.
template <typename OneGroup> class HostsCollective final : public Collective {
public:
  HostsCollective(const CollectiveContext &context, SyncSet &set) : context(context), set(set) {}

  Status run() override {
    ASHLAR_RETURN_IF_ERROR(barrier(*context.window, context.waiter, set));
    for (auto &group : groups) {
      ASHLAR_RETURN_IF_ERROR(group->run());
    }
    return barrier(*context.window, context.waiter, set);
  }

  const void *channel() const override { return context.transport; }

  std::vector<std::unique_ptr<OneGroup>> groups;

private:
  CollectiveContext context;
  SyncSet &set;
};

} // namespace

Status createHostsCollective(const CollectiveContext &context, SyncSet &set, const ashlar_rt_collective_desc &desc,
                             const std::vector<PlacedTensor> &tensors, const std::vector<Group> &groups,
                             std::unique_ptr<Collective> &collective) {
  auto isHere = [&](const Group &group) {
    return std::any_of(group.begin(), group.end(), [&](int d) { return context.mesh->processOf(d) == context.place->rank; });
  };
  if (!tensors[0].shape.reduces() && desc.kind != ASHLAR_RT_BROADCAST) {
    auto result = std::make_unique<HostsCollective<HostsMovement>>(context, set);
    for (const Group &group : groups) {
      if (isHere(group)) {
        result->groups.push_back(std::make_unique<HostsMovement>(context, tensors, group));
      }
    }
    collective = std::move(result);
    return Status();
  }
  Reducer reducer;
  ASHLAR_RETURN_IF_ERROR(Reducer::create(desc.dtype, desc.kind == ASHLAR_RT_BROADCAST ? ASHLAR_RT_SUM : desc.reduction, reducer));
  auto result = std::make_unique<HostsCollective<HostsReduction>>(context, set);
  for (const Group &group : groups) {
    if (isHere(group)) {
      result->groups.push_back(std::make_unique<HostsReduction>(context, desc, reducer, tensors, group));
    }
  }
  collective = std::move(result);
  return Status();
}

} // namespace ashlar::rt
