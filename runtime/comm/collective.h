// SPDX-License-Identifier: Apache-2.0
//
// A collective with all its addresses resolved. Everything is laid out when the program starts; run() allocates nothing.

#ifndef ASHLAR_RUNTIME_COMM_COLLECTIVE_H
#define ASHLAR_RUNTIME_COMM_COLLECTIVE_H

#include "runtime/comm/mesh.h"
#include "runtime/comm/placed_tensors.h"
#include "runtime/comm/reduce.h"
#include "runtime/comm/transport.h"
#include "runtime/comm/wait.h"
#include "runtime/comm/window.h"
#include "runtime/device/cpu/thread_pool.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace ashlar::rt {

// Where one process stands.
struct Place {
  int rank = 0;
  int processes = 1;
  std::vector<int> hostOfProcess = {0}; // numbered from 0 in order of the first rank on them

  // Number of processes on the host of `process`, and how many of them come before it.
  int processesOnHost(int process) const;
  int indexOnHost(int process) const;

  // Number of hosts, and the rank of number `index` on one of them, counted around its ranks.
  int hosts() const;
  int rankOnHost(int host, int index) const;
};

// One process' side of a barrier domain: the processes of this host that wait for each other in collectives over one set of axes.
struct SyncSet {
  int index = 0;          // of the set in the window
  int self = 0;           // this process, counted on the host
  std::vector<int> peers; // the others, counted on the host; empty when this process is alone
  bool spansHosts = false;
  uint64_t barriers = 0; // done so far
  uint64_t messages = 0; // published in mailboxes so far
};

// Memory for messages between hosts that are packed, unpacked or added up. All collectives of a communicator share it, since one runs at a
// time: with separate memory, each would have the size of the largest.
class Staging {
public:
  // Grows to at least `bytes`. Invalidates earlier results of data().
  void reserve(size_t bytes) { memory.resize(std::max(bytes, memory.size())); }

  // Returns the memory, and how much there is.
  char *data() { return memory.data(); }
  size_t size() const { return memory.size(); }

private:
  std::vector<char> memory;
};

// The surroundings of a collective. Outlives it.
struct CollectiveContext {
  const Mesh *mesh = nullptr;
  const Place *place = nullptr;
  Window *window = nullptr;
  Waiter waiter;
  ThreadPool *pool = nullptr;
  Transport *transport = nullptr; // null while all processes are on one host
  Staging *staging = nullptr;     // for messages between hosts
  bool keepsBits = false;         // of reductions, wherever the ranks are

  // Returns the surroundings of collectives that a ProgressThread runs.
  CollectiveContext beside() const;
};

// A collective of all devices of this process, ready to run.
class Collective {
public:
  virtual ~Collective() = default;

  // Does it once. All processes run the same collectives in the same order.
  virtual Status run() = 0;

  // Returns its channel, on which it waits. Of the collectives with one channel only one may run at a time; null: it waits for nobody.
  virtual const void *channel() const = 0;
};

// Lays out a collective whose processes all share the window.
Status createWindowCollective(const CollectiveContext &context, SyncSet &set, const ashlar_rt_collective_desc &desc,
                              const std::vector<PlacedTensor> &tensors, const std::vector<Group> &groups,
                              std::unique_ptr<Collective> &collective);

// Lays out a collective between hosts, by messages.
Status createHostsCollective(const CollectiveContext &context, SyncSet &set, const ashlar_rt_collective_desc &desc,
                             const std::vector<PlacedTensor> &tensors, const std::vector<Group> &groups,
                             std::unique_ptr<Collective> &collective);

// Lays out a slice: no communication, and `in` may be one of the `constants`.
Status createSlice(const CollectiveContext &context, const std::vector<PlacedTensor> &tensors, const std::vector<Group> &groups,
                   const char *constants, std::unique_ptr<Collective> &collective);

// Waits until every process of the set on this host has come here too.
Status barrier(Window &window, const Waiter &waiter, SyncSet &set);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_COLLECTIVE_H
