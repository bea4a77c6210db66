// SPDX-License-Identifier: Apache-2.0
//
// A rank's GPU among the other ranks' GPUs: the communicators of NCCL, and the collectives of a variant's programs. The host side of the
// job (presence, agreement, the end of it) stays with the Communicator.
//
// One communicator for each distinct partition of all devices into groups; axes of size 1 change nothing, so several sets of axes may share
// one. A group of one needs none.

#ifndef ASHLAR_RUNTIME_COMM_NCCL_DEVICE_SEAT_H
#define ASHLAR_RUNTIME_COMM_NCCL_DEVICE_SEAT_H

#include "runtime/comm/communicator.h"
#include "runtime/comm/nccl/collective_plan.h"
#include "runtime/comm/nccl/nccl_library.h"
#include "runtime/comm/placed_tensors.h"
#include "runtime/device/cuda/device.h"
#include "runtime/device/cuda/strided_copy.h"

#include <deque>
#include <memory>

namespace ashlar::rt {

// Constants of the image that the device has, as one piece of bytes.
struct ConstantPiece {
  uint64_t begin, end; // in the image
  uint64_t offset;     // of its copy, among the constants of the device
};

// Where the regions of a collective lie on the device.
struct DeviceMemory {
  CUdeviceptr arena = 0;
  CUdeviceptr constants = 0;
  std::vector<ConstantPiece> pieces; // of the constants
  CUdeviceptr workspace = 0;         // workspaceBytes() of it

  // Returns the address of a buffer of the arena, or of a constant in one of the pieces.
  CUdeviceptr address(const ashlar_rt_buffer &buffer) const;
};

// Used in this order: layOut(), join(), place(), connect(), enqueue(). By one thread.
class DeviceSeat {
public:
  // Both outlive the seat.
  DeviceSeat(CudaDevice &device, Communicator &host) : device(device), host(host) {}
  DeviceSeat(const DeviceSeat &) = delete;
  DeviceSeat &operator=(const DeviceSeat &) = delete;

  // Plans a collective instruction, whose buffers lie in no slot, and returns its number, counted from 0. Every rank of a stage lays out
  // the same ones in the same order.
  Status layOut(const ashlar_rt_instr &instr, size_t &number);

  // Makes one group of the collective and the one before it, when they share a communicator: enqueue() of the first does all of them, later
  // calls nothing. Assumes that they do not depend on each other, and that this one's inputs exist when the first begins.
  void join(size_t number);

  // Bytes that the collectives laid out need beside their buffers; they run one after the other.
  size_t workspaceBytes() const { return workspace; }

  // Turns all plans into addresses.
  void place(const DeviceMemory &memory);

  // Whether a communicator is needed, or the collective may talk to other devices: the same on every rank of a stage.
  bool needsConnection() const { return !partitions.empty(); }
  bool communicates(size_t number) const { return collectives[number].partition != nullptr; }

  // Whether enqueue() of the collective starts communication: its own, and that of the collectives that joined it.
  bool starts(size_t number) const { return communicates(number) && collectives[number].head == number; }

  // Loads NCCL and makes the communicators. Every rank of all stages calls it; it waits for the others.
  Status load();
  Status connect();
  const NcclLibrary &library() const { return nccl; }

  // Puts a collective on the stream. Every rank of a stage does so in the same order.
  Status enqueue(size_t number, CUstream stream) const;

  // The name of a collective in errors: name and cause.
  std::string describe(size_t number) const { return describe(*collectives[number].instr); }

  // How many collectives there are, and communicators.
  size_t size() const { return collectives.size(); }
  size_t communicators() const { return partitions.size(); }

  // Asynchronous errors of NCCL. Any thread may call it once connect() is done.
  Status asyncError() const;

  // Lets go of the communicators. Every rank calls it, when all collectives are done and no graph holds one: NCCL waits for those to end.
  void disconnect();

private:
  // All groups, members by rank in the communicator: sorted, so that equal partitions compare equal.
  struct Partition {
    std::vector<Group> groups;
    size_t mine = 0; // the group of this device
    ncclComm_t comm = nullptr;
  };

  // One tensor of a collective.
  struct TensorItem {
    PlacedTensor placed;
    CollectivePlan plan;
    size_t workspaceOffset = 0; // in the collective's
    std::vector<StridedCopy> before;
    std::vector<StridedCopy> after;
    CUdeviceptr regions[3] = {}; // by Region
  };

  struct Item {
    const ashlar_rt_instr *instr = nullptr;
    std::vector<TensorItem> tensors;
    size_t workspaceBytes = 0;      // of all tensors
    Partition *partition = nullptr; // null: a group of one
    size_t head = 0;                // the first collective of its group
    size_t groupEnd = 0;            // of a head: one after the last
    size_t workspaceOffset = 0;
    ncclDataType_t type = ncclInt8;
    ncclRedOp_t reduction = ncclSum;
    size_t elementBytes = 1;

    // Calls of all tensors together.
    size_t numCalls() const;
  };

  static std::string describe(const ashlar_rt_instr &instr);
  Status connect(Partition *partition);
  Partition *findPartition(std::vector<Group> groups);
  Status callAll(size_t begin, size_t end, CUstream stream) const;
  static bool isWhole(const Item &item);
  Status call(const Item &item, const TensorItem &tensor, const PlannedCall &planned, CUstream stream) const;
  Status check(ncclResult_t result, const Item &item) const;

  CudaDevice &device;
  Communicator &host;
  NcclLibrary nccl;
  std::deque<Partition> partitions; // items point to them
  std::vector<Item> collectives;
  size_t workspace = 0;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_NCCL_DEVICE_SEAT_H
