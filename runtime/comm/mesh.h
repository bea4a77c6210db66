// SPDX-License-Identifier: Apache-2.0
//
// Which devices talk to which: the devices of a mesh, the processes that play them, and the groups that a set of axes makes.

#ifndef ASHLAR_RUNTIME_COMM_MESH_H
#define ASHLAR_RUNTIME_COMM_MESH_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// The devices of one group, by their coordinate in the group.
using Group = std::vector<int>;

// The devices of one stage, numbered row major over the axes, the last axis fastest. The p-th process of the stage plays the devices
// [p * devicesPerProcess, (p + 1) * devicesPerProcess), or, when the variant has device_ids, the one device d with device_ids[d] = p. It is
// rank firstRank() + p.
class Mesh {
public:
  // A mesh with the axes, devices per process and stage of the variant.
  explicit Mesh(const ashlar_rt_variant &variant);

  // Product of the axes.
  int devices() const { return deviceCount; }

  // Devices that one process plays.
  int devicesPerProcess() const { return perProcess; }

  // Number of processes that one stage runs on.
  int processes() const { return deviceCount / perProcess; }

  // The first rank of the stage; the others follow.
  int firstRank() const { return stage * processes(); }

  // The rank that plays `device`.
  int processOf(int device) const {
    return rankOfDevice.empty() ? firstRank() + device / perProcess : rankOfDevice[static_cast<size_t>(device)];
  }

  // The first device that the rank `process` of this stage plays; the others follow.
  int firstDeviceOf(int process) const {
    return deviceOfRank.empty() ? (process - firstRank()) * perProcess : deviceOfRank[static_cast<size_t>(process)];
  }

  // Checks that the devices can be shared out among the processes as in the variant.
  Status check() const;

  // Coordinates of `device`, one an axis. Example: axes {2, 3}, device 4 -> {1, 1}.
  std::vector<int64_t> coordinates(int device) const;

  // Number of devices in a group over `axes`.
  int groupSize(const uint32_t *axes, uint32_t numAxes) const;

  // All groups of devices that differ only along `axes`, ordered by their first device. A member's place in its group counts along `axes`,
  // major to minor. Example: axes {2, 3}, over {0} -> {0, 3}, {1, 4}, {2, 5}.
  std::vector<Group> groups(const uint32_t *axes, uint32_t numAxes) const;

  // For each process of the stage, the smallest one, counted in the stage, that it is connected to by the groups over `axes`: processes
  // with equal values must wait for each other in a collective over these axes.
  std::vector<int> components(const uint32_t *axes, uint32_t numAxes) const;

private:
  std::vector<int64_t> sizes;
  int deviceCount = 1;
  int perProcess = 1;
  int stage = 0;
  std::vector<int> rankOfDevice, deviceOfRank; // empty: in turn
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_MESH_H
