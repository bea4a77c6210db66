// SPDX-License-Identifier: Apache-2.0
//
// Communicators and collectives by NCCL.

#include "runtime/comm/nccl/device_seat.h"

#include "runtime/base/dtype.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {
namespace {

// Most calls in one group of collectives.
constexpr size_t kLargestGroup = 64;

bool toNcclType(uint32_t dtype, ncclDataType_t &type) {
  switch (dtype) {
  case ASHLAR_RT_F32:
    type = ncclFloat32;
    return true;
  case ASHLAR_RT_F64:
    type = ncclFloat64;
    return true;
  case ASHLAR_RT_I32:
    type = ncclInt32;
    return true;
  case ASHLAR_RT_I64:
    type = ncclInt64;
    return true;
  case ASHLAR_RT_I8:
    type = ncclInt8;
    return true;
  case ASHLAR_RT_BOOL:
  case ASHLAR_RT_U8:
    type = ncclUint8;
    return true;
  case ASHLAR_RT_U32:
    type = ncclUint32;
    return true;
  case ASHLAR_RT_U64:
    type = ncclUint64;
    return true;
  case ASHLAR_RT_F16:
    type = ncclFloat16;
    return true;
  case ASHLAR_RT_BF16:
    type = ncclBfloat16;
    return true;
  default:
    return false; // integers of 16 bits
  }
}

// A sum of bools is "or".
ncclRedOp_t toNcclReduction(uint32_t dtype, uint32_t reduction) {
  bool isOr = dtype == ASHLAR_RT_BOOL && reduction == ASHLAR_RT_SUM;
  return isOr || reduction == ASHLAR_RT_MAX ? ncclMax : reduction == ASHLAR_RT_MIN ? ncclMin : ncclSum;
}

StridedCopy placeCopy(const PlannedCopy &planned, const CUdeviceptr *regions) {
  StridedCopy copy;
  copy.source = regions[static_cast<size_t>(planned.from)] + planned.source.offset;
  copy.target = regions[static_cast<size_t>(planned.to)] + planned.target.offset;
  const View &blocks = planned.source.dense() ? planned.target : planned.source;
  copy.width = blocks.block;
  copy.height = blocks.count;
  copy.sourcePitch = planned.source.dense() ? blocks.block : planned.source.stride;
  copy.targetPitch = planned.target.dense() ? blocks.block : planned.target.stride;
  return copy;
}

} // namespace

CUdeviceptr DeviceMemory::address(const ashlar_rt_buffer &buffer) const {
  if (buffer.space != ASHLAR_RT_CONSTANT) {
    return arena + buffer.offset;
  }
  auto next = std::upper_bound(pieces.begin(), pieces.end(), buffer.offset,
                               [](uint64_t offset, const ConstantPiece &piece) { return offset < piece.begin; });
  return next == pieces.begin() ? constants : constants + std::prev(next)->offset + buffer.offset - std::prev(next)->begin;
}

size_t DeviceSeat::Item::numCalls() const {
  size_t calls = 0;
  for (const TensorItem &tensor : tensors) {
    calls += tensor.plan.calls.size();
  }
  return calls;
}

// Whether the collective is calls that all members make, one a tensor.
bool DeviceSeat::isWhole(const Item &item) {
  return !item.tensors.empty() && std::all_of(item.tensors.begin(), item.tensors.end(), [](const TensorItem &tensor) {
    const std::vector<PlannedCall> &calls = tensor.plan.calls;
    return calls.size() == 1 && calls[0].kind != CallKind::kSend && calls[0].kind != CallKind::kReceive;
  });
}

