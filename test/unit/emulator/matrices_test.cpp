// SPDX-License-Identifier: Apache-2.0
//
// Products of matrices by a warp, and their loads, against plain loops. Fragments are laid out here in the words of the PTX ISA, element
// by element.

#include "test/emulator/ptx/lexer.h"
#include "test/unit/emulator/ptx_run.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace ashlar::test::matrices_test {

using namespace ashlar::emulator;

namespace {

constexpr size_t kRows = 16, kColumns = 8, kDepth = 16;
constexpr size_t kRegisters = 12; // of a lane's input: 4 of a, 2 of b, 2 unused, 4 of c

// A kernel `k` with the lane's address of 12 numbers of 32 bits in %rd1, and of 4 in %rd2.
std::string kernelText(const std::string &body) {
  return R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .pred %p<4>;
  .reg .b16 %rs<8>;
  .reg .b32 %r<32>;
  .reg .b64 %rd<8>;
  .shared .align 16 .b8 tile[1024];
  mov.u32 %r30, %tid.x;
  ld.param.b64 %rd3, [in];
  ld.param.b64 %rd4, [out];
  mad.wide.u32 %rd1, %r30, 48, %rd3;
  mad.wide.u32 %rd2, %r30, 16, %rd4;
  )" + body +
         "\nret;\n}\n";
}

// Returns the line of `body` in the kernel.
constexpr int kBodyLine = 16;

const std::string kLoadFragments = "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd1];\n"
                                   "ld.global.v2.b32 {%r8, %r9}, [%rd1+16];\n"
                                   "ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd1+32];\n";
const std::string kStoreFragment = "st.global.v4.b32 [%rd2], {%r0, %r1, %r2, %r3};";

std::string product(const std::string &type, const std::string &d = "{%r0, %r1, %r2, %r3}",
                    const std::string &c = "{%r10, %r11, %r12, %r13}") {
  return "mma.sync.aligned.m16n8k16.row.col.f32." + type + "." + type + ".f32 " + d + ", {%r4, %r5, %r6, %r7}, {%r8, %r9}, " + c + ";";
}

const std::string kProduct = product("bf16");

template <class T> const char *const kName = "bf16";
template <> const char *const kName<Half> = "f16";

// Matrices by rows.
template <class T> struct Problem {
  std::vector<T> a = std::vector<T>(kRows * kDepth), b = std::vector<T>(kDepth * kColumns);
  std::vector<float> c = std::vector<float>(kRows * kColumns);
};

// Numbers of at most 8 bits, no two of a matrix alike: every sum is exact.
template <class T> Problem<T> distinctNumbers() {
  std::mt19937 random(3);
  Problem<T> problem;
  const auto fill = [&](auto &values) {
    std::vector<double> numbers(values.size());
    std::iota(numbers.begin(), numbers.end(), -double(values.size() / 2));
    std::shuffle(numbers.begin(), numbers.end(), random);
    std::transform(numbers.begin(), numbers.end(), values.begin(),
                   [](double number) { return typename std::decay_t<decltype(values)>::value_type(number); });
  };
  fill(problem.a);
  fill(problem.b);
  fill(problem.c);
  return problem;
}

template <class T> Problem<T> randomNumbers(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> distribution;
  Problem<T> problem;
  std::generate(problem.a.begin(), problem.a.end(), [&] { return T(distribution(random)); });
  std::generate(problem.b.begin(), problem.b.end(), [&] { return T(distribution(random)); });
  std::generate(problem.c.begin(), problem.c.end(), [&] { return float(distribution(random)); });
  return problem;
}

