// SPDX-License-Identifier: Apache-2.0
//
// What the environment says about the machine that is played:
//   ASHLAR_EMULATOR_DEVICES              number of devices (1); 0: the driver finds none
//   ASHLAR_EMULATOR_CAPABILITY           compute capability (12.0), which machine code for sm_80 and sm_90 does not fit
//   ASHLAR_EMULATOR_DRIVER               version of the driver (13000)
//   ASHLAR_EMULATOR_MEMORY               bytes of a device (4 GiB)
//   ASHLAR_EMULATOR_SEED                 of the order in which work that may run in any order does (1)
//   ASHLAR_EMULATOR_QUEUES               1: all streams share a queue, in which work begins when what is before it has ended; 0: one each
//   (0) ASHLAR_EMULATOR_RACES                0: two threads may touch a byte, one of them writing, without a barrier between (1: a fault)
//   ASHLAR_EMULATOR_CUDNN_PLAIN          0: cuDNN's mode A gives no engines but those to pass over, the mode FALLBACK does (1: both do)
//   ASHLAR_EMULATOR_CUDNN_ENGINES        the engines that there are, a bit each: 1 without a plan, 2 in tf32, 4 in any order, 8 Winograd,
//                                        16 with a workspace of 192 MiB, 32 the plain one (all)
//   ASHLAR_EMULATOR_CUBLASLT_BGRAD       0: cuBLASLt has no algorithm that sums an operand (1)
//   ASHLAR_EMULATOR_CUBLASLT_BIAS        0: nor one that adds a bias (1)
//   ASHLAR_EMULATOR_CUBLASLT_ACTIVATION  0: nor one with relu or gelu (1)
//   ASHLAR_EMULATOR_CUBLASLT_AUXILIARY   bits: 1 for writing an auxiliary tensor, 2 for reading one; others it has none of (3)
//   ASHLAR_EMULATOR_CUBLASLT_FAILING     n: of its heuristic's algorithms the first n do not run; the heuristic says so of the first (0)
//   ASHLAR_EMULATOR_CUBLASLT_WRONG       1: the first number of a result, and of sums, is 1 too large (0)
//   ASHLAR_EMULATOR_VERBOSE              1: says on stderr what went wrong, and counts
//   ASHLAR_EMULATOR_NCCL_FAIL            n: the n-th collective call of the process fails
//   ASHLAR_EMULATOR_NCCL_STUCK           1: making a communicator never ends (0)
//   ASHLAR_EMULATOR_NCCL_DEATH           1: a communicator reports that a member died; 0: it waits for it (0)

#ifndef ASHLAR_TEST_EMULATOR_DRIVER_SETTINGS_H
#define ASHLAR_TEST_EMULATOR_DRIVER_SETTINGS_H

#include <cstdint>
#include <string>

namespace ashlar::emulator {

// Returns the value of ASHLAR_EMULATOR_<name>, or `fallback`.
uint64_t setting(const char *name, uint64_t fallback);

struct Capability {
  int major, minor;
};
Capability capability();

// Prints a line on stderr when ASHLAR_EMULATOR_VERBOSE is set.
void say(const std::string &text);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_DRIVER_SETTINGS_H
