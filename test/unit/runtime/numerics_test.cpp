// SPDX-License-Identifier: Apache-2.0
//
// --check-numerics: where the first NaN is.

#include "runtime/execute/executor.h"
#include "runtime/execute/numerics.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <vector>

namespace ashlar::test::numerics_test {
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

TEST_CASE("numerics: an instruction answers for what it wrote, not for what it read", "[runtime][numerics]") {
  std::vector<float> arena = {std::nanf(""), 1, 2, 3};
  const ashlar_rt_buffer buffers[] = {{ASHLAR_RT_ARENA, ASHLAR_RT_F32, 0, 8}, {ASHLAR_RT_ARENA, ASHLAR_RT_F32, 8, 8}};
  uint32_t accesses[] = {ASHLAR_RT_READ, ASHLAR_RT_WRITE};
  const ashlar_rt_instr instr = {ASHLAR_RT_KERNEL, "add", 2, buffers, accesses, nullptr};
  const ashlar_rt_program source = {"forward", {ASHLAR_RT_RUN}, 1, &instr, 0, nullptr, 0, nullptr};
  Program program(source);
  auto check = [&] {
    auto load = [&](const ashlar_rt_buffer &buffer, Status &) -> const void * { return arena.data() + buffer.offset / sizeof(float); };
    return checkNumerics(program, /*index=*/0, /*device=*/5, load).message();
  };
  CHECK(check().empty());
  accesses[0] |= ASHLAR_RT_WRITE;
  CHECK(check() == "NaN in run 0 of forward: add (1 of 1) left it in element 0 of operand 0, f32 of 2 elements, on device 5");
  accesses[0] = ASHLAR_RT_READ;
  arena[3] = std::nanf("");
  CHECK(check() == "NaN in run 0 of forward: add (1 of 1) left it in element 1 of operand 1, f32 of 2 elements, on device 5");
}

} // namespace

} // namespace ashlar::test::numerics_test