Status DeviceSeat::layOut(const ashlar_rt_instr &instr, size_t &number) {
  if (instr.desc == nullptr) {
    return internal("{}: a collective without a description", instr.name);
  }
  const auto &desc = *static_cast<const ashlar_rt_collective_desc *>(instr.desc);
  const Mesh &mesh = host.mesh();
  std::vector<PlacedTensor> tensors;
  ASHLAR_RETURN_IF_ERROR(placeTensors(instr, mesh.groupSize(desc.axes, desc.num_axes), tensors));
  Item item;
  item.instr = &instr;
  item.reduction = toNcclReduction(desc.dtype, desc.reduction);
  if (toNcclType(desc.dtype, item.type)) {
    item.elementBytes = dtypeBytes(desc.dtype);
  } else if (dtypeBytes(desc.dtype) == 0 || desc.kind == ASHLAR_RT_ALL_REDUCE || desc.kind == ASHLAR_RT_REDUCE_SCATTER) {
    return unavailable("{}: NCCL does not combine elements of {}; cast them to i32 in the model", instr.name, dtypeName(desc.dtype));
  } // else they are moved as bytes
  // The group of this device, by coordinate, and all groups by rank in the communicator.
  std::vector<Group> groups = mesh.groups(desc.axes, desc.num_axes);
  Group mine;
  for (Group &group : groups) {
    if (std::find(group.begin(), group.end(), host.firstDevice()) != group.end()) {
      mine = group;
    }
    std::sort(group.begin(), group.end(), [&](int a, int b) { return mesh.processOf(a) < mesh.processOf(b); });
  }
  int self = static_cast<int>(std::find(mine.begin(), mine.end(), host.firstDevice()) - mine.begin());
  Group sorted = mine;
  std::sort(sorted.begin(), sorted.end(), [&](int a, int b) { return mesh.processOf(a) < mesh.processOf(b); });
  std::vector<int> rankOf;
  for (int member : mine) {
    rankOf.push_back(static_cast<int>(std::find(sorted.begin(), sorted.end(), member) - sorted.begin()));
  }
  for (const PlacedTensor &placed : tensors) {
    if (placed.out.bytes == 0 && placed.in.bytes == 0) {
      continue;
    }
    TensorItem tensor;
    tensor.placed = placed;
    tensor.plan = planCollective(desc, placed.shape, rankOf, self);
    tensor.workspaceOffset = item.workspaceBytes;
    item.workspaceBytes += tensor.plan.workspaceBytes;
    item.tensors.push_back(std::move(tensor));
  }
  if (mine.size() > 1 && desc.kind != ASHLAR_RT_SLICE) {
    std::sort(groups.begin(), groups.end());
    item.partition = findPartition(std::move(groups));
  }
  workspace = std::max(workspace, item.workspaceBytes);
  number = collectives.size();
  item.head = number;
  item.groupEnd = number + 1;
  collectives.push_back(std::move(item));
  return Status();
}

void DeviceSeat::join(size_t number) {
  Item &item = collectives[number];
  const Item &before = collectives[number - 1];
  Item &head = collectives[before.head];
  size_t calls = item.numCalls();
  for (size_t i = before.head; i < number; ++i) {
    calls += collectives[i].numCalls();
  }
  bool alike = item.partition != nullptr && item.partition == head.partition && isWhole(item) && isWhole(head);
  if (!alike || calls > kLargestGroup) {
    return;
  }
  item.head = before.head;
  head.groupEnd = number + 1;
  item.workspaceOffset = before.workspaceOffset + before.workspaceBytes;
  workspace = std::max(workspace, item.workspaceOffset + item.workspaceBytes);
}

DeviceSeat::Partition *DeviceSeat::findPartition(std::vector<Group> groups) {
  for (Partition &partition : partitions) {
    if (partition.groups == groups) {
      return &partition;
    }
  }
  partitions.emplace_back();
  Partition &partition = partitions.back();
  partition.groups = std::move(groups);
  for (size_t i = 0; i < partition.groups.size(); ++i) {
    const Group &group = partition.groups[i];
    if (std::find(group.begin(), group.end(), host.firstDevice()) != group.end()) {
      partition.mine = i;
    }
  }
  return &partition;
}

