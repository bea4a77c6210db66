// SPDX-License-Identifier: Apache-2.0
//
// Whole kernels, compiled by nvcc, against plain loops; and what a kernel must not do.

#include "test/unit/emulator/ptx_run.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <ctime>
#include <random>

namespace ashlar::test::kernels_test {

using namespace ashlar::emulator;

namespace {

PtxRun samples(uint64_t seed = 1) {
  return PtxRun(readText(ASHLAR_SAMPLES), seed);
}

std::vector<float> randomFloats(size_t count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> distribution(-4, 4);
  std::vector<float> values(count);
  for (float &value : values) {
    value = distribution(random);
  }
  return values;
}

// Fails unless `got` is near `expected`, within `units` of the last place of an f32.
void expectNear(double got, double expected, double units) {
  INFO("got " << got << ", expected " << expected);
  CHECK(std::fabs(got - expected) <= units * 0x1p-24 * std::max(std::fabs(expected), 1e-30));
}

// Returns what the fault of a launch says, or fails.
template <class F> std::string faultOf(F f, Fault::Kind kind) {
  try {
    f();
  } catch (const Fault &fault) {
    CHECK(fault.kind == kind);
    return fault.what();
  }
  FAIL("the kernel ran");
  return "";
}

} // namespace

// Twice the bound that the CUDA guide gives for each function; exp and pow of the guide are 2 and 8 ulp.
TEST_CASE("ptx: functions of libdevice agree with libm", "[ptx]") {
  PtxRun run = samples();
  const std::vector<float> x = randomFloats(1000);
  const auto n = int(x.size());
  const uint64_t out = run.allocate<float>(10 * x.size());
  run.run("functions", 8, 128, run.upload(x), out, n);
  const std::vector<float> got = run.download<float>(out, 10 * x.size());
  for (int i = 0; i < n; ++i) {
    const double v = x[size_t(i)];
    const double expected[] = {std::exp(v),
                               std::log(std::fabs(v)),
                               std::tanh(v),
                               std::erf(v),
                               std::sin(double(x[size_t(i)] * 1000)),
                               std::sqrt(std::fabs(v)),
                               1 / v,
                               std::pow(std::fabs(v), 1.7f),
                               1 / std::sqrt(std::fabs(v)),
                               std::floor(v)};
    const double units[] = {4, 4, 4, 4, 8, 1, 1, 16, 4, 0};
    for (int f = 0; f < 10; ++f) {
      INFO("function " << f << " of " << v);
      // The logarithm near 1 and the sine near multiples of pi: an absolute error of half a unit of 1 counts too.
      if (!(std::fabs(got[size_t(f * n + i)] - expected[f]) <= 0x1p-24)) { // a NaN is not near
        expectNear(got[size_t(f * n + i)], expected[f], units[f]);
      }
    }
  }
}

TEST_CASE("ptx: softmax of rows by shuffles and shared memory", "[ptx]") {
  PtxRun run = samples();
  const int rows = 5, columns = 301;
  const std::vector<float> x = randomFloats(size_t(rows * columns));
  const uint64_t out = run.allocate<float>(x.size());
  run.run("softmax", rows, 128, run.upload(x), out, columns);
  const std::vector<float> got = run.download<float>(out, x.size());
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int c = 0; c < columns; ++c) {
      sum += std::exp(double(x[size_t(r * columns + c)]));
    }
    for (int c = 0; c < columns; ++c) {
      expectNear(got[size_t(r * columns + c)], std::exp(double(x[size_t(r * columns + c)])) / sum, 32);
    }
  }
}

TEST_CASE("ptx: lanes that part meet again", "[ptx]") {
  PtxRun run = samples();
  const uint64_t out = run.allocate<int>(2 * 96);
  run.run("collatz", 1, 96, out);
  const std::vector<int> got = run.download<int>(out, 2 * 96);
  for (int warp = 0; warp < 3; ++warp) {
    uint32_t votes = 0;
    for (int lane = 0; lane < 32; ++lane) {
      int steps = 0;
      for (int n = warp * 32 + lane + 1; n != 1; n = n % 2 == 0 ? n / 2 : 3 * n + 1) {
        ++steps;
      }
      CHECK(got[size_t(2 * (warp * 32 + lane))] == steps);
      votes |= uint32_t(steps > 20) << lane;
    }
    CHECK(uint32_t(got[size_t(2 * warp * 32 + 1)]) == votes);
  }
}

