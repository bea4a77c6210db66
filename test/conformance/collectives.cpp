// SPDX-License-Identifier: Apache-2.0
//
// One suite for all communicators: every collective, type, and way to spread devices over processes, against the oracle, bit by bit.
//
//   ashlar_conformance local [SEED]                   ranks are threads
//   mpirun -n N ashlar_conformance mpi [SEED]         ranks are processes (N = 1, 2, 3, 4, 8); ASHLAR_FORCE_HOSTS=K for the path between
//   hosts
//   [mpirun -n N] ashlar_conformance cuda [SEED]      ranks are processes with a GPU each, NCCL between them; exits with 77, and the
//   reason,
//                                                     where that cannot be

#include "runtime/base/host.h"
#include "runtime/comm/launch/job.h"
#include "runtime/comm/local/local.h"
#include "test/conformance/collective_case.h"
#include "test/conformance/device_rank.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

using ashlar::rt::Collective;
using ashlar::rt::Communicator;
using ashlar::rt::Status;
using ashlar::rt::ThreadPool;
using ashlar::test::CollectiveCase;
using ashlar::test::CollectiveInstr;
using ashlar::test::CollectiveProgram;
using ashlar::test::MeshCase;

const std::vector<MeshCase> kMeshes = {
    {{1}, 1},
    {{3}, 3},
    {{8}, 8},
    {{2, 4}, 8}, // one process
    {{2}, 1},
    {{2, 2}, 2},
    {{8}, 4},
    {{2, 3}, 3}, // two
    {{3}, 1},
    {{2, 3}, 2}, // three; the second has groups that share a process
    {{4}, 1},
    {{2, 2}, 1},
    {{8}, 2},
    {{2, 1, 4}, 2}, // four
    {{2, 4}, 1},
    {{4, 2, 2}, 2},
    {{3, 8}, 3}, // eight
    {{4}, 1, {2, 0, 3, 1}},
    {{2, 2}, 1, {0, 2, 1, 3}},             // four, not in turn
    {{2, 1, 2}, 1},                        // four; two sets of axes make the same groups
    {{2, 4}, 1, {7, 1, 5, 3, 0, 2, 6, 4}}, // eight
};

// Runs all cases as one rank, every round with new inputs, and returns the number of wrong results.
int runRank(Communicator &communicator, const CollectiveProgram &program, int rounds, int threads) {
  int failures = 0;
  auto check = [&](const Status &status, const std::string &what) {
    if (!status.ok()) {
      std::fprintf(stderr, "rank %d: %s: %s\n", communicator.rank(), what.c_str(), status.message().c_str());
      ++failures;
    }
    return status.ok();
  };
  ThreadPool pool(threads);
  communicator.setThreadPool(&pool, ashlar::rt::grantedCores());
  std::vector<std::unique_ptr<Collective>> collectives(program.collectives().size());
  for (size_t i = 0; i < collectives.size(); ++i) {
    if (!check(communicator.prepare(program.instr(i), nullptr, collectives[i]), program.collectives()[i].name)) {
      return failures;
    }
  }
  if (!check(communicator.seal(), "seal")) {
    return failures;
  }
  int devices = static_cast<int>(program.mesh().devicesPerProcess);
  const bool severalHosts = communicator.seat().hostOfProcess != std::vector<int>(communicator.seat().hostOfProcess.size(), 0);
  for (int round = 0; round < rounds; ++round) {
    for (int device = 0; device < devices; ++device) {
      for (const CollectiveCase &one : program.cases()) {
        one.fillInput(communicator.firstDevice() + device, round, communicator.arena(device) + one.buffers[0].offset);
      }
    }
    for (size_t i = 0; i < collectives.size(); ++i) {
      const CollectiveInstr &instr = program.collectives()[i];
      if (!check(collectives[i]->run(), instr.name)) {
        return failures;
      }
      // Once run() is back the input is ours again: whoever still reads it gets rubbish.
      for (size_t tensor = instr.first; tensor < instr.first + instr.count; ++tensor) {
        const ashlar_rt_buffer *buffers = program.cases()[tensor].buffers;
        for (int device = 0; device < devices && buffers[0].offset != buffers[1].offset; ++device) {
          std::memset(communicator.arena(device) + buffers[0].offset, 0x5a, buffers[0].bytes);
        }
      }
    }
    for (int device = 0; device < devices; ++device) {
      for (const CollectiveCase &one : program.cases()) {
        std::vector<char> expected = one.expected(program.mesh(), communicator.firstDevice() + device, round);
        const char *out = communicator.arena(device) + one.buffers[1].offset;
        // Hosts add up what they have by themselves, unless the bits are to be those of one host.
        const bool isExact = !severalHosts || std::strcmp(program.variant().name, "deterministic") == 0;
        if (isExact ? std::memcmp(out, expected.data(), expected.size()) != 0 : !one.agrees(out, expected, program.mesh())) {
          std::fprintf(stderr, "device %d round %d: wrong result of %s\n", communicator.firstDevice() + device, round, one.name.c_str());
          ++failures;
        }
      }
    }
  }
  check(communicator.barrier(), "barrier");
  return failures;
}

