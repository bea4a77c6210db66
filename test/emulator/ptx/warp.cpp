// SPDX-License-Identifier: Apache-2.0
//
// Order of instructions in a warp, and its accesses to memory.

#include "test/emulator/ptx/warp.h"

#include <cstring>
#include <new>

namespace ashlar::emulator {
namespace {

constexpr std::align_val_t kFrameAlignment{64};

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

} // namespace

void Warp::FreeFrame::operator()(std::byte *bytes) const {
  operator delete[](bytes, kFrameAlignment);
}

Warp::Warp(Block &block, uint32_t first, uint32_t count)
    : block(block), first(first), exists(count >= kLanes ? kAllLanes : (1u << count) - 1),
      frame(new (kFrameAlignment) std::byte[block.kernel->frameBytes]), localMemory(block.kernel->localBytes * kLanes) {
  std::memset(frame.get(), 0, block.kernel->frameBytes);
}

void Warp::reset() {
  alive = exists;
  waiting = stalled = 0;
  std::memset(pc, 0, sizeof pc);
}

void Warp::beginEpoch() {
  numbers = block.take(kWarpNumbers);
  pastNumbers.clear();
}

// Shared memory knows nothing of other blocks.
Accessor Warp::accessor(unsigned lane, bool shared) const {
  const Epoch epoch{shared ? block.epoch.block : block.epoch.launch, block.epoch.block, block.epoch.epoch};
  return {epoch, numbers, numbers + 1 + lane, pastNumbers};
}

void Warp::run() {
  while (const uint32_t ready = alive & ~waiting & ~stalled) {
    uint32_t at = kNowhere;
    forEachLane(ready, [&](unsigned lane) { at = std::min(at, pc[lane]); });
    uint32_t mask = 0, limit = kNowhere;
    forEachLane(ready, [&](unsigned lane) {
      if (pc[lane] == at) {
        mask |= 1u << lane;
      } else {
        limit = std::min(limit, pc[lane]);
      }
    });
    runGroup(at, mask, limit);
  }
}

void Warp::release(int64_t barrier) {
  forEachLane(waiting, [&](unsigned lane) {
    if (block.kernel->code[pc[lane]].immediate == barrier) {
      waiting &= ~(1u << lane);
      ++pc[lane];
    }
  });
}

void Warp::park(uint32_t mask, uint32_t at) {
  forEachLane(mask, [&](unsigned lane) { pc[lane] = at; });
}

uint32_t Warp::guarded(const Instruction &instruction, uint32_t mask) {
  if (instruction.guard == kNowhere) {
    return mask;
  }
  const uint8_t *predicate = slot<uint8_t>(instruction.guard);
  uint32_t set = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    set |= uint32_t(predicate[lane] & 1) << lane;
  }
  return mask & (instruction.guardNegated ? ~set : set);
}

// Runs lanes that stand at one place until they part, wait, exit, or reach `limit`, where others stand.
void Warp::runGroup(uint32_t at, uint32_t mask, uint32_t limit) {
  const Instruction *code = block.kernel->code.data();
  while (mask != 0 && at < limit) {
    const Instruction &instruction = code[at];
    const uint32_t active = guarded(instruction, mask);
    executed += unsigned(__builtin_popcount(mask));
    if (active == 0) {
      ++at;
      continue;
    }
    switch (instruction.flow) {
    case Flow::Next:
      instruction.handler(*this, instruction, active);
      ++at;
      break;
    case Flow::Branch:
      if (active != mask) {
        park(active, instruction.target);
        park(mask & ~active, at + 1);
        return;
      }
      at = instruction.target;
      break;
    case Flow::Exit:
      alive &= ~active;
      mask &= ~active;
      ++at;
      break;
    case Flow::Barrier:
      waiting |= active;
      park(active, at);
      park(mask & ~active, at + 1);
      return;
    case Flow::Converge:
    case Flow::WholeWarp:
      park(mask & ~active, at + 1);
      park(converge(instruction, at, active), at + 1);
      return;
    }
  }
  park(mask, at);
}

uint32_t Warp::converge(const Instruction &instruction, uint32_t at, uint32_t active) {
  uint32_t arrived = active;
  forEachLane(stalled, [&](unsigned lane) { arrived |= uint32_t(pc[lane] == at) << lane; });
  const unsigned leader = unsigned(__builtin_ctz(active));
  const bool whole = instruction.flow == Flow::WholeWarp;
  const uint32_t members = whole ? kAllLanes : slot<uint32_t>(instruction.operand[0])[leader];
  if (whole && alive != kAllLanes) {
    const auto gone = unsigned(__builtin_ctz(~alive));
    fault(Fault::LaunchFailure, leader, instruction,
          "needs all lanes of the warp, but lane " + std::to_string(gone) + (exists >> gone & 1 ? " has exited" : " does not exist"));
  }
  if ((active & ~members) != 0) {
    fault(Fault::LaunchFailure, unsigned(__builtin_ctz(active & ~members)), instruction, "the lane is not in the mask " + hex(members));
  }
  if ((members & alive & ~arrived) != 0) {
    park(active, at);
    stalled |= active;
    return 0;
  }
  stalled &= ~(arrived & members);
  if (!whole && (alive & ~(arrived & members)) == 0) {
    // What any lane did before, it did before what any lane does behind.
    pastNumbers.push_back(numbers);
    numbers = block.take(kWarpNumbers);
  }
  instruction.handler(*this, instruction, arrived & members);
  return arrived & members;
}

