// SPDX-License-Identifier: Apache-2.0
//
// One GPU through the driver API.

#include "runtime/device/cuda/device.h"

#include <algorithm>
#include <cstdint>

#include <sched.h>

namespace ashlar::rt {
namespace {

// Looks at an event before the first yield, and between two questions to the interrupt.
constexpr int kBusyLooks = 2000;
constexpr int kLooksPerCheck = 64;

constexpr size_t kLogBytes = 4096;

// Lower numbers are more urgent; the driver takes the most urgent that it has for any number beyond.
constexpr int kUrgent = -1000;

double gib(size_t bytes) {
  return static_cast<double>(bytes) * 0x1p-30;
}

// The first line of a log.
std::string firstLine(const std::string &log) {
  return log.substr(0, std::min(log.find('\n'), log.find('\0')));
}

} // namespace

CudaDevice::~CudaDevice() {
  if (!isOpen()) {
    return;
  }
  for (CUevent event : events) {
    cuda.cuEventDestroy_v2(event);
  }
  for (CUstream stream : streams) {
    cuda.cuStreamDestroy_v2(stream);
  }
  for (void *block : pinned) {
    cuda.cuMemFreeHost(block);
  }
  for (CUdeviceptr block : blocks) {
    cuda.cuMemFree_v2(block);
  }
  for (CUmodule each : modules) {
    cuda.cuModuleUnload(each);
  }
  if (module != nullptr) {
    cuda.cuModuleUnload(module);
  }
  cuda.cuDevicePrimaryCtxRelease_v2(device);
}

Status CudaDevice::load(int &count) {
  ASHLAR_RETURN_IF_ERROR(DriverLibrary::load(cuda));
  ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuDeviceGetCount(&count), "cannot count the GPUs"));
  return count > 0 ? Status() : unavailable("the NVIDIA driver shows no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES");
}

Status CudaDevice::attribute(CUdevice_attribute which, int &value) const {
  return cuda.check(cuda.cuDeviceGetAttribute(&value, which, device), "cannot ask the GPU for an attribute");
}

Status CudaDevice::open(int ordinal) {
  char name[256] = {};
  ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuDeviceGet(&device, ordinal), "cannot open the GPU"));
  ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuDeviceGetName(name, sizeof(name), device), "cannot ask the GPU for its name"));
  text = fmt::format("GPU {} ({})", ordinal, name);
  ASHLAR_RETURN_IF_ERROR(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, version.major));
  ASHLAR_RETURN_IF_ERROR(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, version.minor));
  ASHLAR_RETURN_IF_ERROR(attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, address.domain));
  ASHLAR_RETURN_IF_ERROR(attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, address.bus));
  ASHLAR_RETURN_IF_ERROR(attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, address.device));
  CUcontext made = nullptr;
  if (CUresult result = cuda.cuDevicePrimaryCtxRetain(&made, device); result != CUDA_SUCCESS) {
    return cuda.failure(result, fmt::format("cannot make a context on {}", text));
  }
  context = made;
  return makeCurrent();
}

Status CudaDevice::makeCurrent() const {
  return cuda.check(cuda.cuCtxSetCurrent(context), "cannot use the context of the GPU");
}

Status CudaDevice::loadCode(const void *code, const std::string &what, CUmodule &made) const {
  std::string log(kLogBytes, '\0');
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log.data(), reinterpret_cast<void *>(static_cast<uintptr_t>(kLogBytes))};
  CUresult result = cuda.cuModuleLoadDataEx(&made, code, 2, options, values);
  if (result == CUDA_SUCCESS) {
    return Status();
  }
  made = nullptr;
  std::string said = firstLine(log);
  return cuda.failure(result, fmt::format("{} does not take the device code for {}{}{}", text, what, said.empty() ? "" : ": ", said));
}

Status CudaDevice::loadModule(const ashlar_rt_image &image) {
  const ashlar_rt_device_code *code = nullptr;
  ASHLAR_RETURN_IF_ERROR(chooseDeviceCode(image, version, text, code));
  loaded = code->arch;
  return loadCode(code->bytes, loaded, module);
}

Status CudaDevice::loadText(const std::string &ptx, const char *purpose, CUmodule &made) {
  ASHLAR_RETURN_IF_ERROR(loadCode(ptx.c_str(), purpose, made));
  modules.push_back(made);
  return Status();
}

Status CudaDevice::findKernel(const char *entry, CUfunction &kernel) const {
  CUresult result = cuda.cuModuleGetFunction(&kernel, module, entry);
  return result == CUDA_SUCCESS ? Status() : cuda.failure(result, fmt::format("no kernel {} in the device code for {}", entry, loaded));
}

Status CudaDevice::allocate(size_t bytes, const std::string &purpose, CUdeviceptr &result) {
  size_t free = 0;
  size_t total = 0;
  ASHLAR_RETURN_IF_ERROR(memory(free, total));
  CUresult error = bytes > free ? CUDA_ERROR_OUT_OF_MEMORY : cuda.cuMemAlloc_v2(&result, bytes);
  if (error == CUDA_ERROR_OUT_OF_MEMORY) {
    return unavailable(
        "{} has {:.3f} GiB of {:.3f} GiB free but the program needs {:.3f} GiB ({}); use more ranks, a smaller batch or a GPU "
        "with more memory",
        text, gib(free), gib(total), gib(bytes), purpose);
  }
  if (error != CUDA_SUCCESS) {
    return cuda.failure(error, fmt::format("cannot allocate {:.3f} GiB on {}", gib(bytes), text));
  }
  blocks.push_back(result);
  return Status();
}

Status CudaDevice::allocatePinned(size_t bytes, void *&result) {
  unsigned flags = CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE;
  if (CUresult error = cuda.cuMemHostAlloc(&result, bytes, flags); error != CUDA_SUCCESS) {
    return cuda.failure(error, fmt::format("cannot allocate {} bytes of page-locked memory", bytes));
  }
  pinned.push_back(result);
  return Status();
}

Status CudaDevice::pin(void *memory, size_t bytes) {
  CUresult error = cuda.cuMemHostRegister_v2(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE);
  return error == CUDA_SUCCESS ? Status() : cuda.failure(error, fmt::format("cannot page-lock {} bytes of batches", bytes));
}

void CudaDevice::unpin(void *memory) {
  cuda.cuMemHostUnregister(memory);
}

Status CudaDevice::createStream(CUstream &stream, bool urgent) {
  int priority = urgent ? kUrgent : 0;
  ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, priority), "cannot make a stream"));
  streams.push_back(stream);
  return Status();
}

Status CudaDevice::createEvent(CUevent &event, bool timing) {
  unsigned flags = timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
  ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventCreate(&event, flags), "cannot make an event"));
  events.push_back(event);
  return Status();
}

Status CudaDevice::wait(CUevent event) {
  for (int look = 0;; ++look) {
    CUresult result = cuda.cuEventQuery(event);
    if (result != CUDA_ERROR_NOT_READY) {
      return cuda.check(result, "the GPU failed");
    }
    if (interrupted != nullptr && look % kLooksPerCheck == kLooksPerCheck - 1) {
      ASHLAR_RETURN_IF_ERROR(interrupted->check());
    }
    if (look > kBusyLooks) {
      sched_yield();
    }
  }
}

Status CudaDevice::memory(size_t &free, size_t &total) const {
  return cuda.check(cuda.cuMemGetInfo_v2(&free, &total), "cannot ask the GPU for its free memory");
}

} // namespace ashlar::rt
