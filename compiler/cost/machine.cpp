// SPDX-License-Identifier: Apache-2.0
//
// The machine model of each target, and what a job says of its own.

#include "compiler/cost/machine.h"

#include <cmath>

namespace ashlar::cost {
namespace {

// Processes of one host exchange data through a window of shared memory. Measured with 2 ranks (docs/benchmarks.md): an all-reduce of 4
// bytes, which is 2 messages, takes 0.12 us; one of 16 MiB, in which a rank sends 16 MiB, takes 731 us. The cores that compute copy it.
constexpr dist::Link kSharedMemory{/*latencyNs=*/60, /*bytesPerUs=*/23000};

// Hosts exchange data by MPI. Measured between 2 ranks of one host by MPI over TCP: an all-reduce of 4 bytes takes 5.2 us, one of 64 MiB
// 55 ms. Assumed for a real network, which was not at hand; 1.2 GB/s is what 10 Gb/s Ethernet carries.
constexpr dist::Link kNetwork{/*latencyNs=*/2600, /*bytesPerUs=*/1200, /*movesBeside=*/true};

// Devices of one host exchange data over NVLink by NCCL. Not measured, since no GPU was at hand: 450 GB/s is what the data sheet of the
// H100 gives for one direction; 4 us a message makes the smallest all-reduce of 2 devices 8 us, the base latency in NCCL's own tuning
// model.
constexpr dist::Link kNvlink{/*latencyNs=*/4000, /*bytesPerUs=*/450000, /*movesBeside=*/true};

// Devices of different hosts: one 400 Gb/s adapter a device, as in the data sheet of the DGX H100. Not measured either; the latency is
// assumed.
constexpr dist::Link kGpuNetwork{/*latencyNs=*/10000, /*bytesPerUs=*/50000, /*movesBeside=*/true};

// A rank on one core: 80 % of the peak of its multiply-adds is what large products reach, 20 GB/s a copy (docs/benchmarks.md, the first
// machine). Products of bf16 and f16 are computed in f32.
constexpr dist::DeviceRates kCore{/*flopsPerUs=*/83000, /*narrowFlopsPerUs=*/83000, /*bytesPerUs=*/20000};

// The H100 by its data sheet (SXM, dense): 67 TFLOP/s of f32, 989 of bf16 and f16, 3.35 TB/s. Not measured.
constexpr dist::DeviceRates kGpu{/*flopsPerUs=*/67000000, /*narrowFlopsPerUs=*/989000000, /*bytesPerUs=*/3350000};

constexpr double kPerUsOfGiga = 1e3; // 1e9 a second are 1e3 a microsecond

dist::DeviceRates ratesOf(const job::Machine::Device &device, dist::DeviceRates fallback) {
  auto set = [](int64_t &rate, bool isGiven, double giga) {
    rate = isGiven ? std::max<int64_t>(1, std::llround(giga * kPerUsOfGiga)) : rate;
  };
  set(fallback.flopsPerUs, device.has_gflop_per_s(), device.gflop_per_s());
  set(fallback.narrowFlopsPerUs, device.has_narrow_gflop_per_s(), device.narrow_gflop_per_s());
  set(fallback.bytesPerUs, device.has_memory_gb_per_s(), device.memory_gb_per_s());
  return fallback;
}

dist::Link linkOf(const job::Machine::LinkClass &link, dist::Link fallback) {
  constexpr double kNsPerUs = 1e3;
  if (link.has_latency_us()) {
    fallback.latencyNs = std::llround(link.latency_us() * kNsPerUs);
  }
  if (link.has_bandwidth_gb_per_s()) {
    fallback.bytesPerUs = std::max<int64_t>(1, std::llround(link.bandwidth_gb_per_s() * kPerUsOfGiga));
  }
  if (link.has_moves_beside()) {
    fallback.movesBeside = link.moves_beside();
  }
  return fallback;
}

} // namespace

Machine machineOf(const job::Job &job, exec::Target target) {
  Machine machine;
  if (job.machine().has_ranks_per_host()) {
    machine.ranksPerHost = job.machine().ranks_per_host();
  }
  switch (target) {
  case exec::Target::Cpu:
    machine.intraHost = linkOf(job.machine().intra_host(), kSharedMemory);
    machine.device = ratesOf(job.machine().device(), kCore);
    machine.interHost = linkOf(job.machine().inter_host(), kNetwork);
    break;
  case exec::Target::Cuda:
    machine.intraHost = linkOf(job.machine().intra_host(), kNvlink);
    machine.device = ratesOf(job.machine().device(), kGpu);
    machine.interHost = linkOf(job.machine().inter_host(), kGpuNetwork);
    break;
  }
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