// Returns the registers of all lanes; element i of a fragment is in half i % 2 of register i / 2.
template <class T> std::vector<uint32_t> fragments(const Problem<T> &problem) {
  std::vector<uint32_t> registers(32 * kRegisters);
  for (size_t lane = 0; lane < 32; ++lane) {
    const size_t groupId = lane >> 2, threadIdInGroup = lane % 4;
    uint32_t *mine = registers.data() + lane * kRegisters;
    for (size_t i = 0; i < 8; ++i) {
      const size_t row = (i < 2 || (4 <= i && i < 6)) ? groupId : groupId + 8;
      const size_t column = i < 4 ? threadIdInGroup * 2 + (i & 1) : threadIdInGroup * 2 + (i & 1) + 8;
      mine[i / 2] |= uint32_t(problem.a[row * kDepth + column].bits) << (i % 2 * 16);
    }
    for (size_t i = 0; i < 4; ++i) {
      const size_t row = i < 2 ? threadIdInGroup * 2 + (i & 1) : threadIdInGroup * 2 + (i & 1) + 8;
      mine[4 + i / 2] |= uint32_t(problem.b[row * kColumns + groupId].bits) << (i % 2 * 16);
    }
    for (size_t i = 0; i < 4; ++i) {
      const size_t row = i < 2 ? groupId : groupId + 8;
      std::memcpy(&mine[8 + i], &problem.c[row * kColumns + threadIdInGroup * 2 + (i & 1)], 4);
    }
  }
  return registers;
}

// Returns the matrix whose fragments the lanes stored.
std::vector<float> matrixOf(const std::vector<float> &stored) {
  std::vector<float> d(kRows * kColumns);
  for (size_t lane = 0; lane < 32; ++lane) {
    for (size_t i = 0; i < 4; ++i) {
      const size_t row = i < 2 ? (lane >> 2) : (lane >> 2) + 8;
      d[row * kColumns + lane % 4 * 2 + (i & 1)] = stored[lane * 4 + i];
    }
  }
  return d;
}

// Runs `body` on the registers of all lanes; returns the matrix.
std::vector<float> runOn(const std::vector<uint32_t> &registers, const std::string &body) {
  PtxRun run(kernelText(body));
  const uint64_t out = run.allocate<float>(128);
  run.run("k", 1, 32, run.upload(registers), out);
  return matrixOf(run.download<float>(out, 128));
}

// Fails unless d is a b + c: all digits of sums that are exact, else within the roundings of 17 addends in any order.
template <class T> void expectProduct(const std::vector<float> &d, const Problem<T> &problem) {
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t column = 0; column < kColumns; ++column) {
      double sum = problem.c[row * kColumns + column], magnitude = std::fabs(sum);
      for (size_t k = 0; k < kDepth; ++k) {
        const double term = double(problem.a[row * kDepth + k]) * double(problem.b[k * kColumns + column]);
        sum += term;
        magnitude += std::fabs(term);
      }
      const bool exact = magnitude == std::floor(magnitude) && magnitude < 0x1p24;
      INFO("row " << row << ", column " << column);
      CHECK(std::fabs(d[row * kColumns + column] - sum) <= (exact ? 0 : 16 * 0x1p-24 * magnitude));
    }
  }
}

// Returns the error of loading a kernel with that body.
std::string refused(const std::string &body) {
  return loadError(kernelText(body));
}

// Returns what the fault of a launch says, or fails.
std::string faultOf(const std::string &body, Fault::Kind kind, uint32_t threads = 32, uint64_t seed = 1) {
  PtxRun run(kernelText(body), seed);
  const uint64_t in = run.upload(std::vector<uint32_t>(64 * kRegisters)), out = run.allocate<float>(256);
  try {
    run.run("k", 1, threads, in, out);
  } catch (const Fault &fault) {
    CHECK(fault.kind == kind);
    return fault.what();
  }
  FAIL("the kernel ran");
  return "";
}

void expectRuns(const std::string &body, uint32_t threads = 32, uint64_t seed = 1) {
  PtxRun run(kernelText(body), seed);
  run.run("k", 1, threads, run.upload(std::vector<uint32_t>(64 * kRegisters)), run.allocate<float>(256));
}

