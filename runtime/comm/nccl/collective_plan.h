// SPDX-License-Identifier: Apache-2.0
//
// How one device does its part of a collective with NCCL, whose calls take dense buffers and order members by their rank in the
// communicator: strided copies into a workspace, one group of calls, strided copies out of it. Pure arithmetic: no device, no library.

#ifndef ASHLAR_RUNTIME_COMM_NCCL_COLLECTIVE_PLAN_H
#define ASHLAR_RUNTIME_COMM_NCCL_COLLECTIVE_PLAN_H

#include "runtime/comm/view.h"

#include <vector>

namespace ashlar::rt {

// A buffer that a plan reads or writes.
enum class Region { kIn, kOut, kWorkspace };

// Copies a view of one region to a view of another, of equal bytes. At least one is dense, or both have equal blocks: one two-dimensional
// copy does it.
struct PlannedCopy {
  Region from;
  View source;
  Region to;
  View target;
};

enum class CallKind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kSend, kReceive };

// One call of NCCL.
struct PlannedCall {
  CallKind kind;
  Region from = Region::kIn; // not of a receive
  size_t source = 0;         // bytes into `from`
  Region to = Region::kOut;  // not of a send
  size_t target = 0;
  size_t bytes = 0; // that this device contributes (all-reduce, all-gather, broadcast, send) or gets (reduce-scatter, receive)
  int peer = 0;     // rank in the communicator: root, or the other side
};

// The actions of a device, in this order.
struct CollectivePlan {
  bool zeroOut = false; // nobody sends some of it to this device
  std::vector<PlannedCopy> before;
  std::vector<PlannedCall> calls; // empty: no communication
  std::vector<PlannedCopy> after;
  size_t workspaceBytes = 0;
};

// Plans the part of the member with coordinate `self`. `rankOf[c]`: rank in the communicator of the member with coordinate c. Example: an
// all-gather along dim 1 of (2, 3) f32 in a group of 2: call all-gather of 24 bytes into the workspace; after it two copies of 2 blocks of
// 12 bytes, the blocks 24 bytes apart in out.
CollectivePlan planCollective(const ashlar_rt_collective_desc &desc, const CollectiveShape &shape, const std::vector<int> &rankOf,
                              int self);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_NCCL_COLLECTIVE_PLAN_H
