// SPDX-License-Identifier: Apache-2.0
//
// The machine model of each target, and the fields of a job.

#include "compiler/cost/machine.h"

#include "dialects/exec/target_traits.h"

#include "llvm/Support/ErrorHandling.h"

#include <cmath>

namespace ashlar::cost {
namespace {

// Processes of one host exchange data through a window of shared memory. Measured with 2 ranks (docs/benchmarks.md): an all-reduce of 4
// bytes, which is 2 messages, takes 0.12 us; one of 16 MiB, in which a rank sends 16 MiB, takes 731 us. The cores that compute copy it.
constexpr dist::Link kSharedMemory{/*latencyNs=*/60, /*bytesPerUs=*/23000};

// Hosts exchange data by MPI. Measured between 2 ranks of one host by MPI over TCP: an all-reduce of 4 bytes takes 5.2 us, one of 64 MiB 55
// ms. Assumed for a real network, which was not at hand; 1.2 GB/s is the rate of 10 Gb/s Ethernet.
constexpr dist::Link kNetwork{/*latencyNs=*/2600, /*bytesPerUs=*/1200, /*movesBeside=*/true};

// A rank on one core: large products reach 80 % of the peak of its multiply-adds, a copy 20 GB/s (docs/benchmarks.md, the first machine).
// Products of bf16 and f16 are computed in f32. Other figures (launches, rates by shape, costs of single kinds of collectives) are measured
// (ashlarc --calibrate), not assumed.
Machine cores() {
  return {INT64_MAX, kSharedMemory, kNetwork, {/*flopsPerUs=*/83000, /*narrowFlopsPerUs=*/83000, /*bytesPerUs=*/20000}};
}

// GPUs by their data sheets (NVIDIA A100, H100 and H200 Tensor Core GPU, SXM), and hosts by theirs (NVIDIA DGX A100, H100 and H200, 8 GPUs
// each); nothing is measured. Rates: TFLOP/s of f32 on CUDA cores, of bf16 and f16 on dense tensor cores, and TB/s of the memory. Links
// within a host: one direction of NVLink, half of the sheet's figure for both; between hosts: the one network adapter of each GPU.
// Latencies are not in data sheets: 4 us a message makes the smallest all-reduce of 2 devices 8 us, the base latency in NCCL's own tuning
// model; 10 us between hosts are assumed. Launches and rates by shape are in no data sheet.
Machine gpus(int64_t nvlinkBytesPerUs, int64_t adapterBytesPerUs, dist::DeviceRates device) {
  constexpr int64_t kNvlinkNs = 4000, kAdapterNs = 10000, kGpusOfHost = 8;
  return {kGpusOfHost,
          {kNvlinkNs, nvlinkBytesPerUs, /*movesBeside=*/true},
          {kAdapterNs, adapterBytesPerUs, /*movesBeside=*/true},
          std::move(device)};
}

// A100 80 GB: 19.5, 312 and 2.039; NVLink 600 GB/s both ways, 200 Gb/s adapters.
Machine a100() {
  return gpus(300000, 25000, {/*flopsPerUs=*/19500000, /*narrowFlopsPerUs=*/312000000, /*bytesPerUs=*/2039000});
}

// H100: 67, 989 and 3.35; NVLink 900 GB/s both ways, 400 Gb/s adapters.
Machine h100() {
  return gpus(450000, 50000, {/*flopsPerUs=*/67000000, /*narrowFlopsPerUs=*/989000000, /*bytesPerUs=*/3350000});
}

// H200: as the H100, with 4.8 TB/s.
Machine h200() {
  Machine machine = h100();
  machine.device.bytesPerUs = 4800000;
  return machine;
}

// Returns the defaults of a job's machine: of the target, or of the preset.
Machine defaultOf(const job::Machine &given, exec::Target target) {
  if (!exec::traitsOf(target).hasPresets) {
    return cores();
  }
  if (!given.has_preset()) {
    Machine machine = h100();
    machine.ranksPerHost = INT64_MAX;
    return machine;
  }
  switch (given.preset()) {
  case job::Machine::A100:
    return a100();
  case job::Machine::H100:
    return h100();
  case job::Machine::H200:
    return h200();
  }
  llvm_unreachable("unknown preset");
}

constexpr double kNsPerUs = 1e3;
constexpr double kPerUsOfGiga = 1e3; // 1e9 a second are 1e3 a microsecond

int64_t perUs(double giga) {
  return std::max<int64_t>(1, std::llround(giga * kPerUsOfGiga));
}

// Returns the table that a job gives; without a narrow rate the f32 rate holds for both.
template <typename Rates> llvm::SmallVector<dist::ShapeRate, 0> tableOf(const Rates &given) {
  llvm::SmallVector<dist::ShapeRate, 0> table;
  for (const job::Machine::ShapeRate &rate : given) {
    table.push_back(
        {rate.from(), perUs(rate.gflop_per_s()), perUs(rate.has_narrow_gflop_per_s() ? rate.narrow_gflop_per_s() : rate.gflop_per_s())});
  }
  return table;
}

dist::DeviceRates ratesOf(const job::Machine::Device &device, dist::DeviceRates fallback) {
  auto set = [](int64_t &rate, bool isGiven, double giga) { rate = isGiven ? perUs(giga) : rate; };
  set(fallback.flopsPerUs, device.has_gflop_per_s(), device.gflop_per_s());
  set(fallback.narrowFlopsPerUs, device.has_narrow_gflop_per_s(), device.narrow_gflop_per_s());
  set(fallback.bytesPerUs, device.has_memory_gb_per_s(), device.memory_gb_per_s());
  if (device.has_launch_us()) {
    fallback.launchNs = std::llround(device.launch_us() * kNsPerUs);
  }
  if (!device.products().empty()) {
    fallback.products = tableOf(device.products());
  }
  if (!device.convolutions().empty()) {
    fallback.convolutions = tableOf(device.convolutions());
  }
  return fallback;
}

CollectiveKind kindOf(job::Machine::CollectiveRate::Kind kind) {
  switch (kind) {
  case job::Machine::CollectiveRate::ALL_REDUCE:
    return CollectiveKind::AllReduce;
  case job::Machine::CollectiveRate::REDUCE_SCATTER:
    return CollectiveKind::ReduceScatter;
  case job::Machine::CollectiveRate::ALL_TO_ALL:
    return CollectiveKind::AllToAll;
  case job::Machine::CollectiveRate::ALL_GATHER:
    return CollectiveKind::AllGather;
  case job::Machine::CollectiveRate::PERMUTE:
    return CollectiveKind::Permute;
  case job::Machine::CollectiveRate::BROADCAST:
    return CollectiveKind::Broadcast;
  case job::Machine::CollectiveRate::HALO:
    return CollectiveKind::Halo;
  }
  llvm_unreachable("unknown kind of collective");
}

// Returns the cost of messages that a link or a kind of collective describes, with `fallback` for missing fields.
template <typename Given> dist::MessageCost messageCostOf(const Given &given, dist::MessageCost fallback) {
  return {given.has_latency_us() ? std::llround(given.latency_us() * kNsPerUs) : fallback.latencyNs,
          given.has_bandwidth_gb_per_s() ? perUs(given.bandwidth_gb_per_s()) : fallback.bytesPerUs};
}

dist::Link linkOf(const job::Machine::LinkClass &given, dist::Link link) {
  const dist::MessageCost plain = messageCostOf(given, {link.latencyNs, link.bytesPerUs});
  link.latencyNs = plain.latencyNs;
  link.bytesPerUs = plain.bytesPerUs;
  link.movesBeside = given.has_moves_beside() ? given.moves_beside() : link.movesBeside;
  for (const job::Machine::CollectiveRate &rate : given.collectives()) {
    link.set(kindOf(rate.kind()), messageCostOf(rate, plain));
  }
  return link;
}

} // namespace

Machine machineOf(const job::Job &job, exec::Target target) {
  const job::Machine &given = job.machine();
  Machine machine = defaultOf(given, target);
  machine.ranksPerHost = given.has_ranks_per_host() ? given.ranks_per_host() : machine.ranksPerHost;
  machine.intraHost = linkOf(given.intra_host(), machine.intraHost);
  machine.interHost = linkOf(given.inter_host(), machine.interHost);
  machine.device = ratesOf(given.device(), machine.device);
  return machine;
}

llvm::SmallVector<dist::Link> axisLinks(const Machine &machine, llvm::ArrayRef<int64_t> axisSizes, llvm::ArrayRef<int64_t> deviceIds,
                                        int64_t devicesPerProcess) {
  int64_t devices = 1;
  for (int64_t size : axisSizes) {
    devices *= size;
  }
  auto hostOf = [&](int64_t device) { return (deviceIds.empty() ? device / devicesPerProcess : deviceIds[device]) / machine.ranksPerHost; };
  llvm::SmallVector<dist::Link> links;
  int64_t stride = devices;
  for (int64_t size : axisSizes) {
    stride /= size;
    bool leaves = false;
    for (int64_t device = 0; device < devices; ++device) {
      int64_t first = device - device / stride % size * stride; // of the group
      leaves |= hostOf(device) != hostOf(first);
    }
    links.push_back(leaves ? machine.interHost : machine.intraHost);
  }
  return links;
}

dist::Link stageLink(const Machine &machine, int64_t devices, int64_t from, int64_t to) {
  for (int64_t device = 0; device < devices; ++device) {
    if ((from * devices + device) / machine.ranksPerHost != (to * devices + device) / machine.ranksPerHost) {
      return machine.interHost;
    }
  }
  return machine.intraHost;
}

} // namespace ashlar::cost
