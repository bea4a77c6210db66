// SPDX-License-Identifier: Apache-2.0
//
// ONNX's specs of the shards of a tensor on each device, and our layouts.

#ifndef ASHLAR_COMPILER_FRONTEND_ANNOTATIONS_SHARDING_SPEC_H
#define ASHLAR_COMPILER_FRONTEND_ANNOTATIONS_SHARDING_SPEC_H

#include "compiler/frontend/annotations/multi_device.pb.h"

#include "dialects/dist/dist.h"

#include <string>
#include <vector>

namespace ashlar::frontend {

// A mesh as annotations see it: devices are ranks.
struct DeviceMesh {
  dist::MeshAttr mesh;
  std::vector<int64_t> ranks; // of each point of the mesh, row-major
};

// Returns how a tensor of the global `shape` is spread under a layout that is not partial.
//   [{"tp"}, {}] of 8x4 on dp=2, tp=2     2 shards of dim 0, devices -1 and -2 with the groups -1: {0, 2} and -2: {1, 3}
multi_device::ShardingSpec toShardingSpec(const std::string &tensor, llvm::ArrayRef<int64_t> shape, const dist::Layout &layout,
                                          const DeviceMesh &mesh);

// Returns the layout of a tensor's spec, as rules write it: "[{tp}, {}]"; parts of axes where the shards need them. Throws an ImportError
// with the fault, to be appended to the name of the tensor.
std::string toLayoutText(const multi_device::ShardingSpec &spec, llvm::ArrayRef<int64_t> shape, const DeviceMesh &mesh);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_ANNOTATIONS_SHARDING_SPEC_H
