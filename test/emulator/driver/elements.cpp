// SPDX-License-Identifier: Apache-2.0
//
// Conversions between the types of elements.

#include "test/emulator/driver/elements.h"

#include "test/emulator/ptx/type.h"

#include <cmath>
#include <cstring>

namespace ashlar::emulator {

unsigned elementBytes(cudaDataType type) {
  switch (type) {
  case CUDA_R_32F:
    return 4;
  case CUDA_R_16F:
  case CUDA_R_16BF:
    return 2;
  default:
    return 0;
  }
}

float loadElement(const std::byte *at, cudaDataType type) {
  if (type == CUDA_R_32F) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  Half half;
  half.bits = bits;
  BFloat bfloat;
  bfloat.bits = bits;
  return float(type == CUDA_R_16F ? double(half) : double(bfloat));
}

void storeElement(std::byte *at, cudaDataType type, float value) {
  if (type == CUDA_R_32F) {
    std::memcpy(at, &value, sizeof value);
  } else {
    const uint16_t bits = type == CUDA_R_16F ? Half(double(value)).bits : BFloat(double(value)).bits;
    std::memcpy(at, &bits, sizeof bits);
  }
}

float roundToTf32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = std::isfinite(value) ? (bits + 0x1000) & ~uint32_t(0x1fff) : bits;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

} // namespace ashlar::emulator
