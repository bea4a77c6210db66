// SPDX-License-Identifier: Apache-2.0
//
// One process' seat in the job: the arenas of its devices, and collectives with the other processes. Two ways to get one: as threads of
// this process (runtime/comm/local, for tests), and as a process under mpirun or alone (runtime/comm/launch). Both run the same collectives
// over a window; only the connection of processes without shared memory differs.

#ifndef ASHLAR_RUNTIME_COMM_COMMUNICATOR_H
#define ASHLAR_RUNTIME_COMM_COMMUNICATOR_H

#include "runtime/comm/collective.h"
#include "runtime/comm/exchange.h"
#include "runtime/comm/transfer.h"

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace ashlar::rt {

// Returns the distinct sets of axes (sorted) that the collectives of the variant run over.
std::vector<std::vector<uint32_t>> axesSets(const ashlar_rt_variant &variant);

// Returns the shape of the window of the host of `place`, whose processes run the stages of the variant. `arenaBytes`: of a device, by
// stage.
WindowShape windowShape(const ashlar_rt_variant &variant, const std::vector<uint64_t> &arenaBytes, const Place &place);

// Most bytes of a rank in Communicator::allGather().
constexpr size_t kLargestGather = sizeof(WindowReport::message);

// Not thread-safe: one thread of the process uses it.
class Communicator {
public:
  // A seat at `place`, of the variant's stage. `window` is shared by the processes of the host, `transport` connects hosts and is null
  // while there is one. All outlive the communicator.
  Communicator(const ashlar_rt_variant &variant, Place place, std::shared_ptr<Window> window, Transport *transport);
  ~Communicator();

  // Collectives point into it.
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;

  // This process, and the number of processes in all stages.
  int rank() const { return place.rank; }
  int processes() const { return place.processes; }

  // The mesh of the variant.
  const Mesh &mesh() const { return deviceMesh; }

  // First device of this process; the others follow.
  int firstDevice() const { return deviceMesh.firstDeviceOf(place.rank); }

  // Arena of this process' device number `local`, counted from 0.
  char *arena(int local) const;

  // Bytes of the control part of the window, shared among the processes of the host; and of messages between hosts.
  uint64_t controlBytes() const;
  uint64_t stagingBytes() const { return staging.size(); }

  // Where this process stands.
  const Place &seat() const { return place; }

  // Threads that large collectives prepared from now on may use; null: only the calling one. The ranks of this host share `coresOnHost`
  // cores: when all their threads together are more, waiting does not spin.
  void setThreadPool(ThreadPool *pool, int coresOnHost);

  // Lays out the collective instruction. Every process prepares and runs the same ones in the same order; one with a token is for a
  // ProgressThread to run. `constants` of the image.
  Status prepare(const ashlar_rt_instr &instr, const uint8_t *constants, std::unique_ptr<Collective> &collective);

  // Lay out a transfer that a program of this stage sends or receives. Assumes checkTransfers().
  std::unique_ptr<SendingEnd> prepareSend(const ashlar_rt_transfer &transfer) const;
  std::unique_ptr<ReceivingEnd> prepareReceive(const ashlar_rt_transfer &transfer) const;

  // Lays out an exchange with these ranks of other hosts, one at most. Each of them lays out one with this rank.
  std::unique_ptr<Exchange> prepareExchange(const std::vector<int> &peers) const;

  // Connects the streams to other hosts that everything prepared so far uses. Every process calls it once, after the last prepare...() and
  // before the first collective or transfer runs; after it nobody can connect to this process any more.
  Status seal();

  // Every process contributes its status; all return the failure of the lowest rank that failed, shared and prefixed with that rank unless
  // all failed alike, or ok. Waits for all; a failure of that is not shared.
  Status agree(const Status &mine);

  // Waits for all processes.
  Status barrier() { return agree(Status()); }

  // Gathers `bytes` (at most kLargestGather) from each rank: rank r's lie at `all` + r * bytes. Every process calls it.
  Status allGather(const void *mine, size_t bytes, void *all);

  // Calls sink(device, data) on rank 0 for every device of a stage in turn, with `bytes` bytes of its arena from `offset` on. Every process
  // of all stages calls it, after barrier(); rank 0 must be done with all fetches of one host before the next barrier ends.
  Status fetch(uint32_t stage, uint64_t offset, uint64_t bytes, const std::function<void(int device, const char *data)> &sink);

  // Lets the ranks of this host that wait for this one know that it gets on, with files for instance.
  void noteProgress();

  // Makes every rank of this host that waits, or comes to wait, give up. Returns whether this one is the first to, and so should report
  // why.
  bool giveUp();

  // Makes every rank of this host that waits give up because another rank did, perhaps of another host, and reports why.
  void giveUpToo();

  // Makes all ranks give up; may end this process too.
  void abort();

  // Whether a rank gave up, and the first rank of this host whose process ended, or closed the window (-1: none). Any thread may ask.
  bool aborted() const;
  int deadRank() const;

private:
  // Hands every rank the reports of all.
  Status gatherReports(const WindowReport &mine, std::vector<WindowReport> &all);
  SyncSet makeSet(int index, const std::vector<int> &components) const;
  void openFetches();

  const ashlar_rt_variant &variant;
  Place place;
  Mesh deviceMesh;
  std::shared_ptr<Window> window;
  Staging staging;
  CollectiveContext context;
  SyncSet world;
  std::map<std::vector<uint32_t>, SyncSet> sets;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_COMMUNICATOR_H
