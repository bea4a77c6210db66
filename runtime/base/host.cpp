// SPDX-License-Identifier: Apache-2.0
//
// What the runtime asks about the machine and the environment it runs on.

#include "runtime/base/host.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <fstream>

#include <sched.h>
#include <unistd.h>

namespace ashlar::rt {
namespace {

// Returns where a symbolic link points; empty when it cannot be read.
std::string linkTarget(const char *path) {
  char target[256];
  ssize_t length = readlink(path, target, sizeof(target));
  return length > 0 ? std::string(target, static_cast<size_t>(length)) : std::string();
}

} // namespace

std::string hostIdentity() {
  char name[HOST_NAME_MAX + 1] = {};
  gethostname(name, HOST_NAME_MAX);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  // POSIX shared memory is a file below /dev/shm, so two containers share it only when they share the mount namespace.
  return std::string(name) + "/" + boot + "/" + linkTarget("/proc/self/ns/ipc") + "/" + linkTarget("/proc/self/ns/mnt");
}

int usableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return onlineCores();
  }
  return std::max(1, CPU_COUNT(&set));
}

int onlineCores() {
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

int64_t environmentInteger(const char *name, int64_t fallback) {
  const char *text = std::getenv(name);
  if (text == nullptr || *text == '\0') {
    return fallback;
  }
  char *end = nullptr;
  int64_t value = std::strtoll(text, &end, 10);
  return *end == '\0' ? value : fallback;
}

uint64_t hashText(const std::string &text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text) {
    hash = (hash ^ c) * 0x100000001b3;
  }
  return hash;
}

} // namespace ashlar::rt
