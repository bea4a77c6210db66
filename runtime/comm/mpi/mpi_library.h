// SPDX-License-Identifier: Apache-2.0
//
// The entry points of libmpi that the runtime calls, loaded when a job has more than one host: an executable starts where MPI is absent.
// The ABI is Open MPI 4 (libmpi.so.40).

#ifndef ASHLAR_RUNTIME_COMM_MPI_MPI_LIBRARY_H
#define ASHLAR_RUNTIME_COMM_MPI_MPI_LIBRARY_H

#include "runtime/base/status.h"

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

namespace ashlar::rt {

// Functions of libmpi, one line each.
#define ASHLAR_RT_MPI_FUNCTIONS(function)                                                                                                  \
  function(MPI_Abort) function(MPI_Finalize) function(MPI_Iallgather) function(MPI_Init_thread) function(MPI_Iprobe) function(MPI_Irecv)   \
      function(MPI_Isend) function(MPI_Recv) function(MPI_Request_free) function(MPI_Test) function(MPI_Testall)

// The loaded library. Members are null until load() succeeded.
struct MpiLibrary {
#define ASHLAR_RT_MPI_MEMBER(name) decltype(&::name) name = nullptr;
  ASHLAR_RT_MPI_FUNCTIONS(ASHLAR_RT_MPI_MEMBER)
#undef ASHLAR_RT_MPI_MEMBER
  MPI_Comm commWorld = nullptr;
  MPI_Datatype byte = nullptr;

  // Loads libmpi and looks up everything above.
  static Status load(MpiLibrary &library);
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_MPI_MPI_LIBRARY_H
