// SPDX-License-Identifier: Apache-2.0
//
// How optimizer parallelism splits each parameter's update further: over axes on which it is replicated, along which dims, or why not.

#ifndef ASHLAR_PASSES_LAYOUT_OPTIMIZER_PARAMETER_SHARDS_H
#define ASHLAR_PASSES_LAYOUT_OPTIMIZER_PARAMETER_SHARDS_H

#include "dialects/dist/dist.h"
#include "dialects/nn/nn.h"

#include <vector>

namespace ashlar::layout {

// The job's request.
struct ShardingRequest {
  int64_t threshold = 0;  // bytes on a device; smaller parameters stay replicated
  int64_t shardSize = -1; // devices over which one is split; -1: all that replicate it
};

// A trained parameter.
struct ParameterShard {
  nn::VariableOp variable;
  dist::Layout layout;                  // of its state and update: the parameter's layout, sharded further
  dist::AxisList axes;                  // by which it is split further
  dist::ReplicatedAttr replicated = {}; // why it is not; null when it is
};

// Returns the layout sharded further over `axes`: all in the dim, or else in the dims, where a device holds least; `taken` are the axes
// that shard something.
//   (10, 2) over dp = 4            [{"dp"}, {}], shards of 3 rows
//   (2, 1024) over dp = 4          [{}, {"dp"}]
dist::Layout splitFurther(dist::MeshAttr mesh, mlir::RankedTensorType type, const dist::Layout &layout,
                          llvm::ArrayRef<mlir::StringAttr> axes, dist::AxisList &taken);

// Decides on every trained parameter of the module, whose variables have layouts. Where `shardSize` asks for a part of an axis, the axis is
// cut, in the whole module. Fails, with an error, where the size does not divide the devices that replicate a parameter.
mlir::FailureOr<std::vector<ParameterShard>> shardParameters(mlir::ModuleOp module, const ShardingRequest &request);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_OPTIMIZER_PARAMETER_SHARDS_H
