// SPDX-License-Identifier: Apache-2.0
//
// flock(), as it belongs to the open file and not to the process: closing another descriptor of the file does not end it. Who has the lock
// removes the file before letting go, so one who waited for it looks again whether the file that is locked is the one that is there.

#include "runtime/checkpoint/folder_lock.h"

#include "runtime/base/clock.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ashlar::rt {

namespace {

constexpr double kPatienceSeconds = 3;
constexpr useconds_t kPauseMicroseconds = 20000;
constexpr size_t kLongestHolder = 128;

// "process 4711 on host a".
std::string ownName() {
  std::array<char, 65> host = {};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("process {} on host {}", getpid(), host.data());
}

// Returns what the file says of who holds it, "another run" where that is no such text: the file may be anybody's.
std::string readHolder(int descriptor) {
  std::array<char, kLongestHolder> text = {};
  const ssize_t count = pread(descriptor, text.data(), text.size(), 0);
  const std::string_view found(text.data(), count < 0 ? 0 : static_cast<size_t>(count));
  constexpr std::string_view kBegin = "process ", kMiddle = " on host ";
  const size_t end = found.find_first_not_of("0123456789", kBegin.size());
  const bool isHolder =
      found.substr(0, kBegin.size()) == kBegin && end != std::string_view::npos && found.substr(end, kMiddle.size()) == kMiddle &&
      found.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_", end + kMiddle.size()) ==
          std::string_view::npos;
  return isHolder ? std::string(found) : "another run";
}

// Opens the file of a lock, which may be there, of another user too. Returns -1 with errno where that is no regular file.
int openLockFile(const std::string &path) {
  constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  int descriptor = open(path.c_str(), O_RDWR | O_CREAT | kFlags, 0666);
  if (descriptor < 0 && errno == EACCES) {
    descriptor = open(path.c_str(), O_RDONLY | kFlags);
  }
  struct stat info = {};
  if (descriptor >= 0 && (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode))) {
    close(descriptor);
    descriptor = -1;
    errno = EINVAL;
  }
  return descriptor;
}

// Whether the path still leads to the file that is open.
bool isThere(int descriptor, const std::string &path) {
  struct stat opened = {}, found = {};
  return fstat(descriptor, &opened) == 0 && lstat(path.c_str(), &found) == 0 && opened.st_dev == found.st_dev &&
         opened.st_ino == found.st_ino;
}

} // namespace

FolderLock::FolderLock(FolderLock &&other) noexcept {
  *this = std::move(other);
}

FolderLock &FolderLock::operator=(FolderLock &&other) noexcept {
  std::swap(path, other.path);
  std::swap(descriptor, other.descriptor);
  return *this;
}

FolderLock::~FolderLock() {
  if (descriptor >= 0) {
    unlink(path.c_str());
    close(descriptor);
  }
}

Status FolderLock::take(const std::string &folder, const std::string &prefix) {
  path = folder + "/." + prefix + ".lock";
  for (const double begin = seconds();;) {
    const int opened = openLockFile(path);
    if (opened < 0) {
      return unavailable("cannot lock {}: {}; remove that file if no run writes there, or name another --checkpoint-dir", path,
                         errno == EINVAL || errno == ELOOP ? "it is not a regular file" : std::strerror(errno));
    }
    const bool isLocked = flock(opened, LOCK_EX | LOCK_NB) == 0;
    const int reason = isLocked ? 0 : errno;
    if (isLocked && isThere(opened, path)) {
      const std::string name = ownName();
      // Fails on a full disk, and of another user's file: then nobody can say who holds it.
      const bool isNoted = ftruncate(opened, 0) == 0 && pwrite(opened, name.data(), name.size(), 0) >= 0;
      (void)isNoted;
      descriptor = opened;
      return Status();
    }
    const std::string holder = readHolder(opened);
    close(opened);
    if (!isLocked && reason != EWOULDBLOCK && reason != EINTR) {
      std::fputs(
          fmt::format("warning: {} cannot be locked: {}; let no other run write checkpoints there\n", path, std::strerror(reason)).c_str(),
          stderr);
      return Status();
    }
    if (!isLocked && seconds() - begin > kPatienceSeconds) {
      return unavailable("{} has checkpoints \"{}\" of a run that goes on ({}); name another --checkpoint-dir, or wait until it ends",
                         folder, prefix, holder);
    }
    usleep(kPauseMicroseconds);
  }
}

} // namespace ashlar::rt
