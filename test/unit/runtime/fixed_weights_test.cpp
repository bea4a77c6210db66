// SPDX-License-Identifier: Apache-2.0
//
// Weights that are ordered once, on a hand-written image: whoever sets a variable, runs that follow compute with what it is.

#include "runtime/abi/memory_sizes.h"
#include "runtime/comm/local/local.h"
#include "runtime/execute/cpu/cpu_executor.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

namespace ashlar::test::fixed_weights_test {

using namespace ashlar::rt;

namespace {

constexpr int64_t kPixels = 4, kIn = 2, kOut = 3;
constexpr float kInitial[kOut * kIn] = {1, 2, 3, 4, 5, 6};

// y = x w, a convolution of 1 x 1, on two devices of one process. Variable "w", which init sets; x and y belong to each device.
struct ToyConvolution {
  const uint32_t f32 = ASHLAR_RT_F32, read = ASHLAR_RT_READ, write = ASHLAR_RT_WRITE;
  ashlar_rt_buffer constant = {ASHLAR_RT_CONSTANT, f32, 0, sizeof(kInitial)};
  ashlar_rt_buffer x = {ASHLAR_RT_ARENA, f32, 64, kPixels * kIn * sizeof(float)};
  ashlar_rt_buffer w = {ASHLAR_RT_ARENA, f32, 128, sizeof(kInitial)};
  ashlar_rt_buffer y = {ASHLAR_RT_ARENA, f32, 192, kPixels * kOut * sizeof(float)};
  ashlar_rt_buffer copied[2] = {constant, w}, convolved[3] = {x, w, y};
  uint32_t accesses[3] = {read, read, write}, copyAccesses[2] = {read, write};
  ashlar_rt_conv_dim pixels = {kPixels, kPixels, 1, 1, 1, 0}, none = {1, 1, 1, 1, 1, 0};
  ashlar_rt_conv_desc desc = {ASHLAR_RT_CONV_FORWARD, 0, 0, 0, ASHLAR_RT_EPILOGUE_NONE, 0, /*fixed_weights=*/1, 1, 1, 1, kIn, kOut,
                              {none, none, pixels},   0, 0};
  ashlar_rt_instr copy = {ASHLAR_RT_COPY, "copy", 2, copied, copyAccesses, nullptr, 0};
  ashlar_rt_instr conv = {ASHLAR_RT_CONV, "conv", 3, convolved, accesses, &desc, 0};
  ashlar_rt_program programs[2] = {{"init", {ASHLAR_RT_INIT}, 1, &copy}, {"forward", {ASHLAR_RT_RUN}, 1, &conv}};
  int64_t xShape[2] = {kPixels, kIn}, wShape[2] = {kOut, kIn}, yShape[2] = {kPixels, kOut};
  ashlar_rt_dim_split splits[2] = {};
  ashlar_rt_tensor tensors[3] = {{"x", ASHLAR_RT_INPUT, 2, xShape, xShape, splits, x},
                                 {"w", ASHLAR_RT_VARIABLE, 2, wShape, wShape, splits, w, /*persistent=*/1},
                                 {"y", ASHLAR_RT_OUTPUT, 2, yShape, yShape, splits, y}};
  ashlar_rt_axis axis = {"dp", 2};
  ashlar_rt_variant variant = {};
  ashlar_rt_image image = {};

