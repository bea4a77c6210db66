// SPDX-License-Identifier: Apache-2.0
//
// What the runtime asks about the machine and the environment it runs on.

#include "runtime/base/host.h"

#include <algorithm>
#include <cassert>
#include <charconv>
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

// A variable that is a whole number, and its value where it is not set.
struct Variable {
  const char *name;
  int64_t least, most, fallback;
};

constexpr int64_t kMostSeconds = 100000, kMostHosts = 1 << 20;

constexpr Variable kVariables[] = {
    {"ASHLAR_CONNECT_SECONDS", 1, kMostSeconds, 120}, // until the ranks' GPUs are connected
    {"ASHLAR_FORCE_HOSTS", 0, kMostHosts, 0},
    {"ASHLAR_NO_PRODUCT_AUXILIARY", 0, 1, 0},
    {"ASHLAR_NO_PRODUCT_SUMS", 0, 1, 0},
    {"ASHLAR_PATIENCE", 1, kMostSeconds, 30},
    {"ASHLAR_REPEAT_BATCH", 0, 1, 0},
    {"ASHLAR_SHARE_DEVICE", 0, 1, 0},
    {"PMI_FD", 0, INT_MAX, -1}, // the socket to a launcher that speaks PMI2
};

// Returns false for a text that is no number within the bounds.
bool read(const Variable &variable, int64_t &value) {
  value = variable.fallback;
  const char *text = std::getenv(variable.name);
  if (text == nullptr || *text == '\0') {
    return true;
  }
  const char *end = text + std::strlen(text);
  const std::from_chars_result result = std::from_chars(text, end, value);
  return result.ec == std::errc() && result.ptr == end && value >= variable.least && value <= variable.most;
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

Status checkEnvironment() {
  for (const Variable &variable : kVariables) {
    int64_t value = 0;
    if (!read(variable, value)) {
      return invalid("{} is \"{}\", not a number from {} to {}; correct it, or unset it", variable.name, std::getenv(variable.name),
                     variable.least, variable.most);
    }
  }
  return Status();
}

int64_t environmentInteger(std::string_view name) {
  const auto variable = std::find_if(std::begin(kVariables), std::end(kVariables), [&](const Variable &each) { return each.name == name; });
  assert(variable != std::end(kVariables) && "the table lacks the variable");
  int64_t value = 0;
  return read(*variable, value) ? value : variable->fallback;
}

bool isBoundByMpirun() {
  const char *text = std::getenv("OMPI_MCA_orte_bound_at_launch");
  return text != nullptr && *text != '\0' && std::strcmp(text, "0") != 0;
}

void endWithParent() {
  pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) { // it ended just before
    raise(SIGKILL);
  }
}

double patienceSeconds() {
  return static_cast<double>(environmentInteger("ASHLAR_PATIENCE"));
}

uint64_t hashText(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text) {
    hash = (hash ^ c) * 0x100000001b3;
  }
  return hash;
}

} // namespace ashlar::rt
