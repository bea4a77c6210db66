// SPDX-License-Identifier: Apache-2.0
//
// The folder of checkpoints. A folder with the name of a checkpoint is complete: it gets the name when all in it is on disk, and loses it
// before anything in it is removed.

#ifndef ASHLAR_RUNTIME_CHECKPOINT_FOLDER_H
#define ASHLAR_RUNTIME_CHECKPOINT_FOLDER_H

#include "runtime/checkpoint/folder_lock.h"
#include "runtime/checkpoint/index.h"

#include <optional>
#include <string>
#include <vector>

namespace ashlar::rt {

// The parts of a checkpoint's name: PREFIX-EPOCH_STEP. And its age, which the name does not have: a run that goes on from an earlier
// checkpoint writes newer ones of steps that others have passed already.
struct CheckpointName {
  std::string name, prefix;
  uint64_t epoch = 0, step = 0;
  std::optional<uint64_t> number; // of its index; none where that cannot be read
};

// Reads such a name, and no number. Returns false for any other.
bool readCheckpointName(const std::string &name, CheckpointName &read);

// Finds all checkpoints in the directory by their names alone, in no order and without numbers.
Status listNames(const std::string &directory, std::vector<CheckpointName> &found);

// Finds all checkpoints in the directory, whatever their prefix, the newest first: by number, equal numbers by epoch and step. Checkpoints
// without a number come first, so that a search for the newest meets them.
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

  // Makes the directory if it is missing, and checks that checkpoints can be written into it.
  Status make() const;

  // Makes the directory, locks it, and removes unfinished checkpoints of earlier runs in it.
  Status prepare(FolderLock &lock) const;

  // Makes the folder that a checkpoint is written in.
  Status begin(const std::string &name) const;

  // Writes the index of the partial folder, and gives the folder its name.
  Status commit(const std::string &name, const CheckpointIndex &index) const;

  // Removes the partial folder.
  void discard(const std::string &name) const;

  // Returns a number above all checkpoints' in the directory.
  uint64_t nextNumber() const;

  // Removes all but the newest `keep` checkpoints; 0: none. Checkpoints without a number, from which nothing can resume, are removed first.
  Status removeOld(uint64_t keep) const;

  // Returns the names of the checkpoints of this prefix, the newest first.
  std::vector<std::string> list() const;

  // Finds the newest checkpoint whose index and files are complete, "" when there is none. `passedOver` has the reasons against newer ones.
  std::string findLatest(CheckpointIndex &index, std::vector<std::string> &passedOver) const;

private:
  // The same, with all that is known of them.
  std::vector<CheckpointName> listOwn() const;

  std::string directory, prefix;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_CHECKPOINT_FOLDER_H
