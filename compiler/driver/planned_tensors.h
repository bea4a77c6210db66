// SPDX-License-Identifier: Apache-2.0
//
// The parts of the plan for annotations of the model: the devices, and the layouts of tensors by name.

#ifndef ASHLAR_COMPILER_DRIVER_PLANNED_TENSORS_H
#define ASHLAR_COMPILER_DRIVER_PLANNED_TENSORS_H

#include "compiler/frontend/annotations/annotations.h"

#include "mlir/IR/BuiltinOps.h"

namespace ashlar::driver {

// Returns the mesh of a job, which has one.
frontend::DeviceMesh makeDeviceMesh(const job::Job &job, mlir::MLIRContext *context);

// Returns the mesh of a module, which has one.
frontend::DeviceMesh makeDeviceMesh(mlir::ModuleOp module);

// Returns the layouts of the parameters, inputs and named values of the training step, or of the model, as ashlar-propagate-layouts leaves
// them.
llvm::StringMap<frontend::PlannedTensor> plannedTensors(mlir::ModuleOp module);

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_PLANNED_TENSORS_H
