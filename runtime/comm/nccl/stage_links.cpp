// SPDX-License-Identifier: Apache-2.0
//
// Communicators between stages.

#include "runtime/comm/nccl/stage_links.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

constexpr int kMostBlocks = 4; // of a link

// Ranks in the communicator of a link.
constexpr int kSender = 0, kReceiver = 1;

// Links of the stage that has most.
size_t mostLinks(const std::vector<StagePair> &pairs, uint32_t stages) {
  std::vector<size_t> count(stages, 0);
  for (const StagePair &pair : pairs) {
    ++count[pair.from];
    ++count[pair.to];
  }
  return *std::max_element(count.begin(), count.end());
}

} // namespace

std::vector<StagePair> stagePairs(const Stages &stages) {
  std::vector<StagePair> pairs;
  for (const ashlar_rt_variant &variant : stages) {
    for (const auto &sent : sentChannels(variant)) {
      pairs.push_back({variant.stage, sent.first});
    }
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return pairs;
}

int blocksOfLink(int multiprocessors, size_t links) {
  return std::clamp(multiprocessors / 2 / static_cast<int>(std::max<size_t>(links, 1)), 1, kMostBlocks);
}

StageLinks::StageLinks(CudaDevice &device, Communicator &host, const NcclLibrary &nccl, const ashlar_rt_variant &variant)
    : device(device), host(host), nccl(nccl), variant(variant), pairs(stagePairs(Stages(variant))) {
  for (const StagePair &pair : pairs) {
    if (pair.from == stage() || pair.to == stage()) {
      links.push_back({pair});
    }
  }
}

Status StageLinks::connect() {
  // Every pair has an id for each device of a stage, from the rank that sends.
  const int perStage = host.mesh().processes(), self = host.rank() - host.mesh().firstRank();
  std::vector<ncclUniqueId> ids; // of this rank's links
  for (const StagePair &pair : pairs) {
    ncclUniqueId mine = {};
    Status made;
    if (pair.from == stage()) {
      made = nccl.check(nccl.ncclGetUniqueId(&mine), "cannot make an id for a communicator");
    }
    ASHLAR_RETURN_IF_ERROR(host.agree(made));
    std::vector<ncclUniqueId> all(static_cast<size_t>(host.processes()));
    ASHLAR_RETURN_IF_ERROR(host.allGather(&mine, sizeof(mine), all.data()));
    if (pair.from == stage() || pair.to == stage()) {
      ids.push_back(all[static_cast<size_t>(static_cast<int>(pair.from) * perStage + self)]);
    }
  }
  int multiprocessors = 0;
  ASHLAR_RETURN_IF_ERROR(device.multiprocessors(multiprocessors));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.minCTAs = 1;
  config.maxCTAs = blocksOfLink(multiprocessors, mostLinks(pairs, variant.num_stages));
  for (size_t i = 0; i < links.size(); ++i) { // who comes to a pair first waits: all go by one order
    Link &link = links[i];
    const int rank = link.pair.from == stage() ? kSender : kReceiver;
    ASHLAR_RETURN_IF_ERROR(
        nccl.check(nccl.ncclCommInitRankConfig(&link.comm, /*nranks=*/2, ids[i], rank, &config), "cannot connect the GPUs of two stages"));
    ASHLAR_RETURN_IF_ERROR(device.createStream(link.stream, /*urgent=*/true));
  }
  return Status();
}

size_t StageLinks::layOut(const ashlar_rt_transfer &transfer, bool isSend) {
  const StagePair wanted = isSend ? StagePair{stage(), transfer.stage} : StagePair{transfer.stage, stage()};
  auto link = std::find_if(links.begin(), links.end(), [&](const Link &one) { return one.pair == wanted; });
  ends.push_back({static_cast<size_t>(link - links.begin()), isSend, &variant.tensors[transfer.tensor]});
  return ends.size() - 1;
}

Status StageLinks::put(size_t message, CUdeviceptr address) const {
  const End &end = ends[message];
  const Link &link = links[end.link];
  void *data = reinterpret_cast<void *>(address);
  const size_t bytes = end.tensor->buffer.bytes;
  ncclResult_t result = end.isSend ? nccl.ncclSend(data, bytes, ncclInt8, kReceiver, link.comm, link.stream)
                                   : nccl.ncclRecv(data, bytes, ncclInt8, kSender, link.comm, link.stream);
  return result == ncclSuccess ? Status() : nccl.failure(result, fmt::format("rank {} {}", host.rank(), describe(message)), link.comm);
}

std::string StageLinks::describe(size_t message) const {
  const End &end = ends[message];
  const StagePair &pair = links[end.link].pair;
  return end.isSend ? fmt::format("sending {} to stage {}", end.tensor->name, pair.to)
                    : fmt::format("receiving {} from stage {}", end.tensor->name, pair.from);
}

Status StageLinks::asyncError() const {
  for (const Link &link : links) {
    ncclResult_t result = ncclSuccess;
    if (link.comm != nullptr && nccl.ncclCommGetAsyncError(link.comm, &result) == ncclSuccess && result != ncclSuccess &&
        result != ncclInProgress) {
      return nccl.failure(result, fmt::format("the connection from stage {} to {} broke", link.pair.from, link.pair.to), link.comm);
    }
  }
  return Status();
}

void StageLinks::disconnect() {
  for (Link &link : links) {
    if (link.comm != nullptr) {
      nccl.ncclCommDestroy(link.comm);
      link.comm = nullptr;
    }
  }
}

} // namespace ashlar::rt
