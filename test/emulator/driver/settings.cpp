// SPDX-License-Identifier: Apache-2.0
//
// Reads the environment.

#include "test/emulator/driver/settings.h"

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace ashlar::emulator {

uint64_t setting(const char *name, uint64_t fallback) {
  const char *value = std::getenv((std::string("ASHLAR_EMULATOR_") + name).c_str());
  return value && *value ? std::strtoull(value, nullptr, 0) : fallback;
}

Capability capability() {
  const char *value = std::getenv("ASHLAR_EMULATOR_CAPABILITY");
  Capability result{12, 0};
  if (value && *value && std::sscanf(value, "%d.%d", &result.major, &result.minor) < 2) {
    result.minor = 0;
  }
  return result;
}

void say(const std::string &text) {
  if (setting("VERBOSE", 0) != 0) {
    std::fprintf(stderr, "emulator %d: %s\n", int(getpid()), text.c_str());
  }
}

} // namespace ashlar::emulator
