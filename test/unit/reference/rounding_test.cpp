// SPDX-License-Identifier: Apache-2.0
//
// Numbers of reference tensors as bf16: against APFloat.

#include "dialects/support/reference_tensor.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <random>

namespace ashlar::test::rounding_test {

using llvm::APFloat;

namespace {

mlir::FloatType bf16() {
  return mlir::BFloat16Type::get(&context());
}

double rounded(double value) {
  APFloat converted(value);
  bool losesInfo = false;
  converted.convert(APFloat::BFloat(), APFloat::rmNearestTiesToEven, &losesInfo);
  return converted.convertToDouble();
}

// Whether two numbers are one: NaN is itself, and zeros have signs.
bool areEqual(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

} // namespace

TEST_CASE("reference: each bf16 is read", "[reference]") {
  for (uint64_t bits = 0; bits < 65536; ++bits) {
    INFO(bits);
    REQUIRE(areEqual(reference::floatOfBits(bf16(), bits), APFloat(APFloat::BFloat(), llvm::APInt(16, bits)).convertToDouble()));
  }
}

TEST_CASE("reference: numbers are rounded to the nearest bf16, of two to the even one", "[reference]") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 100000; ++round) {
    // An f32 of any size, every second one in the middle between two bf16; and a number that is no f32.
    const auto bits = static_cast<uint32_t>(random()), middle = (bits & 0xffff0000U) | 0x8000U;
    const double single = llvm::bit_cast<float>(round % 2 == 0 ? bits : middle);
    INFO(single);
    REQUIRE(areEqual(reference::roundTo(bf16(), single), rounded(single)));
    REQUIRE(areEqual(reference::roundTo(bf16(), single * (1 + 1e-12)), rounded(single * (1 + 1e-12))));
  }
}

} // namespace ashlar::test::rounding_test