void Warp::fault(Fault::Kind kind, unsigned lane, const Instruction &at, const std::string &message) const {
  throw Fault(kind, "kernel '" + block.kernel->name + "', block " + std::to_string(block.index[0]) + ", thread " +
                        std::to_string(first + lane) + ", line " + std::to_string(at.line) + " (" + block.module->line(at.line) +
                        "): " + message);
}

void Warp::check(Shadow::Conflict conflict, unsigned lane, const Instruction &at, uint64_t address) const {
  static constexpr const char *kTexts[] = {"", "written by another thread, with no barrier between",
                                           "read by another thread, with no barrier between", "read before anything was written there",
                                           "written in this launch, but read by ld.global.nc"};
  if (conflict != Shadow::None && (block.races || conflict == Shadow::Uninitialised)) {
    fault(Fault::LaunchFailure, lane, at, "address " + hex(address) + " is " + kTexts[conflict]);
  }
}

std::byte *Warp::global(uint64_t address, unsigned size, unsigned lane, const Instruction &at) {
  Allocation *allocation = at.allocation;
  if (!allocation || !allocation->holds(address, size)) {
    allocation = at.allocation = block.memory->find(address);
    if (!allocation || !allocation->holds(address, size)) {
      fault(Fault::IllegalAddress, lane, at, "address " + hex(address) + " is in no allocation");
    }
  }
  if (address % size != 0) {
    fault(Fault::MisalignedAddress, lane, at, "address " + hex(address) + " is not aligned to " + std::to_string(size) + " bytes");
  }
  return allocation->host + (address - allocation->begin);
}

std::byte *Warp::globalRead(uint64_t address, unsigned size, unsigned lane, const Instruction &at, bool constant) {
  std::byte *host = global(address, size, lane, at);
  const uint64_t offset = address - at.allocation->begin;
  check(at.allocation->shadow->read(offset, size, accessor(lane, /*shared=*/false), constant, /*fresh=*/false), lane, at, address);
  return host;
}

std::byte *Warp::globalWrite(uint64_t address, unsigned size, unsigned lane, const Instruction &at, const std::byte *value) {
  std::byte *host = global(address, size, lane, at);
  if (at.allocation->readOnly) {
    fault(Fault::IllegalAddress, lane, at, "address " + hex(address) + " is constant");
  }
  const uint64_t offset = address - at.allocation->begin;
  const Shadow::Conflict conflict = at.allocation->shadow->write(offset, size, accessor(lane, /*shared=*/false));
  // Two threads may write the same value.
  if (conflict != Shadow::WrittenByOther || std::memcmp(host, value, size) != 0) {
    check(conflict, lane, at, address);
  }
  return host;
}

std::byte *Warp::globalAtomic(uint64_t address, unsigned size, unsigned lane, const Instruction &at) {
  return global(address, size, lane, at);
}

std::byte *Warp::shared(uint64_t address, unsigned size, unsigned lane, const Instruction &at) {
  if (address > block.sharedBytes || size > block.sharedBytes - address) {
    fault(Fault::IllegalAddress, lane, at,
          "address " + hex(address) + " is beyond the " + std::to_string(block.sharedBytes) + " bytes of shared memory");
  }
  if (address % size != 0) {
    fault(Fault::MisalignedAddress, lane, at, "shared address " + hex(address) + " is not aligned to " + std::to_string(size) + " bytes");
  }
  return block.shared + address;
}

std::byte *Warp::sharedRead(uint64_t address, unsigned size, unsigned lane, const Instruction &at) {
  std::byte *host = shared(address, size, lane, at);
  check(block.sharedShadow->read(address, size, accessor(lane, /*shared=*/true), /*constant=*/false,
                                 /*fresh=*/true),
        lane, at, address);
  return host;
}

std::byte *Warp::sharedWrite(uint64_t address, unsigned size, unsigned lane, const Instruction &at, const std::byte *value) {
  std::byte *host = shared(address, size, lane, at);
  const Shadow::Conflict conflict = block.sharedShadow->write(address, size, accessor(lane, /*shared=*/true));
  if (conflict != Shadow::WrittenByOther || std::memcmp(host, value, size) != 0) {
    check(conflict, lane, at, address);
  }
  return host;
}

std::byte *Warp::sharedAtomic(uint64_t address, unsigned size, unsigned lane, const Instruction &at) {
  return shared(address, size, lane, at);
}

std::byte *Warp::local(uint64_t address, unsigned size, unsigned lane, const Instruction &at) {
  const uint64_t bytes = block.kernel->localBytes;
  if (address > bytes || size > bytes - address) {
    fault(Fault::IllegalAddress, lane, at,
          "address " + hex(address) + " is beyond the " + std::to_string(bytes) + " bytes of local memory");
  }
  if (address % size != 0) {
    fault(Fault::MisalignedAddress, lane, at, "local address " + hex(address) + " is not aligned to " + std::to_string(size) + " bytes");
  }
  return localMemory.data() + lane * bytes + address;
}

} // namespace ashlar::emulator
