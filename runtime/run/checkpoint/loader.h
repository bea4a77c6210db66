// SPDX-License-Identifier: Apache-2.0
//
// Goes on from a checkpoint, or starts from weights of others, on any mesh (docs/checkpoints.md): copies from the pieces in files what this
// rank's devices need.

#ifndef ASHLAR_RUNTIME_RUN_CHECKPOINT_LOADER_H
#define ASHLAR_RUNTIME_RUN_CHECKPOINT_LOADER_H

#include "runtime/checkpoint/reader.h"
#include "runtime/run/checkpoint/saver.h"
#include "runtime/run/session.h"

#include <string>
#include <vector>

namespace ashlar::rt {

// Used by the main thread of every rank, at the same places.
class Loader {
public:
  explicit Loader(Session &session) : session(session) {}

  // Reads the index of the checkpoint that --resume names. Without one, and where `latest` finds none, lists what --init-from names.
  Status open();

  // Whether there is a checkpoint to go on from.
  bool resumes() const { return source == Source::kCheckpoint; }

  // What the run goes on with. Assumes that it resumes.
  uint64_t stepsDone() const { return reader.index().stepsDone; }
  uint64_t seed() const { return reader.index().seed; }

  // Checks that the run's data are those of the checkpoint.
  Status checkData(const DataPosition &position) const;

  // Checks that the program's tensors are in the checkpoint and it has no others, or its variables in the weights, or notes what is left
  // out.
  Status checkTensors();

  // Overwrites what init gave the variables, and when it resumes the states, of this rank's devices.
  Status load();

  // Returns what the reader is to know: which checkpoints were passed over, where the run goes on, what was left out.
  const std::vector<std::string> &lines() const { return told; }

private:
  enum class Source { kNone, kCheckpoint, kWeights };

  Status shareFolder(std::string &path);
  Status openCheckpoint();
  Status openWeights();
  // Whether a tensor of the program is to come from the source.
  bool isWanted(const ashlar_rt_tensor &tensor) const;
  // Fails for what does not fit, or notes it where a part is enough. `others`: what the error tells besides.
  Status settle(const std::vector<std::string> &misfits, const std::vector<std::string> &unused, const std::string &others);
  Status fill(const ashlar_rt_tensor &tensor, const CheckpointTensor &stored, const Piece &wanted, char *local);

  Session &session;
  CheckpointReader reader;
  Source source = Source::kNone;
  size_t taken = 0; // tensors of the program that fit
  std::vector<std::string> told;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_CHECKPOINT_LOADER_H
