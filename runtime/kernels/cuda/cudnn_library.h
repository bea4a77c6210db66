// SPDX-License-Identifier: Apache-2.0
//
// The entry points of cuDNN's graph API that the runtime calls, loaded when a program of the cuda target has a convolution
// or an attention.

#ifndef ASHLAR_RUNTIME_KERNELS_CUDA_CUDNN_LIBRARY_H
#define ASHLAR_RUNTIME_KERNELS_CUDA_CUDNN_LIBRARY_H

#include "runtime/base/status.h"

#include <cudnn.h>

namespace ashlar::rt {

// Functions of libcudnn, one line each.
#define ASHLAR_RT_CUDNN_FUNCTIONS(function)                                                                                                \
  function(cudnnGetVersion) function(cudnnGetErrorString) function(cudnnCreate) function(cudnnDestroy) function(cudnnSetStream)            \
      function(cudnnBackendCreateDescriptor) function(cudnnBackendDestroyDescriptor) function(cudnnBackendSetAttribute)                    \
          function(cudnnBackendGetAttribute) function(cudnnBackendFinalize) function(cudnnBackendExecute)

// The loaded library. Members are null until load() succeeded.
struct CudnnLibrary {
#define ASHLAR_RT_CUDNN_MEMBER(name) decltype(&::name) name = nullptr;
  ASHLAR_RT_CUDNN_FUNCTIONS(ASHLAR_RT_CUDNN_MEMBER)
#undef ASHLAR_RT_CUDNN_MEMBER

  // Loads libcudnn and checks its version; `what` needs it.
  static Status load(CudnnLibrary &library, const char *what, const char *soname = "libcudnn.so.9");

  // Returns ok for success, else "WHAT: the library's message".
  Status check(cudnnStatus_t result, const char *what) const {
    return result == CUDNN_STATUS_SUCCESS ? Status() : unavailable("{}: {}", what, cudnnGetErrorString(result));
  }
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CUDA_CUDNN_LIBRARY_H
