// SPDX-License-Identifier: Apache-2.0
//
// Notes of torch's exporters besides the graph: notes of initializers and of nodes, and made-up names. The TorchScript exporter leaves
// names and paths only; dynamo's notes the role of a value in the torch program.

#ifndef ASHLAR_COMPILER_FRONTEND_EXPORTER_NOTES_H
#define ASHLAR_COMPILER_FRONTEND_EXPORTER_NOTES_H

#include "compiler/frontend/onnx_proto.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace ashlar::frontend {

// Of a value.
struct ValueNote {
  std::string kind;                    // PARAMETER, BUFFER or CONSTANT_TENSOR for tensors of the module; "" for all else
  std::string placeholder;             // its name in the torch program: "p_layers_0_norm1_bias"
  std::vector<std::string> foldedFrom; // the values that the exporter computed it from
};

// Of a node.
struct NodeNote {
  std::vector<std::string> modules;      // paths of the modules that it is in, outermost first: "", "layers.0", "layers.0.norm1"
  std::vector<std::string> placeholders; // that its op reads in the torch program, in the order of its arguments
};

class ExporterNotes {
public:
  // The graph stays as long as the object.
  explicit ExporterNotes(const onnx::GraphProto &graph);

  // Returns an empty note for a value without one.
  ValueNote lookup(llvm::StringRef value) const { return notes.lookup(value); }

  // Whether the exporter notes kinds of values at all.
  bool hasKinds() const { return notesKinds; }

  // Whether the exporter made an initializer from others, so that its name is no path of a module, and no note names a parameter among
  // them.
  bool isMadeByExporter(llvm::StringRef name) const;

private:
  llvm::StringMap<ValueNote> notes;
  bool notesKinds = false;
};

// Returns an empty note for a node without one.
NodeNote readNote(const onnx::NodeProto &node);

// Returns a node's attribute, null without it.
const onnx::AttributeProto *findAttribute(const onnx::NodeProto &node, llvm::StringRef name);

// Whether one of torch's exporters wrote the model.
bool isByTorch(const onnx::ModelProto &model);

// Whether a name is one that torch's exporters make up: "onnx::Mul_12", "val_80", "_tensor_constant0", "/layer1/Constant_output_0", "57".
bool isMadeUpName(llvm::StringRef name);

// Whether a name is the path of something that a module has: "layers.0.alpha". Names that Paddle and tools make up have dots, too.
bool isModulePath(llvm::StringRef name);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_EXPORTER_NOTES_H
