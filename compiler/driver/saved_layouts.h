// SPDX-License-Identifier: Apache-2.0
//
// The files of a strategy that the command line asks for: layouts as a strategy or as annotations of the model, and the order of stages.

#ifndef ASHLAR_COMPILER_DRIVER_SAVED_LAYOUTS_H
#define ASHLAR_COMPILER_DRIVER_SAVED_LAYOUTS_H

#include "compiler/command/options.h"
#include "compiler/job/job.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace ashlar::driver {

// Writes the layout of every tensor (--save-strategy), with the fields of the job that a search of meshes found where `isMeshFound`. Each
// of these three does nothing where its option is not given, and fails where the job has no mesh or the file cannot be written.
llvm::Error saveStrategy(const command::Options &options, const job::Job &job, bool isMeshFound, mlir::ModuleOp programs);

// Writes the model with the layouts that inference gave its tensors (--annotate).
llvm::Error saveAnnotations(const command::Options &options, mlir::ModuleOp programs);

// Writes the order of the stages, as a job can name it (--save-order).
llvm::Error saveOrder(const command::Options &options, mlir::ModuleOp programs);

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_SAVED_LAYOUTS_H
