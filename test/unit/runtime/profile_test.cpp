// SPDX-License-Identifier: Apache-2.0
//
// The tables of --profile, of a program whose times are given.

#include "runtime/execute/profile.h"

#include <catch2/catch.hpp>

#include <sstream>

namespace ashlar::test::profile_test {

using namespace ashlar::rt;

namespace {

constexpr double kMicro = 1e-6;
const ashlar_rt_buffer kBuffers[3] = {{ASHLAR_RT_ARENA, ASHLAR_RT_F32, 0, 1000000},
                                      {ASHLAR_RT_ARENA, ASHLAR_RT_F32, 0, 2000000},
                                      {ASHLAR_RT_ARENA, ASHLAR_RT_F32, 0, 3000000}};
const uint32_t kAccesses[3] = {ASHLAR_RT_READ, ASHLAR_RT_READ, ASHLAR_RT_READ | ASHLAR_RT_WRITE};
const ashlar_rt_gemm_desc kGemm = {1, 100, 200, 50}; // 2e6 operations
const ashlar_rt_conv_desc kConv = {ASHLAR_RT_CONV_FORWARD,
                                   0,
                                   0,
                                   0,
                                   0,
                                   0,
                                   0,
                                   2,
                                   4,
                                   2,
                                   8,
                                   16, // batch, groups, channels
                                   {{12, 10, 3, 1, 1, 0}, {7, 5, 3, 1, 1, 0}, {1, 1, 1, 1, 1, 0}},
                                   0,
                                   0};
const ashlar_rt_kernel_desc kKernel = {nullptr, nullptr, 1, 1};

ashlar_rt_instr instr(uint32_t kind, const char *name, const void *desc) {
  return {kind, name, 3, kBuffers, kAccesses, desc, 0};
}

// Two layers; the second has a layer of its own with two ops.
const ashlar_rt_instr kInstrs[] = {instr(ASHLAR_RT_CONV, "conv layer1/conv", &kConv), instr(ASHLAR_RT_GEMM, "gemm layer2.0/fc1", &kGemm),
                                   instr(ASHLAR_RT_KERNEL, "loop_1 layer2.0/relu", &kKernel),
                                   instr(ASHLAR_RT_KERNEL, "default_1_rows_2 layer2.1/norm", &kKernel),
                                   instr(ASHLAR_RT_COPY, "copy", nullptr)};

struct Profiled {
  ashlar_rt_program source = {"forward", {ASHLAR_RT_RUN}, 5, kInstrs};
  Program program{source};

