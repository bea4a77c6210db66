// SPDX-License-Identifier: Apache-2.0
//
// The common part of the probes of library calls: numbers whose sums are exact in f32 whatever their order, the device, and the report.
//
// A left number has as many significant bits as its type must keep (f32 12, which tf32 would round; tf32 11, bf16 8, f16 11), a right one
// is -1, 0 or 1. So a product is a multiple of 2^-12, a sum of 16384 of them has some 20 bits, and a result in f32 that differs at all is
// wrong.

#ifndef ASHLAR_TEST_BENCH_CUDA_PROBE_H
#define ASHLAR_TEST_BENCH_CUDA_PROBE_H

#include "runtime/base/dtype.h"
#include "runtime/base/half.h"
#include "runtime/device/cuda/device.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace ashlar::bench {

// Numbers repeat after so many, a prime: no row of a matrix is like another one near it.
constexpr int64_t kPeriod = 1000003;

inline uint32_t hashOf(int64_t index) {
  uint64_t value = static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15 + 0x7f4a7c15;
  value = (value ^ value >> 29) * 0xbf58476d1ce4e5b9;
  return static_cast<uint32_t>(value >> 32);
}

// Returns kPeriod left numbers of so many significant bits: odd multiples of 2^-bits between 1/2 and 1, of both signs.
inline std::vector<float> leftNumbers(int bits) {
  std::vector<float> numbers(kPeriod);
  for (int64_t i = 0; i < kPeriod; ++i) {
    const uint32_t hash = hashOf(i), odd = (1U << (bits - 1)) + 1 + 2 * (hash % (1U << (bits - 2)));
    numbers[static_cast<size_t>(i)] = std::ldexp(static_cast<float>(odd), -bits) * ((hash >> 31) != 0 ? -1 : 1);
  }
  return numbers;
}

inline std::vector<float> rightNumbers() {
  std::vector<float> numbers(kPeriod);
  for (int64_t i = 0; i < kPeriod; ++i) {
    numbers[static_cast<size_t>(i)] = static_cast<float>(static_cast<int>(hashOf(i + kPeriod) % 3) - 1);
  }
  return numbers;
}

// Returns the significant bits that a type must keep, f32 with or without tf32.
inline int bitsOf(uint32_t dtype, bool tf32) {
  return dtype == ASHLAR_RT_BF16 ? 8 : dtype == ASHLAR_RT_F16 || tf32 ? 11 : 12;
}

inline std::vector<char> stored(const std::vector<float> &values, uint32_t dtype) {
  std::vector<char> bytes(values.size() * rt::dtypeBytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    const rt::Bf16 bf16(values[i]);
    const rt::F16 f16(values[i]);
    const void *from = dtype == ASHLAR_RT_F32    ? static_cast<const void *>(&values[i])
                       : dtype == ASHLAR_RT_BF16 ? static_cast<const void *>(&bf16)
                                                 : &f16;
    std::memcpy(&bytes[i * rt::dtypeBytes(dtype)], from, rt::dtypeBytes(dtype));
  }
  return bytes;
}

inline double loaded(const char *bytes, size_t index, uint32_t dtype) {
  const char *at = bytes + index * rt::dtypeBytes(dtype);
  float f32;
  rt::Bf16 bf16;
  rt::F16 f16;
  switch (dtype) {
  case ASHLAR_RT_F32:
    std::memcpy(&f32, at, sizeof(f32));
    return static_cast<double>(f32);
  case ASHLAR_RT_BF16:
    std::memcpy(&bf16, at, sizeof(bf16));
    return static_cast<double>(static_cast<float>(bf16));
  default:
    std::memcpy(&f16, at, sizeof(f16));
    return static_cast<double>(static_cast<float>(f16));
  }
}

// Returns how far a result may be from an exact one: not at all in f32, a unit in the last place in 16 bits.
inline double allowance(uint32_t dtype, double exact) {
  return dtype == ASHLAR_RT_F32 ? 0 : std::fabs(exact) * (dtype == ASHLAR_RT_BF16 ? 0x1p-8 : 0x1p-11) * 1.01;
}

struct ProbeDevice {
  rt::CudaDevice device;
  CUstream stream = nullptr;
  CUevent event = nullptr;

  rt::Status open() {
    int count = 0;
    ASHLAR_RETURN_IF_ERROR(device.load(count));
    ASHLAR_RETURN_IF_ERROR(device.open(/*ordinal=*/0));
    ASHLAR_RETURN_IF_ERROR(device.createStream(stream));
    return device.createEvent(event);
  }

  rt::Status wait() {
    ASHLAR_RETURN_IF_ERROR(device.driver().check(device.driver().cuEventRecord(event, stream), "cannot record an event"));
    return device.wait(event);
  }

  // Fills memory with numbers that repeat after kPeriod of them.
  rt::Status fill(CUdeviceptr address, size_t bytes, const std::vector<char> &period) {
    const rt::DriverLibrary &cuda = device.driver();
    size_t done = std::min(bytes, period.size());
    ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuMemcpyHtoDAsync_v2(address, period.data(), done, stream), "cannot copy to the GPU"));
    for (size_t more = 0; done < bytes; done += more) {
      more = std::min(done, bytes - done);
      ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuMemcpyDtoDAsync_v2(address + done, address, more, stream), "cannot copy on the GPU"));
    }
    return wait();
  }

  // Fills memory with NaNs, so that missing writes are seen.
  rt::Status spoil(CUdeviceptr address, size_t bytes) {
    return device.driver().check(device.driver().cuMemsetD8Async(address, 0xff, bytes, stream), "cannot fill memory of the GPU");
  }

  rt::Status download(CUdeviceptr address, std::vector<char> &bytes) {
    const rt::DriverLibrary &cuda = device.driver();
    ASHLAR_RETURN_IF_ERROR(wait());
    ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuMemcpyDtoHAsync_v2(bytes.data(), address, bytes.size(), stream), "cannot copy from the GPU"));
    return wait();
  }
};

// Lines of a probe: refusals first.
struct ProbeReport {
  std::vector<std::string> refused, wrong, noted;
  int right = 0;

  // Prints it, and returns the exit status: 1 where something was computed wrong.
  int print() const {
    for (const std::vector<std::string> *lines : {&refused, &wrong, &noted}) {
      for (const std::string &line : *lines) {
        fmt::print("{}\n", line);
      }
    }
    fmt::print("{} right, {} refused, {} wrong\n", right, refused.size(), wrong.size());
    return wrong.empty() ? 0 : 1;
  }
};

// Runs a probe with its report, and returns the exit status: 77 without a GPU, 1 where the library failed or computed wrong numbers.
template <typename Probe> int runProbe(Probe &probe) {
  if (rt::Status opened = probe.open(); !opened.ok()) {
    fmt::print("not run: {}\n", opened.message());
    return 77;
  }
  const rt::Status status = probe.run();
  const int result = probe.report.print();
  if (!status.ok()) {
    std::fflush(stdout);
    fmt::print(stderr, "error: {}\n", status.message());
  }
  return status.ok() ? result : 1;
}

} // namespace ashlar::bench

#endif // ASHLAR_TEST_BENCH_CUDA_PROBE_H
