// SPDX-License-Identifier: Apache-2.0
//
// Allocations and the shadow of their bytes.

#include "test/emulator/ptx/memory.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace ashlar::emulator {
namespace {

// Zero pages that cost nothing until they are touched.
void *reserve(uint64_t bytes) {
  void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) {
    throw std::bad_alloc();
  }
  return pages;
}

uint64_t deviceAddress(const void *host) {
  return reinterpret_cast<uint64_t>(host) + kDeviceWindow;
}

} // namespace

Shadow::Shadow(uint64_t bytes)
    : bytes(bytes), writers(static_cast<uint32_t *>(reserve(bytes * 4))), readers(static_cast<uint32_t *>(reserve(bytes * 4))) {}

Shadow::~Shadow() {
  munmap(writers, bytes * 4);
  munmap(readers, bytes * 4);
}

void Shadow::clear() {
  madvise(writers, bytes * 4, MADV_DONTNEED);
  madvise(readers, bytes * 4, MADV_DONTNEED);
}

bool Accessor::isOfPast(uint32_t number) const {
  return number > epoch.epoch && std::any_of(past.begin(), past.end(), [&](uint32_t first) { return number - first < kWarpNumbers; });
}

Shadow::Conflict Shadow::read(uint64_t offset, unsigned size, const Accessor &accessor, bool constant, bool fresh) {
  const Epoch &epoch = accessor.epoch;
  uint32_t before = 0; // reader of the byte before
  for (uint64_t i = offset; i < offset + size; ++i) {
    const uint32_t writer = writers[i];
    const uint32_t reader = readers[i];
    // Bytes of one value mostly have one history.
    if (i != offset && writer == writers[i - 1] && reader == before) {
      readers[i] = readers[i - 1];
      continue;
    }
    before = reader;
    if (fresh && writer < epoch.block) {
      return Uninitialised;
    }
    if (constant && writer > epoch.launch) {
      return WrittenInLaunch;
    }
    if (!accessor.isBehind(writer)) {
      return WrittenByOther;
    }
    if (accessor.isBehind(reader)) {
      readers[i] = accessor.me;
    } else if (reader < epoch.block) {
      readers[i] = epoch.launch;
    } else {
      readers[i] = reader - accessor.warp < kWarpNumbers ? accessor.warp : epoch.epoch;
    }
  }
  return None;
}

Shadow::Conflict Shadow::write(uint64_t offset, unsigned size, const Accessor &accessor) {
  uint32_t writer = 0, reader = 0; // of the byte before
  for (uint64_t i = offset; i < offset + size; ++i) {
    // Bytes of one value mostly have one history.
    if (i == offset || writers[i] != writer || readers[i] != reader) {
      writer = writers[i];
      reader = readers[i];
      if (!accessor.isBehind(reader)) {
        return ReadByOther;
      }
      if (!accessor.isBehind(writer)) {
        return WrittenByOther;
      }
    }
    writers[i] = accessor.me;
  }
  return None;
}

DeviceMemory::~DeviceMemory() {
  while (!allocations.empty()) {
    const Allocation &first = allocations.begin()->second;
    if (first.owned) {
      release(first.begin);
    } else {
      allocations.erase(allocations.begin());
    }
  }
}

std::optional<uint64_t> DeviceMemory::allocate(uint64_t bytes, bool readOnly) {
  if (bytes == 0 || bytes > free()) {
    return std::nullopt;
  }
  // An allocation has pages of its own, with a gap behind them.
  auto *host = static_cast<std::byte *>(reserve(bytes + 4096));
  std::memset(host, 0xff, bytes);
  used += bytes;
  const uint64_t begin = deviceAddress(host);
  allocations.emplace(begin, Allocation{begin, begin + bytes, host, /*owned=*/true, readOnly, std::make_unique<Shadow>(bytes)});
  return begin;
}

bool DeviceMemory::release(uint64_t address) {
  const auto found = allocations.find(address);
  if (found == allocations.end() || !found->second.owned) {
    return false;
  }
  const uint64_t bytes = found->second.end - found->second.begin;
  used -= bytes;
  munmap(found->second.host, bytes + 4096);
  allocations.erase(found);
  return true;
}

std::optional<uint64_t> DeviceMemory::map(void *host, uint64_t bytes) {
  const uint64_t begin = deviceAddress(host);
  const auto next = allocations.lower_bound(begin);
  if (bytes == 0 || (next != allocations.end() && next->first < begin + bytes) || find(begin) != nullptr) {
    return std::nullopt;
  }
  allocations.emplace(begin, Allocation{begin, begin + bytes, static_cast<std::byte *>(host), /*owned=*/false, /*readOnly=*/false,
                                        std::make_unique<Shadow>(bytes)});
  return begin;
}

bool DeviceMemory::unmap(void *host) {
  const auto found = allocations.find(deviceAddress(host));
  if (found == allocations.end() || found->second.owned) {
    return false;
  }
  allocations.erase(found);
  return true;
}

Allocation *DeviceMemory::find(uint64_t address) {
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) {
    return nullptr;
  }
  Allocation &candidate = std::prev(after)->second;
  return candidate.holds(address, 1) ? &candidate : nullptr;
}

std::byte *DeviceMemory::resolve(uint64_t address, uint64_t bytes) {
  Allocation *allocation = find(address);
  return allocation && allocation->holds(address, bytes) ? allocation->host + (address - allocation->begin) : nullptr;
}

bool DeviceMemory::isMapped(const void *host, uint64_t bytes) {
  Allocation *allocation = find(deviceAddress(host));
  return allocation && !allocation->owned && allocation->holds(deviceAddress(host), bytes);
}

void DeviceMemory::clearShadows() {
  for (auto &[begin, allocation] : allocations) {
    allocation.shadow->clear();
  }
}

} // namespace ashlar::emulator
