// SPDX-License-Identifier: Apache-2.0
//
// The emulator's device as the runtime sees it, with memory for the operands of library calls, and settings of the environment.

#ifndef ASHLAR_TEST_UNIT_KERNELS_CUDA_EMULATED_DEVICE_H
#define ASHLAR_TEST_UNIT_KERNELS_CUDA_EMULATED_DEVICE_H

#include "runtime/base/half.h"
#include "runtime/device/cuda/device.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace ashlar::test {

// Sets a variable of the environment until the end of the scope.
class Setting {
public:
  Setting(std::string name, const std::string &value) : name(std::move(name)) { setenv(this->name.c_str(), value.c_str(), 1); }
  ~Setting() { unsetenv(name.c_str()); }
  Setting(const Setting &) = delete;

private:
  std::string name;
};

// One device, opened once for all cases of the process.
struct EmulatedDevice {
  EmulatedDevice() {
    int count = 0;
    REQUIRE(device.load(count).message() == "");
    REQUIRE(device.open(/*ordinal=*/0).message() == "");
    REQUIRE(device.createStream(stream).message() == "");
    REQUIRE(device.createEvent(event).message() == "");
  }

  static EmulatedDevice &get() {
    static EmulatedDevice one;
    return one;
  }

  CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr address = 0;
    REQUIRE(device.allocate(bytes, "a test", address).message() == "");
    return address;
  }

  void wait() {
    REQUIRE(device.driver().cuEventRecord(event, stream) == CUDA_SUCCESS);
    REQUIRE(device.wait(event).message() == "");
  }

  // Values between -1 and 1, other ones for each seed, as f32, bf16 or f16.
  CUdeviceptr values(uint32_t dtype, size_t count, uint32_t seed) {
    std::vector<char> bytes;
    for (size_t i = 0; i < count; ++i) {
      seed = seed * 1664525 + 1013904223;
      const float value = static_cast<float>(static_cast<int32_t>(seed >> 8) - (1 << 23)) * 0x1p-23f;
      const rt::Bf16 bf16(value);
      const rt::F16 f16(value);
      const char *from = dtype == ASHLAR_RT_F32    ? reinterpret_cast<const char *>(&value)
                         : dtype == ASHLAR_RT_BF16 ? reinterpret_cast<const char *>(&bf16)
                                                   : reinterpret_cast<const char *>(&f16);
      bytes.insert(bytes.end(), from, from + (dtype == ASHLAR_RT_F32 ? 4 : 2));
    }
    CUdeviceptr address = allocate(bytes.size());
    REQUIRE(device.driver().cuMemcpyHtoDAsync_v2(address, bytes.data(), bytes.size(), stream) == CUDA_SUCCESS);
    return address;
  }

  std::vector<char> download(CUdeviceptr address, size_t bytes) {
    std::vector<char> result(bytes);
    REQUIRE(device.driver().cuMemcpyDtoHAsync_v2(result.data(), address, bytes, stream) == CUDA_SUCCESS);
    wait();
    return result;
  }

  std::vector<float> downloadFloats(CUdeviceptr address, size_t count) {
    std::vector<float> result(count);
    std::memcpy(result.data(), download(address, count * sizeof(float)).data(), count * sizeof(float));
    return result;
  }

  rt::CudaDevice device;
  CUstream stream = nullptr;
  CUevent event = nullptr;
};

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_KERNELS_CUDA_EMULATED_DEVICE_H
