// SPDX-License-Identifier: Apache-2.0
//
// Loads libcuda, which comes with the driver and not with the toolkit.

#include "runtime/device/cuda/driver_library.h"

#include "runtime/device/library.h"

namespace ashlar::rt {
namespace {

// The first version whose entry points these are: CUDA 13.0.
constexpr int kNeededVersion = 13000;

std::string versionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

} // namespace

Status DriverLibrary::load(DriverLibrary &library, const char *soname) {
  const std::string remedy = "install an NVIDIA driver for CUDA " + versionText(kNeededVersion) + " or later (580 or later)";
  Library file;
  ASHLAR_RETURN_IF_ERROR(Library::open(soname, "this program runs on NVIDIA GPUs", remedy, file));
  // The version first: an old driver lacks symbols, and which ones says less.
  library.cuDriverGetVersion = reinterpret_cast<decltype(&::cuDriverGetVersion)>(file.find("cuDriverGetVersion"));
  int version = 0;
  if (library.cuDriverGetVersion != nullptr && library.cuDriverGetVersion(&version) == CUDA_SUCCESS && version < kNeededVersion) {
    return unavailable("the NVIDIA driver is for CUDA {} but this program needs {}; {}", versionText(version), versionText(kNeededVersion),
                       remedy);
  }
#define ASHLAR_RT_CUDA_LOOKUP(name) library.name = reinterpret_cast<decltype(&::name)>(file.find(#name));
  ASHLAR_RT_CUDA_FUNCTIONS(ASHLAR_RT_CUDA_LOOKUP)
#undef ASHLAR_RT_CUDA_LOOKUP
  ASHLAR_RETURN_IF_ERROR(file.check());
  CUresult result = library.cuInit(0);
  if (result == CUDA_ERROR_NO_DEVICE) {
    return unavailable("the NVIDIA driver (CUDA {}) finds no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES", versionText(version));
  }
  return library.check(result, "cannot initialise the NVIDIA driver");
}

Status DriverLibrary::failure(CUresult result, const std::string &what) const {
  const char *name = nullptr;
  const char *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  return unavailable("{}: {} ({})", what, name != nullptr ? name : std::to_string(result), text != nullptr ? text : "no description");
}

} // namespace ashlar::rt
