// SPDX-License-Identifier: Apache-2.0
//
// Meshes, barriers, agreement, and sums that do not depend on how devices are spread over processes.

#include "runtime/comm/local/local.h"

#include <catch2/catch.hpp>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

namespace ashlar::test::comm_test {

using namespace ashlar::rt;

namespace {

// A variant over one axis with a single all-reduce of `elements` floats.
struct SumVariant {
  SumVariant(uint32_t devices, uint32_t perProcess, int64_t elements) : axis{"dp", devices}, shape{elements} {
    desc.kind = ASHLAR_RT_ALL_REDUCE;
    desc.dtype = ASHLAR_RT_F32;
    desc.num_axes = 1;
    desc.axes = &axisIndex;
    desc.num_tensors = 1;
    desc.tensors = &tensor;
    uint64_t bytes = static_cast<uint64_t>(elements) * sizeof(float);
    buffers[0] = {ASHLAR_RT_ARENA, ASHLAR_RT_F32, 0, bytes};
    buffers[1] = {ASHLAR_RT_ARENA, ASHLAR_RT_F32, (bytes + 63) / 64 * 64, bytes};
    instr = {ASHLAR_RT_COLLECTIVE, "sum", 2, buffers, accesses, &desc};
    program = {"sum", {}, 1, &instr, 0, nullptr, 0, nullptr};
    variant = {"default", 1, &axis, perProcess, 2 * (bytes + 64), 0, 0, nullptr, 1, &program, nullptr};
  }

