// SPDX-License-Identifier: Apache-2.0
//
// Bodies of functions and subgraphs, as nodes that can stand in the graph around them.

#ifndef ASHLAR_COMPILER_FRONTEND_BODY_H
#define ASHLAR_COMPILER_FRONTEND_BODY_H

#include "compiler/frontend/onnx_proto.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace ashlar::frontend {

// New names of values, by their names in a body.
using Names = llvm::StringMap<std::string>;

// Returns a node of the default domain. Its results have the names of `outputs`.
onnx::NodeProto makeNode(llvm::StringRef opType, std::vector<std::string> inputs, std::vector<std::string> outputs, llvm::StringRef path);

// Adds an attribute to a node.
void setInt(onnx::NodeProto &node, llvm::StringRef name, int64_t value);
void setInts(onnx::NodeProto &node, llvm::StringRef name, const std::vector<int64_t> &values);

// Gives a ReduceSum, Split, Squeeze or Unsqueeze its list: before opset 13 as an attribute, since then as input `constant`, which has to
// hold it.
void setList(onnx::NodeProto &node, int64_t opset, llvm::StringRef attribute, const std::vector<int64_t> &values,
             const std::string &constant);

// Returns a node that is a constant of one dim, or a scalar.
onnx::NodeProto makeInts(const std::string &output, const std::vector<int64_t> &values, llvm::StringRef path);
onnx::NodeProto makeInt(const std::string &output, int64_t value, llvm::StringRef path);

// Returns the nodes of a subgraph as nodes of the graph around it. `names` maps its inputs to values, and gets its outputs; definitions of
// the nodes are named `prefix`/NAME, values from outside keep their name. Its initializers become constants. The paths of its nodes begin
// with `path`. Throws where a name is defined twice.
std::vector<onnx::NodeProto> openGraph(const onnx::GraphProto &graph, llvm::StringRef prefix, llvm::StringRef path, Names &names);

// Returns the values that a subgraph reads from the graph around it, each once, in the order of their use.
std::vector<std::string> outerNames(const onnx::GraphProto &graph);

// Whether a node is a BatchNormalization, or has one in a body.
bool learnsStatistics(const onnx::NodeProto &node);

// Replaces every node that calls a function of the model by the function's nodes, in subgraphs too. Throws for functions that call
// themselves and for models that would become too large.
void inlineFunctions(onnx::ModelProto &model);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_BODY_H
