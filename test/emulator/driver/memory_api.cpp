// SPDX-License-Identifier: Apache-2.0
//
// Memory of the driver API: allocations, page-locked host memory, copies and fills.
//
// Copies run late, as tasks. Of pageable host memory a copy to the device reads its source at once, as the driver does when it stages it; a
// copy from the device returns when it is done. In a capture pageable memory is refused.

#include "test/emulator/driver/device.h"
#include "test/emulator/driver/settings.h"

#include <cstring>
#include <sys/mman.h>

using namespace ashlar::emulator;

namespace {

// Sizes of what cuMemHostAlloc gave, by address.
std::map<void *, size_t> &hostAllocations() {
  static auto *allocations = new std::map<void *, size_t>;
  return *allocations;
}

// Every device may use page-locked memory.
CUresult mapEverywhere(void *host, size_t bytes) {
  for (const auto &device : Driver::get().devices) {
    if (!device->memory.map(host, bytes)) {
      return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
  }
  return CUDA_SUCCESS;
}

CUresult unmapEverywhere(void *host) {
  for (const auto &device : Driver::get().devices) {
    if (!device->memory.unmap(host)) {
      return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    }
  }
  return CUDA_SUCCESS;
}

bool isPinned(const void *host, size_t bytes) {
  return Driver::current()->memory.isMapped(host, bytes);
}

std::byte *mustResolve(CUdeviceptr address, size_t bytes) {
  return Driver::get().mustResolve(address, bytes, "a copy or fill of memory that was freed");
}

CUresult fill(CUdeviceptr to, const void *element, size_t width, size_t count, CUstream handle) {
  CUstream stream = Driver::get().streamOf(handle);
  if (!stream || to % width != 0 || (count != 0 && !Driver::get().resolve(to, width * count))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Allocation *allocation = stream->device->memory.find(to);
  if (stream->capture && allocation && !allocation->owned) { // nothing promises that a graph may
    say("a fill of memory of the host is captured");
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint32_t value = 0;
  std::memcpy(&value, element, width);
  return enqueue(stream, once([=] {
                   std::byte *memory = mustResolve(to, width * count);
                   for (size_t i = 0; i < count; ++i) {
                     width == sizeof(value)
                         ? __atomic_store_n(reinterpret_cast<uint32_t *>(memory) + i, value, __ATOMIC_RELAXED) // the host may read it
                         : static_cast<void>(std::memcpy(memory + i * width, &value, width));
                   }
                 }));
}

// One side of a 2D copy.
struct Side {
  CUmemorytype type;
  const void *host;
  CUdeviceptr device;
  size_t x, y, pitch;

  size_t offset() const { return y * pitch + x; }
  // From the first byte to behind the last.
  size_t span(const CUDA_MEMCPY2D &copy) const { return (copy.Height - 1) * pitch + copy.WidthInBytes; }
  bool fits(const CUDA_MEMCPY2D &copy) const {
    if (copy.WidthInBytes + x > pitch && copy.Height > 1) {
      return false;
    }
    if (type == CU_MEMORYTYPE_HOST) {
      return isPinned(static_cast<const std::byte *>(host) + offset(), span(copy));
    }
    return (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED) && Driver::get().resolve(device + offset(), span(copy));
  }
  std::byte *begin(const CUDA_MEMCPY2D &copy) const {
    return type == CU_MEMORYTYPE_HOST ? static_cast<std::byte *>(const_cast<void *>(host)) + offset()
                                      : mustResolve(device + offset(), span(copy));
  }
};

} // namespace

extern "C" {

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *address, size_t bytes) {
  ASHLAR_EMULATOR_ENTER();
  if (const CUresult refused = refuseDuringCapture()) {
    return refused;
  }
  if (bytes == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::optional<uint64_t> got = Driver::current()->memory.allocate(bytes);
  *address = got.value_or(0);
  return got ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuMemFree(CUdeviceptr address) {
  ASHLAR_EMULATOR_ENTER();
  if (const CUresult refused = refuseDuringCapture()) {
    return refused;
  }
  for (const auto &device : Driver::get().devices) {
    if (address == 0 || device->memory.release(address)) {
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemGetInfo(size_t *free, size_t *total) {
  ASHLAR_EMULATOR_ENTER();
  *free = Driver::current()->memory.free();
  *total = Driver::current()->memory.total();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostAlloc(void **host, size_t bytes, unsigned int flags) {
  ASHLAR_EMULATOR_ENTER();
  if (const CUresult refused = refuseDuringCapture()) {
    return refused;
  }
  void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bytes == 0 || pages == MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *host = pages;
  hostAllocations()[pages] = bytes;
  return mapEverywhere(pages, bytes);
}

CUresult CUDAAPI cuMemFreeHost(void *host) {
  ASHLAR_EMULATOR_ENTER();
  const auto found = hostAllocations().find(host);
  if (found == hostAllocations().end()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult result = unmapEverywhere(host);
  munmap(host, found->second);
  hostAllocations().erase(found);
  return result;
}

CUresult CUDAAPI cuMemHostRegister(void *host, size_t bytes, unsigned int flags) {
  ASHLAR_EMULATOR_ENTER();
  return host && bytes != 0 ? mapEverywhere(host, bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemHostUnregister(void *host) {
  ASHLAR_EMULATOR_ENTER();
  return hostAllocations().count(host) != 0 ? CUDA_ERROR_INVALID_VALUE : unmapEverywhere(host);
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *address, void *host, unsigned int flags) {
  ASHLAR_EMULATOR_ENTER();
  *address = reinterpret_cast<CUdeviceptr>(host) + kDeviceWindow;
  return isPinned(host, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream handle) {
  ASHLAR_EMULATOR_ENTER();
  CUstream stream = Driver::get().streamOf(handle);
  if (!stream || (bytes != 0 && !Driver::get().resolve(to, bytes))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (bytes == 0 || isPinned(from, bytes)) {
    return enqueue(stream, once([=] { std::memcpy(mustResolve(to, bytes), from, bytes); }));
  }
  if (stream->capture) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  auto staged =
      std::make_shared<std::vector<std::byte>>(static_cast<const std::byte *>(from), static_cast<const std::byte *>(from) + bytes);
  return enqueue(stream, once([=] { std::memcpy(mustResolve(to, bytes), staged->data(), bytes); }));
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream handle) {
  ASHLAR_EMULATOR_ENTER();
  CUstream stream = Driver::get().streamOf(handle);
  if (!stream || (bytes != 0 && !Driver::get().resolve(from, bytes))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool pinned = bytes == 0 || isPinned(to, bytes);
  if (!pinned && stream->capture) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  const CUresult result = enqueue(stream, once([=] { std::memcpy(to, mustResolve(from, bytes), bytes); }));
  if (!pinned && result == CUDA_SUCCESS) {
    Engine::get().wait(stream->tail);
    return stickyError();
  }
  return result;
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle) {
  ASHLAR_EMULATOR_ENTER();
  CUstream stream = Driver::get().streamOf(handle);
  Driver &driver = Driver::get();
  if (!stream || (bytes != 0 && (!driver.resolve(from, bytes) || !driver.resolve(to, bytes)))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return enqueue(stream, once([=] { std::memmove(mustResolve(to, bytes), mustResolve(from, bytes), bytes); }));
}

CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D *description, CUstream handle) {
  ASHLAR_EMULATOR_ENTER();
  const CUDA_MEMCPY2D copy = *description;
  CUstream stream = Driver::get().streamOf(handle);
  const size_t fromPitch = copy.srcPitch != 0 ? copy.srcPitch : copy.WidthInBytes,
               toPitch = copy.dstPitch != 0 ? copy.dstPitch : copy.WidthInBytes;
  const Side from{copy.srcMemoryType, copy.srcHost, copy.srcDevice, copy.srcXInBytes, copy.srcY, fromPitch};
  const Side to{copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstXInBytes, copy.dstY, toPitch};
  if (copy.WidthInBytes == 0 || copy.Height == 0) {
    return CUDA_SUCCESS;
  }
  if (!stream || !from.fits(copy) || !to.fits(copy)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return enqueue(stream, once([=] {
                   for (size_t row = 0; row < copy.Height; ++row) {
                     std::memmove(to.begin(copy) + row * to.pitch, from.begin(copy) + row * from.pitch, copy.WidthInBytes);
                   }
                 }));
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  ASHLAR_EMULATOR_ENTER();
  return fill(to, &value, 1, count, stream);
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  ASHLAR_EMULATOR_ENTER();
  return fill(to, &value, 4, count, stream);
}

} // extern "C"
