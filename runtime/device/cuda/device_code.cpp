// SPDX-License-Identifier: Apache-2.0
//
// Machine code runs on chips of its major version from its minor version on; with a suffix ("sm_90a") only on exactly its version. PTX is
// compiled by the driver for its version and any later one; with a suffix, likewise only for its own.

#include "runtime/device/cuda/device_code.h"

#include <cctype>
#include <cstdlib>

namespace ashlar::rt {
namespace {

// What "sm_90" or "compute_120a" says.
struct Arch {
  bool machine = false;
  Capability version;
  bool exact = false; // has a suffix
};

bool parseArch(const std::string &text, Arch &arch) {
  arch.machine = text.compare(0, 3, "sm_") == 0;
  size_t start = arch.machine ? 3 : 8;
  if (!arch.machine && text.compare(0, 8, "compute_") != 0) {
    return false;
  }
  char *end = nullptr;
  long number = start < text.size() ? std::strtol(text.c_str() + start, &end, 10) : 0;
  arch.version = {static_cast<int>(number / 10), static_cast<int>(number % 10)};
  arch.exact = end != nullptr && *end != '\0';
  return number >= 10;
}

int number(Capability capability) {
  return capability.major * 10 + capability.minor;
}

// How well the code suits the chip: higher is better, -1 does not run. Machine code comes before PTX.
int suitability(const Arch &arch, Capability chip) {
  int wanted = number(arch.version);
  int given = number(chip);
  bool runs = arch.exact ? wanted == given : wanted <= given && (!arch.machine || arch.version.major == chip.major);
  return !runs ? -1 : wanted + (arch.machine ? 10000 : 0);
}

} // namespace

Status chooseDeviceCode(const ashlar_rt_image &image, Capability capability, const std::string &device,
                        const ashlar_rt_device_code *&code) {
  code = nullptr;
  int best = -1;
  std::string list;
  for (uint32_t i = 0; i < image.num_device_codes; ++i) {
    const ashlar_rt_device_code &candidate = image.device_codes[i];
    Arch arch;
    if (!parseArch(candidate.arch, arch)) {
      return internal("the image has device code for {}, which is no chip", candidate.arch);
    }
    list += (i == 0 ? "" : ", ") + std::string(candidate.arch);
    int fit = suitability(arch, capability);
    if (fit > best) {
      best = fit;
      code = &candidate;
    }
  }
  if (code != nullptr) {
    return Status();
  }
  return unavailable("{} has compute capability {}.{} but this program has code for {}; compile it with --gpu-arch sm_{}{}", device,
                     capability.major, capability.minor, list.empty() ? "no chip" : list, capability.major, capability.minor);
}

} // namespace ashlar::rt
