// SPDX-License-Identifier: Apache-2.0

#include "compiler/frontend/folding/stored_constants.h"

#include "compiler/frontend/tensor_data.h"

#include "llvm/ADT/STLExtras.h"

namespace ashlar::frontend {

namespace {

constexpr llvm::StringLiteral kMoving[] = {"Concat", "Expand", "Flatten", "Gather",    "Identity", "Reshape",
                                           "Slice",  "Split",  "Squeeze", "Transpose", "Unsqueeze"};

// Whether an op takes the numbers of an input, whatever their type. The second input of CastLike is asked for its type.
bool takesNumbers(llvm::StringRef op, size_t input) {
  return op == "Cast" || op == "DequantizeLinear" || (op == "CastLike" && input == 0);
}

} // namespace

llvm::StringSet<> storedInitializers(const onnx::GraphProto &graph) {
  llvm::StringSet<> names;
  for (const onnx::TensorProto &initializer : graph.initializer()) {
    if (isStored(initializer.data_type())) {
      names.insert(initializer.name());
    }
  }
  for (const onnx::SparseTensorProto &initializer : graph.sparse_initializer()) {
    if (isStored(initializer.values().data_type())) {
      names.insert(initializer.values().name());
    }
  }
  return names;
}

void followStored(const onnx::NodeProto &proto, const Node &node, llvm::StringSet<> &stored) {
  bool makes = llvm::any_of(proto.attribute(), [](const onnx::AttributeProto &attribute) {
    return isStored(attribute.t().data_type()) || isStored(attribute.sparse_tensor().values().data_type());
  });
  for (size_t input = 0; input < node.numInputs(); ++input) {
    if (!node.isStoredInput(input) || takesNumbers(proto.op_type(), input)) {
      continue;
    }
    if (!llvm::is_contained(kMoving, proto.op_type())) {
      node.fail("reads \"" + node.inputName(input) +
                "\", a constant of a type that is only stored here; only DequantizeLinear, Cast and ops that move elements take it");
    }
    makes = true;
  }
  if (makes) {
    stored.insert(proto.output().begin(), proto.output().end());
  }
}

} // namespace ashlar::frontend
