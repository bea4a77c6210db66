// SPDX-License-Identifier: Apache-2.0
//
// Single instructions, and texts that are refused.

#include "test/emulator/ptx/lexer.h"
#include "test/unit/emulator/ptx_run.h"

#include <catch2/catch.hpp>

#include <cmath>

namespace ashlar::test::instructions_test {

using namespace ashlar::emulator;

namespace {

// A kernel `k` that reads a.b32 values %r1, %r2, %r3 of the thread and writes %r0; `body` stands between.
std::string kernelText(const std::string &body) {
  return R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 16 in, .param .u64 out)
.reqntid 32, 1, 1
{
  .reg .pred %p<4>;
  .reg .b16 %rs<4>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  ld.param.b64 %rd1, [in];
  ld.param.b64 %rd2, [out];
  mov.u32 %r4, %tid.x;
  mul.wide.u32 %rd3, %r4, 16;
  add.s64 %rd4, %rd1, %rd3;
  ld.global.nc.v4.b32 {%r1, %r2, %r3, _}, [%rd4];
  mul.wide.u32 %rd5, %r4, 4;
  add.s64 %rd6, %rd2, %rd5;
  )" + body +
         R"(
  st.global.b32 [%rd6], %r0;
  ret;
}
)";
}

uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Runs `body` on the same three values in every thread; returns %r0 of each.
std::vector<uint32_t> runAll(const std::string &body, uint32_t a, uint32_t b = 0, uint32_t c = 0) {
  PtxRun run(kernelText(body));
  std::vector<uint32_t> in;
  for (int i = 0; i < 32; ++i) {
    in.insert(in.end(), {a, b, c, 0});
  }
  const uint64_t out = run.allocate<uint32_t>(32);
  run.run("k", 1, 32, run.upload(in), out);
  return run.download<uint32_t>(out, 32);
}

uint32_t run(const std::string &body, uint32_t a, uint32_t b = 0, uint32_t c = 0) {
  return runAll(body, a, b, c)[3];
}

uint32_t runFloat(const std::string &body, float a, float b = 0, float c = 0) {
  return run(body, bitsOf(a), bitsOf(b), bitsOf(c));
}

// Returns the error of loading a kernel with that body.
std::string refused(const std::string &body) {
  return loadError(kernelText(body));
}

} // namespace

TEST_CASE("ptx: bits", "[ptx]") {
  CHECK(run("prmt.b32 %r0, %r1, %r2, 0x5410U;", 0x11112222, 0x33334444) == 0x44442222);
  CHECK(run("prmt.b32 %r0, %r1, %r2, %r3;", 0x80112233, 0, 0x7B3C) == 0x00ff8000);
  CHECK(run("bfe.u32 %r0, %r1, 4, 8;", 0xabcd) == 0xbc);
  CHECK(run("bfe.s32 %r0, %r1, 4, 8;", 0xabcd) == 0xffffffbc);
  CHECK(run("bfe.u32 %r0, %r1, 28, 8;", 0xa0000000) == 0xa);
  CHECK(run("bfi.b32 %r0, %r1, %r2, 8, 8;", 0xff, 0x12345678) == 0x1234ff78);
  CHECK(run("shf.l.wrap.b32 %r0, %r1, %r2, 8;", 0xaabbccdd, 0x11223344) == 0x223344aa);
  CHECK(run("shf.r.clamp.b32 %r0, %r1, %r2, 40;", 0xaabbccdd, 0x11223344) == 0x11223344);
  CHECK(run("lop3.b32 %r0, %r1, %r2, %r3, 0x96;", 0xf0f0, 0xff00, 0x1234) == (0xf0f0 ^ 0xff00 ^ 0x1234));
  CHECK(run("shl.b32 %r0, %r1, 32;", 5) == 0);
  CHECK(run("shr.s32 %r0, %r1, 40;", 0x80000000) == 0xffffffff);
  CHECK(run("mov.b32 {%rs1, %rs2}, %r1; mov.b32 %r0, {%rs2, %rs1};", 0x12345678) == 0x56781234);
  CHECK(run("{ .reg .b16 tmp; mov.b32 {tmp, %rs2}, %r1; } { .reg .b16 tmp; mov.b32 {tmp, %rs1}, %r2; } mov.b32 %r0, {%rs1, %rs2};",
            0x12345678, 0x9abcdef0) == 0x12349abc);
  CHECK(run("cvt.u16.u32 %rs1, %r1; cvt.s32.s8 %r0, %rs1;", 0x1280) == 0xffffff80);
  CHECK(run("mad.wide.u16 %r0, %rs1, %rs1, %r1;", 7) == 7);
}

