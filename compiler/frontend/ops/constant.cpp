// SPDX-License-Identifier: Apache-2.0
//
// Nodes that are constants.

#include "compiler/frontend/registry.h"
#include "compiler/frontend/tensor_data.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

DenseElementsAttr readTensorAttribute(Node &node, StringRef name) {
  onnx::TensorProto *tensor = node.getTensor(name);
  return TensorData::take(*tensor, node.getInfo().directory, node.builder().getContext(),
                          "node \"" + node.getPath() + "\" attribute \"" + name + "\"")
      .toDense();
}

// One of the attributes holds the value.
void importConstant(Node &node) {
  OpBuilder &builder = node.builder();
  auto type = [](Type element, ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, element); };
  if (node.hasAttribute("value")) {
    node.setResult(0, readTensorAttribute(node, "value"));
  } else if (onnx::SparseTensorProto *sparse = node.getSparseTensor("sparse_value")) {
    std::string what = ("node \"" + node.getPath() + "\" attribute \"sparse_value\"").str();
    onnx::TensorProto dense = makeDense(*sparse, node.getInfo().directory, builder.getContext(), what);
    node.setResult(0, TensorData::take(dense, node.getInfo().directory, builder.getContext(), what).toDense());
  } else if (node.hasAttribute("value_float")) {
    node.setResult(0, DenseElementsAttr::get(type(builder.getF32Type(), {}), static_cast<float>(node.getFloat("value_float", 0))));
  } else if (node.hasAttribute("value_floats")) {
    SmallVector<float> values = node.getFloats("value_floats");
    node.setResult(0, DenseElementsAttr::get(type(builder.getF32Type(), {static_cast<int64_t>(values.size())}), ArrayRef<float>(values)));
  } else if (node.hasAttribute("value_int")) {
    node.setResult(0, DenseElementsAttr::get(type(builder.getI64Type(), {}), node.getInt("value_int", 0)));
  } else if (node.hasAttribute("value_ints")) {
    SmallVector<int64_t> values = node.getInts("value_ints");
    node.setResult(0, DenseElementsAttr::get(type(builder.getI64Type(), {static_cast<int64_t>(values.size())}), ArrayRef<int64_t>(values)));
  } else {
    node.fail("has none of the attributes value, sparse_value, value_float, value_floats, value_int, value_ints");
  }
}

void importConstantOfShape(Node &node) {
  std::string what = ("node \"" + node.getPath() + "\"").str();
  SmallVector<int64_t> shape = node.intsInput(0, "input");
  if (!node.hasAttribute("value")) {
    return node.setResult(0, DenseElementsAttr::get(makeTensorType(shape, node.builder().getF32Type(), what), 0.0f));
  }
  DenseElementsAttr value = readTensorAttribute(node, "value");
  if (value.getNumElements() != 1) {
    node.fail("attribute \"value\" has " + Twine(value.getNumElements()) + " elements, not 1");
  }
  node.setResult(0, DenseElementsAttr::get(makeTensorType(shape, value.getElementType(), what), *value.value_begin<Attribute>()));
}

constexpr RegistryRow kConstantRows[] = {{"Constant", importConstant}, {"ConstantOfShape", importConstantOfShape}};

} // namespace

ArrayRef<RegistryRow> constantRows() {
  return kConstantRows;
}

} // namespace ashlar::frontend