void DeviceSeat::place(const DeviceMemory &memory) {
  for (Item &item : collectives) {
    for (TensorItem &tensor : item.tensors) {
      tensor.regions[static_cast<size_t>(Region::kIn)] = memory.address(tensor.placed.in);
      tensor.regions[static_cast<size_t>(Region::kOut)] = memory.address(tensor.placed.out);
      tensor.regions[static_cast<size_t>(Region::kWorkspace)] = memory.workspace + item.workspaceOffset + tensor.workspaceOffset;
      tensor.before.clear();
      tensor.after.clear();
      for (const PlannedCopy &copy : tensor.plan.before) {
        tensor.before.push_back(placeCopy(copy, tensor.regions));
      }
      for (const PlannedCopy &copy : tensor.plan.after) {
        tensor.after.push_back(placeCopy(copy, tensor.regions));
      }
    }
  }
}

Status DeviceSeat::load() {
  return NcclLibrary::load(nccl);
}

Status DeviceSeat::connect() {
  // Stages have communicators of their own, but ranks gather ids all together: as often as the stage that has most.
  const uint64_t own = partitions.size();
  std::vector<uint64_t> counts(static_cast<size_t>(host.processes()));
  ASHLAR_RETURN_IF_ERROR(host.allGather(&own, sizeof(own), counts.data()));
  for (uint64_t i = 0; i < *std::max_element(counts.begin(), counts.end()); ++i) {
    Partition *partition = i < own ? &partitions[i] : nullptr;
    ASHLAR_RETURN_IF_ERROR(connect(partition));
  }
  return Status();
}