TEST_CASE("ptx: carries", "[ptx]") {
  // 2^32 a + b plus itself, and minus 1.
  const std::string wide = "add.cc.u32 %r5, %r2, %r2; addc.u32 %r0, %r1, %r1;";
  CHECK(run(wide, 5, 0x80000000) == 11);
  CHECK(run(wide, 5, 0x7fffffff) == 10);
  CHECK(run("sub.cc.u32 %r5, %r2, 1; subc.u32 %r0, %r1, 0;", 5, 0) == 4);
  CHECK(run("sub.cc.u32 %r5, %r2, 1; subc.u32 %r0, %r1, 0;", 5, 1) == 5);
  // The high word of a product of 64 bits.
  CHECK(run("mad.lo.cc.u32 %r5, %r1, %r2, %r3; madc.hi.u32 %r0, %r1, %r2, 0;", 0xffffffff, 0xffffffff, 0xffffffff) == 0xffffffff);
  CHECK(run("mad.lo.cc.u32 %r5, %r1, %r2, %r3; madc.hi.u32 %r0, %r1, %r2, 0;", 0xffffffff, 0xffffffff, 0xfffffffe) == 0xfffffffe);
}

TEST_CASE("ptx: rounding of floats", "[ptx]") {
  const float third = 1.0f / 3;
  CHECK(runFloat("fma.rm.f32 %r0, %r1, %r2, %r3;", 1 + 0x1p-23f, 1 + 0x1p-23f, 0) == bitsOf(1 + 0x1p-22f));
  CHECK(runFloat("fma.rp.f32 %r0, %r1, %r2, %r3;", 1 + 0x1p-23f, 1 + 0x1p-23f, 0) == bitsOf(1 + 0x1p-22f + 0x1p-23f));
  CHECK(runFloat("add.rz.f32 %r0, %r1, %r2;", 1, -0x1p-60f) == bitsOf(1 - 0x1p-24f));
  CHECK(runFloat("add.rn.f32 %r0, %r1, %r2;", 1, -0x1p-60f) == bitsOf(1));
  CHECK(runFloat("mul.ftz.f32 %r0, %r1, %r2;", 0x1p-100f, 0x1p-40f) == 0);
  CHECK(runFloat("mul.f32 %r0, %r1, %r2;", 0x1p-100f, 0x1p-40f) == bitsOf(0x1p-140f));
  CHECK(runFloat("add.sat.f32 %r0, %r1, %r2;", 1, third) == bitsOf(1));
  CHECK(runFloat("cvt.rn.bf16.f32 %rs1, %r1; mov.b32 %r0, {%rs1, %rs1};", 1 + 0x1p-8f) == 0x3f803f80);
  CHECK(runFloat("cvt.rn.bf16x2.f32 %r0, %r1, %r2;", 2, 1 + 0x3p-8f) == 0x40003f82);
  CHECK(runFloat("cvt.rn.f16x2.f32 %r0, %r1, %r2;", 65520, 0x1p-25f) == 0x7c000000);
  CHECK(runFloat("cvt.rn.f16.f32 %rs1, %r1; cvt.f32.f16 %r0, %rs1;", 0x3p-25f) == bitsOf(0x1p-23f));
  CHECK(runFloat("cvt.rzi.s32.f32 %r0, %r1;", NAN) == 0);
  CHECK(runFloat("cvt.rni.s32.f32 %r0, %r1;", 2.5f) == 2);
  CHECK(runFloat("cvt.rzi.u32.f32 %r0, %r1;", -1) == 0);
  CHECK(runFloat("cvt.rzi.s32.f32 %r0, %r1;", 3e9f) == 0x7fffffff);
}

