// SPDX-License-Identifier: Apache-2.0
//
// Bytes on disk -> ModelProto.

#ifndef ASHLAR_COMPILER_FRONTEND_ONNX_FILE_H
#define ASHLAR_COMPILER_FRONTEND_ONNX_FILE_H

#include "compiler/frontend/onnx_proto.h"

#include "llvm/ADT/StringRef.h"

#include <memory>

namespace ashlar::frontend {

// Reads a model file; throws an ImportError when it cannot be read or is not an ONNX model. External data stays where it is.
std::unique_ptr<onnx::ModelProto> readModelFile(llvm::StringRef path);

// Returns the name of a model: its graph's name, or its file's where the graph has none or the one that PyTorch gives to every graph.
llvm::StringRef modelNameOf(const onnx::GraphProto &graph, llvm::StringRef path);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_ONNX_FILE_H
