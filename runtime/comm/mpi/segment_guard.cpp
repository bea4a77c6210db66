// SPDX-License-Identifier: Apache-2.0
//
// Keeps /dev/shm tidy. In a signal handler only unlink() of a path made beforehand is allowed, hence the static buffer.

#include "runtime/comm/mpi/segment_guard.h"

#include <csignal>
#include <cstring>
#include <ctime>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ashlar::rt {
namespace {

constexpr const char *kDirectory = "/dev/shm";
constexpr int kSignals[] = {SIGHUP, SIGINT, SIGTERM};

char guardedPath[256];
struct sigaction previous[3];

void removeAndEnd(int signal) {
  unlink(guardedPath);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

} // namespace

SegmentGuard::SegmentGuard(const std::string &name) {
  std::strncpy(guardedPath, (kDirectory + name).c_str(), sizeof(guardedPath) - 1);
  struct sigaction action = {};
  action.sa_handler = removeAndEnd;
  for (int i = 0; i < 3; ++i) {
    sigaction(kSignals[i], &action, &previous[i]);
  }
}

SegmentGuard::~SegmentGuard() {
  unlink(guardedPath);
  for (int i = 0; i < 3; ++i) {
    sigaction(kSignals[i], &previous[i], nullptr);
  }
}

void removeStaleSegments(const std::string &prefix, double meetingSeconds) {
  DIR *directory = opendir(kDirectory);
  if (directory == nullptr) {
    return;
  }
  std::string start = prefix.substr(1);
  while (dirent *entry = readdir(directory)) {
    struct stat info;
    if (std::strncmp(entry->d_name, start.c_str(), start.size()) == 0 &&
        fstatat(dirfd(directory), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        std::difftime(std::time(nullptr), info.st_ctime) > 2 * meetingSeconds) {
      unlinkat(dirfd(directory), entry->d_name, 0);
    }
  }
  closedir(directory);
}

} // namespace ashlar::rt
