// SPDX-License-Identifier: Apache-2.0
//
// Loads libmpi. Its predefined handles are addresses of objects in the library, so they are looked up like functions.

#include "runtime/comm/mpi/mpi_library.h"

#include <dlfcn.h>

namespace ashlar::rt {

Status MpiLibrary::load(MpiLibrary &library) {
  // Global: Open MPI's plug-ins look for the library's symbols in the process.
  void *handle = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    return unavailable("several hosts need Open MPI 4 but libmpi.so.40 cannot be loaded ({}); install openmpi-bin", dlerror());
  }
  const char *missing = nullptr;
  auto find = [&](const char *name) {
    void *address = dlsym(handle, name);
    missing = address == nullptr ? name : missing;
    return address;
  };
#define ASHLAR_RT_MPI_LOOKUP(name) library.name = reinterpret_cast<decltype(&::name)>(find(#name));
  ASHLAR_RT_MPI_FUNCTIONS(ASHLAR_RT_MPI_LOOKUP)
#undef ASHLAR_RT_MPI_LOOKUP
  library.commWorld = static_cast<MPI_Comm>(find("ompi_mpi_comm_world"));
  library.byte = static_cast<MPI_Datatype>(find("ompi_mpi_byte"));
  return missing == nullptr ? Status() : unavailable("libmpi.so.40 has no {}; it is not Open MPI 4", missing);
}

} // namespace ashlar::rt