bool ends(const std::string &text, const std::string &end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// A row of the tile for every lane: %r20 is its address, %r21 the tile's.
const std::string kOwnRow = "mov.u32 %r21, tile; mad.lo.u32 %r20, %r30, 16, %r21;\n";
const std::string kStoreRow = "st.shared.v4.b32 [%r20], {%r30, %r30, %r30, %r30};\n";
const std::string kMeet = "bar.warp.sync -1;\n";
const std::string kLoadRows = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%r20];\n";

} // namespace

TEMPLATE_TEST_CASE("ptx: a product by a warp agrees with plain loops", "[ptx]", BFloat, Half) {
  const std::string body = kLoadFragments + product(kName<TestType>) + kStoreFragment;
  const auto distinct = distinctNumbers<TestType>();
  expectProduct(runOn(fragments(distinct), body), distinct);
  for (unsigned seed = 1; seed <= 8; ++seed) {
    const auto problem = randomNumbers<TestType>(seed);
    expectProduct(runOn(fragments(problem), body), problem);
  }
}

TEMPLATE_TEST_CASE("ptx: a product by a warp may overwrite its operands", "[ptx]", BFloat, Half) {
  const auto problem = distinctNumbers<TestType>();
  const std::string type = kName<TestType>;
  const std::string accumulator = "{%r10, %r11, %r12, %r13}", factor = "{%r4, %r5, %r6, %r7}";
  expectProduct(runOn(fragments(problem), kLoadFragments + product(type, accumulator) + "st.global.v4.b32 [%rd2], " + accumulator + ";"),
                problem);
  expectProduct(runOn(fragments(problem), kLoadFragments + product(type, factor) + "st.global.v4.b32 [%rd2], " + factor + ";"), problem);
}

TEST_CASE("ptx: a product by a warp starts from literals", "[ptx]") {
  auto problem = distinctNumbers<BFloat>();
  for (size_t i = 0; i < problem.c.size(); ++i) {
    problem.c[i] = i / kColumns < 8 ? 0.0f : 2.5f;
  }
  const std::string literals = "{0f00000000, 0f00000000, 0f40200000, 0f40200000}";
  expectProduct(runOn(fragments(problem), kLoadFragments + product("bf16", "{%r0, %r1, %r2, %r3}", literals) + kStoreFragment), problem);
}

TEST_CASE("ptx: a product by a warp keeps subnormal numbers, infinities and NaN", "[ptx]") {
  Problem<Half> problem{};
  problem.a[0 * kDepth + 1] = Half(0x1p-24); // subnormal
  problem.b[1 * kColumns + 2] = Half(3);
  problem.a[9 * kDepth + 4] = Half(INFINITY);
  problem.b[4 * kColumns + 2] = Half(-1);
  problem.b[4 * kColumns + 3] = Half(0);
  const std::vector<float> d = runOn(fragments(problem), kLoadFragments + product("f16") + kStoreFragment);
  CHECK(d[0 * kColumns + 2] == 3 * 0x1p-24f);
  CHECK(d[9 * kColumns + 2] == -INFINITY);
  CHECK(std::isnan(d[9 * kColumns + 3]));
  CHECK(d[8 * kColumns + 2] == 0);
}

