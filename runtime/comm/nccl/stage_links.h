// SPDX-License-Identifier: Apache-2.0
//
// A rank's GPU among the GPUs of other pipeline stages: for each direction in which programs of one stage send to another, a *link*, which
// is a communicator of the two ranks of equal mesh coordinates, and on either side a stream of its own. So sends and receives, and sends to
// several stages, never wait for each other: NCCL runs the requests of one communicator in their order.

#ifndef ASHLAR_RUNTIME_COMM_NCCL_STAGE_LINKS_H
#define ASHLAR_RUNTIME_COMM_NCCL_STAGE_LINKS_H

#include "runtime/comm/communicator.h"
#include "runtime/comm/nccl/nccl_library.h"
#include "runtime/device/cuda/device.h"

#include <string>
#include <vector>

namespace ashlar::rt {

// A direction in which something is sent.
struct StagePair {
  uint32_t from, to;

  bool operator==(const StagePair &other) const { return from == other.from && to == other.to; }
  bool operator<(const StagePair &other) const { return from != other.from ? from < other.from : to < other.to; }
};

// Returns all pairs that some program sends between, sorted.
std::vector<StagePair> stagePairs(const Stages &stages);

// Returns how many blocks of threads NCCL may use for a link on a device of so many multiprocessors, where the stage that has most links
// has `links`: a send that waits for its receiver occupies its blocks, and all links together leave half of the device. 1 to 4.
int blocksOfLink(int multiprocessors, size_t links);

// Used in this order: layOut(), connect(), put(), disconnect(). By one thread, except asyncError() and describe().
class StageLinks {
public:
  // All outlive the links; the library is loaded before connect(). `variant`: this rank's, one of several stages.
  StageLinks(CudaDevice &device, Communicator &host, const NcclLibrary &nccl, const ashlar_rt_variant &variant);
  StageLinks(const StageLinks &) = delete;
  StageLinks &operator=(const StageLinks &) = delete;

  // Makes the communicators and streams. Every rank of all stages calls it; it waits for the others.
  Status connect();

  // Links of this rank, numbered from 0 in the order of the pairs, which is the same on both sides.
  size_t size() const { return links.size(); }
  const StagePair &pair(size_t link) const { return links[link].pair; }
  CUstream stream(size_t link) const { return links[link].stream; }

  // Lays out a send or receive of a program of this stage, and returns its number, counted from 0.
  size_t layOut(const ashlar_rt_transfer &transfer, bool isSend);

  // How many there are, and the link of one.
  size_t messages() const { return ends.size(); }
  size_t linkOf(size_t message) const { return ends[message].link; }

  // Puts a message on the stream of its link, those between begin() and end() as a group. `address`: of its bytes on this side. Both sides
  // put the same messages on a link in the same order.
  Status begin() const { return nccl.check(nccl.ncclGroupStart(), "cannot start a group of messages"); }
  Status end() const { return nccl.check(nccl.ncclGroupEnd(), "cannot end a group of messages"); }
  Status put(size_t message, CUdeviceptr address) const;

  // The rank's action on a message, for errors: "sending h to stage 1".
  std::string describe(size_t message) const;

  // Asynchronous errors of NCCL. Any thread may call it once connect() is done.
  Status asyncError() const;

  // Lets go of the communicators. Every rank calls it, when all messages are done.
  void disconnect();

private:
  struct Link {
    StagePair pair;
    ncclComm_t comm = nullptr;
    CUstream stream = nullptr;
  };

  // One end of a message.
  struct End {
    size_t link;
    bool isSend;
    const ashlar_rt_tensor *tensor;
  };

  uint32_t stage() const { return variant.stage; }

  CudaDevice &device;
  Communicator &host;
  const NcclLibrary &nccl;
  const ashlar_rt_variant &variant;
  std::vector<StagePair> pairs; // of all stages
  std::vector<Link> links;
  std::vector<End> ends;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_NCCL_STAGE_LINKS_H
