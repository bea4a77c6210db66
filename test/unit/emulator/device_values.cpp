// SPDX-License-Identifier: Apache-2.0
//
// Copies to and from the device.

#include "test/unit/emulator/device_values.h"

#include "test/emulator/ptx/type.h"

#include <catch2/catch.hpp>

#include <random>

namespace ashlar::emulator {
namespace {

float valueOf(uint16_t bits, cudaDataType type) {
  Half half;
  half.bits = bits;
  BFloat bfloat;
  bfloat.bits = bits;
  return float(type == CUDA_R_16F ? double(half) : double(bfloat));
}

} // namespace

void enterDevice() {
  CUcontext context;
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

CUdeviceptr upload(const void *data, size_t bytes) {
  CUdeviceptr address;
  REQUIRE(cuMemAlloc(&address, bytes) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyHtoDAsync(address, data, bytes, nullptr) == CUDA_SUCCESS);
  return address;
}

Values::Values(size_t count, cudaDataType type, int seed) : type(type), floats(count) {
  std::mt19937 random{unsigned(seed)};
  std::vector<uint16_t> halves(count);
  for (size_t i = 0; i < count; ++i) {
    const double value = std::uniform_real_distribution<double>(-1, 1)(random);
    halves[i] = type == CUDA_R_16F ? Half(value).bits : BFloat(value).bits;
    floats[i] = type == CUDA_R_32F ? float(value) : valueOf(halves[i], type);
  }
  device = type == CUDA_R_32F ? upload(floats.data(), 4 * count) : upload(halves.data(), 2 * count);
}

void Values::download() {
  std::vector<uint16_t> halves(floats.size());
  if (type == CUDA_R_32F) {
    REQUIRE(cuMemcpyDtoHAsync(floats.data(), device, 4 * floats.size(), nullptr) == CUDA_SUCCESS);
    return;
  }
  REQUIRE(cuMemcpyDtoHAsync(halves.data(), device, 2 * floats.size(), nullptr) == CUDA_SUCCESS);
  for (size_t i = 0; i < floats.size(); ++i) {
    floats[i] = valueOf(halves[i], type);
  }
}

} // namespace ashlar::emulator
