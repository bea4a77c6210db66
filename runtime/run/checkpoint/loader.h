// SPDX-License-Identifier: Apache-2.0
//
// Goes on from a checkpoint, or starts from weights of others, on any mesh (docs/checkpoints.md): copies the parts for this rank's devices
// from the pieces in files.

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

  // Reads the index of the checkpoint of --resume. Without one, and where `latest` finds none, lists the tensors of --init-from.
  Status open();

  // Whether there is a checkpoint to go on from.
  bool resumes() const { return source == Source::kCheckpoint; }

  // The position at which the run goes on. Assumes that it resumes.
  uint64_t stepsDone() const { return reader.index().stepsDone; }
  uint64_t seed() const { return reader.index().seed; }

  // Returns the files of the checkpoint or the weights; none without either.
  std::vector<std::string> paths() const { return source == Source::kNone ? std::vector<std::string>() : reader.paths(); }

  // Checks the run's data against the checkpoint's.
  Status checkData(const DataPosition &position) const;

  // Checks that the program's tensors are in the checkpoint and it has no others, or its variables in the weights, or notes missing ones.
  Status checkTensors();

  // Overwrites the initial values of variables, and when it resumes the states, of this rank's devices.
  Status load();

  // Returns the lines for the reader: skipped checkpoints, the position of the run, missing tensors.
  const std::vector<std::string> &lines() const { return told; }

private:
  enum class Source { kNone, kCheckpoint, kWeights };

  // Finds the newest checkpoint in the one folder, or the newest that all hosts have; "" where there is none.
  Status findLatest(std::string &path);
  Status findLatestOfHosts(std::string &path);
  // Hands all ranks the text of rank 0.
  Status shareText(std::string &text);
  // Fails unless all ranks, each with the index in its folder, go on at one position.
  Status checkSamePosition(const std::string &path, const CheckpointIndex &index);
  Status openCheckpoint();
  Status openWeights();
  // Whether a tensor of the program is to come from the source.
  bool isWanted(const ashlar_rt_tensor &tensor) const;
  // Fails for misfits, or notes them where a part is enough. `others`: more lines of the error.
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