TEST_CASE("ptx: NaN in comparisons and extrema", "[ptx]") {
  CHECK(runFloat("max.f32 %r0, %r1, %r2;", NAN, 2) == bitsOf(2));
  CHECK(std::isnan([] {
    const uint32_t bits = runFloat("max.NaN.f32 %r0, %r1, %r2;", NAN, 2);
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }()));
  CHECK(runFloat("min.f32 %r0, %r1, %r2;", 0.0f, -0.0f) == 0x80000000);
  CHECK(runFloat("setp.lt.f32 %p1, %r1, %r2; selp.b32 %r0, 1, 0, %p1;", NAN, 2) == 0);
  CHECK(runFloat("setp.ltu.f32 %p1, %r1, %r2; selp.b32 %r0, 1, 0, %p1;", NAN, 2) == 1);
  CHECK(runFloat("setp.num.f32 %p1|%p2, %r1, %r2; selp.b32 %r0, 1, 0, %p2;", NAN, 2) == 1);
  CHECK(runFloat("setp.eq.s32 %p2, 0, 0; setp.gt.and.f32 %p1, %r1, %r2, !%p2; selp.b32 %r0, 1, 0, %p1;", 3, 2) == 0);
  CHECK(runFloat("testp.notanumber.f32 %p1, %r1; selp.b32 %r0, 1, 0, %p1;", NAN) == 1);
  CHECK(run("add.s16x2 %r0, %r1, %r2;", 0x0001ffff, 0x00020001) == 0x00030000); // no carry from half to half
  CHECK(run("max.s16x2 %r0, %r1, %r2;", 0x8000ffff, 0x00017fff) == 0x00017fff);
  CHECK(run("max.u16x2 %r0, %r1, %r2;", 0x8000ffff, 0x00017fff) == 0x8000ffff);
  CHECK(run("setp.gt.f16x2 %p1|%p2, %r1, %r2; selp.b32 %r5, 2, 0, %p2; selp.b32 %r0, 1, 0, %p1; add.s32 %r0, %r0, %r5;", 0x3c004000,
            0x40003c00) == 1);
  CHECK(runFloat("copysign.f32 %r0, %r1, %r2;", -0.0f, 2) == bitsOf(-2));
}

TEST_CASE("ptx: lanes of a warp exchange values", "[ptx]") {
  const auto up = runAll("shfl.sync.up.b32 %r0|%p1, %r4, 1, 0, -1;", 0);
  const auto down = runAll("shfl.sync.down.b32 %r0, %r4, 3, 31, 0xffffffff;", 0);
  const auto segments = runAll("shfl.sync.idx.b32 %r0, %r4, 1, 0x181f, -1;", 0);
  const auto sum = runAll("redux.sync.add.s32 %r0, %r4, -1;", 0);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    CHECK(up[lane] == (lane == 0 ? 0 : lane - 1));
    CHECK(down[lane] == (lane + 3 < 32 ? lane + 3 : lane));
    CHECK(segments[lane] == (lane / 8 * 8 + 1));
    CHECK(sum[lane] == 31 * 16);
  }
  // Half of the warp goes another way first, and both meet at the shuffle.
  const auto met = runAll("setp.lt.u32 %p1, %r4, 16; @%p1 bra LOW; add.s32 %r5, %r4, 100; bra.uni MEET; LOW: mov.b32 %r5, %r4; MEET: "
                          "shfl.sync.bfly.b32 %r0, %r5, 31, 31, -1;",
                          0);
  CHECK(met[0] == 131);
  CHECK(met[31] == 0);
  // A guard leaves the other lanes as they were.
  const auto guarded = runAll("mov.b32 %r0, 7; setp.lt.u32 %p1, %r4, 5; @!%p1 bra END; mov.b32 %r0, 8; END:", 0);
  CHECK(guarded[4] == 8);
  CHECK(guarded[5] == 7);
}

TEST_CASE("ptx: what is not known is refused with its line", "[ptx]") {
  CHECK(refused("frobnicate.b32 %r0, %r1;") == "line 19: instruction 'frobnicate' is not known: frobnicate.b32 %r0, %r1;");
  CHECK(refused("add.weird.s32 %r0, %r1, %r2;") == "line 19: qualifier '.weird' of 'add' is not known: add.weird.s32 %r0, %r1, %r2;");
  CHECK(refused("add.s32 %r0, %r1;") == "line 19: 'add' with 2 operands: add.s32 %r0, %r1;");
  CHECK(refused("add.s64 %rd1, %r1, %rd2;") == "line 19: register '%r1' has 4 bytes, the instruction reads 8: add.s64 %rd1, %r1, %rd2;");
  CHECK(refused("mov.b32 %r0, %nothing;") == "line 19: '%nothing' is not a register: mov.b32 %r0, %nothing;");
  CHECK(refused("bra NOWHERE;") == "line 19: label 'NOWHERE' is not defined: bra NOWHERE;");
  CHECK(refused("add.s32 %r0 %r1;") == "line 19: expected ',' or ';', found '%r1'");
  CHECK(refused("mov.b32 %r0, 1;") == "accepted");
}

} // namespace ashlar::test::instructions_test
