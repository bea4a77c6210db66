// SPDX-License-Identifier: Apache-2.0
//
// The devices of a mesh, the processes that play them, and the groups that a set of axes makes.

#include "runtime/comm/mesh.h"

#include <algorithm>

namespace ashlar::rt {

Mesh::Mesh(const ashlar_rt_variant &variant)
    : perProcess(static_cast<int>(std::max(1u, variant.devices_per_process))), stage(static_cast<int>(variant.stage)) {
  for (uint32_t i = 0; i < variant.num_axes; ++i) {
    sizes.push_back(variant.axes[i].size);
    deviceCount *= static_cast<int>(variant.axes[i].size);
  }
  if (variant.device_ids != nullptr) {
    rankOfDevice.assign(variant.device_ids, variant.device_ids + deviceCount);
    deviceOfRank.assign(static_cast<size_t>(deviceCount), -1);
    for (int device = 0; device < deviceCount; ++device) {
      size_t rank = static_cast<size_t>(rankOfDevice[static_cast<size_t>(device)]);
      if (rank < deviceOfRank.size()) {
        deviceOfRank[rank] = device;
      }
    }
  }
}

Status Mesh::check() const {
  if (deviceCount % perProcess != 0) {
    return internal("{} devices do not divide by {} a process", deviceCount, perProcess);
  }
  if (!rankOfDevice.empty() && perProcess != 1) {
    return internal("device_ids with {} devices a process", perProcess);
  }
  for (size_t rank = 0; rank < deviceOfRank.size(); ++rank) {
    if (deviceOfRank[rank] < 0) {
      return internal("device_ids give no device to rank {} of {}", rank, deviceCount);
    }
  }
  return Status();
}

std::vector<int64_t> Mesh::coordinates(int device) const {
  std::vector<int64_t> result(sizes.size());
  int64_t rest = device;
  for (size_t i = sizes.size(); i-- > 0;) {
    result[i] = rest % sizes[i];
    rest /= sizes[i];
  }
  return result;
}

int Mesh::groupSize(const uint32_t *axes, uint32_t numAxes) const {
  int64_t size = 1;
  for (uint32_t i = 0; i < numAxes; ++i) {
    size *= sizes[axes[i]];
  }
  return static_cast<int>(size);
}

std::vector<Group> Mesh::groups(const uint32_t *axes, uint32_t numAxes) const {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * sizes[i];
  }
  std::vector<Group> result;
  int size = groupSize(axes, numAxes);
  for (int device = 0; device < deviceCount; ++device) {
    std::vector<int64_t> at = coordinates(device);
    if (std::any_of(axes, axes + numAxes, [&](uint32_t axis) { return at[axis] != 0; })) {
      continue; // not the first device of its group
    }
    Group group(static_cast<size_t>(size));
    for (int member = 0; member < size; ++member) {
      int64_t id = device;
      int64_t rest = member;
      for (uint32_t i = numAxes; i-- > 0;) {
        id += (rest % sizes[axes[i]]) * strides[axes[i]];
        rest /= sizes[axes[i]];
      }
      group[static_cast<size_t>(member)] = static_cast<int>(id);
    }
    result.push_back(std::move(group));
  }
  return result;
}

std::vector<int> Mesh::components(const uint32_t *axes, uint32_t numAxes) const {
  std::vector<int> parent(static_cast<size_t>(processes()));
  for (size_t i = 0; i < parent.size(); ++i) {
    parent[i] = static_cast<int>(i);
  }
  auto find = [&](int process) {
    while (parent[static_cast<size_t>(process)] != process) {
      process = parent[static_cast<size_t>(process)];
    }
    return process;
  };
  for (const Group &group : groups(axes, numAxes)) {
    for (int device : group) {
      int a = find(processOf(group[0]) - firstRank());
      int b = find(processOf(device) - firstRank());
      parent[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
    }
  }
  std::vector<int> result(parent.size());
  for (size_t i = 0; i < parent.size(); ++i) {
    result[i] = find(static_cast<int>(i));
  }
  return result;
}

} // namespace ashlar::rt
