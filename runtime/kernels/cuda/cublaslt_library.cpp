// SPDX-License-Identifier: Apache-2.0
//
// Loads libcublasLt.

#include "runtime/kernels/cuda/cublaslt_library.h"

#include "runtime/device/library.h"

namespace ashlar::rt {
namespace {

// The first version with this soname: 13.0.0.
constexpr size_t kNeededCublas = 130000;

} // namespace

Status CublasLtLibrary::load(CublasLtLibrary &library, const char *soname) {
  const std::string remedy = "install cuBLAS of CUDA 13, or add its folder to LD_LIBRARY_PATH";
  Library file;
  ASHLAR_RETURN_IF_ERROR(Library::open(soname, "matrix products need cuBLASLt 13", remedy, file));
#define ASHLAR_RT_CUBLASLT_LOOKUP(name) library.name = reinterpret_cast<decltype(&::name)>(file.find(#name));
  ASHLAR_RT_CUBLASLT_FUNCTIONS(ASHLAR_RT_CUBLASLT_LOOKUP)
#undef ASHLAR_RT_CUBLASLT_LOOKUP
  ASHLAR_RETURN_IF_ERROR(file.check());
  size_t version = library.cublasLtGetVersion();
  return version >= kNeededCublas
             ? Status()
             : unavailable("{} has version {} but matrix products need {}; {}", soname, version, kNeededCublas, remedy);
}

} // namespace ashlar::rt
