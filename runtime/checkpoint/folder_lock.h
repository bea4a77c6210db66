// SPDX-License-Identifier: Apache-2.0
//
// One run at a time writes checkpoints of one prefix into a folder. Two would remove each other's unfinished ones, and each other's older
// ones for newer. The lock is one of the system, on a file .PREFIX.lock: it ends with the process that holds it, however that ends, and a
// leftover file blocks nobody. On NFS the server keeps it, for the hosts that mount it with locks (docs/checkpoints.md).

#ifndef ASHLAR_RUNTIME_CHECKPOINT_FOLDER_LOCK_H
#define ASHLAR_RUNTIME_CHECKPOINT_FOLDER_LOCK_H

#include "runtime/base/status.h"

#include <string>

namespace ashlar::rt {

// Movable; lets go when destroyed.
class FolderLock {
public:
  FolderLock() = default;
  FolderLock(FolderLock &&other) noexcept;
  FolderLock &operator=(FolderLock &&other) noexcept;
  ~FolderLock();

  // Takes the lock of the folder for a prefix. Fails, naming the process that has it where that is known, when another one keeps it for
  // some seconds: one that was killed may take a moment to be gone. On a file system without locks it does nothing but warn. Assumes that
  // the folder is there.
  Status take(const std::string &folder, const std::string &prefix);

private:
  std::string path;
  int descriptor = -1; // -1: not taken
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_CHECKPOINT_FOLDER_LOCK_H