  ToyConvolution() {
    variant.name = "default";
    variant.num_axes = 1;
    variant.axes = &axis;
    variant.devices_per_process = 2;
    variant.arena_bytes = 256;
    variant.num_tensors = 3;
    variant.tensors = tensors;
    variant.num_programs = 2;
    variant.programs = programs;
    variant.num_stages = variant.num_slots = 1;
    image.constants = reinterpret_cast<const uint8_t *>(kInitial);
    image.constants_bytes = sizeof(kInitial);
    image.num_variants = 1;
    image.variants = &variant;
  }
};

// Runs forward and checks y of each device, whose x is its number plus 1 everywhere, against weights[device].
void checkForward(CpuExecutor &executor, const std::vector<float> (&weights)[2]) {
  REQUIRE(executor.run(*executor.find(ASHLAR_RT_RUN)).ok());
  for (int device = 0; device < 2; ++device) {
    std::vector<float> y(kPixels * kOut);
    REQUIRE(executor.read(*executor.tensor("y"), device, y.data()).ok());
    for (size_t i = 0; i < y.size(); ++i) {
      const float *row = weights[device].data() + i % kOut * kIn;
      INFO("element " << i << " of device " << device);
      REQUIRE(y[i] == static_cast<float>(device + 1) * (row[0] + row[1]));
    }
  }
}

} // namespace

TEST_CASE("fixed weights: runs follow what init and others set a variable to", "[runtime][executor]") {
  ToyConvolution toy;
  std::vector<std::unique_ptr<Communicator>> communicators;
  REQUIRE(createLocalCommunicators(toy.variant, communicators).ok());
  ThreadPool pool(2);
  CpuExecutor executor;
  REQUIRE(executor.create(toy.image, toy.variant, *communicators[0], pool, {}).ok());
  auto set = [&](const char *name, int device, const std::vector<float> &values) {
    auto fill = [&](char *data) { std::memcpy(data, values.data(), values.size() * sizeof(float)); };
    REQUIRE(executor.write(*executor.tensor(name), device, fill).ok());
  };
  for (int device = 0; device < 2; ++device) {
    set("x", device, std::vector<float>(kPixels * kIn, static_cast<float>(device + 1)));
  }
  const std::vector<float> initial(kInitial, kInitial + kOut * kIn), other = {7, 0, -2, 1, 0, 4}, third = {3, 3, 8, -1, 9, 2};
  REQUIRE(executor.run(*executor.find(ASHLAR_RT_INIT)).ok());
  checkForward(executor, {initial, initial});
  checkForward(executor, {initial, initial});
  set("w", 1, other);
  checkForward(executor, {initial, other});
  set("w", 0, third);
  checkForward(executor, {third, other});
  REQUIRE(executor.run(*executor.find(ASHLAR_RT_INIT)).ok());
  checkForward(executor, {initial, initial});
}

TEST_CASE("fixed weights: a process says what their order takes", "[runtime][executor]") {
  ToyConvolution toy;
  std::vector<std::unique_ptr<Communicator>> communicators;
  REQUIRE(createLocalCommunicators(toy.variant, communicators).ok());
  ThreadPool pool(1);
  CpuExecutor executor;
  REQUIRE(executor.create(toy.image, toy.variant, *communicators[0], pool, {}).ok());
  std::vector<HeldPart> parts = executor.held(/*batchBytes=*/0);
  auto found =
      std::find_if(parts.begin(), parts.end(), [](const HeldPart &part) { return std::strcmp(part.name, "ordered weights") == 0; });
  REQUIRE(found != parts.end());
  CHECK(found->bytes == 2 * orderedWeightBytes(toy.desc));
  CHECK(orderedWeightBytes(toy.desc) == 3 * 32 * sizeof(float)); // two channels and a row between places, to 32 columns
}

TEST_CASE("fixed weights: calls that read them in one order share it", "[runtime][executor]") {
  // Two products of other numbers of rows share; one that reads the same bytes transposed does not, nor does a convolution.
  ToyConvolution toy;
  ashlar_rt_gemm_desc rows = {1, kPixels, kIn, kOut, 0, 0, 0, 0, 0, 0, /*fixed_weights=*/1, 0}, fewer = rows, transposed = rows;
  fewer.m = 1;
  transposed.transpose_b = 1; // the sizes are the same
  ashlar_rt_instr forward[4] = {toy.conv, toy.conv, toy.conv, toy.conv};
  const ashlar_rt_gemm_desc *products[3] = {&rows, &fewer, &transposed};
  for (int i = 0; i < 3; ++i) {
    forward[i + 1].kind = ASHLAR_RT_GEMM;
    forward[i + 1].desc = products[i];
  }
  const auto heldBy = [&](uint32_t count) {
    ashlar_rt_program programs[2] = {toy.programs[0], {"forward", {ASHLAR_RT_RUN}, count, forward}};
    toy.variant.programs = programs;
    std::vector<std::unique_ptr<Communicator>> communicators;
    REQUIRE(createLocalCommunicators(toy.variant, communicators).ok());
    ThreadPool pool(1);
    CpuExecutor executor;
    const Status status = executor.create(toy.image, toy.variant, *communicators[0], pool, {});
    INFO(status.message());
    REQUIRE(status.ok());
    uint64_t bytes = 0;
    for (const HeldPart &part : executor.held(/*batchBytes=*/0)) {
      bytes += std::strcmp(part.name, "ordered weights") == 0 ? part.bytes : 0;
    }
    return bytes;
  };
  const uint64_t convolution = 2 * orderedWeightBytes(toy.desc);
  REQUIRE(convolution != 0);
  CHECK(heldBy(1) == convolution);
  CHECK(heldBy(2) == convolution + 2 * orderedWeightBytes(rows));
  CHECK(heldBy(3) == convolution + 2 * orderedWeightBytes(rows));
  CHECK(heldBy(4) == convolution + 2 * orderedWeightBytes(rows) + 2 * orderedWeightBytes(transposed));
}

TEST_CASE("fixed weights: programs share them, whichever runs first", "[runtime][executor]") {
  // As a program for many rows and one for a single row, which both follow a change of the weights.
  ToyConvolution toy;
  ashlar_rt_gemm_desc many = {1, kPixels, kOut, kIn, 0, 1, 0, 0, 0, 0, /*fixed_weights=*/1, 0}, one = many;
  one.m = 1;
  ashlar_rt_instr rows = toy.conv, row = toy.conv;
  rows.kind = row.kind = ASHLAR_RT_GEMM;
  rows.desc = &many;
  row.desc = &one;
  ashlar_rt_program programs[3] = {toy.programs[0], {"rows", {ASHLAR_RT_RUN}, 1, &rows}, {"row", {ASHLAR_RT_TRAIN_STEP}, 1, &row}};
  toy.variant.programs = programs;
  toy.variant.num_programs = 3;
  std::vector<std::unique_ptr<Communicator>> communicators;
  REQUIRE(createLocalCommunicators(toy.variant, communicators).ok());
  ThreadPool pool(2);
  CpuExecutor executor;
  const Status status = executor.create(toy.image, toy.variant, *communicators[0], pool, {});
  INFO(status.message());
  REQUIRE(status.ok());
  for (const HeldPart &part : executor.held(/*batchBytes=*/0)) {
    CHECK((std::strcmp(part.name, "ordered weights") != 0 || part.bytes == 2 * orderedWeightBytes(many)));
  }
  auto set = [&](const char *name, int device, const std::vector<float> &values) {
    auto fill = [&](char *data) { std::memcpy(data, values.data(), values.size() * sizeof(float)); };
    REQUIRE(executor.write(*executor.tensor(name), device, fill).ok());
  };
  const auto check = [&](ashlar_rt_program_role role, size_t count, const std::vector<float> &weights) {
    for (int device = 0; device < 2; ++device) {
      set("x", device, std::vector<float>(kPixels * kIn, static_cast<float>(device + 1)));
      set("y", device, std::vector<float>(kPixels * kOut, 0));
    }
    REQUIRE(executor.run(*executor.find(role)).ok());
    for (int device = 0; device < 2; ++device) {
      std::vector<float> y(kPixels * kOut);
      REQUIRE(executor.read(*executor.tensor("y"), device, y.data()).ok());
      for (size_t i = 0; i < y.size(); ++i) {
        const float *column = weights.data() + i % kOut * kIn;
        INFO("element " << i << " of device " << device);
        REQUIRE(y[i] == (i < count ? static_cast<float>(device + 1) * (column[0] + column[1]) : 0));
      }
    }
  };
  const std::vector<float> initial(kInitial, kInitial + kOut * kIn), other = {7, 0, -2, 1, 0, 4};
  REQUIRE(executor.run(*executor.find(ASHLAR_RT_INIT)).ok());
  check(ASHLAR_RT_TRAIN_STEP, kOut, initial);
  check(ASHLAR_RT_RUN, kPixels * kOut, initial);
  for (int device = 0; device < 2; ++device) {
    set("w", device, other);
  }
  check(ASHLAR_RT_RUN, kPixels * kOut, other);
  check(ASHLAR_RT_TRAIN_STEP, kOut, other);
}

} // namespace ashlar::test::fixed_weights_test
