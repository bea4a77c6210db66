// SPDX-License-Identifier: Apache-2.0
//
// What the code computes: kernels written by hand, through libdevice, the optimiser and PTX, run by the emulator's machine.

#include "test/unit/cuda/hand_kernels.h"
#include "test/unit/emulator/ptx_run.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

namespace ashlar::test::run_test {

using emulator::PtxRun;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// Numbers around 0 of all magnitudes, then the ones that are not like others.
std::vector<float> someFloats() {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> mantissa(-1, 1), exponent(-12, 6);
  std::vector<float> values = {0.0f, -0.0f, 1.0f, kInfinity, -kInfinity, kNan, 1e-40f, -90.0f, -100.0f, 90.0f, 3e38f};
  while (values.size() < test::kElements) {
    values.push_back(std::ldexp(mantissa(random), static_cast<int>(exponent(random))));
  }
  return values;
}

template <class T> std::vector<T> runElementwise(const std::string &body, const std::string &type, const std::vector<T> &x) {
  PtxRun run(test::ptxOf(test::elementwise(body, type)));
  uint64_t y = run.allocate<T>(x.size());
  run.run("loop_0", test::kBlocks, test::kThreads, run.upload(x), y);
  return run.download<T>(y, x.size());
}

// Checks y = f(x) to `units` of the last place of an f32, of subnormal ones too, where f is in f64.
template <class F> void checkFunction(const std::string &op, double units, F f) {
  std::vector<float> x = someFloats(), y = runElementwise<float>("%y = " + op + " %x : f32", "f32", x);
  for (size_t i = 0; i < x.size(); ++i) {
    double expected = f(static_cast<double>(x[i]));
    INFO(op << " of " << x[i] << " is " << y[i] << ", expected " << expected);
    bool overflows = std::fabs(expected) > std::numeric_limits<float>::max();
    if (std::isnan(expected) || overflows) {
      CHECK((std::isnan(expected) ? std::isnan(y[i]) : y[i] == std::copysign(kInfinity, static_cast<float>(expected))));
      continue;
    }
    double place = std::max(std::ldexp(1.0, std::ilogb(expected == 0 ? 0x1p-126 : expected) - 23), 0x1p-149);
    CHECK(std::fabs(y[i] - expected) <= units * place);
  }
}

} // namespace

// The bounds are those of the CUDA guide, and half a unit for what is rounded correctly.
TEST_CASE("code: functions are as accurate as the guide says", "[cuda][run]") {
  checkFunction("math.exp", 2, [](double x) { return std::exp(x); });
  checkFunction("math.log", 1, [](double x) { return std::log(x); });
  checkFunction("math.tanh", 2, [](double x) { return std::tanh(x); });
  checkFunction("math.erf", 2, [](double x) { return std::erf(x); });
  checkFunction("math.sqrt", 0.5, [](double x) { return std::sqrt(x); });
}

TEST_CASE("code: a quotient is rounded correctly, for all divisors", "[cuda][run]") {
  std::vector<float> x = someFloats();
  std::vector<float> y =
      runElementwise<float>("%t = arith.addf %x, %x : f32\n%u = math.absf %x : f32\n%y = arith.divf %u, %t : f32", "f32", x);
  for (size_t i = 0; i < x.size(); ++i) {
    float expected = std::fabs(x[i]) / (x[i] + x[i]);
    INFO(x[i]);
    CHECK((std::isnan(expected) ? std::isnan(y[i]) : y[i] == expected));
  }
}

