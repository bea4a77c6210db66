// SPDX-License-Identifier: Apache-2.0
//
// The entry points of cuBLASLt that the runtime calls, loaded when a program of the cuda target has a matrix product.

#ifndef ASHLAR_RUNTIME_KERNELS_CUDA_CUBLASLT_LIBRARY_H
#define ASHLAR_RUNTIME_KERNELS_CUDA_CUBLASLT_LIBRARY_H

#include "runtime/base/status.h"

#include <cublasLt.h>

namespace ashlar::rt {

// Functions of libcublasLt, one line each.
#define ASHLAR_RT_CUBLASLT_FUNCTIONS(function)                                                                                             \
  function(cublasLtCreate) function(cublasLtDestroy) function(cublasLtGetVersion) function(cublasLtGetStatusString)                        \
      function(cublasLtMatmulDescCreate) function(cublasLtMatmulDescDestroy) function(cublasLtMatmulDescSetAttribute)                      \
          function(cublasLtMatrixLayoutCreate) function(cublasLtMatrixLayoutDestroy) function(cublasLtMatrixLayoutSetAttribute)            \
              function(cublasLtMatmulPreferenceCreate) function(cublasLtMatmulPreferenceDestroy)                                           \
                  function(cublasLtMatmulPreferenceSetAttribute) function(cublasLtMatmulAlgoGetHeuristic) function(cublasLtMatmul)

// The loaded library. Members are null until load() succeeded.
struct CublasLtLibrary {
#define ASHLAR_RT_CUBLASLT_MEMBER(name) decltype(&::name) name = nullptr;
  ASHLAR_RT_CUBLASLT_FUNCTIONS(ASHLAR_RT_CUBLASLT_MEMBER)
#undef ASHLAR_RT_CUBLASLT_MEMBER

  // Loads libcublasLt and checks its version.
  static Status load(CublasLtLibrary &library, const char *soname = "libcublasLt.so.13");

  // Returns ok for success, else "WHAT: the library's message".
  Status check(cublasStatus_t result, const char *what) const {
    return result == CUBLAS_STATUS_SUCCESS ? Status() : unavailable("{}: {}", what, cublasLtGetStatusString(result));
  }
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CUDA_CUBLASLT_LIBRARY_H