// The tile holds a, 32 bytes a row, then b, as it lies in memory: by rows, 16 bytes each, or by columns, 32 bytes each.
TEMPLATE_TEST_CASE("ptx: ldmatrix loads the fragments of a product", "[ptx]", BFloat, Half) {
  const auto problem = distinctNumbers<TestType>();
  const bool byColumns = GENERATE(false, true);
  const std::string space = GENERATE(as<std::string>{}, ".shared", ".shared::cta", "");
  const bool generic = space.empty();
  std::vector<uint16_t> tile;
  for (const TestType &value : problem.a) {
    tile.push_back(value.bits);
  }
  for (size_t i = 0; i < problem.b.size(); ++i) {
    tile.push_back(problem.b[byColumns ? i % kDepth * kColumns + i / kDepth : i].bits);
  }
  std::vector<uint32_t> registers = fragments(problem);
  for (size_t lane = 0; lane < 32; ++lane) {
    std::memcpy(&registers[lane * kRegisters], &tile[lane * 12], 24); // 768 bytes
  }
  std::string copy = "mov.u32 %r21, tile; mad.lo.u32 %r20, %r30, 24, %r21;\n";
  copy += "ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%rd1]; st.shared.v2.b32 [%r20], {%r0, %r1}; st.shared.v2.b32 [%r20+8], {%r2, %r3};\n";
  copy += "ld.global.v2.b32 {%r0, %r1}, [%rd1+16]; st.shared.v2.b32 [%r20+16], {%r0, %r1}; bar.sync 0;\n";
  // Matrices of a: rows 0..7, rows 8..15, then the same of the other half of k. Lane l has row l % 16.
  std::string load = "and.b32 %r22, %r30, 15; shr.u32 %r23, %r30, 4; mad.lo.u32 %r24, %r22, 32, %r21; mad.lo.u32 %r24, %r23, 16, %r24;\n";
  // Matrices of b: k of 0..7, of 8..15. By rows lane l has row l % 16; by columns, column l % 8 and half l / 8.
  load += byColumns ? "and.b32 %r22, %r30, 7; bfe.u32 %r23, %r30, 3, 1; mad.lo.u32 %r25, %r22, 32, %r21; mad.lo.u32 %r25, %r23, 16, %r25;\n"
                    : "mad.lo.u32 %r25, %r22, 16, %r21;\n";
  load +=
      "add.u32 %r25, %r25, 512; cvt.u64.u32 %rd5, %r24; cvta.shared.u64 %rd5, %rd5; cvt.u64.u32 %rd6, %r25; cvta.shared.u64 %rd6, %rd6;\n";
  load += "ldmatrix.sync.aligned.m8n8.x4" + space + ".b16 {%r4, %r5, %r6, %r7}, [" + (generic ? "%rd5" : "%r24") + "];\n";
  load += "ldmatrix.sync.aligned.m8n8.x2" + std::string(byColumns ? "" : ".trans") + space + ".b16 {%r8, %r9}, [" +
          (generic ? "%rd6" : "%r25") + "];\n";
  load += "ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd1+32];\n";
  expectProduct(runOn(registers, copy + load + product(kName<TestType>) + kStoreFragment), problem);
}

// Element c of row r of the tile is 8 r + c.
TEST_CASE("ptx: ldmatrix of every form", "[ptx]") {
  const std::string fill = "shl.b32 %r22, %r30, 3; mad.lo.u32 %r23, %r22, 0x10001, 0x10000; add.u32 %r24, %r23, 0x20002;\n"
                           "add.u32 %r25, %r23, 0x40004; add.u32 %r26, %r23, 0x60006; st.shared.v4.b32 [%r20], {%r23, %r24, %r25, %r26};\n";
  for (const uint32_t count : {1u, 2u, 4u}) {
    for (const bool transposed : {false, true}) {
      // The rows of the matrices stand in reverse in memory. Lanes that have no row point nowhere.
      const std::string rows = "mad.lo.s32 %r20, %r30, -16, 512; add.u32 %r20, %r20, %r21; setp.ge.u32 %p1, %r30, " +
                               std::to_string(8 * count) + "; @%p1 mov.b32 %r20, 0x7ffffff5;\n";
      const char *registers[] = {"{%r0}", "{%r0, %r1}", "{%r0, %r1, %r2, %r3}"};
      const std::string load = "ldmatrix.sync.aligned.m8n8.x" + std::to_string(count) + (transposed ? ".trans" : "") + ".shared.b16 " +
                               registers[count / 2] + ", [%r20+-16];\n";
      const std::string zeros = "mov.b32 %r0, 0; mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0;";
      PtxRun run(kernelText(kOwnRow + fill + kMeet + zeros + rows + load + kStoreFragment));
      const uint64_t out = run.allocate<uint32_t>(128);
      run.run("k", 1, 32, run.upload(std::vector<uint32_t>(1)), out);
      const std::vector<uint32_t> got = run.download<uint32_t>(out, 128);
      for (uint32_t lane = 0; lane < 32; ++lane) {
        for (uint32_t matrix = 0; matrix < 4; ++matrix) {
          const auto element = [&](uint32_t j) {
            const uint32_t row = transposed ? lane % 4 * 2 + j : lane / 4, column = transposed ? lane / 4 : lane % 4 * 2 + j;
            return 8 * (31 - (8 * matrix + row)) + column;
          };
          INFO(count << (transposed ? " transposed" : "") << ", lane " << lane << ", matrix " << matrix);
          CHECK(got[4 * lane + matrix] == (matrix < count ? element(0) | element(1) << 16 : 0));
        }
      }
    }
  }
}

