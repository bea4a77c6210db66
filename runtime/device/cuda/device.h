// SPDX-License-Identifier: Apache-2.0
//
// One GPU: its primary context, the module with the program's kernels, memory, streams and events. Everything is made when the program
// starts and belongs to the device until the end. Used by one thread, which has the context current.

#ifndef ASHLAR_RUNTIME_DEVICE_CUDA_DEVICE_H
#define ASHLAR_RUNTIME_DEVICE_CUDA_DEVICE_H

#include "runtime/device/cuda/device_code.h"
#include "runtime/device/cuda/driver_library.h"

#include <string>
#include <vector>

namespace ashlar::rt {

// Where a device sits on its host; equal on two processes of a host exactly when they use one GPU.
struct BusAddress {
  int domain = 0;
  int bus = 0;
  int device = 0;

  bool operator==(const BusAddress &other) const { return domain == other.domain && bus == other.bus && device == other.device; }
};

// Asked now and then while the host waits for the device.
class Interrupt {
public:
  virtual ~Interrupt() = default;

  // Returns a failure when waiting is of no use any more.
  virtual Status check() = 0;
};

class CudaDevice {
public:
  CudaDevice() = default;
  CudaDevice(const CudaDevice &) = delete;
  CudaDevice &operator=(const CudaDevice &) = delete;
  // Gives everything back. Assumes that the device has nothing to do.
  ~CudaDevice();

  // Loads the driver and counts the devices that it shows to this process; fails when there is none.
  Status load(int &count);

  // Opens device `ordinal` and makes its context the current one of this thread. Assumes load().
  Status open(int ordinal);

  // Whether open() was called with success.
  bool isOpen() const { return context != nullptr; }

  // Makes the context current on another thread.
  Status makeCurrent() const;

  // Loads the device code of the image that suits the device, and looks up one of its kernels.
  Status loadModule(const ashlar_rt_image &image);
  Status findKernel(const char *entry, CUfunction &kernel) const;

  // Loads PTX of the runtime itself. `purpose` is for an error; the module belongs to the device.
  Status loadText(const std::string &ptx, const char *purpose, CUmodule &made);

  // Allocates device memory, aligned to 256. `purpose` is for an error: "arena 1.0 GiB, constants 3.2 MiB".
  Status allocate(size_t bytes, const std::string &purpose, CUdeviceptr &address);

  // Allocates page-locked host memory that the device can write to as well.
  Status allocatePinned(size_t bytes, void *&address);

  // Page-locks memory of the process until unpin().
  Status pin(void *address, size_t bytes);
  void unpin(void *address);

  // Makes a stream, whose kernels go before other streams' if `urgent`; or an event, which takes the time only if `timing`.
  Status createStream(CUstream &stream, bool urgent = false);
  Status createEvent(CUevent &event, bool timing = false);

  // Waits until the event has happened. Polls, and gives up when the interrupt fails.
  Status wait(CUevent event);

  // How many multiprocessors the device has.
  Status multiprocessors(int &count) const { return attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, count); }

  // Bytes of memory that are free, and that there are.
  Status memory(size_t &free, size_t &total) const;

  // The interrupt that waits poll; null: none. Outlives the device, or is taken back.
  void setInterrupt(Interrupt *interrupt) { interrupted = interrupt; }

  const DriverLibrary &driver() const { return cuda; }
  BusAddress busAddress() const { return address; }
  Capability capability() const { return version; }

  // "GPU 0 (NVIDIA H200)".
  const std::string &name() const { return text; }

  // The device code that was loaded: "sm_90".
  const std::string &code() const { return loaded; }

private:
  Status attribute(CUdevice_attribute which, int &value) const;
  Status loadCode(const void *code, const std::string &what, CUmodule &made) const;

  DriverLibrary cuda;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  Interrupt *interrupted = nullptr;
  Capability version;
  BusAddress address;
  std::string text;
  std::string loaded;
  std::vector<CUmodule> modules; // of the runtime
  std::vector<CUdeviceptr> blocks;
  std::vector<void *> pinned;
  std::vector<CUstream> streams;
  std::vector<CUevent> events;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DEVICE_CUDA_DEVICE_H
