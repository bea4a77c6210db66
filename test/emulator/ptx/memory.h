// SPDX-License-Identifier: Apache-2.0
//
// The memory of a device: allocations, and who touched which byte.
//
// A device address is a host address plus kDeviceWindow, which no host pointer can equal: the host cannot read device memory by mistake,
// nor a kernel host memory that was not mapped for it. Fresh memory holds 0xff in every byte, a NaN in every format.

#ifndef ASHLAR_TEST_EMULATOR_PTX_MEMORY_H
#define ASHLAR_TEST_EMULATOR_PTX_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace ashlar::emulator {

constexpr uint64_t kDeviceWindow = uint64_t(1) << 56;
constexpr uint64_t kSharedWindow = uint64_t(1) << 57; // generic addresses of shared memory
constexpr uint64_t kLocalWindow = uint64_t(1) << 58;  // generic addresses of a thread's local memory

// The fault of a kernel; what() names the place.
struct Fault : std::runtime_error {
  enum Kind { IllegalAddress, MisalignedAddress, LaunchFailure };
  Fault(Kind kind, const std::string &message) : std::runtime_error(message), kind(kind) {}
  Kind kind;
};

// Numbers that identify who touched a byte. They only grow: a launch, a block and the time between two barriers of a block begin with a
// number of their own, each warp takes 33 more for that time, and again when all its lanes meet at a shuffle: one for several lanes, one
// for each lane.
struct Epoch {
  uint32_t launch = 1;
  uint32_t block = 2;
  uint32_t epoch = 3; // since the last barrier
};

constexpr uint32_t kWarpNumbers = 33;

// Who accesses memory.
class Accessor {
public:
  Accessor(const Epoch &epoch, uint32_t warp, uint32_t me, const std::vector<uint32_t> &past)
      : epoch(epoch), warp(warp), me(me), past(past) {}

  Epoch epoch;
  uint32_t warp;                     // the first of the warp's 33 numbers
  uint32_t me;                       // one of them
  const std::vector<uint32_t> &past; // first numbers of the warp since the last barrier, before its lanes met

  // Returns whether an access with that number came before this one.
  bool isBehind(uint32_t number) const {
    return number == me || number < epoch.launch || (number >= epoch.block && number < epoch.epoch) || isOfPast(number);
  }

private:
  // Numbers of this time between barriers.
  bool isOfPast(uint32_t number) const;
};

// Two accesses of one byte conflict when one is a write, they are by different threads of one launch, and no barrier of their block nor
// meeting of their warp is between them. State: the last writer and the last reader of each byte. Several readers are one number: the
// warp's, the epoch's for several warps, the launch's for several blocks.
class Shadow {
public:
  explicit Shadow(uint64_t bytes);
  ~Shadow();
  Shadow(const Shadow &) = delete;
  Shadow &operator=(const Shadow &) = delete;

  enum Conflict { None, WrittenByOther, ReadByOther, Uninitialised, WrittenInLaunch };

  // Notes a read of bytes [offset, offset + size). `constant`: nobody may have written them in this launch (ld.global.nc). `fresh`:
  // somebody must have written them in this block (shared memory).
  Conflict read(uint64_t offset, unsigned size, const Accessor &accessor, bool constant, bool fresh);
  Conflict write(uint64_t offset, unsigned size, const Accessor &accessor);

  // Forgets everything: the numbers start again.
  void clear();

private:
  uint64_t bytes;
  uint32_t *writers;
  uint32_t *readers;
};

struct Allocation {
  uint64_t begin, end; // device addresses
  std::byte *host;
  bool owned;    // memory of the device; otherwise host memory that was mapped
  bool readOnly; // .const
  std::unique_ptr<Shadow> shadow;

  bool holds(uint64_t address, uint64_t size) const {
    return address >= begin && size <= end - begin && address - begin <= end - begin - size;
  }
};

class DeviceMemory {
public:
  explicit DeviceMemory(uint64_t capacity) : capacity(capacity) {}
  ~DeviceMemory();

  // Returns the address, aligned to 256, or nothing when less than `bytes` are free.
  std::optional<uint64_t> allocate(uint64_t bytes, bool readOnly = false);
  // Returns false when no allocation begins there.
  bool release(uint64_t address);
  // Lets kernels use host memory; returns its device address, or nothing when part of it is mapped already.
  std::optional<uint64_t> map(void *host, uint64_t bytes);
  bool unmap(void *host);

  // Returns the allocation that holds the address, or null.
  Allocation *find(uint64_t address);
  // Returns the host's view of a range, or null unless one allocation holds all of it.
  std::byte *resolve(uint64_t address, uint64_t bytes);
  // Returns whether the range of host memory lies in one that was mapped.
  bool isMapped(const void *host, uint64_t bytes);

  void clearShadows();
  uint64_t total() const { return capacity; }
  uint64_t free() const { return capacity - used; }

private:
  uint64_t capacity;
  uint64_t used = 0;
  std::map<uint64_t, Allocation> allocations; // by begin
};

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_PTX_MEMORY_H
