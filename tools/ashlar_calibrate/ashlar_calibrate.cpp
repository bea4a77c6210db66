// SPDX-License-Identifier: Apache-2.0
//
// ashlar-calibrate: measures the ranks that it is started as, for ashlarc --calibrate, which starts it and reads what rank 0 prints:
//
//     ashlar-calibrate [device] [collectives]
//
// one line a number (measured_program.h). Times are the least that were seen, so that other processes of the machine count as little as
// they can; ranks measure at the same time, and the slowest of them counts: what they share they have as the ranks of a job have it. Each
// rank computes on one thread.

#include "runtime/base/clock.h"
#include "runtime/comm/launch/job.h"
#include "runtime/execute/cpu/cpu_executor.h"
#include "tools/ashlar_calibrate/measured_program.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using namespace ashlar;
using rt::Status;

constexpr uint64_t kLargest = uint64_t{16} << 20; // bytes of the whole tensor of a collective
constexpr double kSeconds = 0.04;                 // for each number
constexpr int kLeastRuns = 10;                    // of what a rank computes alone
constexpr double kBlockSeconds = 5e-4;            // of runs of a collective: short, so that some are undisturbed on a busy machine
constexpr int kLeastBlocks = 20, kMostBlocks = 400;

// Measures programs on all ranks at once.
class Meter {
public:
  Meter(rt::Communicator &communicator, rt::CpuExecutor &executor) : communicator(communicator), executor(executor) {}

  // Enters the seconds of one instruction of `what`, a program of the image.
  Status measure(const calibrate::Measured &what, size_t number, double &seconds) {
    rt::Program &program = executor.at(number);
    ASHLAR_RETURN_IF_ERROR(communicator.barrier());
    ASHLAR_RETURN_IF_ERROR(timeOf(program, /*runs=*/1, seconds)); // touches memory
    ASHLAR_RETURN_IF_ERROR(what.isCollective ? measureTogether(program, seconds) : measureBeside(program, seconds));
    seconds /= what.count;
    return Status();
  }

private:
  // Ranks that wait for each other: one that comes late sees others that wait, so only a mean over runs says what they took. All decide by
  // the same numbers when to stop.
  Status measureTogether(rt::Program &program, double &least) {
    double spent = 0;
    int runs = 1;
    for (int block = 0; block < kLeastBlocks || (spent < kSeconds && block < kMostBlocks); ++block) {
      double mean = 0;
      ASHLAR_RETURN_IF_ERROR(communicator.barrier());
      ASHLAR_RETURN_IF_ERROR(timeOf(program, runs, mean));
      ASHLAR_RETURN_IF_ERROR(findSlowest(mean));
      spent += mean * runs;
      least = block == 0 ? mean : std::min(least, mean);
      runs = static_cast<int>(std::clamp(kBlockSeconds / least, 1.0, 1000.0));
    }
    return Status();
  }

  // Ranks that compute at the same time, each for itself.
  Status measureBeside(rt::Program &program, double &least) {
    ASHLAR_RETURN_IF_ERROR(communicator.barrier());
    const double begin = rt::seconds();
    for (int run = 0; run < kLeastRuns || rt::seconds() < begin + kSeconds; ++run) {
      double time = 0;
      ASHLAR_RETURN_IF_ERROR(timeOf(program, /*runs=*/1, time));
      least = run == 0 ? time : std::min(least, time);
    }
    least /= shareOfCore();
    return findSlowest(least);
  }

  // The least time of a run is that of an undisturbed one; where ranks take turns on the cores, a step of a job gets this share of it.
  double shareOfCore() const {
    return std::min(1.0, std::max(1.0, double(std::thread::hardware_concurrency())) / communicator.processes());
  }

  Status timeOf(rt::Program &program, int runs, double &seconds) {
    const double begin = rt::seconds();
    for (int run = 0; run < runs; ++run) {
      ASHLAR_RETURN_IF_ERROR(executor.run(program));
    }
    seconds = (rt::seconds() - begin) / runs;
    return Status();
  }

  // Replaces a number by the largest of all ranks.
  Status findSlowest(double &seconds) {
    std::vector<double> all(communicator.processes());
    ASHLAR_RETURN_IF_ERROR(communicator.allGather(&seconds, sizeof(seconds), all.data()));
    seconds = *std::max_element(all.begin(), all.end());
    return Status();
  }

  rt::Communicator &communicator;
  rt::CpuExecutor &executor;
};

void addDevice(calibrate::MeasuredImage &image) {
  for (int64_t size = 1; size <= 512; size *= 2) {
    image.addProducts(size);
  }
  for (int64_t size = 1; size <= 128; size *= 2) {
    image.addConvolutions(size);
    image.addAttentions(size);
  }
  image.addMemory();
  image.addLaunches();
}

void addCollectives(calibrate::MeasuredImage &image) {
  for (const char *kind : {"ALL_REDUCE", "REDUCE_SCATTER", "ALL_TO_ALL", "ALL_GATHER", "PERMUTE", "BROADCAST"}) {
    for (uint64_t bytes = 64; bytes <= kLargest; bytes *= 8) {
      image.addCollective(kind, bytes);
    }
  }
}

Status run(rt::Job &job, calibrate::MeasuredImage &measured) {
  ASHLAR_RETURN_IF_ERROR(job.check());
  const ashlar_rt_image &image = measured.finish();
  const ashlar_rt_variant &variant = image.variants[0];
  std::unique_ptr<rt::Communicator> communicator;
  ASHLAR_RETURN_IF_ERROR(job.connect(variant, {variant.arena_bytes}, image.program_hash, communicator));
  rt::ThreadPool pool; // of one thread
  communicator->setThreadPool(&pool, static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  rt::CpuExecutor executor;
  ASHLAR_RETURN_IF_ERROR(communicator->agree(executor.create(image, variant, *communicator, pool, {})));
  ASHLAR_RETURN_IF_ERROR(communicator->seal());
  Meter meter(*communicator, executor);
  for (size_t i = 0; i < measured.measured().size(); ++i) {
    const calibrate::Measured &what = measured.measured()[i];
    double seconds = 0;
    ASHLAR_RETURN_IF_ERROR(meter.measure(what, i, seconds));
    if (job.rank() == 0) {
      std::printf("%s %.6g\n", what.label.c_str(), seconds);
    }
  }
  ASHLAR_RETURN_IF_ERROR(executor.close());
  ASHLAR_RETURN_IF_ERROR(communicator->barrier());
  job.finish();
  return Status();
}

} // namespace

int main(int argc, char **argv) {
  rt::Job job;
  calibrate::MeasuredImage image(static_cast<uint32_t>(job.processes()));
  for (int i = 1; i < argc; ++i) {
    const bool isDevice = std::strcmp(argv[i], "device") == 0;
    if (!isDevice && std::strcmp(argv[i], "collectives") != 0) {
      std::fprintf(stderr, "error: %s is neither device nor collectives; ashlarc --calibrate F.txtpb starts this program\n", argv[i]);
      return 1;
    }
    isDevice ? addDevice(image) : addCollectives(image);
  }
  if (Status status = run(job, image); !status.ok()) {
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}
