// SPDX-License-Identifier: Apache-2.0
//
// Goes on from a checkpoint, on any mesh (docs/checkpoints.md): copies from the pieces in its files what this rank's devices need.

#ifndef ASHLAR_RUNTIME_LAUNCH_LOADER_H
#define ASHLAR_RUNTIME_LAUNCH_LOADER_H

#include "runtime/checkpoint/reader.h"
#include "runtime/launch/saver.h"
#include "runtime/launch/session.h"

#include <string>
#include <vector>

namespace ashlar::rt {

// Used by the main thread of every rank, at the same places.
class Loader {
public:
  explicit Loader(Session &session) : session(session) {}

  // Reads the index of the checkpoint that --resume names. Does nothing without one, and where `latest` finds none.
  Status open();

  // Whether there is a checkpoint to go on from.
  bool resumes() const { return isOpen; }

  // What the run goes on with. Assumes that it resumes.
  uint64_t stepsDone() const { return reader.index().stepsDone; }
  uint64_t seed() const { return reader.index().seed; }

  // Checks that the run's data are those of the checkpoint.
  Status checkData(const DataPosition &position) const;

  // Checks that the program's tensors are in the checkpoint and it has no others, or notes what is left out.
  Status checkTensors();

  // Overwrites what init gave the variables and states of this rank's devices.
  Status load();

  // Returns what the reader is to know: which checkpoints were passed over, where the run goes on, what was left out.
  const std::vector<std::string> &lines() const { return told; }

private:
  Status shareFolder(std::string &path);

  Session &session;
  CheckpointReader reader;
  bool isOpen = false; // else there is nothing to go on from
  std::vector<std::string> told;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_LAUNCH_LOADER_H
