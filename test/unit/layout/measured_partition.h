// SPDX-License-Identifier: Apache-2.0
//
// The collectives of a partitioned function, and its results beside those of one device.

#ifndef ASHLAR_TEST_UNIT_LAYOUT_MEASURED_PARTITION_H
#define ASHLAR_TEST_UNIT_LAYOUT_MEASURED_PARTITION_H

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <optional>

namespace ashlar::test {

struct MeasuredPartition {
  int64_t bytes = 0, estimatedBytes = 0; // that a device sends
  int64_t halos = 0, others = 0;         // collectives
  bool isCut = false;                    // the mesh has parts of axes
  double difference = 0;                 // the largest between the results of all devices and of one
};

// Partitions a copy of a module with @f, given layouts and a mesh, and runs both. `intLimit`: of random integers (EquivalenceOptions).
MeasuredPartition measurePartition(mlir::ModuleOp module, std::optional<int64_t> intLimit = std::nullopt);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_LAYOUT_MEASURED_PARTITION_H
