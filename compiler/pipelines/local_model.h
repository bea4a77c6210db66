// SPDX-License-Identifier: Apache-2.0
//
// A job's devices and, in mode HYBRID, the sizes in the model, which are one device's.

#ifndef ASHLAR_COMPILER_PIPELINES_LOCAL_MODEL_H
#define ASHLAR_COMPILER_PIPELINES_LOCAL_MODEL_H

#include "compiler/frontend/import.h"
#include "compiler/job/job.pb.h"
#include "dialects/dist/dist.h"

#include "mlir/IR/MLIRContext.h"

namespace ashlar::pipelines {

// Returns the mesh of a job, which has one. Loads the dist dialect.
dist::MeshAttr makeMesh(const job::Job &job, mlir::MLIRContext *context);

// Returns the mesh of the job, and into how many pieces its rules cut each tensor. Reports a rule that cannot be read, as
// ashlar-apply-rules does. Assumes a checked job of mode HYBRID.
mlir::FailureOr<frontend::LocalModel> describeLocalModel(const job::Job &job, mlir::MLIRContext *context);

} // namespace ashlar::pipelines

#endif // ASHLAR_COMPILER_PIPELINES_LOCAL_MODEL_H
