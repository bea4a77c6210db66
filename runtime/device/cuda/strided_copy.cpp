// SPDX-License-Identifier: Apache-2.0
//
// Copies within a GPU.

#include "runtime/device/cuda/strided_copy.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

// The largest pitch that the driver takes on every chip (CU_DEVICE_ATTRIBUTE_MAX_PITCH).
constexpr size_t kLargestPitch = 0x7fffffff;

constexpr const char *kWhat = "cannot start a copy on the GPU";

} // namespace

Status StridedCopy::enqueue(const DriverLibrary &cuda, CUstream stream) const {
  if (width == 0 || height == 0 || (source == target && height == 1)) {
    return Status();
  }
  if (height == 1) {
    return cuda.check(cuda.cuMemcpyDtoDAsync_v2(target, source, width, stream), kWhat);
  }
  if (std::max(sourcePitch, targetPitch) > kLargestPitch) { // rows so far apart are few
    for (size_t row = 0; row < height; ++row) {
      CUresult result = cuda.cuMemcpyDtoDAsync_v2(target + row * targetPitch, source + row * sourcePitch, width, stream);
      ASHLAR_RETURN_IF_ERROR(cuda.check(result, kWhat));
    }
    return Status();
  }
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = source;
  copy.srcPitch = sourcePitch;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = target;
  copy.dstPitch = targetPitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return cuda.check(cuda.cuMemcpy2DAsync_v2(&copy, stream), kWhat);
}

} // namespace ashlar::rt
