// SPDX-License-Identifier: Apache-2.0
//
// What of an image a GPU has, where: constants; and what connects it with other stages.

#include "runtime/comm/nccl/stage_links.h"
#include "runtime/execute/cuda/cuda_context.h"
#include "test/unit/runtime/toy_pipeline.h"

#include <catch2/catch.hpp>

namespace ashlar::test::device_memory_test {

using namespace ashlar::rt;

namespace {

// A program that reads constants of so many bytes at these offsets.
std::vector<ConstantPiece> piecesOf(const std::vector<std::pair<uint64_t, uint64_t>> &read) {
  std::vector<ashlar_rt_buffer> buffers = {{ASHLAR_RT_ARENA, ASHLAR_RT_F32, 8, 8}};
  for (auto [offset, bytes] : read) {
    buffers.push_back({ASHLAR_RT_CONSTANT, ASHLAR_RT_F32, offset, bytes});
  }
  ashlar_rt_instr instr = {};
  instr.num_buffers = static_cast<uint32_t>(buffers.size());
  instr.buffers = buffers.data();
  ashlar_rt_program program = {};
  program.num_instrs = 1;
  program.instrs = &instr;
  ashlar_rt_variant variant = {};
  variant.num_programs = 1;
  variant.programs = &program;
  return constantsOf(variant);
}

std::vector<std::vector<uint64_t>> numbersOf(const std::vector<ConstantPiece> &pieces) {
  std::vector<std::vector<uint64_t>> numbers;
  for (const ConstantPiece &piece : pieces) {
    numbers.push_back({piece.begin, piece.end, piece.offset});
  }
  return numbers;
}

} // namespace

TEST_CASE("constants: a device has what its programs read, side by side", "[runtime][cuda]") {
  using Numbers = std::vector<std::vector<uint64_t>>;
  CHECK(piecesOf({}).empty());
  CHECK(numbersOf(piecesOf({{0, 10}, {64, 100}, {192, 8}})) == Numbers{{0, 200, 0}}); // nothing between them but alignment
  CHECK(numbersOf(piecesOf({{512, 70}, {64, 100}, {1024, 4}})) == Numbers{{64, 164, 0}, {512, 582, 128}, {1024, 1028, 256}});
  CHECK(numbersOf(piecesOf({{64, 100}, {64, 300}, {128, 4}})) == Numbers{{64, 364, 0}}); // one in the other
  CHECK(piecesOf({{64, 0}}).empty());
  DeviceMemory memory;
  memory.arena = 1000;
  memory.constants = 5000;
  memory.pieces = piecesOf({{512, 70}, {64, 100}, {1024, 4}});
  auto address = [&](uint64_t offset) { return memory.address({ASHLAR_RT_CONSTANT, ASHLAR_RT_F32, offset, 4}); };
  CHECK(address(64) == 5000);
  CHECK(address(128) == 5064);
  CHECK(address(512) == 5128);
  CHECK(address(516) == 5132);
  CHECK(address(1024) == 5256);
  CHECK(memory.address({ASHLAR_RT_ARENA, ASHLAR_RT_F32, 24, 4}) == 1024);
}

TEST_CASE("constants: rows that a loop reads come along as a whole", "[runtime][cuda][repeats]") {
  const int64_t forward[] = {64}, backward[] = {-64};
  const ashlar_rt_buffer rows[] = {{ASHLAR_RT_CONSTANT, ASHLAR_RT_F32, 128, 40, 1, forward},
                                   {ASHLAR_RT_CONSTANT, ASHLAR_RT_F32, 2048, 40, 1, backward},
                                   {ASHLAR_RT_CONSTANT, ASHLAR_RT_F32, 4096, 4, 0, nullptr}};
  const ashlar_rt_repeat_desc four = {4, 1};
  const ashlar_rt_instr instrs[] = {{ASHLAR_RT_REPEAT, "repeat", 0, nullptr, nullptr, &four, 0},
                                    {ASHLAR_RT_KERNEL, "kernel", 3, rows, nullptr, nullptr, 0}};
  ashlar_rt_program program = {};
  program.num_instrs = 2;
  program.instrs = instrs;
  ashlar_rt_variant variant = {};
  variant.num_programs = 1;
  variant.programs = &program;
  DeviceMemory memory;
  memory.pieces = constantsOf(variant);
  CHECK(numbersOf(memory.pieces) == std::vector<std::vector<uint64_t>>{{128, 360, 0}, {1856, 2088, 256}, {4096, 4100, 512}});
  CHECK(memory.address({ASHLAR_RT_CONSTANT, ASHLAR_RT_F32, 320, 40}) == 192);
  CHECK(memory.address({ASHLAR_RT_CONSTANT, ASHLAR_RT_F32, 1856, 40}) == 256);
}

TEST_CASE("links: one for each direction in which something is sent", "[runtime][cuda][stages]") {
  // Activations and norms go on, gradients back, and the norm of all from the last stage to each other one.
  auto image = ashlar::test::makeToyPipeline({/*stages=*/4, /*devices=*/1});
  const std::vector<StagePair> expected = {{0, 1}, {1, 0}, {1, 2}, {2, 1}, {2, 3}, {3, 0}, {3, 1}, {3, 2}};
  CHECK(stagePairs(Stages(image->image().variants[2])) == expected);
  CHECK(blocksOfLink(/*multiprocessors=*/132, /*links=*/4) == 4);
  CHECK(blocksOfLink(132, 20) == 3);
  CHECK(blocksOfLink(132, 200) == 1);
}

} // namespace ashlar::test::device_memory_test