TEST_CASE("ptx: pairs of numbers of 16 bits", "[ptx]") {
  PtxRun run(kernelText("mov.b32 %r4, 0f3F800000; mov.b32 %r5, 0fC0200000;\n"
                        "cvt.rn.bf16x2.f32 %r0, %r4, %r5; cvt.rn.f16x2.f32 %r1, %r4, %r5;\n"
                        "cvt.rn.bf16.f32 %rs1, %r4; cvt.rn.bf16.f32 %rs2, %r5; mov.b32 %r2, {%rs1, %rs2};\n"
                        "mov.b32 {_, %rs3}, %r0; mov.b32 {%rs4, _}, %r1; mov.b32 %r3, {%rs3, %rs4}; prmt.b32 %r3, %r3, %r0, 0x5432U;\n" +
                        kStoreFragment));
  const uint64_t out = run.allocate<uint32_t>(128);
  run.run("k", 1, 32, run.upload(std::vector<uint32_t>(1)), out);
  const std::vector<uint32_t> got = run.download<uint32_t>(out, 4);
  CHECK(got[0] == 0x3f80c020);
  CHECK(got[1] == 0x3c00c100);
  CHECK(got[2] == 0xc0203f80);
  CHECK(got[3] == 0xc020c100);
}

TEST_CASE("ptx: other products by a warp and loads of matrices are refused", "[ptx]") {
  const std::string line = "line " + std::to_string(kBodyLine) + ": ";
  const auto unknown = [&](const std::string &opcode, const std::string &operands) {
    const std::string statement = opcode + " " + operands + ";";
    CHECK(refused(statement) == line + "'" + opcode + "' is not known: " + statement);
  };
  const std::string fragments = "{%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r10, %r11, %r12, %r13}";
  for (const char *opcode :
       {"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", "mma.sync.aligned.m16n8k16.row.row.f32.bf16.bf16.f32",
        "mma.sync.aligned.m16n8k16.col.col.f32.bf16.bf16.f32", "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "mma.sync.m16n8k16.row.col.f32.bf16.bf16.f32",
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32", "mma"}) {
    unknown(opcode, fragments);
  }
  for (const char *opcode :
       {"ldmatrix.sync.aligned.m8n8.x3.shared.b16", "ldmatrix.sync.aligned.m8n8.shared.b16", "ldmatrix.aligned.m8n8.x4.shared.b16",
        "ldmatrix.sync.m8n8.x4.shared.b16", "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8", "ldmatrix.sync.aligned.m8n8.x4.shared.b32",
        "ldmatrix.sync.aligned.m8n8.x4.global.b16", "ldmatrix.sync.aligned.m8n8.x4.shared::cluster.b16",
        "ldmatrix.sync.aligned.m8n8.x4.trans.trans.shared.b16"}) {
    unknown(opcode, "{%r0, %r1, %r2, %r3}, [%r4]");
  }
  const auto fails = [&](const std::string &statement, const std::string &message) {
    CHECK(refused(statement) == line + message + ": " + statement);
  };
  const std::string mma = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 ";
  const std::string d = "{%r0, %r1, %r2, %r3}", a = "{%r4, %r5, %r6, %r7}", b = "{%r8, %r9}", c = "{%r10, %r11, %r12, %r13}";
  fails(mma + d + ", " + a + ", " + b + ";", "'mma' with 3 operands");
  fails(mma + b + ", " + a + ", " + b + ", " + c + ";", "operand 0 of 'mma' must have 4 registers in { }");
  fails(mma + d + ", " + b + ", " + b + ", " + c + ";", "operand 1 of 'mma' must have 4 registers in { }");
  fails(mma + d + ", " + a + ", " + a + ", " + c + ";", "operand 2 of 'mma' must have 2 registers in { }");
  fails(mma + d + ", " + a + ", " + b + ", %r10;", "operand 3 of 'mma' must have 4 registers in { }");
  fails(mma + "{%rd1, %r1, %r2, %r3}, " + a + ", " + b + ", " + c + ";", "register '%rd1' has 8 bytes, the instruction writes 4");
  fails(mma + d + ", {%rs1, %rs2, %rs3, %rs4}, " + b + ", " + c + ";", "register '%rs1' has 2 bytes, the instruction reads 4");
  const std::string load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 ";
  fails(load + b + ", [%r20];", "operand 0 of 'ldmatrix' must have 4 registers in { }");
  fails(load + d + ", %r20;", "expected an address in [ ]");
  fails(load + "{%rd5, %r1, %r2, %r3}, [%r20];", "register '%rd5' has 8 bytes, the instruction writes 4");
  fails(load + d + ", [%r20], 0;", "'ldmatrix' with 3 operands");
}

TEST_CASE("ptx: a product by a warp needs all its lanes", "[ptx]") {
  const std::string half = "setp.lt.u32 %p1, %r30, 16;\n";
  const auto never = [](const std::string &body) {
    CHECK(ends(faultOf(body, Fault::LaunchFailure), "waits for threads that never come here"));
  };
  for (const std::string &instruction : {kProduct, std::string("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [tile];")}) {
    const std::string ready = kOwnRow + kStoreRow + "bar.sync 0;\n" + half;
    // Lanes that go another way, for good or to wait elsewhere; a condition that is not the same in all.
    never(ready + "@%p1 bra END;\n" + instruction + "\nEND:\n");
    never(ready + "@%p1 bra END;\n" + instruction + "\nEND: bar.sync 0;\n");
    never(ready + "@%p1 " + instruction);
    // The same instruction at two places.
    never(ready + "@%p1 bra LOW;\n" + instruction + "\nbra END;\nLOW:\n" + instruction + "\nEND:\n");
    CHECK(ends(faultOf(ready + "@%p1 ret;\n" + instruction, Fault::LaunchFailure), "needs all lanes of the warp, but lane 0 has exited"));
    CHECK(ends(faultOf(ready + instruction, Fault::LaunchFailure, 48), "needs all lanes of the warp, but lane 16 does not exist"));
    // Lanes that come by two ways meet; a condition may be the same in all.
    expectRuns(ready + "@%p1 bra LOW;\nadd.u32 %r28, %r28, 1;\nbra MEET;\nLOW:\nadd.u32 %r28, %r28, 2;\nMEET:\n" + instruction);
    expectRuns(ready + "setp.lt.u32 %p1, %r30, 32;\n@%p1 " + instruction + "\n@!%p1 " + instruction);
  }
}

TEST_CASE("ptx: ldmatrix of addresses that are none of a row", "[ptx]") {
  const std::string ready = kOwnRow + kStoreRow + kMeet;
  const auto load = [](const std::string &space, const std::string &address) {
    return "ldmatrix.sync.aligned.m8n8.x4" + space + ".b16 {%r0, %r1, %r2, %r3}, [" + address + "];";
  };
  expectRuns(ready + load(".shared", "%r20"));
  const std::string half = faultOf(ready + load(".shared", "%r20+8"), Fault::MisalignedAddress);
  CHECK(ends(half, "shared address 0x8 is not aligned to 16 bytes"));
  // One lane of many.
  const std::string one =
      faultOf(ready + "setp.eq.u32 %p1, %r30, 21;\n@%p1 add.u32 %r20, %r20, 2;\n" + load(".shared", "%r20"), Fault::MisalignedAddress);
  CHECK(one.find("block 0, thread 21") != std::string::npos);
  CHECK(ends(faultOf(ready + load(".shared", "%r20+1024"), Fault::IllegalAddress), "is beyond the 1024 bytes of shared memory"));
  CHECK(ends(faultOf(ready + load(".shared", "%r20+-16"), Fault::IllegalAddress), "the address is not in shared memory"));
  CHECK(ends(faultOf(ready + load("", "%rd1"), Fault::IllegalAddress), "the address is not in shared memory"));
  CHECK(ends(faultOf(kOwnRow + "st.shared.v2.b32 [%r20], {%r30, %r30};\n" + kMeet + load(".shared", "%r20"), Fault::LaunchFailure),
             "is read before anything was written there"));
}

TEST_CASE("ptx: ldmatrix without a barrier is a race", "[ptx]") {
  const std::string written = "written by another thread, with no barrier between",
                    read = "read by another thread, with no barrier between";
  const auto races = [](const std::string &body, const std::string &end) { CHECK(ends(faultOf(body, Fault::LaunchFailure), end)); };
  // A lane that has the address of the row that it wrote: others get the elements.
  expectRuns(kOwnRow + kStoreRow + kMeet + kLoadRows);
  races(kOwnRow + kStoreRow + kLoadRows, written);
  // A lane that wrote the elements that it gets, in a row of which another lane has the address.
  const std::string parts = "mad.lo.u32 %r22, %r30, 4, %r21;\nst.shared.b32 [%r22], %r30;\nst.shared.b32 [%r22+128], %r30;\n"
                            "st.shared.b32 [%r22+256], %r30;\nst.shared.b32 [%r22+384], %r30;\n";
  expectRuns(kOwnRow + parts + kMeet + kLoadRows);
  races(kOwnRow + parts + kLoadRows, written);
  // Lanes that write what the load read.
  expectRuns(kOwnRow + kStoreRow + kMeet + kLoadRows + kMeet + "st.shared.b32 [%r20], %r0;");
  races(kOwnRow + kStoreRow + kMeet + kLoadRows + "st.shared.b32 [%r20], %r0;", read);
  races(kOwnRow + parts + kMeet + kLoadRows + "st.shared.b32 [%r22], %r0;", read);
  // A product orders no accesses.
  races(kOwnRow + kStoreRow + kProduct + kLoadRows, written);
}

TEST_CASE("ptx: ldmatrix of what another warp writes needs a barrier of the block", "[ptx]") {
  // Warp 0 writes, warp 1 loads.
  const std::string store = "setp.lt.u32 %p1, %r30, 32;\n" + kOwnRow + "@%p1 st.shared.v4.b32 [%r20], {%r30, %r30, %r30, %r30};\n";
  const std::string load = "@!%p1 ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%r20+-512];";
  const std::string barrier = "bar.sync 0;\n";
  const std::string overwrite = "@%p1 st.shared.b32 [%r20], %r20;\n";
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    expectRuns(store + barrier + load, 64, seed);
    expectRuns(store + barrier + load + barrier + overwrite, 64, seed);
    faultOf(store + load, Fault::LaunchFailure, 64, seed);
    faultOf(store + kMeet + load, Fault::LaunchFailure, 64, seed);
    faultOf(store + barrier + load + overwrite, Fault::LaunchFailure, 64, seed);
  }
}

} // namespace ashlar::test::matrices_test