  uint32_t axisIndex = 0;
  ashlar_rt_axis axis;
  int64_t shape[1];
  ashlar_rt_collective_tensor tensor = {/*rank=*/1, shape, /*split_dim=*/0, /*concat_dim=*/0};
  ashlar_rt_collective_desc desc = {};
  ashlar_rt_buffer buffers[2];
  const uint32_t accesses[2] = {ASHLAR_RT_READ, ASHLAR_RT_WRITE};
  ashlar_rt_instr instr;
  ashlar_rt_program program;
  ashlar_rt_variant variant;
};

// Runs `body` once for each rank, on a thread of its own.
template <typename Body> void onAllRanks(const ashlar_rt_variant &variant, Body &&body) {
  std::vector<std::unique_ptr<Communicator>> communicators;
  REQUIRE(createLocalCommunicators(variant, communicators).ok());
  std::vector<std::thread> threads;
  for (auto &communicator : communicators) {
    threads.emplace_back([&] { body(*communicator); });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
}

// The sum over eight devices, played by so many processes; the inputs depend on the device alone.
std::vector<float> sumOverEight(uint32_t processes, int64_t elements) {
  SumVariant sum(8, 8 / processes, elements);
  std::vector<float> result(static_cast<size_t>(elements));
  onAllRanks(sum.variant, [&](Communicator &communicator) {
    for (uint32_t local = 0; local < 8 / processes; ++local) {
      std::mt19937 random(static_cast<uint32_t>(communicator.firstDevice()) + local);
      std::normal_distribution<float> normal;
      auto *in = reinterpret_cast<float *>(communicator.arena(static_cast<int>(local)));
      std::generate(in, in + elements, [&] { return normal(random); });
    }
    std::unique_ptr<Collective> collective;
    if (communicator.prepare(sum.instr, nullptr, collective).ok() && collective->run().ok() && communicator.rank() == 0) {
      std::memcpy(result.data(), communicator.arena(0) + sum.buffers[1].offset, result.size() * sizeof(float));
    }
  });
  return result;
}

} // namespace

TEST_CASE("mesh: devices count row major, members along the axes as listed", "[runtime][mesh]") {
  ashlar_rt_axis axes[] = {{"a", 2}, {"b", 3}};
  ashlar_rt_variant variant = {};
  variant.num_axes = 2;
  variant.axes = axes;
  variant.devices_per_process = 2;
  Mesh mesh(variant);
  CHECK(mesh.processes() == 3);
  CHECK(mesh.coordinates(4) == std::vector<int64_t>{1, 1});
  uint32_t a[] = {0};
  uint32_t ba[] = {1, 0};
  CHECK(mesh.groups(a, 1) == std::vector<Group>{{0, 3}, {1, 4}, {2, 5}});
  CHECK(mesh.groups(ba, 2) == std::vector<Group>{{0, 3, 1, 4, 2, 5}});
  CHECK(mesh.groups(nullptr, 0).size() == 6);
  // Groups {0,1,2} and {3,4,5} meet in process 1, which plays devices 2 and 3.
  uint32_t b[] = {1};
  CHECK(mesh.components(b, 1) == std::vector<int>{0, 0, 0});
  CHECK(mesh.components(nullptr, 0) == std::vector<int>{0, 1, 2});
}

TEST_CASE("all-reduce: a sum over 8 devices has the same bits on 1, 2, 4 and 8 processes", "[runtime][comm]") {
  for (int64_t elements : {1, 100, 5001}) { // slot in one line, slot, arenas
    std::vector<float> one = sumOverEight(1, elements);
    CHECK(one[0] != 0);
    for (uint32_t processes : {2u, 4u, 8u}) {
      CHECK(sumOverEight(processes, elements) == one);
    }
  }
}

TEST_CASE("barrier: nobody passes before all have come", "[runtime][comm]") {
  SumVariant sum(4, 1, 1);
  std::atomic<int> arrived{0};
  std::atomic<bool> early{false};
  onAllRanks(sum.variant, [&](Communicator &communicator) {
    for (int round = 1; round <= 200; ++round) {
      ++arrived;
      bool ok = communicator.barrier().ok();
      early = early || !ok || arrived < 4 * round;
      ok = communicator.barrier().ok();
      early = early || !ok;
    }
  });
  CHECK_FALSE(early);
}

TEST_CASE("agree: all ranks learn of the lowest one that failed", "[runtime][comm]") {
  SumVariant sum(4, 1, 1);
  std::atomic<int> told{0};
  onAllRanks(sum.variant, [&](Communicator &communicator) {
    Status mine = communicator.rank() >= 2 ? invalid("bad file {}", communicator.rank()) : Status();
    told += communicator.agree(mine).message() == "rank 2: bad file 2";
    told += communicator.agree(invalid("same everywhere")).message() == "same everywhere";
    told += communicator.agree(Status()).ok();
  });
  CHECK(told == 12);
}

TEST_CASE("abort: ranks that wait for one that gave up stop waiting", "[runtime][comm]") {
  SumVariant sum(2, 1, 5000);
  Status waited;
  onAllRanks(sum.variant, [&](Communicator &communicator) {
    std::unique_ptr<Collective> collective;
    Status prepared = communicator.prepare(sum.instr, nullptr, collective);
    if (communicator.rank() == 0) {
      waited = prepared.ok() ? collective->run() : prepared;
    } else {
      communicator.abort();
    }
  });
  CHECK(waited.code() == StatusCode::kAborted);
}

TEST_CASE("communicator: every rank gathers what all ranks give, again and again", "[runtime][comm]") {
  SumVariant sum(4, 1, 9);
  std::atomic<int> right{0};
  onAllRanks(sum.variant, [&](Communicator &communicator) {
    for (int round = 0; round < 3; ++round) {
      std::array<int, 30> mine;
      mine.fill(100 * round + communicator.rank());
      std::array<int, 120> all = {};
      bool good = communicator.allGather(mine.data(), sizeof(mine), all.data()).ok();
      for (int i = 0; i < 120; ++i) {
        good = good && all[static_cast<size_t>(i)] == 100 * round + i / 30;
      }
      right += good;
    }
    char large[kLargestGather + 1];
    right += communicator.allGather(large, sizeof(large), large).message() == "a gather of 1021 bytes a rank; at most 1020 fit";
  });
  CHECK(right == 16);
}

TEST_CASE("communicator: one rank alone says why the job ends", "[runtime][comm]") {
  SumVariant sum(4, 1, 9);
  std::atomic<int> first{0};
  std::atomic<int> seen{0};
  onAllRanks(sum.variant, [&](Communicator &communicator) {
    first += communicator.giveUp();
    seen += communicator.aborted();
  });
  CHECK(first == 1);
  CHECK(seen == 4);
}

TEST_CASE("communicator: once a rank gave up, agreement keeps what this one has to say", "[runtime][comm]") {
  SumVariant sum(2, 1, 9);
  std::vector<std::unique_ptr<Communicator>> communicators;
  REQUIRE(createLocalCommunicators(sum.variant, communicators).ok());
  communicators[1]->giveUp();
  Status told = communicators[0]->agree(unavailable("rank 1 terminated without reporting an error"));
  CHECK(told.message() == "rank 1 terminated without reporting an error");
  CHECK(!told.isShared());
  CHECK(communicators[0]->agree(Status()).code() == StatusCode::kAborted);
}

TEST_CASE("tensors: neighbours of an all-reduce are one run of bytes, others are not", "[runtime][comm]") {
  const int64_t shapes[] = {10, 32, 1, 16};
  std::vector<ashlar_rt_collective_tensor> tensors;
  std::vector<ashlar_rt_buffer> ins;
  const uint64_t offsets[] = {0, 64, 256, 320}; // 40 bytes, 128 of them to 192, a gap, 4 bytes to 260, 64 bytes
  for (int i = 0; i < 4; ++i) {
    tensors.push_back({/*rank=*/1, &shapes[i], /*split_dim=*/0, /*concat_dim=*/0});
    ins.push_back({ASHLAR_RT_ARENA, ASHLAR_RT_F32, offsets[i], 4 * static_cast<uint64_t>(shapes[i])});
  }
  ashlar_rt_collective_desc desc = {};
  desc.kind = ASHLAR_RT_ALL_REDUCE;
  desc.dtype = ASHLAR_RT_F32;
  desc.num_tensors = 4;
  desc.tensors = tensors.data();
  std::vector<ashlar_rt_buffer> outs = ins;
  std::vector<ashlar_rt_buffer> buffers;
  std::vector<PlacedTensor> placed;
  auto place = [&] {
    buffers = ins;
    buffers.insert(buffers.end(), outs.begin(), outs.end());
    ashlar_rt_instr instr = {ASHLAR_RT_COLLECTIVE, "sum", static_cast<uint32_t>(buffers.size()), buffers.data(), nullptr, &desc};
    return placeTensors(instr, /*members=*/2, placed).message();
  };
  auto ranges = [&] {
    std::vector<std::pair<uint64_t, uint64_t>> found;
    for (const PlacedTensor &tensor : placed) {
      CHECK(tensor.shape.inBytes() == tensor.in.bytes);
      found.emplace_back(tensor.in.offset, tensor.in.bytes);
    }
    return found;
  };
  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
  CHECK(place() == "");
  CHECK(ranges() == Ranges{{0, 192}, {256, 128}});
  outs[1].offset = 1024; // no longer beside the first: each for itself, but for the last two
  CHECK(place() == "");
  CHECK(ranges() == Ranges{{0, 40}, {64, 128}, {256, 128}});
  desc.kind = ASHLAR_RT_BROADCAST; // moves: only where it lies
  for (size_t i = 0; i < outs.size(); ++i) {
    outs[i].offset = 4096 + ins[i].offset;
  }
  CHECK(place() == "");
  CHECK(ranges().size() == 4);
  desc.kind = ASHLAR_RT_ALL_REDUCE;
  outs[3].offset = ins[1].offset;
  CHECK(place() == "sum: in at 64 and out at 64 overlap");
  outs[3].offset = outs[0].offset;
  CHECK(place() == "sum: out at 4096 and out at 4096 overlap");
  outs[3].offset = 8192;
  ins[2].dtype = ASHLAR_RT_I32;
  CHECK(place() == "sum: buffers of dtypes 3 and 1 in a collective of dtype 1");
  outs.pop_back();
  CHECK(place() == "sum: a collective of 4 tensors has buffers in and out for each, not 7 buffers");
  desc.num_tensors = 0;
  CHECK(place() == "sum: a collective of 0 tensors has buffers in and out for each, not 7 buffers");
}

TEST_CASE("prepare: a collective that contradicts itself is refused with both values", "[runtime][comm]") {
  SumVariant sum(2, 1, 9);
  std::vector<std::unique_ptr<Communicator>> communicators;
  REQUIRE(createLocalCommunicators(sum.variant, communicators).ok());
  std::unique_ptr<Collective> collective;
  auto message = [&] { return communicators[0]->prepare(sum.instr, nullptr, collective).message(); };
  CHECK(message().empty());
  sum.desc.kind = ASHLAR_RT_REDUCE_SCATTER;
  CHECK(message() == "sum: reduce_scatter: dim 0 of size 9 does not divide by the group's 2 members");
  sum.desc.kind = ASHLAR_RT_ALL_GATHER;
  CHECK(message() == "sum: all_gather: buffers of 36 and 36 bytes, but its shapes take 36 and 72");
  sum.desc.kind = ASHLAR_RT_BROADCAST;
  sum.desc.root = 2;
  CHECK(message() == "sum: broadcast: root 2 is not one of the group's 2 members");
  sum.desc.kind = ASHLAR_RT_ALL_REDUCE;
  sum.buffers[1].offset = 16;
  CHECK(message() == "sum: in at 0 and out at 16 overlap");
  sum.buffers[1].space = ASHLAR_RT_CONSTANT;
  CHECK(message() == "sum: all_reduce needs both buffers in the arena");
}

} // namespace ashlar::test::comm_test