  Profiled() {
    program.runs = 2;
    program.seconds = {1000 * kMicro, 200 * kMicro, 400 * kMicro, 370 * kMicro, 20 * kMicro};
    program.waits.push_back({"receive h from stage 0", 10 * kMicro});
  }
};

// The line of a text that ends with `end`, its words separated by one space.
std::string line(const std::string &text, const std::string &end) {
  std::istringstream lines(text);
  for (std::string found; std::getline(lines, found);) {
    if (found.size() >= end.size() && found.compare(found.size() - end.size(), end.size(), end) == 0) {
      std::istringstream words(found);
      std::string word, joined;
      while (words >> word) {
        joined += (joined.empty() ? "" : " ") + word;
      }
      return joined;
    }
  }
  return "none";
}

} // namespace

TEST_CASE("profile: time by kind of instruction, with what it moved and computed", "[runtime][profile]") {
  Profiled profiled;
  std::string text = profileText(profiled.program, /*devices=*/1, /*all=*/false);
  text = text.substr(0, text.find(" by module"));
  // Bytes: 1 + 2 + 2 * 3 MB. A convolution of 2 * 4 * 2 * 8 * 16 * 10 * 3 * 5 * 3 = 921600 operations in 500 us.
  CHECK(line(text, " convolutions") == "50.0 % 500.00 us 1 calls 9.00 MB 18.0 GB/s 1.8 GFLOP/s convolutions");
  CHECK(line(text, " products") == "10.0 % 100.00 us 1 calls 9.00 MB 90.0 GB/s 20.0 GFLOP/s products");
  CHECK(line(text, " element-wise") == "20.0 % 200.00 us 1 calls 9.00 MB 45.0 GB/s element-wise");
  CHECK(line(text, " rows and reductions") == "18.5 % 185.00 us 1 calls 9.00 MB 48.6 GB/s rows and reductions");
  CHECK(line(text, " copies") == "1.0 % 10.00 us 1 calls 9.00 MB 900.0 GB/s copies");
  CHECK(line(text, " waiting") == "0.5 % 5.00 us 1 calls 0.00 MB waiting");
  CHECK(text.find("convolutions") < text.find("element-wise")); // the longest first
  // On two devices twice of it.
  CHECK(line(profileText(profiled.program, /*devices=*/2, /*all=*/false), " products") ==
        "10.0 % 100.00 us 1 calls 18.00 MB 180.0 GB/s 40.0 GFLOP/s products");
}

TEST_CASE("profile: an insert moves its rows, not its target", "[runtime][profile]") {
  const ashlar_rt_insert_desc desc = {1, 1, 3, 1000000};
  const ashlar_rt_instr insert = instr(ASHLAR_RT_INSERT, "insert cache", &desc);
  const ashlar_rt_program source = {"decode", {ASHLAR_RT_RUN}, 1, &insert};
  Program program(source);
  program.runs = 1;
  program.seconds = {100 * kMicro};
  // 1 MB of rows is read and written; the index has 2 MB here.
  CHECK(line(profileText(program, /*devices=*/1, /*all=*/false), " inserts") == "100.0 % 100.00 us 1 calls 4.00 MB 40.0 GB/s inserts");
}

TEST_CASE("profile: time by module, those within others below them", "[runtime][profile]") {
  Profiled profiled;
  const std::string text = profileText(profiled.program, /*devices=*/1, /*all=*/false);
  const std::string modules = text.substr(text.find(" by module"), text.find(" by instruction") - text.find(" by module"));
  CHECK(line(modules, " layer1/conv") == "50.0 % 500.00 us 1 calls 9.00 MB 18.0 GB/s 1.8 GFLOP/s layer1/conv"); // for layer1, too
  CHECK(line(modules, " layer1") == "none");
  // Operations are known of the 200 us of the product only.
  CHECK(line(modules, "  layer2") == "48.5 % 485.00 us 3 calls 27.00 MB 55.7 GB/s 20.0 GFLOP/s layer2");
  CHECK(line(modules, "    layer2.0") == "30.0 % 300.00 us 2 calls 18.00 MB 60.0 GB/s 20.0 GFLOP/s layer2.0");
  CHECK(line(modules, "      layer2.0/relu") == "20.0 % 200.00 us 1 calls 9.00 MB 45.0 GB/s layer2.0/relu");
  CHECK(line(modules, "    layer2.1/norm") == "18.5 % 185.00 us 1 calls 9.00 MB 48.6 GB/s layer2.1/norm");
  CHECK(line(modules, " (no module)") == "1.5 % 15.00 us 2 calls 9.00 MB 600.0 GB/s (no module)");
  profiled.program.seconds[4] = 0;
  profiled.program.waits.clear(); // then it is 0 % of the time
  CHECK(profileText(profiled.program, /*devices=*/1, /*all=*/false).find("(no module)") == std::string::npos);
  CHECK(profileText(profiled.program, /*devices=*/1, /*all=*/true).find("(no module)") != std::string::npos);
}

TEST_CASE("profile: the 20 most expensive instructions, or all", "[runtime][profile]") {
  std::vector<std::string> names;
  for (int i = 0; i < 23; ++i) {
    names.push_back("loop_" + std::to_string(i));
  }
  std::vector<ashlar_rt_instr> instrs;
  for (const std::string &name : names) {
    instrs.push_back(instr(ASHLAR_RT_KERNEL, name.c_str(), &kKernel));
  }
  ashlar_rt_program source = {"forward", {ASHLAR_RT_RUN}, 23, instrs.data()};
  Program program(source);
  CHECK(profileText(program, /*devices=*/1, /*all=*/true) == ""); // it never ran
  program.runs = 1;
  for (int i = 0; i < 23; ++i) {
    program.seconds[i] = i * kMicro;
  }
  const std::string some = profileText(program, /*devices=*/1, /*all=*/false), all = profileText(program, /*devices=*/1, /*all=*/true);
  CHECK(some.find("\n by instruction, of all runs; the time is the mean of a call:\n") != std::string::npos);
  CHECK(line(some, "  loop_3") == "1.2 % 3.00 us 1 calls loop_3");
  CHECK(line(some, "  loop_2") == "none");
  CHECK(line(some, "prints them") == "3 more; --profile=all prints them");
  CHECK(line(all, "  loop_0") == "0.0 % 0.00 us 1 calls loop_0");
  CHECK(line(all, "prints them") == "none");
}

TEST_CASE("profile: a collective of a loop is expected to take its time in each iteration", "[runtime][profile][repeats]") {
  const ashlar_rt_repeat_desc repeat = {10, 3};
  ashlar_rt_collective_desc gather = {};
  gather.token = 1;
  gather.duration_ns = 4000;
  gather.hidden_ns = 3000;
  const ashlar_rt_wait_desc wait = {1};
  const ashlar_rt_instr instrs[] = {{ASHLAR_RT_REPEAT, "repeat", 0, nullptr, nullptr, &repeat, 0},
                                    instr(ASHLAR_RT_COLLECTIVE, "all_gather cell", &gather),
                                    instr(ASHLAR_RT_KERNEL, "loop_1 cell", &kKernel),
                                    {ASHLAR_RT_WAIT, "wait", 0, nullptr, nullptr, &wait, 0}};
  const ashlar_rt_program source = {"step", {ASHLAR_RT_TRAIN_STEP}, 4, instrs};
  Program program(source);
  program.runs = 2;
  program.besideSeconds[1] = 2 * 50 * kMicro;
  program.seconds[3] = 2 * 10 * kMicro;
  const std::string text = profileText(program, /*devices=*/1, /*all=*/false);
  CHECK(line(text.substr(text.rfind("10 all_gather")), "75 % hidden") ==
        "10 all_gather cell: 50.00 us, 80 % hidden; expected 40.00 us, 75 % hidden");
}

} // namespace ashlar::test::profile_test
