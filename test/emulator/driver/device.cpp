// SPDX-License-Identifier: Apache-2.0
//
// Driver initialisation, devices, contexts, and the names of errors.

#include "test/emulator/driver/device.h"

#include "test/emulator/driver/settings.h"

#include <cstdio>
#include <cstring>

namespace ashlar::emulator {
namespace {

constexpr uint64_t kDefaultMemory = uint64_t(4) << 30;

thread_local CUcontext currentContext = nullptr;

Device *deviceOf(CUdevice device) {
  Driver &driver = Driver::get();
  return device >= 0 && size_t(device) < driver.devices.size() ? driver.devices[size_t(device)].get() : nullptr;
}

// Contexts are one a device and live for ever.
CUcontext contextOf(Device *device) {
  static auto *contexts = new std::map<Device *, CUctx_st>;
  return &contexts->try_emplace(device, CUctx_st{device}).first->second;
}

struct ErrorName {
  CUresult code;
  const char *name, *text;
};

constexpr ErrorName kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not initiated in this stream"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
};

const ErrorName *errorName(CUresult code) {
  for (const ErrorName &error : kErrors) {
    if (error.code == code) {
      return &error;
    }
  }
  return nullptr;
}

} // namespace

Device::Device(int index)
    : index(index), memory(setting("MEMORY", kDefaultMemory)),
      machine(memory, setting("SEED", 1) * 1000003 + uint64_t(index), setting("RACES", 1) != 0) {}

Driver &Driver::get() {
  static auto *driver = new Driver; // never destroyed: work may run until the end
  return *driver;
}

Device *Driver::current() {
  return currentContext ? currentContext->device : nullptr;
}

void Driver::setCurrent(CUcontext context) {
  currentContext = context;
}

std::byte *Driver::resolve(CUdeviceptr address, size_t bytes) {
  for (const auto &device : devices) {
    if (std::byte *host = device->memory.resolve(address, bytes)) {
      return host;
    }
  }
  return nullptr;
}

std::byte *Driver::mustResolve(CUdeviceptr address, size_t bytes, const char *message) {
  std::byte *host = resolve(address, bytes);
  if (!host) {
    throw Fault(Fault::IllegalAddress, message);
  }
  return host;
}

CUresult stickyError() {
  const Fault *fault = Engine::get().fault();
  if (!fault) {
    return CUDA_SUCCESS;
  }
  return fault->kind == Fault::IllegalAddress      ? CUDA_ERROR_ILLEGAL_ADDRESS
         : fault->kind == Fault::MisalignedAddress ? CUDA_ERROR_MISALIGNED_ADDRESS
                                                   : CUDA_ERROR_LAUNCH_FAILED;
}

} // namespace ashlar::emulator

using namespace ashlar::emulator;

extern "C" {

CUresult CUDAAPI cuInit(unsigned int flags) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  Driver &driver = Driver::get();
  if (flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (driver.initialised) {
    return CUDA_SUCCESS;
  }
  const uint64_t count = setting("DEVICES", 1);
  if (count == 0) {
    return CUDA_ERROR_NO_DEVICE;
  }
  for (uint64_t i = 0; i < count; ++i) {
    driver.devices.push_back(std::make_unique<Device>(int(i)));
  }
  driver.initialised = true;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDriverGetVersion(int *version) {
  *version = int(setting("DRIVER", 13000));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int *count) {
  if (!Driver::get().initialised) {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  *count = int(Driver::get().devices.size());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
  if (!Driver::get().initialised) {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  *device = ordinal;
  return deviceOf(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int length, CUdevice device) {
  if (!deviceOf(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  std::snprintf(name, size_t(length), "Ashlar emulator");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  if (!deviceOf(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  const std::map<CUdevice_attribute, int> attributes = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, capability().major},
                                                        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, capability().minor},
                                                        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4},
                                                        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
                                                        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
                                                        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 * 1024},
                                                        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
                                                        {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
                                                        {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0},
                                                        {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
                                                        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
                                                        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 4 << 20},
                                                        {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT},
                                                        {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
                                                        {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device + 1},
                                                        {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0}};
  const auto found = attributes.find(attribute);
  if (found == attributes.end()) {
    say("cuDeviceGetAttribute: attribute " + std::to_string(int(attribute)) + " is not known");
    return CUDA_ERROR_INVALID_VALUE;
  }
  *value = found->second;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  if (!deviceOf(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *bytes = deviceOf(device)->memory.total();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  if (!deviceOf(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  ++deviceOf(device)->retained;
  *context = contextOf(deviceOf(device));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  if (!deviceOf(device) || deviceOf(device)->retained == 0) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  --deviceOf(device)->retained;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  if (!Driver::get().initialised) {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  Driver::setCurrent(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **name) {
  const ErrorName *found = errorName(error);
  *name = found ? found->name : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **text) {
  const ErrorName *found = errorName(error);
  *text = found ? found->text : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // extern "C"
