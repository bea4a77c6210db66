// SPDX-License-Identifier: Apache-2.0
//
// The parameter of the torch module that a node reads, where the file has one initializer for several: from the names that exporters leave.

#ifndef ASHLAR_COMPILER_FRONTEND_WEIGHTS_PARAMETER_USES_H
#define ASHLAR_COMPILER_FRONTEND_WEIGHTS_PARAMETER_USES_H

#include "compiler/frontend/exporter_notes.h"

#include "llvm/ADT/StringSet.h"

namespace ashlar::frontend {

class ParameterUses {
public:
  // The graph has its functions as calls, and stays as long as the object.
  explicit ParameterUses(const onnx::GraphProto &graph);

  // Returns the parameter that input `input` of a node was in the torch program, by the exporter's note of the node; "" without a note, or
  // where it leaves the choice.
  std::string findNoted(const onnx::NodeProto &node, int input) const;

  // Returns the path of the module that a node is in, by the note or the name of the node: "layers.0.norm1" of
  // "/layers.0/norm1/LayerNormalization". A module that is used again has a number behind its name, which is taken off.
  std::string findModule(const onnx::NodeProto &node) const;

  // Returns the role of the input in a layer: "weight", "bias", "running_mean", "running_var"; "" for all else.
  static llvm::StringRef findRole(const onnx::NodeProto &node, int input);

  const ExporterNotes &getNotes() const { return notes; }

private:
  // Returns the name that a parameter of the torch program has in the module: "layers.0.norm1.bias" of "p_layers_0_norm1_bias".
  std::string unmangle(llvm::StringRef placeholder, llvm::ArrayRef<std::string> modulesAround) const;
  std::string findAmongNoted(const onnx::NodeProto &node, int input) const;
  std::string placeholderOf(llvm::StringRef initializer) const;
  void addModulesOf(llvm::StringRef parameter);

  ExporterNotes notes;
  llvm::StringSet<> initializers;
  llvm::StringMap<std::string> byPlaceholder; // their names, by the names of the torch program
  llvm::StringSet<> modules;                  // paths of modules that hold parameters, and of those around them
};

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_WEIGHTS_PARAMETER_USES_H