TEST_CASE("ptx: f16 and bf16 round every result once", "[ptx]") {
  PtxRun run = samples();
  std::vector<Half> a;
  std::vector<BFloat> b;
  for (const float value : randomFloats(200)) {
    a.push_back(Half(double(value)));
    b.push_back(BFloat(double(value) * 3.7));
  }
  const uint64_t sum = run.allocate<Half>(200), product = run.allocate<BFloat>(200), wide = run.allocate<float>(200);
  run.run("halves", 2, 128, run.upload(a), run.upload(b), sum, product, wide, 200);
  for (size_t i = 0; i < 200; ++i) {
    CHECK(run.download<Half>(sum, 200)[i].bits == Half(double(a[i]) + double(Half(double(b[i])))).bits);
    CHECK(run.download<BFloat>(product, 200)[i].bits == BFloat(double(b[i]) * double(BFloat(double(a[i])))).bits);
    CHECK(run.download<float>(wide, 200)[i] == float(double(a[i]) * double(b[i])));
  }
}

TEST_CASE("ptx: integers of 64 and 32 bits", "[ptx]") {
  PtxRun run = samples();
  std::mt19937_64 random(3);
  std::vector<int64_t> x{0, 1, -1, INT64_MAX, 5, 1000000007}, y{0, 3, 2, -7, 64, 12345};
  for (int i = 0; i < 90; ++i) {
    x.push_back(int64_t(random()) >> (random() % 60));
    y.push_back(int64_t(random()) >> (random() % 60));
  }
  const auto n = int(x.size());
  const uint64_t out = run.allocate<int64_t>(10 * x.size());
  run.run("integers", 1, 128, run.upload(x), run.upload(y), out, n);
  const std::vector<int64_t> got = run.download<int64_t>(out, 10 * x.size());
  for (int i = 0; i < n; ++i) {
    const int64_t a = x[size_t(i)], b = y[size_t(i)];
    const int c = int(a), d = int(b);
    INFO("a = " << a << ", b = " << b);
    const auto result = [&](int row) { return got[size_t(row * n + i)]; };
    CHECK(result(0) == (b == 0 ? 0 : a / b));
    CHECK(result(1) == (b == 0 ? 0 : a % b));
    CHECK(result(2) == int64_t((__int128(a) * b) >> 64));
    CHECK(result(3) == int64_t(c) * d);
    CHECK(result(4) == (d == 0 ? 0 : c == INT32_MIN && (d | 1) == -1 ? c : c / (d | 1)));
    CHECK(result(5) == int64_t(unsigned(__builtin_popcountll(uint64_t(a))) + unsigned(b == 0 ? 64 : __builtin_clzll(uint64_t(b))) +
                               unsigned(__builtin_ffs(c)) + __builtin_bitreverse32(unsigned(d))));
    CHECK(result(6) == (int64_t(uint64_t(a) << (b & 63)) ^ (a >> (b & 63))));
    CHECK(result(7) == int64_t(uint64_t(std::min(a, b)) + uint64_t(int64_t(std::max(c, d)))));
    const float rounded = float(a);
    CHECK(result(8) ==
          int64_t(uint64_t(rounded >= 0x1p63f ? INT64_MAX : int64_t(rounded)) + uint64_t(uint8_t(c)) + uint64_t(int64_t(int16_t(d)))));
    CHECK(result(9) == int64_t(uint64_t(a) / (unsigned(d) | 1)));
  }
}

TEST_CASE("ptx: calls, constants, local memory and vectors", "[ptx]") {
  PtxRun run = samples();
  const std::vector<float> x = randomFloats(4 * 32);
  const uint64_t out = run.allocate<float>(x.size());
  run.run("calls", 1, 32, run.upload(x), out, 11);
  const std::vector<float> got = run.download<float>(out, x.size());
  for (size_t t = 0; t < 32; ++t) {
    const float *v = &x[4 * t];
    const auto horner = [](float at, const float *coefficients, int count) {
      float sum = 0;
      for (int i = 0; i < count; ++i) {
        sum = std::fma(sum, at, coefficients[i]);
      }
      return sum;
    };
    const float table[] = {1, 2, 3, 4};
    CHECK(got[4 * t] == horner(v[0], table, 4));
    CHECK(got[4 * t + 1] == horner(v[1], v, 3));
    CHECK(got[4 * t + 2] == std::fma(v[0], 3.0f, v[1]));
    CHECK(got[4 * t + 3] == std::fma(v[0], float((11 + t) & 7), v[1]));
  }
}