TEST_CASE("code: bf16 is rounded to even, NaN stays", "[cuda][run]") {
  // x + 1 for x = n / 256: between 1 and 2 a bf16 has 7 bits, so every second n is half way between two of them.
  std::vector<uint16_t> x(test::kElements);
  for (size_t i = 0; i < x.size(); ++i) {
    float value = static_cast<float>(i % 256) / 256;
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    x[i] = static_cast<uint16_t>(bits >> 16);
  }
  x.back() = 0x7fc0;
  std::string body = "%t = arith.extf %x : bf16 to f32\n%v = arith.constant 1.0 : f32\n%u = arith.addf %t, %v : f32\n"
                     "%y = arith.truncf %u : f32 to bf16";
  std::vector<uint16_t> y = runElementwise<uint16_t>(body, "bf16", x);
  for (size_t i = 0; i + 1 < x.size(); ++i) {
    unsigned n = i % 256;
    unsigned places = n / 2 + (n % 2 == 1 && n / 2 % 2 == 1); // of 1 / 128
    INFO(n);
    CHECK(y[i] == 0x3f80 + places);
  }
  CHECK((y.back() & 0x7fff) > 0x7f80);
}

TEST_CASE("code: bits of f16 and bf16 are taken and made", "[cuda][run]") {
  std::vector<uint16_t> x(test::kElements);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<uint16_t>(i * 37);
  }
  x[0] = 0x8000;
  for (const std::string type : {"f16", "bf16"}) {
    const std::string taken = "%t0 = arith.extf %x : " + type + " to f32\n%t1 = arith.negf %t0 : f32\n%t2 = arith.truncf %t1 : f32 to " +
                              type + "\n%t3 = arith.bitcast %t2 : " + type +
                              " to i16\n%u = arith.constant 1 : i16\n%t4 = arith.xori %t3, %u : i16\n";
    const std::string made =
        "%t5 = arith.bitcast %t4 : i16 to " + type + "\n%t6 = arith.extf %t5 : " + type + " to f32\n%y = arith.truncf %t6 : f32 to " + type;
    std::vector<uint16_t> y = runElementwise<uint16_t>(taken + made, type, x);
    const unsigned infinity = type == "f16" ? 0x7c00 : 0x7f80;
    for (size_t i = 0; i < x.size(); ++i) {
      INFO(type << " of bits " << x[i]);
      bool isInfinite = (x[i] & 0x7fff) == infinity, isNan = (x[i] & 0x7fff) > infinity; // the other bit makes a NaN of infinity
      CHECK((isNan || isInfinite ? (y[i] & 0x7fffU) >= infinity : y[i] == (x[i] ^ 0x8001)));
    }
  }
}

TEST_CASE("code: a product that is rounded to 16 bits stays so as a term of a sum", "[cuda][run]") {
  // -2.5 * 0.19995 is half way between two f16 and becomes -0.5. A fused multiply-add would give 2^-13.
  std::vector<uint16_t> x(test::kElements, 0xc100);
  std::string body = "%ta = arith.extf %x : f16 to f32\n%tb = arith.constant 0.199951171875 : f32\n%tc = arith.mulf %ta, %tb : f32\n"
                     "%td = arith.truncf %tc : f32 to f16\n%te = arith.extf %td : f16 to f32\n%tf = arith.constant 0.5 : f32\n"
                     "%tg = arith.addf %te, %tf fastmath<reassoc,nsz> : f32\n%y = arith.truncf %tg : f32 to f16";
  CHECK((runElementwise<uint16_t>(body, "f16", x)[0] & 0x7fff) == 0);
}

TEST_CASE("code: a row is summed by shuffles of 64 bits and shared memory, with indices of either width", "[cuda][run]") {
  std::mt19937 random(5);
  std::vector<double> x(test::kRowCount * test::kRowElements), expected(test::kRowCount, 7);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<int>(random() % 2000) - 1000; // sums are exact
    expected[i / test::kRowElements] += x[i];
  }
  for (bool wide : {false, true}) {
    INFO(wide);
    std::string ptx = test::ptxOf(test::rowSums(wide));
    for (uint64_t seed : {1, 2, 3}) { // orders of the warps
      PtxRun run(ptx, seed);
      uint64_t sums = run.allocate<double>(test::kRowCount);
      run.run("rows_0", test::kRowCount, test::kRowElements, run.upload(x), sums, run.upload(std::vector<int64_t>{7}));
      CHECK(run.download<double>(sums, test::kRowCount) == expected);
    }
  }
}

} // namespace ashlar::test::run_test