int runLocal(const CollectiveProgram &program, int rounds) {
  std::vector<std::unique_ptr<Communicator>> communicators;
  if (Status status = ashlar::rt::createLocalCommunicators(program.variant(), communicators); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (auto &communicator : communicators) {
    // Rank 0 cuts long collectives over two threads.
    threads.emplace_back([&] { failures += runRank(*communicator, program, rounds, /*threads=*/communicator->rank() == 0 ? 2 : 1); });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  return failures;
}

int runProcess(ashlar::rt::Job &job, const CollectiveProgram &program, int rounds, bool onDevice) {
  std::unique_ptr<Communicator> communicator;
  if (Status status = job.connect(program.variant(), {program.variant().arena_bytes}, /*programHash=*/42, communicator); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  return onDevice ? ashlar::test::runDeviceRank(*communicator, program, rounds) : runRank(*communicator, program, rounds, /*threads=*/1);
}

} // namespace

int main(int argc, char **argv) {
  bool local = argc > 1 && std::strcmp(argv[1], "local") == 0;
  bool onDevice = argc > 1 && std::strcmp(argv[1], "cuda") == 0;
  if (!local && !onDevice && (argc < 2 || std::strcmp(argv[1], "mpi") != 0)) {
    std::fprintf(stderr, "usage: %s local|mpi|cuda [SEED]\n", argv[0]);
    return 2;
  }
  if (std::string reason = onDevice ? ashlar::test::deviceSkipReason() : ""; !reason.empty()) {
    std::printf("skipped: %s\n", reason.c_str());
    return 77;
  }
  uint32_t seed = argc > 2 ? static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10)) : 20240607;
  ashlar::rt::Job job;
  int meshes = 0;
  int failures = 0;
  for (size_t i = 0; i < kMeshes.size() && failures == 0; ++i) {
    if ((!local && kMeshes[i].processes() != job.processes()) || (onDevice && kMeshes[i].devicesPerProcess != 1)) {
      continue;
    }
    // All kinds and types; then all kinds with long tensors that take several messages between hosts.
    for (auto [numCases, largest] : {std::pair(56, int64_t{6000}), std::pair(8, int64_t{2500000})}) {
      bool worthLong = kMeshes[i].axes.size() == 1 && kMeshes[i].devicesPerProcess == 1 && kMeshes[i].processes() > 1;
      // On one host both variants are one.
      for (bool isDeterministic : {false, true}) {
        const bool isOther = !isDeterministic || job.ranksOnHost() < job.processes();
        if ((largest < 10000 || worthLong) && isOther) {
          CollectiveProgram program(kMeshes[i], seed + static_cast<uint32_t>(i), numCases, largest, isDeterministic);
          // Three rounds use each slot of the window again.
          int rounds = largest < 10000 ? 3 : 1;
          failures += local ? runLocal(program, rounds) : runProcess(job, program, rounds, onDevice);
        }
      }
    }
    ++meshes;
  }
  if (failures == 0 && meshes > 0 && !local) {
    job.finish();
  }
  if (job.rank() == 0) {
    std::printf("%d meshes, seed %u, %d failures\n", meshes, seed, failures);
  }
  return failures == 0 && meshes > 0 ? 0 : 1;
}
