// SPDX-License-Identifier: Apache-2.0
//
// The fixed reduction tree.

#include "runtime/comm/reduce.h"

#include "runtime/base/half.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace ashlar::test::reduce_test {

using namespace ashlar::rt;

namespace {

template <typename T> std::vector<T> reduceAll(uint32_t dtype, uint32_t reduction, const std::vector<std::vector<T>> &inputs) {
  Reducer reducer;
  REQUIRE(Reducer::create(dtype, reduction, reducer).ok());
  std::vector<const char *> pointers;
  for (const std::vector<T> &input : inputs) {
    pointers.push_back(reinterpret_cast<const char *>(input.data()));
  }
  std::vector<T> out(inputs[0].size());
  char *target = reinterpret_cast<char *>(out.data());
  reducer.run(pointers.data(), pointers.size(), 0, &target, 1, 0, out.size() * sizeof(T));
  return out;
}

} // namespace

TEST_CASE("reduce: eight values in the documented tree, bit by bit", "[runtime][reduce]") {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> in(8, std::vector<float>(3001));
  for (auto &row : in) {
    for (float &value : row) {
      value = normal(random);
    }
  }
  std::vector<float> out = reduceAll<float>(ASHLAR_RT_F32, ASHLAR_RT_SUM, in);
  for (size_t i = 0; i < out.size(); ++i) {
    float left = (in[0][i] + in[1][i]) + (in[2][i] + in[3][i]);
    float right = (in[4][i] + in[5][i]) + (in[6][i] + in[7][i]);
    REQUIRE(out[i] == left + right);
  }
}

TEST_CASE("reduce: three and five members halve with the larger part first", "[runtime][reduce]") {
  // 1e8 + 1 - 1e8 tells the order: the 1 is lost unless the large ones meet first.
  float big = 1e8f;
  CHECK(reduceAll<float>(ASHLAR_RT_F32, ASHLAR_RT_SUM, {{big}, {-big}, {1}})[0] == 1.0f);
  CHECK(reduceAll<float>(ASHLAR_RT_F32, ASHLAR_RT_SUM, {{1}, {big}, {-big}})[0] == 0.0f);
  CHECK(reduceAll<float>(ASHLAR_RT_F32, ASHLAR_RT_SUM, {{0}, {0}, {1}, {big}, {-big}})[0] == 1.0f);
}

TEST_CASE("reduce: NaN wins in max and min", "[runtime][reduce]") {
  float nan = std::numeric_limits<float>::quiet_NaN();
  for (uint32_t reduction : {ASHLAR_RT_MAX, ASHLAR_RT_MIN}) {
    CHECK(std::isnan(reduceAll<float>(ASHLAR_RT_F32, reduction, {{1}, {nan}})[0]));
    CHECK(std::isnan(reduceAll<float>(ASHLAR_RT_F32, reduction, {{nan}, {1}})[0]));
  }
}

TEST_CASE("reduce: a sum of bool is or; integers wrap", "[runtime][reduce]") {
  CHECK(reduceAll<uint8_t>(ASHLAR_RT_BOOL, ASHLAR_RT_SUM, {{0, 1, 1, 0}, {0, 0, 1, 1}}) == std::vector<uint8_t>{0, 1, 1, 1});
  int32_t most = std::numeric_limits<int32_t>::max();
  CHECK(reduceAll<int32_t>(ASHLAR_RT_I32, ASHLAR_RT_SUM, {{most}, {1}})[0] == std::numeric_limits<int32_t>::min());
  CHECK(reduceAll<int64_t>(ASHLAR_RT_I64, ASHLAR_RT_MIN, {{-5}, {3}})[0] == -5);
  CHECK(reduceAll<int8_t>(ASHLAR_RT_I8, ASHLAR_RT_SUM, {{100, 1}, {100, 2}, {-1, 3}}) == std::vector<int8_t>{-57, 6});
  CHECK(reduceAll<int8_t>(ASHLAR_RT_I8, ASHLAR_RT_MAX, {{-5}, {3}})[0] == 3);
  CHECK(reduceAll<uint8_t>(ASHLAR_RT_U8, ASHLAR_RT_SUM, {{200}, {100}})[0] == 44);
  CHECK(reduceAll<uint8_t>(ASHLAR_RT_U8, ASHLAR_RT_MAX, {{200}, {3}})[0] == 200);
  CHECK(reduceAll<int16_t>(ASHLAR_RT_I16, ASHLAR_RT_SUM, {{30000}, {10000}})[0] == -25536);
  CHECK(reduceAll<int16_t>(ASHLAR_RT_I16, ASHLAR_RT_MIN, {{-5}, {3}})[0] == -5);
  CHECK(reduceAll<uint16_t>(ASHLAR_RT_U16, ASHLAR_RT_MIN, {{65535}, {3}})[0] == 3);
  CHECK(reduceAll<uint32_t>(ASHLAR_RT_U32, ASHLAR_RT_MAX, {{4000000000u}, {3}})[0] == 4000000000u);
  uint64_t large = std::numeric_limits<uint64_t>::max();
  CHECK(reduceAll<uint64_t>(ASHLAR_RT_U64, ASHLAR_RT_MAX, {{large}, {3}})[0] == large);
  CHECK(reduceAll<uint64_t>(ASHLAR_RT_U64, ASHLAR_RT_SUM, {{large}, {3}})[0] == 2);
}

TEST_CASE("reduce: bf16 and f16 are rounded after each sum of two", "[runtime][reduce]") {
  // 256 + 1 is no bf16 and 2048 + 1 no f16: both ties go to even, and the ones meet first only on the right.
  auto sum = [](auto one, uint32_t dtype, std::vector<float> values) {
    using T = decltype(one);
    std::vector<std::vector<T>> inputs;
    for (float value : values) {
      inputs.push_back({T(value)});
    }
    return static_cast<float>(reduceAll<T>(dtype, ASHLAR_RT_SUM, inputs)[0]);
  };
  CHECK(sum(Bf16(), ASHLAR_RT_BF16, {256, 1, 1, 1}) == 258);
  CHECK(sum(Bf16(), ASHLAR_RT_BF16, {256, 1, 1}) == 256);
  CHECK(sum(F16(), ASHLAR_RT_F16, {2048, 1, 1, 1}) == 2050);
  CHECK(sum(F16(), ASHLAR_RT_F16, {65504, 32}) == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(static_cast<float>(reduceAll<Bf16>(ASHLAR_RT_BF16, ASHLAR_RT_MAX, {{Bf16(1)}, {Bf16(NAN)}})[0])));
  CHECK(static_cast<float>(reduceAll<F16>(ASHLAR_RT_F16, ASHLAR_RT_MIN, {{F16(3)}, {F16(-2)}})[0]) == -2);
}

TEST_CASE("reduce: unknown types and reductions are refused", "[runtime][reduce]") {
  Reducer reducer;
  CHECK(Reducer::create(99, ASHLAR_RT_SUM, reducer).message() == "cannot reduce elements of unknown type 99");
  CHECK_FALSE(Reducer::create(ASHLAR_RT_F32, 9, reducer).ok());
}

} // namespace ashlar::test::reduce_test
