// SPDX-License-Identifier: Apache-2.0
//
// What a rank has on its GPU: the device, libraries, one block of memory, streams, and the connection with the other ranks.

#ifndef ASHLAR_RUNTIME_LAUNCH_CUDA_CONTEXT_H
#define ASHLAR_RUNTIME_LAUNCH_CUDA_CONTEXT_H

#include "runtime/comm/nccl/watchdog.h"
#include "runtime/kernels/cuda/matmul.h"

#include <functional>
#include <memory>
#include <vector>

namespace ashlar::rt {

// Used in this order: open(), checkSharing(), allocate(), loadMatmuls(), connect(). Programs and feeds run with it and die before it.
struct CudaContext {
  CudaContext() = default;
  CudaContext(const CudaContext &) = delete;
  ~CudaContext() { device.setInterrupt(nullptr); }

  // Opens the device of this rank.
  Status open(Communicator &host);

  // Refuses two ranks on one device: NCCL cannot connect them, and would say so late or hang. Every rank calls it.
  Status checkSharing() const;

  // Makes memory, streams and events once the collectives are planned; fills in constants and coordinates.
  Status allocate(const ashlar_rt_image &image, const ashlar_rt_variant &variant);

  // Loads cuBLASLt when the variant has a product.
  Status loadMatmuls();

  // Makes the communicators when there are collectives with other ranks, and sets the watchdog on them. Every rank calls it.
  Status connect(std::function<void(const Status &)> fail);

  // Waits until the compute stream has done everything. Without wait: only lets the watchdog know that there is something to do.
  Status wait();
  Status noteRun();

  // Members die in reverse order; the device last.
  CudaDevice device;
  Matmuls matmuls;
  Communicator *host = nullptr;
  std::unique_ptr<DeviceSeat> seat;
  std::unique_ptr<Watchdog> watchdog; // null: this rank talks to no other device
  DeviceMemory memory;
  CUdeviceptr staging = 0; // kFeeds areas of feedBytes: for batches on their way
  size_t feedBytes = 0;
  size_t blockBytes = 0;           // of all memory of the device
  CUdeviceptr matmulWorkspace = 0; // 0: there is no product
  CUstream compute = nullptr;
  CUstream communication = nullptr;
  CUstream copies = nullptr;                   // of batches
  CUevent finished = nullptr;                  // the end of what was put on the compute stream
  std::vector<std::shared_ptr<char>> stranded; // batches that the device may still read after a failure
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_LAUNCH_CUDA_CONTEXT_H
