// SPDX-License-Identifier: Apache-2.0
//
// Which calls and copies make up a collective. What is dense, and in the order of the communicator, is sent from and received where it
// lies.

#include "runtime/comm/nccl/collective_plan.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

// Pieces in the workspace begin at multiples of this, so that copies and calls are aligned.
constexpr size_t kPieceAlignment = 256;

View dense(size_t offset, size_t bytes) {
  return View{offset, bytes, bytes, 1};
}

class Planner {
public:
  Planner(const ashlar_rt_collective_desc &desc, const CollectiveShape &shape, const std::vector<int> &rankOf, int self)
      : desc(desc), shape(shape), rankOf(rankOf), members(static_cast<int>(rankOf.size())), self(self) {}

  CollectivePlan run() {
    if (members == 1 || desc.kind == ASHLAR_RT_SLICE) {
      planAlone();
      return plan;
    }
    switch (static_cast<ashlar_rt_collective_kind>(desc.kind)) {
    case ASHLAR_RT_SLICE:
      break; // planned above
    case ASHLAR_RT_ALL_REDUCE:
      plan.calls.push_back(call(CallKind::kAllReduce, shape.inBytes()));
      break;
    case ASHLAR_RT_ALL_GATHER:
      planAllGather();
      break;
    case ASHLAR_RT_REDUCE_SCATTER:
      planReduceScatter();
      break;
    case ASHLAR_RT_BROADCAST:
      plan.calls.push_back(call(CallKind::kBroadcast, shape.inBytes()));
      plan.calls.back().peer = rankOf[desc.root];
      break;
    case ASHLAR_RT_ALL_TO_ALL:
    case ASHLAR_RT_PERMUTE:
    case ASHLAR_RT_HALO:
      planExchange();
      break;
    }
    return plan;
  }

private:
  static PlannedCall call(CallKind kind, size_t bytes) {
    PlannedCall result{kind};
    result.bytes = bytes;
    return result;
  }

  // Room in the workspace.
  size_t take(size_t bytes) {
    size_t offset = plan.workspaceBytes;
    plan.workspaceBytes += (bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
    return offset;
  }

  void addCopy(std::vector<PlannedCopy> &copies, Region from, const View &source, Region to, const View &target) {
    if (source.dense() || target.dense() || source.block == target.block) {
      copies.push_back(PlannedCopy{from, source, to, target});
      return;
    }
    View run = dense(take(source.bytes()), source.bytes());
    copies.push_back(PlannedCopy{from, source, Region::kWorkspace, run});
    copies.push_back(PlannedCopy{Region::kWorkspace, run, to, target});
  }

  // A group of one, and slices: what the device has already.
  void planAlone() {
    Movement movement;
    plan.zeroOut = !shape.zeroed(self).empty();
    if (shape.reduces()) {
      addCopy(plan.before, Region::kIn, dense(0, shape.inBytes()), Region::kOut, dense(0, shape.outBytes()));
    } else if (shape.movement(self, self, movement)) {
      addCopy(plan.before, Region::kIn, movement.from, Region::kOut, movement.to);
    }
  }

  // Whether member c has rank c for all c.
  bool inOrder() const {
    for (int member = 0; member < members; ++member) {
      if (rankOf[static_cast<size_t>(member)] != member) {
        return false;
      }
    }
    return true;
  }

  // Whether the pieces of all members lie one after the other in the order of the communicator.
  template <typename ViewOf> bool consecutive(ViewOf &&viewOf) const {
    bool all = inOrder();
    for (int member = 0; member < members; ++member) {
      all = all && viewOf(member).dense();
    }
    return all;
  }

  View gathered(int source) const {
    Movement movement;
    shape.movement(source, self, movement);
    return movement.to;
  }

  void planAllGather() {
    plan.calls.push_back(call(CallKind::kAllGather, shape.inBytes()));
    if (consecutive([&](int member) { return gathered(member); })) {
      return;
    }
    plan.calls.back().to = Region::kWorkspace;
    plan.calls.back().target = take(shape.outBytes());
    for (int member = 0; member < members; ++member) {
      size_t place = static_cast<size_t>(rankOf[static_cast<size_t>(member)]) * shape.inBytes();
      addCopy(plan.after, Region::kWorkspace, dense(plan.calls.back().target + place, shape.inBytes()), Region::kOut, gathered(member));
    }
  }

  void planReduceScatter() {
    plan.calls.push_back(call(CallKind::kReduceScatter, shape.outBytes()));
    if (consecutive([&](int member) { return shape.reducedView(member); })) {
      return;
    }
    plan.calls.back().from = Region::kWorkspace;
    plan.calls.back().source = take(shape.inBytes());
    for (int member = 0; member < members; ++member) {
      size_t place = static_cast<size_t>(rankOf[static_cast<size_t>(member)]) * shape.outBytes();
      addCopy(plan.before, Region::kIn, shape.reducedView(member), Region::kWorkspace,
              dense(plan.calls.back().source + place, shape.outBytes()));
    }
  }

  // Sends and receives. Both sides go through the members in the order of their ranks; at most one message goes each way between two.
  void planExchange() {
    std::vector<int> byRank(rankOf.size());
    for (int member = 0; member < members; ++member) {
      byRank[static_cast<size_t>(rankOf[static_cast<size_t>(member)])] = member;
    }
    plan.zeroOut = !shape.zeroed(self).empty();
    for (int other : byRank) {
      Movement movement;
      if (other == self) {
        if (shape.movement(self, self, movement)) {
          addCopy(plan.before, Region::kIn, movement.from, Region::kOut, movement.to);
        }
        continue;
      }
      if (shape.movement(self, other, movement)) {
        addSend(rankOf[static_cast<size_t>(other)], movement.from);
      }
      if (shape.movement(other, self, movement)) {
        addReceive(rankOf[static_cast<size_t>(other)], movement.to);
      }
    }
  }

  void addSend(int peer, const View &from) {
    PlannedCall send = call(CallKind::kSend, from.bytes());
    send.peer = peer;
    send.source = from.offset;
    if (!from.dense()) {
      send.from = Region::kWorkspace;
      send.source = take(from.bytes());
      addCopy(plan.before, Region::kIn, from, Region::kWorkspace, dense(send.source, from.bytes()));
    }
    plan.calls.push_back(send);
  }

  void addReceive(int peer, const View &to) {
    PlannedCall receive = call(CallKind::kReceive, to.bytes());
    receive.peer = peer;
    receive.target = to.offset;
    if (!to.dense()) {
      receive.to = Region::kWorkspace;
      receive.target = take(to.bytes());
      addCopy(plan.after, Region::kWorkspace, dense(receive.target, to.bytes()), Region::kOut, to);
    }
    plan.calls.push_back(receive);
  }

  const ashlar_rt_collective_desc &desc;
  const CollectiveShape &shape;
  const std::vector<int> &rankOf;
  int members;
  int self;
  CollectivePlan plan;
};

} // namespace

CollectivePlan planCollective(const ashlar_rt_collective_desc &desc, const CollectiveShape &shape, const std::vector<int> &rankOf,
                              int self) {
  return Planner(desc, shape, rankOf, self).run();
}

} // namespace ashlar::rt
