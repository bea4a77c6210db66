// SPDX-License-Identifier: Apache-2.0
//
// Checks a layout that was given by the user or by an earlier pass against the tensor it describes.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_GIVEN_LAYOUT_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_GIVEN_LAYOUT_H

#include "dialects/dist/dist.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace ashlar::layout {

// Checks that `layout` has the rank of `type`, names axes of the mesh only and is not partial. Errors start with `what`
// (argument 0 ("input") of @train_step).
mlir::LogicalResult checkGivenLayout(mlir::Operation *op, const llvm::Twine &what, dist::MeshAttr mesh, mlir::RankedTensorType type,
                                     const dist::Layout &layout);

// Returns how errors call an argument: argument 0 ("input") of @train_step.
std::string nameArgument(mlir::FunctionOpInterface function, unsigned index);

// Returns the mesh of a module of programs; null, with an error, when it has none, or a function that is not one block of ops.
dist::MeshAttr requirePrograms(mlir::ModuleOp module);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_GIVEN_LAYOUT_H
