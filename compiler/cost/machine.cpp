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
constexpr analysis::Link kSharedMemory{/*latencyNs=*/60, /*bytesPerUs=*/23000};

// Hosts exchange data over TCP. Measured between 2 ranks of one host by MPI over TCP: an all-reduce of 4 bytes takes 5.2 us, one of 64 MiB
// 55 ms. Assumed for a real network, which was not at hand; 1.2 GB/s is the rate of 10 Gb/s Ethernet.
constexpr analysis::Link kNetwork{/*latencyNs=*/2600, /*bytesPerUs=*/1200, /*movesBeside=*/true};

// A rank on one core: large products reach 80 % of the peak of its multiply-adds, a copy 20 GB/s (docs/benchmarks.md, the first machine).
// Products of bf16 and f16 are computed in f32. Other figures (launches, rates by shape, costs of single kinds of collectives) are measured
// (ashlarc --calibrate), not assumed.
Machine cores() {
  return {INT64_MAX,
          /*adaptersPerHost=*/1,
          kSharedMemory,
          kNetwork,
          /*sendsAtOnce=*/true,
          {/*flopsPerUs=*/83000, /*narrowFlopsPerUs=*/83000, /*bytesPerUs=*/20000}};
}

constexpr int64_t kPerUsOfTera = 1000000; // 1e12 a second are 1e6 a microsecond

// Hosts of 8 GPUs (NVIDIA DGX A100, H100 and H200), an adapter each. Rates and costs are such that these formulas (docs/machine.md) come
// closest to published measurements: bandwidths are those that nccl-tests calls busbw.
//
// Launch: in a CUDA graph an addition of 1024 numbers takes 1.1 to 1.3 us (PyTorch's issue 161104), a small product of cuBLAS 5 us (XLA's
// table below); 2 us lie between.
//
// Between hosts: of a 400 Gb/s adapter 46 to 49 GB/s arrive (NCCL's maintainers, nccl-tests 290 and 319), of a 200 Gb/s one 24 (nccl 1048).
// Latencies by NCCL's own model, one rank a host (src/graph/tuning.cc): 8 us a message of an all-reduce, 11 of a gather or scatter; 12 us
// of another message are assumed.
Machine gpus(analysis::Link withinHost, int64_t adapterBytesPerUs, analysis::DeviceRates device) {
  constexpr int64_t kGpusOfHost = 8, kLaunchNs = 2000;
  analysis::Link betweenHosts{/*latencyNs=*/12000, adapterBytesPerUs, /*movesBeside=*/true};
  betweenHosts.set(CollectiveKind::AllReduce, {8000, adapterBytesPerUs});
  betweenHosts.set(CollectiveKind::AllGather, {11000, adapterBytesPerUs});
  betweenHosts.set(CollectiveKind::ReduceScatter, {11000, adapterBytesPerUs});
  withinHost.movesBeside = true;
  device.launchNs = kLaunchNs;
  return {kGpusOfHost, kGpusOfHost, withinHost, betweenHosts, /*sendsAtOnce=*/false, std::move(device)};
}

// An entry of a table: TFLOP/s of f32 on CUDA cores, and of bf16 and f16 on tensor cores.
analysis::ShapeRate teraRate(int64_t from, double f32, double narrow) {
  return {from, std::llround(f32 * kPerUsOfTera), std::llround(narrow * kPerUsOfTera)};
}

// A100 SXM 80 GB. Additions: the data sheet's 19.5 TFLOP/s. Memory: 1.66 TB/s of a matrix scaled, 1.78 of one read. Products: f32 as
// KernelBench measured, bf16 265 TFLOP/s of large ones (torch-performance-test-data; 271 in ml-engineering's search for the fastest size);
// the bf16 classes below 4096 are the H100's shares of its largest: none were found measured. Within a host: an all-reduce of 8 as measured
// (ml-engineering); the other kinds have its rate, and the H100's latencies.
Machine a100() {
  analysis::Link nvlink{/*latencyNs=*/15000, /*bytesPerUs=*/204000};
  nvlink.set(CollectiveKind::AllReduce, {9300, 204000});
  nvlink.set(CollectiveKind::AllGather, {8000, 204000});
  nvlink.set(CollectiveKind::ReduceScatter, {9100, 204000});
  nvlink.set(CollectiveKind::AllToAll, {4300, 204000});
  return gpus(nvlink, 24000,
              {/*flopsPerUs=*/19500000,
               /*narrowFlopsPerUs=*/265000000,
               /*bytesPerUs=*/1700000,
               /*launchNs=*/0,
               {teraRate(1, 10.7, 96), teraRate(32, 13.5, 96), teraRate(512, 16, 162), teraRate(1024, 16, 225), teraRate(2048, 17.3, 255),
                teraRate(4096, 18.5, 265)}});
}

