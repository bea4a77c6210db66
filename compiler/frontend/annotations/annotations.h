// SPDX-License-Identifier: Apache-2.0
//
// ONNX's multi-device annotations of a model, read as rules and written from a plan.

#ifndef ASHLAR_COMPILER_FRONTEND_ANNOTATIONS_ANNOTATIONS_H
#define ASHLAR_COMPILER_FRONTEND_ANNOTATIONS_ANNOTATIONS_H

#include "compiler/frontend/graph_values.h"
#include "compiler/frontend/import.h"
#include "compiler/frontend/onnx_proto.h"

#include "llvm/Support/Error.h"

namespace ashlar::frontend {

// Returns the names of a model's device configurations.
std::vector<std::string> deviceConfigurations(const onnx::ModelProto &model);

// Returns the layouts that the chosen configuration gives as rules, one a tensor of the module. Throws an ImportError for a configuration
// that is not there or not for the mesh, and for annotations that are not supported.
mlir::ArrayAttr readAnnotations(const onnx::ModelProto &model, llvm::StringRef path, const AnnotationChoice &choice, GraphValues &values);

// The layout of a tensor in a plan.
struct PlannedTensor {
  llvm::SmallVector<int64_t> shape;
  dist::Layout layout;
};

// Returns the model file at `path`, annotated: one configuration named "ashlar", and at each node the layouts of its inputs and outputs
// that `plan` has by name. Annotations that were there are dropped. `output` is where the file will be, for data outside of it. An error is
// one line that opens with the path.
llvm::Expected<std::string> annotateModel(llvm::StringRef path, llvm::StringRef output, const llvm::StringMap<PlannedTensor> &plan,
                                          const DeviceMesh &mesh);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_ANNOTATIONS_ANNOTATIONS_H
