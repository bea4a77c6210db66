// SPDX-License-Identifier: Apache-2.0
//
// The folder that checkpoints lie in. What has the name of a checkpoint is complete: folders get it when all in them is on disk, and lose
// it before anything in them is removed.

#ifndef ASHLAR_RUNTIME_CHECKPOINT_FOLDER_H
#define ASHLAR_RUNTIME_CHECKPOINT_FOLDER_H

#include "runtime/checkpoint/index.h"

#include <string>
#include <vector>

namespace ashlar::rt {

// What the name of a checkpoint says: PREFIX-EPOCH_STEP.
struct CheckpointName {
  std::string name, prefix;
  uint64_t epoch = 0, step = 0;
};

// Reads such a name. Returns false for any other.
bool readCheckpointName(const std::string &name, CheckpointName &read);

// Finds all checkpoints in the directory, whatever their prefix, the newest first.
Status listCheckpoints(const std::string &directory, std::vector<CheckpointName> &found);

class CheckpointFolder {
public:
  CheckpointFolder() = default;
  CheckpointFolder(std::string directory, std::string prefix) : directory(std::move(directory)), prefix(std::move(prefix)) {}

  // Returns PREFIX-EPOCH_STEP.
  std::string name(uint64_t epoch, uint64_t step) const;

  // Returns where the checkpoint of that name lies, and where it is written.
  std::string place(const std::string &name) const;
  std::string partial(const std::string &name) const;
  static std::string rankFile(uint64_t rank);

  // Makes the directory where it is not there, and removes what an earlier run left unfinished in it.
  Status prepare() const;

  // Makes the folder that a checkpoint is written in.
  Status begin(const std::string &name) const;

  // Writes the index of what lies in the partial folder, and gives the folder its name.
  Status commit(const std::string &name, const CheckpointIndex &index) const;

  // Removes the partial folder.
  void discard(const std::string &name) const;

  // Removes all but the newest `keep` checkpoints; 0: none.
  Status removeOld(uint64_t keep) const;

  // Returns the names of the checkpoints of this prefix, the newest first.
  std::vector<std::string> list() const;

  // Finds the newest checkpoint whose index and files are whole, "" when there is none. `passedOver` tells why newer ones are not.
  std::string findLatest(CheckpointIndex &index, std::vector<std::string> &passedOver) const;

private:
  std::string directory, prefix;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_CHECKPOINT_FOLDER_H