// H100 SXM. Additions: the data sheet's 67 TFLOP/s. Memory: copies reach 3.0 TB/s. Products: f32 as KernelBench measured; bf16 fitted to
// the 375 products of 256 to 4096 in XLA's table for sm_90 (matmul_interpolator_data.h), and 798 TFLOP/s of 8192^3, as we measured; smaller
// ones are bound by memory. Attention: forward and backward together of cuDNN, for 4096 keys, widths of 64 and 128, as measured by Shah et
// al., "FlashAttention-3" (2024), figures 5 and 6; below and in f32 as products. Within a host: fitted to XLA's table for collectives of 8
// (collective_interpolator_data.h).
Machine h100() {
  analysis::Link nvlink{/*latencyNs=*/15600, /*bytesPerUs=*/214000};
  nvlink.set(CollectiveKind::AllReduce, {6000, 361000});
  nvlink.set(CollectiveKind::AllGather, {8000, 319000});
  nvlink.set(CollectiveKind::ReduceScatter, {9100, 312000});
  nvlink.set(CollectiveKind::AllToAll, {4300, 318000});
  return gpus(nvlink, 48000,
              {/*flopsPerUs=*/67000000,
               /*narrowFlopsPerUs=*/798000000,
               /*bytesPerUs=*/3000000,
               /*launchNs=*/0,
               {teraRate(1, 26.5, 290), teraRate(64, 34, 290), teraRate(256, 50, 290), teraRate(512, 51, 488), teraRate(1024, 51, 677),
                teraRate(2048, 52, 767), teraRate(4096, 52, 798)},
               /*convolutions=*/{},
               {teraRate(1, 26.5, 290), teraRate(64, 34, 414), teraRate(128, 34, 504)}});
}

// H200 SXM: the H100's arithmetic (its largest products reach 769 to 798 TFLOP/s), copies at 4.3 TB/s, and an all-reduce of 8 as measured
// (ml-engineering).
Machine h200() {
  Machine machine = h100();
  machine.device.bytesPerUs = 4300000;
  machine.intraHost.set(CollectiveKind::AllReduce, {6900, 444000});
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
template <typename Rates> llvm::SmallVector<analysis::ShapeRate, 0> tableOf(const Rates &given) {
  llvm::SmallVector<analysis::ShapeRate, 0> table;
  for (const job::Machine::ShapeRate &rate : given) {
    table.push_back(
        {rate.from(), perUs(rate.gflop_per_s()), perUs(rate.has_narrow_gflop_per_s() ? rate.narrow_gflop_per_s() : rate.gflop_per_s())});
  }
  return table;
}

analysis::DeviceRates ratesOf(const job::Machine::Device &device, analysis::DeviceRates fallback) {
  auto set = [](int64_t &rate, bool isGiven, double giga) { rate = isGiven ? perUs(giga) : rate; };
  set(fallback.flopsPerUs, device.has_gflop_per_s(), device.gflop_per_s());
  set(fallback.narrowFlopsPerUs, device.has_narrow_gflop_per_s(), device.narrow_gflop_per_s());
  for (auto *table : {&fallback.products, &fallback.attentions}) { // a preset's, until the job gives its own
    for (analysis::ShapeRate &rate : *table) {
      set(rate.flopsPerUs, device.has_gflop_per_s(), device.gflop_per_s());
      set(rate.narrowFlopsPerUs, device.has_narrow_gflop_per_s(), device.narrow_gflop_per_s());
    }
  }
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
  if (!device.attentions().empty()) {
    fallback.attentions = tableOf(device.attentions());
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
template <typename Given> analysis::MessageCost messageCostOf(const Given &given, analysis::MessageCost fallback) {
  return {given.has_latency_us() ? std::llround(given.latency_us() * kNsPerUs) : fallback.latencyNs,
          given.has_bandwidth_gb_per_s() ? perUs(given.bandwidth_gb_per_s()) : fallback.bytesPerUs};
}

analysis::Link linkOf(const job::Machine::LinkClass &given, analysis::Link link) {
  const analysis::MessageCost plain = messageCostOf(given, {link.latencyNs, link.bytesPerUs});
  link.latencyNs = plain.latencyNs;
  link.bytesPerUs = plain.bytesPerUs;
  link.movesBeside = given.has_moves_beside() ? given.moves_beside() : link.movesBeside;
  for (CollectiveKind kind : analysis::kSendingKinds) { // a preset's, until the job gives its own
    if (link.own[static_cast<size_t>(kind)]) {
      link.set(kind, messageCostOf(given, link.of(kind)));
    }
  }
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
  machine.adaptersPerHost = given.has_adapters_per_host() ? given.adapters_per_host() : machine.adaptersPerHost;
  machine.intraHost = linkOf(given.intra_host(), machine.intraHost);
  machine.interHost = linkOf(given.inter_host(), machine.interHost);
  machine.device = ratesOf(given.device(), machine.device);
  machine.hasRails = given.rails();
  if (given.has_hosts_per_pod()) {
    machine.hostsPerPod = given.hosts_per_pod();
    machine.uplinksPerPod = given.has_uplinks_per_pod() ? given.uplinks_per_pod() : machine.hostsPerPod * machine.adaptersPerHost;
    machine.interPod = linkOf(given.inter_pod(), machine.interHost);
  }
  return machine;
}

dist::HostsAttr hostsOf(mlir::MLIRContext *context, const Machine &machine, int64_t devicesPerRank) {
  llvm::SmallVector<analysis::Link> links{machine.intraHost, machine.interHost};
  if (machine.hostsPerPod != 0) {
    links.push_back(machine.interPod);
  }
  return dist::HostsAttr::get(context, machine.ranksPerHost, machine.adaptersPerHost, machine.hostsPerPod, machine.uplinksPerPod,
                              machine.hasRails, devicesPerRank, machine.sendsAtOnce, analysis::costsOf(context, links));
}

} // namespace ashlar::cost
