// SPDX-License-Identifier: Apache-2.0
//
// Which of the device codes of an image runs on a device.

#ifndef ASHLAR_RUNTIME_DEVICE_CUDA_DEVICE_CODE_H
#define ASHLAR_RUNTIME_DEVICE_CUDA_DEVICE_CODE_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"

#include <string>

namespace ashlar::rt {

// The compute capability of a device: {9, 0} for an H100.
struct Capability {
  int major = 0;
  int minor = 0;
};

// Returns the code for a device: machine code of its major version and the highest minor version that it has, else the latest PTX that is
// not later than it. `device` is its name in an error. Example: capability 8.6, codes sm_80, sm_90, compute_90 -> sm_80; 12.0 ->
// compute_90; 7.5 -> an error.
Status chooseDeviceCode(const ashlar_rt_image &image, Capability capability, const std::string &device, const ashlar_rt_device_code *&code);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DEVICE_CUDA_DEVICE_CODE_H
