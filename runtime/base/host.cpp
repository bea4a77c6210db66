// SPDX-License-Identifier: Apache-2.0
//
// What the runtime asks about the machine and the environment it runs on.

#include "runtime/base/host.h"

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <sys/prctl.h>
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
  // Ranks meet over an abstract local socket, which belongs to a network namespace.
  return std::string(name) + "/" + boot + "/" + linkTarget("/proc/self/ns/net");
}

int CoreSet::count() const {
  return std::max(1, CPU_COUNT(&cores));
}

void CoreSet::apply() const {
  sched_setaffinity(0, sizeof(cores), &cores);
}

CoreSet currentCores() {
  CoreSet set;
  CPU_ZERO(&set.cores);
  sched_getaffinity(0, sizeof(set.cores), &set.cores);
  return set;
}

void allowAllCores() {
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof(all)); // the kernel takes out what is not there or not granted
  sched_setaffinity(0, sizeof(all), &all);
}

int usableCores() {
  return currentCores().count();
}

int grantedCores() {
  CoreSet bound = currentCores();
  allowAllCores();
  int count = usableCores();
  bound.apply();
  return count;
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

void endWithParent() {
  pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) { // it ended just before
    raise(SIGKILL);
  }
}

double patienceSeconds() {
  constexpr int64_t kPatienceSeconds = 30;
  int64_t given = environmentInteger("ASHLAR_PATIENCE", 0);
  return static_cast<double>(given > 0 ? given : kPatienceSeconds);
}

uint64_t hashText(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text) {
    hash = (hash ^ c) * 0x100000001b3;
  }
  return hash;
}

} // namespace ashlar::rt
