// SPDX-License-Identifier: Apache-2.0
//
// What computing costs.

#include "dialects/dist/device_rates.h"

#include "dialects/dist/costs.h"

using namespace mlir;

namespace ashlar::dist {

int64_t DeviceRates::timePs(int64_t flops, int64_t narrowFlops, int64_t bytes) const {
  constexpr __int128 kPsPerUs = 1000000;
  __int128 computing = flops * kPsPerUs / flopsPerUs + narrowFlops * kPsPerUs / narrowFlopsPerUs;
  __int128 moving = bytes * kPsPerUs / bytesPerUs;
  return static_cast<int64_t>(std::min(std::max(computing, moving), __int128(kMostTimePs)));
}

DeviceRates findDeviceRates(ModuleOp module) {
  auto attribute = module->getAttrOfType<DeviceAttr>(kDeviceAttr);
  return attribute ? DeviceRates{attribute.getFlopsPerUs(), attribute.getNarrowFlopsPerUs(), attribute.getBytesPerUs()} : DeviceRates();
}

} // namespace ashlar::dist
