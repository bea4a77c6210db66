// SPDX-License-Identifier: Apache-2.0
//
// What a device computes and moves in a microsecond. Where the numbers come from is not known here; they stand on the module.

#ifndef ASHLAR_DIALECTS_DIST_DEVICE_RATES_H
#define ASHLAR_DIALECTS_DIST_DEVICE_RATES_H

#include "dialects/dist/dist.h"

namespace ashlar::dist {

// The default, for a module that says nothing, makes an operation free and a byte a nanosecond.
struct DeviceRates {
  int64_t flopsPerUs = INT64_MAX;       // additions and multiplications of f32
  int64_t narrowFlopsPerUs = INT64_MAX; // of bf16 and f16 in products
  int64_t bytesPerUs = 1000;            // of memory, read or written

  // Returns the time of arithmetic beside the memory that it needs, in picoseconds: the longer of both. At most kMostTimePs.
  int64_t timePs(int64_t flops, int64_t narrowFlops, int64_t bytes) const;
};

// Returns the rates that stand on a module (kDeviceAttr), or the default.
DeviceRates findDeviceRates(mlir::ModuleOp module);

} // namespace ashlar::dist

#endif // ASHLAR_DIALECTS_DIST_DEVICE_RATES_H
