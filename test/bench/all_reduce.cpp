// SPDX-License-Identifier: Apache-2.0
//
// All-reduce over the shared window against MPI_Allreduce, in the same run:  mpirun -n 2 all_reduce
// ASHLAR_FORCE_HOSTS=2 measures the streams between hosts instead.
//
// f32 sums, in place. Time of one call: the smallest of 9 blocks of calls, each divided by its number of calls, on the slowest rank.
// Bus bandwidth = 2 (n-1)/n x bytes / time, as nccl-tests count it. ratio = MPI / Ashlar.

#include "runtime/base/clock.h"
#include "runtime/comm/launch/job.h"

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace {

using namespace ashlar::rt;

constexpr uint64_t kLargest = uint64_t{64} << 20;
constexpr int kBlocks = 9;

// An image with one all-reduce for each size, all in one buffer.
struct Benchmark {
  explicit Benchmark(uint32_t ranks) {
    axis = {"ranks", ranks};
    for (uint64_t bytes = 4; bytes <= kLargest; bytes *= 4) {
      sizes.push_back(bytes);
    }
    count = sizes.size();
    elements.resize(count);
    descs.resize(count);
    tensors.resize(count);
    buffers.resize(2 * count);
    for (size_t i = 0; i < count; ++i) {
      elements[i] = static_cast<int64_t>(sizes[i] / sizeof(float));
      descs[i] = {};
      descs[i].kind = ASHLAR_RT_ALL_REDUCE;
      descs[i].dtype = ASHLAR_RT_F32;
      descs[i].num_axes = 1;
      descs[i].axes = &axisIndex;
      tensors[i] = {/*rank=*/1, &elements[i], /*split_dim=*/0, /*concat_dim=*/0};
      descs[i].num_tensors = 1;
      descs[i].tensors = &tensors[i];
      buffers[2 * i] = buffers[2 * i + 1] = {ASHLAR_RT_ARENA, ASHLAR_RT_F32, 0, sizes[i]};
      instrs.push_back({ASHLAR_RT_COLLECTIVE, "all_reduce", 2, &buffers[2 * i], accesses, &descs[i]});
    }
    program = {"bench", {}, static_cast<uint32_t>(count), instrs.data(), 0, nullptr, 0, nullptr};
    variant.name = "default";
    variant.num_axes = 1;
    variant.axes = &axis;
    variant.devices_per_process = 1;
    variant.arena_bytes = kLargest;
    variant.num_programs = 1;
    variant.programs = &program;
  }

  uint32_t axisIndex = 0;
  ashlar_rt_axis axis;
  size_t count;
  std::vector<uint64_t> sizes;
  std::vector<int64_t> elements;
  std::vector<ashlar_rt_collective_tensor> tensors;
  std::vector<ashlar_rt_collective_desc> descs;
  std::vector<ashlar_rt_buffer> buffers;
  const uint32_t accesses[2] = {ASHLAR_RT_READ, ASHLAR_RT_WRITE};
  std::vector<ashlar_rt_instr> instrs;
  ashlar_rt_program program = {};
  ashlar_rt_variant variant = {};
};

// Returns the seconds of one call, on the slowest rank.
template <typename Call> double measure(uint64_t bytes, Call &&call) {
  int calls = static_cast<int>(std::clamp<uint64_t>((uint64_t{16} << 20) / bytes, 2, 2000));
  double best = 1e9;
  for (int block = 0; block <= kBlocks; ++block) {
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = seconds();
    for (int i = 0; i < calls; ++i) {
      call();
    }
    double mine = (seconds() - begin) / calls;
    double slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    best = block == 0 ? best : std::min(best, slowest); // the first block warms up
  }
  return best;
}

} // namespace

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  Job job;
  Benchmark bench(static_cast<uint32_t>(job.processes()));
  std::unique_ptr<Communicator> communicator;
  if (Status status = job.connect(bench.variant, {bench.variant.arena_bytes}, /*programHash=*/1, communicator); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  std::vector<float> buffer(kLargest / sizeof(float), 0.0f);
  if (job.rank() == 0) {
    std::printf("all-reduce, f32 sum in place, %d ranks\n%12s %12s %12s %8s %12s\n", job.processes(), "bytes", "Ashlar us", "MPI us",
                "ratio", "bus GB/s");
  }
  std::vector<std::unique_ptr<Collective>> collectives(bench.count);
  Status prepared;
  for (size_t i = 0; i < bench.count; ++i) {
    prepared.update(communicator->prepare(bench.instrs[i], nullptr, collectives[i]));
  }
  if (prepared.update(communicator->seal()); !prepared.ok()) {
    std::fprintf(stderr, "%s\n", prepared.message().c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  for (size_t i = 0; i < bench.count; ++i) {
    bool good = true;
    double ours = measure(bench.sizes[i], [&] { good = collectives[i]->run().ok() && good; });
    double theirs = measure(bench.sizes[i], [&] {
      MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(bench.elements[i]), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
    if (job.rank() == 0) {
      double share = 2.0 * (job.processes() - 1) / job.processes();
      std::printf("%12llu %12.2f %12.2f %8.2f %12.2f%s\n", static_cast<unsigned long long>(bench.sizes[i]), 1e6 * ours, 1e6 * theirs,
                  theirs / ours, share * static_cast<double>(bench.sizes[i]) / ours * 1e-9, good ? "" : "  FAILED");
    }
  }
  job.finish();
  MPI_Finalize();
  return 0;
}