TEST_CASE("ptx: atomics count", "[ptx]") {
  PtxRun run = samples();
  std::vector<int> x(1000), expected(16);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = int(i * i);
    ++expected[size_t(x[i] & 15)];
  }
  const uint64_t bins = run.upload(std::vector<int>(16, 0));
  run.run("count", 8, 128, run.upload(x), bins, 1000);
  CHECK(run.download<int>(bins, 16) == expected);
}

TEST_CASE("ptx: accesses outside of memory and off their alignment are faults", "[ptx]") {
  PtxRun run = samples();
  const uint64_t out = run.allocate<float>(40);
  run.run("beyond", 1, 32, out, 8);
  const std::string text = faultOf([&] { run.run("beyond", 1, 32, out, 9); }, Fault::IllegalAddress);
  CHECK(text.find("kernel 'beyond', block 0, thread 31") == 0);
  CHECK(text.find("st.global.u32") != std::string::npos);
  faultOf([&] { run.run("beyond", 1, 32, uint64_t(reinterpret_cast<uintptr_t>(&run)), 0); }, Fault::IllegalAddress);
  faultOf([&] { run.run("misaligned", 1, 1, out); }, Fault::MisalignedAddress);
}

TEST_CASE("ptx: a race is a fault, whatever the order", "[ptx]") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    PtxRun run = samples(seed);
    const std::vector<float> x = randomFloats(128);
    const uint64_t in = run.upload(x), out = run.allocate<float>(128);
    run.run("reverse", 1, 128, in, out, 1);
    const std::vector<float> got = run.download<float>(out, 128);
    CHECK(std::equal(got.rbegin(), got.rend(), x.begin()));
    faultOf([&] { run.run("reverse", 1, 128, in, out, 0); }, Fault::LaunchFailure);
    faultOf([&] { run.run("in_place", 2, 32, in); }, Fault::LaunchFailure);
  }
}

TEST_CASE("ptx: lanes that meet at a shuffle are in order", "[ptx]") {
  PtxRun run = samples();
  const uint64_t x = run.upload(std::vector<float>{3}), out = run.allocate<float>(32);
  run.run("meeting", 1, 32, x, out, 1);
  CHECK(run.download<float>(out, 32)[1] == 6);
  faultOf([&] { run.run("meeting", 1, 32, x, out, 0); }, Fault::LaunchFailure);
}

TEST_CASE("ptx: a barrier that nobody reaches ends the kernel", "[ptx]") {
  PtxRun run = samples();
  const uint64_t out = run.allocate<int>(64);
  const std::string text = faultOf([&] { run.run("deadlock", 1, 64, out); }, Fault::LaunchFailure);
  CHECK(text.find("waits for threads that never come here") != std::string::npos);
}

TEST_CASE("ptx: shared memory holds nothing at first", "[ptx]") {
  PtxRun run = samples();
  const uint64_t out = run.allocate<float>(64);
  run.run("uninitialised", 1, 32, out);
  const std::string text = faultOf([&] { run.run("uninitialised", 1, 64, out); }, Fault::LaunchFailure);
  CHECK(text.find("read before anything was written there") != std::string::npos);
}

TEST_CASE("ptx: instructions a second", "[.speed]") {
  PtxRun run = samples();
  const std::vector<float> x = randomFloats(1 << 18);
  const uint64_t in = run.upload(x), out = run.allocate<float>(10 * x.size());
  for (const char *name : {"functions", "softmax"}) {
    const std::clock_t begin = std::clock(); // of the processor: others may use it too
    const uint64_t instructions =
        name[0] == 'f' ? run.run(name, 2048, 128, in, out, int(x.size())) : run.run(name, 256, 128, in, out, 1024);
    const double seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
    WARN(name << ": " << double(instructions) / seconds / 1e6 << " million a second");
  }
}

} // namespace ashlar::test::kernels_test
