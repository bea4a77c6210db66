// SPDX-License-Identifier: Apache-2.0
//
// The common context of both kinds of run, training and forward.

#ifndef ASHLAR_RUNTIME_RUN_SESSION_H
#define ASHLAR_RUNTIME_RUN_SESSION_H

#include "runtime/abi/components.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/launch/launcher.h"
#include "runtime/execute/executor.h"
#include "runtime/run/options.h"

namespace ashlar::rt {

// One run of one program by one rank. All members are set before the run and outlive it.
struct Session {
  const ashlar_rt_image *image = nullptr;
  const ashlar_rt_variant *variant = nullptr;
  const Options *options = nullptr;
  Communicator *communicator = nullptr;
  Executor *executor = nullptr;
  Recorder *recorder = nullptr;       // with --trace: records the executor's spans
  Exchange *copies = nullptr;         // of checkpoints with the hosts beside; null: none are kept
  const Launcher *launcher = nullptr; // that started the ranks; null: none did
  int threads = 1;                    // that compute
  int dataThreads = 1;                // that prepare batches
};

// Writes a number that the run keeps for the program, the seed or the step, to its i64 scalar. Does nothing for a null name.
Status writeNumber(Session &session, const char *name, uint64_t number);

// Gives the program its seed, and variables and states their first values.
Status initialise(Session &session);

// Trains by the options, evaluates when they ask for it, and prints the lines of rank 0.
Status train(Session &session);

// Reads the inputs, runs the model once, and writes the outputs from rank 0.
Status runForward(Session &session);

// Generates texts from the prompts that rank 0 reads, and writes them there.
Status generateText(Session &session);

// The kinds of runs. Components: each is there where the program needs it.
using Run = Status (*)(Session &session);
extern "C" {
[[gnu::weak]] extern const Run ASHLAR_RT_COMPONENT(train);
[[gnu::weak]] extern const Run ASHLAR_RT_COMPONENT(forward);
[[gnu::weak]] extern const Run ASHLAR_RT_COMPONENT(generate);
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_SESSION_H
