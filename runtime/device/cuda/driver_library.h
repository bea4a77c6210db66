// SPDX-License-Identifier: Apache-2.0
//
// The entry points of the CUDA driver that the runtime calls, loaded when an executable of the cuda target starts.

#ifndef ASHLAR_RUNTIME_DEVICE_CUDA_DRIVER_LIBRARY_H
#define ASHLAR_RUNTIME_DEVICE_CUDA_DRIVER_LIBRARY_H

#include "runtime/base/status.h"

#include <cuda.h>

namespace ashlar::rt {

// Functions of libcuda, one line each, by the name of the symbol.
#define ASHLAR_RT_CUDA_FUNCTIONS(function)                                                                                                 \
  function(cuInit) function(cuDriverGetVersion) function(cuDeviceGetCount) function(cuDeviceGet) function(cuDeviceGetName)                 \
      function(cuDeviceGetAttribute) function(cuDevicePrimaryCtxRetain) function(cuDevicePrimaryCtxRelease_v2) function(cuCtxSetCurrent)   \
          function(cuModuleLoadDataEx) function(cuModuleGetFunction) function(cuModuleUnload) function(cuMemAlloc_v2)                      \
              function(cuMemFree_v2) function(cuMemGetInfo_v2) function(cuMemHostAlloc) function(cuMemFreeHost)                            \
                  function(cuMemHostRegister_v2) function(cuMemHostUnregister) function(cuMemHostGetDevicePointer_v2)                      \
                      function(cuMemcpyHtoDAsync_v2) function(cuMemcpyDtoHAsync_v2) function(cuMemcpyDtoDAsync_v2)                         \
                          function(cuMemcpy2DAsync_v2) function(cuMemsetD8Async) function(cuMemsetD32Async)                                \
                              function(cuStreamCreateWithPriority) function(cuStreamDestroy_v2) function(cuStreamQuery)                    \
                                  function(cuStreamWaitEvent) function(cuStreamBeginCapture_v2) function(cuStreamEndCapture)               \
                                      function(cuEventCreate) function(cuEventDestroy_v2) function(cuEventRecord) function(cuEventQuery)   \
                                          function(cuEventElapsedTime_v2) function(cuLaunchKernel) function(cuGraphInstantiateWithFlags)   \
                                              function(cuGraphLaunch) function(cuGraphExecDestroy) function(cuGraphDestroy)                \
                                                  function(cuGetErrorName) function(cuGetErrorString)

// The loaded driver. Members are null until load() succeeded.
struct DriverLibrary {
#define ASHLAR_RT_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  ASHLAR_RT_CUDA_FUNCTIONS(ASHLAR_RT_CUDA_MEMBER)
#undef ASHLAR_RT_CUDA_MEMBER

  // Loads the driver, checks its version and initialises it.
  static Status load(DriverLibrary &library, const char *soname = "libcuda.so.1");

  // Returns ok for CUDA_SUCCESS, else "WHAT: CUDA_ERROR_... (the driver's message)". Allocates nothing while ok.
  Status check(CUresult result, const char *what) const { return result == CUDA_SUCCESS ? Status() : failure(result, what); }

  // The failure that check() returns.
  Status failure(CUresult result, const std::string &what) const;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DEVICE_CUDA_DRIVER_LIBRARY_H
