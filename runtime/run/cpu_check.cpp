// SPDX-License-Identifier: Apache-2.0
//
// Asks the CPU for each feature by name.

#include "runtime/run/cpu_check.h"

#include "runtime/abi/cpu_features.h"

#include <string>

namespace ashlar::rt {
namespace {

bool hasFeature([[maybe_unused]] const std::string &wanted) {
#define ASHLAR_HAS_FEATURE(name)                                                                                                           \
  if (wanted == name) {                                                                                                                    \
    return __builtin_cpu_supports(name);                                                                                                   \
  }
  ASHLAR_CPU_FEATURES(ASHLAR_HAS_FEATURE)
#undef ASHLAR_HAS_FEATURE
  return false;
}

} // namespace

Status checkCpu(const char *features) {
  std::string rest = features != nullptr ? features : "";
  std::string lacking;
  while (!rest.empty()) {
    size_t end = rest.find(',');
    std::string name = rest.substr(0, end);
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
    if (!hasFeature(name)) {
      lacking += (lacking.empty() ? "" : ", ") + name;
    }
  }
  return lacking.empty()
             ? Status()
             : unavailable("this program was compiled for a CPU with {}, which this machine lacks; compile it on a machine like "
                           "this one",
                           lacking);
}

} // namespace ashlar::rt
