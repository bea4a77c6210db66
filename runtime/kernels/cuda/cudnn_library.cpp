// SPDX-License-Identifier: Apache-2.0
//
// Loads libcudnn.

#include "runtime/kernels/cuda/cudnn_library.h"

#include "runtime/device/library.h"

namespace ashlar::rt {
namespace {

// The first version for CUDA 13: 9.12.0.
constexpr size_t kNeededCudnn = 91200;

} // namespace

Status CudnnLibrary::load(CudnnLibrary &library, const char *what, const char *soname) {
  const std::string remedy = "install cuDNN 9 for CUDA 13, or add its folder to LD_LIBRARY_PATH";
  Library file;
  ASHLAR_RETURN_IF_ERROR(Library::open(soname, fmt::format("{} needs cuDNN 9", what), remedy, file));
#define ASHLAR_RT_CUDNN_LOOKUP(name) library.name = reinterpret_cast<decltype(&::name)>(file.find(#name));
  ASHLAR_RT_CUDNN_FUNCTIONS(ASHLAR_RT_CUDNN_LOOKUP)
#undef ASHLAR_RT_CUDNN_LOOKUP
  ASHLAR_RETURN_IF_ERROR(file.check());
  size_t version = library.cudnnGetVersion();
  return version >= kNeededCudnn ? Status()
                                 : unavailable("{} has version {} but {} needs {}; {}", soname, version, what, kNeededCudnn, remedy);
}

} // namespace ashlar::rt
