// SPDX-License-Identifier: Apache-2.0
//
// A job's settings for the inputs of a graph: sizes of open dims, and known values.

#ifndef ASHLAR_COMPILER_FRONTEND_GRAPH_INPUTS_H
#define ASHLAR_COMPILER_FRONTEND_GRAPH_INPUTS_H

#include "compiler/frontend/import.h"
#include "compiler/frontend/onnx_proto.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <optional>
#include <string>
#include <vector>

namespace ashlar::frontend {

using Dimension = onnx::TensorShapeProto::Dimension;

// Returns the inputs of a graph that no initializer gives a value, which before IR version 4 were inputs as well.
std::vector<const onnx::ValueInfoProto *> inputsWithoutData(const onnx::GraphProto &graph);

// Whether the model leaves the size of a dim open: by a name, by nothing, or by -1.
bool isOpen(const Dimension &dim);

// Returns the name that stands for one size wherever it is; "" for a dim without one, and for a placeholder that any dim may have: "?",
// "-1", "None".
llvm::StringRef symbolOf(const Dimension &dim);

// Returns the size of dim `index` of an input, or another value, that the model or the job gives; nothing where both leave it open.
std::optional<int64_t> givenSize(const onnx::ValueInfoProto &value, int index, const ImportOptions &options);

// Returns the entry of a job that gives an open dim the size 128: dims { name: "sequence" size: 128 }.
std::string dimEntry(const onnx::ValueInfoProto &input, int index);

// Throws when options.dims or options.inputDims name a dim that no input has or that the model gives a size, or options.inputs an input
// that there is not or that the data set feeds.
void checkGivenInputs(const onnx::GraphProto &graph, const ImportOptions &options);

// Returns the value that the job gives an input; null where it gives none. One number fills the input, else there are as many as it has
// elements. Throws for a number that the type does not hold.
mlir::DenseElementsAttr knownValue(llvm::StringRef input, mlir::RankedTensorType type, const ImportOptions &options);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_GRAPH_INPUTS_H
