// SPDX-License-Identifier: Apache-2.0
//
// A rank's GPU: the device, libraries, one block of memory, streams, and the connection with the other ranks.

#ifndef ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_CONTEXT_H
#define ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_CONTEXT_H

#include "runtime/comm/nccl/stage_links.h"
#include "runtime/comm/nccl/watchdog.h"
#include "runtime/kernels/cuda/attention.h"
#include "runtime/kernels/cuda/convolution.h"
#include "runtime/kernels/cuda/matmul.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ashlar::rt {

// Returns the constants that the programs of a variant read, in the order in which they lie in the image: constants of other stages take no
// memory here. A piece begins at a multiple of ASHLAR_RT_ALIGNMENT on both sides; constants with less between them are one piece.
std::vector<ConstantPiece> constantsOf(const ashlar_rt_variant &variant);

// Used in this order: open(), checkSharing(), allocate(), loadLibraries(), connect(), clear() once programs are laid out. Programs and
// feeds run with it and die before it.
struct CudaContext {
  CudaContext() = default;
  CudaContext(const CudaContext &) = delete;
  ~CudaContext() { device.setInterrupt(nullptr); }

  // Opens the device of this rank, which runs the variant.
  Status open(Communicator &host, const ashlar_rt_variant &variant);

  // Refuses two ranks on one device: NCCL cannot connect them, and would report it late or hang. Every rank calls it.
  Status checkSharing() const;

  // Makes memory, streams and events once the collectives are planned; fills in constants and coordinates.
  Status allocate(const ashlar_rt_image &image, const ashlar_rt_variant &variant);

  // Resets the arena to its state after allocate().
  Status clear(const ashlar_rt_variant &variant);

  // Loads cuBLASLt when the variant has a product, and cuDNN when it has a convolution or an attention.
  Status loadLibraries();

  // Returns the calls that the libraries refused and their replacements, a line each.
  std::vector<std::string> replacements() const;

  // Whether this rank talks to other devices: the same on all ranks.
  bool needsConnection() const { return links != nullptr || seat->needsConnection(); }

  // Makes the communicators when it does, and sets the watchdog on them. Every rank calls it.
  Status connect(std::function<void(const Status &)> fail);

  // Waits until the compute stream has done everything. Without wait: only lets the watchdog know that there is something to do.
  Status wait();
  Status noteRun();

  // Fills in the coordinates, and waits for the device.
  Status writeCoordinates(const ashlar_rt_variant &variant);

  // Members die in reverse order; the device last.
  CudaDevice device;
  Matmuls matmuls;
  Convolutions convolutions;
  Attentions attentions;
  Communicator *host = nullptr;
  std::unique_ptr<DeviceSeat> seat;
  std::unique_ptr<StageLinks> links;  // null: there is one stage
  std::unique_ptr<Watchdog> watchdog; // null: this rank talks to no other device
  DeviceMemory memory;
  CUdeviceptr staging = 0; // kFeeds areas of feedBytes: for batches on their way
  size_t feedBytes = 0;
  CUdeviceptr messages = 0;      // room for a message of each kind that is received
  CUdeviceptr noteWord = 0;      // of the watchdog; only where this rank talks to other devices
  size_t blockBytes = 0;         // of all memory of the device
  CUdeviceptr callWorkspace = 0; // of libraries, which run one after the other
  bool multiplies = false, convolves = false, attends = false;
  CUstream compute = nullptr;
  CUstream communication = nullptr;
  CUstream copies = nullptr;                   // of batches
  CUevent finished = nullptr;                  // the end of the work on the compute stream
  std::vector<std::shared_ptr<char>> stranded; // batches that the device may still read after a failure
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_CONTEXT_H