// Makes one communicator of each stage, or takes part in that: null.
Status DeviceSeat::connect(Partition *partition) {
  const Group group = partition != nullptr ? partition->groups[partition->mine] : Group();
  auto place = std::find(group.begin(), group.end(), host.firstDevice());
  ncclUniqueId mine = {};
  Status made;
  if (partition != nullptr && place == group.begin()) {
    made = nccl.check(nccl.ncclGetUniqueId(&mine), "cannot make an id for a communicator");
  }
  ASHLAR_RETURN_IF_ERROR(host.agree(made));
  std::vector<ncclUniqueId> all(static_cast<size_t>(host.processes()));
  ASHLAR_RETURN_IF_ERROR(host.allGather(&mine, sizeof(mine), all.data()));
  if (partition == nullptr) {
    return Status();
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  const ncclUniqueId &id = all[static_cast<size_t>(host.mesh().processOf(group[0]))];
  ncclResult_t result =
      nccl.ncclCommInitRankConfig(&partition->comm, static_cast<int>(group.size()), id, static_cast<int>(place - group.begin()), &config);
  return nccl.check(result, "cannot connect the GPUs of the ranks");
}

Status DeviceSeat::enqueue(size_t number, CUstream stream) const {
  const DriverLibrary &cuda = device.driver();
  if (collectives[number].head != number) {
    return Status();
  }
  size_t end = collectives[number].groupEnd;
  for (size_t i = number; i < end; ++i) {
    for (const TensorItem &tensor : collectives[i].tensors) {
      if (tensor.plan.zeroOut) {
        CUresult result = cuda.cuMemsetD8Async(tensor.regions[static_cast<size_t>(Region::kOut)], 0, tensor.placed.out.bytes, stream);
        ASHLAR_RETURN_IF_ERROR(cuda.check(result, "cannot fill memory of the GPU"));
      }
      for (const StridedCopy &copy : tensor.before) {
        ASHLAR_RETURN_IF_ERROR(copy.enqueue(cuda, stream));
      }
    }
  }
  ASHLAR_RETURN_IF_ERROR(callAll(number, end, stream));
  for (size_t i = number; i < end; ++i) {
    for (const TensorItem &tensor : collectives[i].tensors) {
      for (const StridedCopy &copy : tensor.after) {
        ASHLAR_RETURN_IF_ERROR(copy.enqueue(cuda, stream));
      }
    }
  }
  return Status();
}

// Does the calls of the collectives [begin, end), in one group when there are several: they share their start, and sends and receives make
// progress together.
Status DeviceSeat::callAll(size_t begin, size_t end, CUstream stream) const {
  const Item &first = collectives[begin];
  if (first.numCalls() == 0) {
    return Status();
  }
  if (end - begin == 1 && first.numCalls() == 1) {
    auto only =
        std::find_if(first.tensors.begin(), first.tensors.end(), [](const TensorItem &tensor) { return !tensor.plan.calls.empty(); });
    return call(first, *only, only->plan.calls[0], stream);
  }
  ASHLAR_RETURN_IF_ERROR(nccl.check(nccl.ncclGroupStart(), "cannot start a group of collectives"));
  Status status;
  for (size_t i = begin; i < end; ++i) {
    for (const TensorItem &tensor : collectives[i].tensors) {
      for (const PlannedCall &planned : tensor.plan.calls) {
        status.update(call(collectives[i], tensor, planned, stream));
      }
    }
  }
  status.update(check(nccl.ncclGroupEnd(), first));
  return status;
}

Status DeviceSeat::call(const Item &item, const TensorItem &tensor, const PlannedCall &planned, CUstream stream) const {
  auto at = [&](Region region, size_t offset) { return reinterpret_cast<void *>(tensor.regions[static_cast<size_t>(region)] + offset); };
  const void *from = at(planned.from, planned.source);
  void *to = at(planned.to, planned.target);
  size_t count = planned.bytes / item.elementBytes;
  ncclComm_t comm = item.partition->comm;
  ncclResult_t result = ncclSuccess;
  switch (planned.kind) {
  case CallKind::kAllReduce:
    result = nccl.ncclAllReduce(from, to, count, item.type, item.reduction, comm, stream);
    break;
  case CallKind::kAllGather:
    result = nccl.ncclAllGather(from, to, count, item.type, comm, stream);
    break;
  case CallKind::kReduceScatter:
    result = nccl.ncclReduceScatter(from, to, count, item.type, item.reduction, comm, stream);
    break;
  case CallKind::kBroadcast:
    result = nccl.ncclBroadcast(from, to, count, item.type, planned.peer, comm, stream);
    break;
  case CallKind::kSend:
    result = nccl.ncclSend(from, count, item.type, planned.peer, comm, stream);
    break;
  case CallKind::kReceive:
    result = nccl.ncclRecv(to, count, item.type, planned.peer, comm, stream);
    break;
  }
  return check(result, item);
}

Status DeviceSeat::check(ncclResult_t result, const Item &item) const {
  return result == ncclSuccess
             ? Status()
             : nccl.failure(result, fmt::format("rank {} in the collective {}", host.rank(), describe(*item.instr)), item.partition->comm);
}

std::string DeviceSeat::describe(const ashlar_rt_instr &instr) {
  const char *cause = static_cast<const ashlar_rt_collective_desc *>(instr.desc)->cause;
  return cause != nullptr && *cause != '\0' ? fmt::format("{} ({})", instr.name, cause) : instr.name;
}

Status DeviceSeat::asyncError() const {
  for (const Partition &partition : partitions) {
    ncclResult_t result = ncclSuccess;
    if (partition.comm == nullptr || nccl.ncclCommGetAsyncError(partition.comm, &result) != ncclSuccess) {
      continue;
    }
    if (result != ncclSuccess && result != ncclInProgress) {
      return nccl.failure(result, "the connection of the GPUs broke", partition.comm);
    }
  }
  return Status();
}

void DeviceSeat::disconnect() {
  for (Partition &partition : partitions) {
    if (partition.comm != nullptr) {
      nccl.ncclCommDestroy(partition.comm);
      partition.comm = nullptr;
    }
  }
}

} // namespace ashlar::rt
