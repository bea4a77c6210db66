// SPDX-License-Identifier: Apache-2.0
//
// A copy within a GPU: `height` rows of `width` bytes, the rows so many bytes apart on either side.

#ifndef ASHLAR_RUNTIME_DEVICE_CUDA_STRIDED_COPY_H
#define ASHLAR_RUNTIME_DEVICE_CUDA_STRIDED_COPY_H

#include "runtime/device/cuda/driver_library.h"

namespace ashlar::rt {

// Source and target do not overlap. A height of 1 is a plain copy; the pitches do not matter then.
struct StridedCopy {
  CUdeviceptr source = 0;
  CUdeviceptr target = 0;
  size_t width = 0;
  size_t height = 1;
  size_t sourcePitch = 0;
  size_t targetPitch = 0;

  // Puts the copy on a stream. Allocates nothing.
  Status enqueue(const DriverLibrary &cuda, CUstream stream) const;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DEVICE_CUDA_STRIDED_COPY_H
