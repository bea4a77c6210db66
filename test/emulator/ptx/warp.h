// SPDX-License-Identifier: Apache-2.0
//
// 32 threads in lockstep where they agree and apart where they do not: every lane has a program counter, and the lanes at the lowest one go
// on. Lanes at one place run together again, so they meet behind loops and branches. Lanes at a shuffle wait for exactly the lanes of its
// mask, lanes at a product of matrices for the whole warp, lanes at a barrier for the block.

#ifndef ASHLAR_TEST_EMULATOR_PTX_WARP_H
#define ASHLAR_TEST_EMULATOR_PTX_WARP_H

#include "test/emulator/ptx/kernel.h"

namespace ashlar::emulator {

// The shared state of the warps of a block.
struct Block {
  const Module *module;
  const Kernel *kernel;
  DeviceMemory *memory;
  std::byte *shared;
  uint64_t sharedBytes;
  Shadow *sharedShadow;
  bool races; // accesses that conflict are faults
  Epoch epoch;
  uint64_t *nextNumber; // for the shadows
  uint32_t index[3];

  uint32_t take(uint32_t numbers) {
    *nextNumber += numbers;
    return uint32_t(*nextNumber - numbers);
  }
};

class Warp {
public:
  // `first`: the number in the block of lane 0; `count`: lanes that exist.
  Warp(Block &block, uint32_t first, uint32_t count);

  // Starts again for the next block.
  void reset();
  // Takes new numbers: all warps of the block are past a barrier.
  void beginEpoch();
  // Runs until every lane has exited or waits.
  void run();
  // Lets the lanes that wait at the barrier go on.
  void release(int64_t barrier);

  // The values of a register, one a lane.
  template <class T> T *slot(uint32_t offset) { return reinterpret_cast<T *>(frame.get() + offset); }

  // Returns the host's view of an address of a space, checked for an access of `size` bytes by the lane. Vector accesses check all at once.
  std::byte *globalRead(uint64_t address, unsigned size, unsigned lane, const Instruction &at, bool constant);
  std::byte *globalWrite(uint64_t address, unsigned size, unsigned lane, const Instruction &at, const std::byte *value);
  // For atomics: no conflict with others.
  std::byte *globalAtomic(uint64_t address, unsigned size, unsigned lane, const Instruction &at);
  std::byte *sharedRead(uint64_t address, unsigned size, unsigned lane, const Instruction &at);
  std::byte *sharedWrite(uint64_t address, unsigned size, unsigned lane, const Instruction &at, const std::byte *value);
  std::byte *sharedAtomic(uint64_t address, unsigned size, unsigned lane, const Instruction &at);
  std::byte *local(uint64_t address, unsigned size, unsigned lane, const Instruction &at);

  [[noreturn]] void fault(Fault::Kind kind, unsigned lane, const Instruction &at, const std::string &message) const;

  Block &block;
  uint32_t first;
  uint32_t exists;          // lanes of a block whose size is no multiple of 32
  uint32_t alive = 0;       // lanes that have not exited
  uint32_t waiting = 0;     // at a barrier
  uint32_t stalled = 0;     // at a shuffle or the like
  uint32_t pc[kLanes] = {}; // of the lanes that do not run just now
  uint64_t executed = 0;    // thread instructions

private:
  void runGroup(uint32_t at, uint32_t mask, uint32_t limit);
  void park(uint32_t mask, uint32_t at);
  uint32_t guarded(const Instruction &instruction, uint32_t mask);
  // Returns the lanes that go on together behind the instruction; empty when they have to wait.
  uint32_t converge(const Instruction &instruction, uint32_t at, uint32_t active);
  std::byte *global(uint64_t address, unsigned size, unsigned lane, const Instruction &at);
  std::byte *shared(uint64_t address, unsigned size, unsigned lane, const Instruction &at);
  Accessor accessor(unsigned lane, bool shared) const;
  void check(Shadow::Conflict conflict, unsigned lane, const Instruction &at, uint64_t address) const;

  struct FreeFrame {
    void operator()(std::byte *bytes) const;
  };
  std::unique_ptr<std::byte[], FreeFrame> frame;
  std::vector<std::byte> localMemory;
  uint32_t numbers = 0;              // the first of those for the shadows
  std::vector<uint32_t> pastNumbers; // since the last barrier
};

// Calls f(lane) for the lanes of a mask.
template <class F> void forEachLane(uint32_t mask, F f) {
  for (; mask != 0; mask &= mask - 1) {
    f(unsigned(__builtin_ctz(mask)));
  }
}

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_PTX_WARP_H
