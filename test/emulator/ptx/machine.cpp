// SPDX-License-Identifier: Apache-2.0
//
// Blocks, barriers, and the end of those that wait for ever.

#include "test/emulator/ptx/machine.h"

#include "test/emulator/ptx/warp.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace ashlar::emulator {
namespace {

void fill(Warp &warp, uint32_t offset, unsigned width, uint64_t bits) {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    std::memcpy(warp.slot<std::byte>(offset) + lane * width, &bits, width);
  }
}

// Writes what is the same for the whole launch.
void prepare(Warp &warp, const LaunchShape &shape, const std::byte *parameters) {
  const Kernel &kernel = *warp.block.kernel;
  for (const Preset &preset : kernel.presets) {
    fill(warp, preset.offset, preset.width, preset.bits);
  }
  for (const ParameterPreset &preset : kernel.parameterPresets) {
    uint64_t bits = 0;
    std::memcpy(&bits, parameters + preset.place, preset.width);
    fill(warp, preset.offset, preset.width, bits);
  }
  for (unsigned dim = 0; dim < 3; ++dim) {
    fill(warp, offsetOf(SpecialRegister(NtidX + dim)), 4, shape.block[dim]);
    fill(warp, offsetOf(SpecialRegister(NctaidX + dim)), 4, shape.grid[dim]);
  }
  fill(warp, offsetOf(WarpId), 4, warp.first / kLanes);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const uint32_t thread = warp.first + lane;
    warp.slot<uint32_t>(offsetOf(TidX))[lane] = thread % shape.block[0];
    warp.slot<uint32_t>(offsetOf(TidY))[lane] = thread / shape.block[0] % shape.block[1];
    warp.slot<uint32_t>(offsetOf(TidZ))[lane] = thread / shape.block[0] / shape.block[1];
    warp.slot<uint32_t>(offsetOf(LaneId))[lane] = lane;
  }
}

// Lets the threads at a barrier go on when as many are there as it expects. Returns whether some did.
bool releaseBarrier(std::vector<std::unique_ptr<Warp>> &warps, const Kernel &kernel) {
  uint32_t alive = 0;
  std::unordered_map<int64_t, uint32_t> counts;
  std::unordered_map<int64_t, uint32_t> expected;
  for (const auto &warp : warps) {
    alive += unsigned(__builtin_popcount(warp->alive));
    uint32_t place = kNowhere;
    forEachLane(warp->waiting, [&](unsigned lane) {
      const Instruction &at = kernel.code[warp->pc[lane]];
      // bar.sync is for whole warps; lanes that have exited do not count.
      if (place != kNowhere && place != warp->pc[lane]) {
        warp->fault(Fault::LaunchFailure, lane, at, "lanes of one warp wait at different barriers");
      }
      place = warp->pc[lane];
      ++counts[at.immediate];
      expected[at.immediate] = at.operand[0] == kNowhere ? 0 : warp->slot<uint32_t>(at.operand[0])[lane];
    });
  }
  for (const auto &[barrier, count] : counts) {
    if (count == (expected[barrier] == 0 ? alive : expected[barrier])) {
      for (const auto &warp : warps) {
        warp->release(barrier);
      }
      return true;
    }
  }
  return false;
}

// Throws the fault of threads that wait for others which never come.
void reportDeadlock(const std::vector<std::unique_ptr<Warp>> &warps, const Kernel &kernel) {
  for (const auto &warp : warps) {
    if (const uint32_t stuck = warp->waiting | warp->stalled) {
      const auto lane = unsigned(__builtin_ctz(stuck));
      warp->fault(Fault::LaunchFailure, lane, kernel.code[warp->pc[lane]], "waits for threads that never come here");
    }
  }
}

} // namespace

uint64_t Machine::launch(const Module &module, const Kernel &kernel, const LaunchShape &shape, const std::byte *parameters) {
  // Numbers have 32 bits. A launch takes a few hundred a warp; before they run out, all begin again.
  if (nextNumber + shape.blocks() * (shape.threads() / kLanes + 1) * kWarpNumbers * 16 > 0xf0000000u) {
    memory.clearShadows();
    nextNumber = 1;
  }
  for (const Instruction &instruction : kernel.code) {
    instruction.allocation = nullptr;
  }
  std::vector<std::byte> shared(kernel.sharedBytes + shape.dynamicShared + 1);
  Shadow sharedShadow(shared.size());
  Block block{&module, &kernel, &memory, shared.data(), shared.size() - 1, &sharedShadow, races, {}, &nextNumber, {}};
  block.epoch.launch = block.take(1);
  std::vector<std::unique_ptr<Warp>> warps;
  for (uint32_t first = 0; first < shape.threads(); first += kLanes) {
    warps.push_back(std::make_unique<Warp>(block, first, shape.threads() - first));
    prepare(*warps.back(), shape, parameters);
  }
  std::vector<uint64_t> order(shape.blocks());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (const uint64_t number : order) {
    block.index[0] = uint32_t(number % shape.grid[0]);
    block.index[1] = uint32_t(number / shape.grid[0] % shape.grid[1]);
    block.index[2] = uint32_t(number / shape.grid[0] / shape.grid[1]);
    block.epoch.block = block.epoch.epoch = block.take(1);
    for (const auto &warp : warps) {
      warp->reset();
      for (unsigned dim = 0; dim < 3; ++dim) {
        fill(*warp, offsetOf(SpecialRegister(CtaidX + dim)), 4, block.index[dim]);
      }
    }
    do {
      std::shuffle(warps.begin(), warps.end(), random);
      block.epoch.epoch = block.take(1);
      for (const auto &warp : warps) {
        warp->beginEpoch();
        warp->run();
      }
    } while (releaseBarrier(warps, kernel));
    reportDeadlock(warps, kernel);
  }
  uint64_t executed = 0;
  for (const auto &warp : warps) {
    executed += warp->executed;
  }
  return executed;
}

} // namespace ashlar::emulator
