// SPDX-License-Identifier: Apache-2.0
//
// --check-numerics: where the first NaN is.

#include "runtime/launch/numerics.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <vector>

namespace {

using namespace ashlar::rt;

TEST_CASE("numerics: NaN is found in every floating-point type, infinity is none", "[runtime][numerics]") {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> single = {1, inf, -inf, -std::nanf(""), std::nanf("")};
  CHECK(findNan(ASHLAR_RT_F32, single.data(), 20) == 3);
  CHECK(findNan(ASHLAR_RT_F32, single.data(), 12) == -1);
  std::vector<double> wide = {-inf, std::nan("")};
  CHECK(findNan(ASHLAR_RT_F64, wide.data(), 16) == 1);
  const uint16_t half[] = {0x7c00, 0xfc00, 0x7c01};
  CHECK(findNan(ASHLAR_RT_F16, half, 6) == 2);
  CHECK(findNan(ASHLAR_RT_BF16, half, 6) == -1);
  const uint16_t brain[] = {0x7f80, 0xff80, 0xffc0};
  CHECK(findNan(ASHLAR_RT_BF16, brain, 6) == 2);
  CHECK(findNan(ASHLAR_RT_I32, single.data(), 20) == -1);
}

} // namespace
