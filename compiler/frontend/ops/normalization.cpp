// SPDX-License-Identifier: Apache-2.0
//
// Normalizations, in small ops that lowering fuses again into one kernel over rows. Their gradients are those of the small ops.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/shape_rules.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

// The dims from `axis` on are normalized together. Statistics have the dims before it.
class Normalization {
public:
  explicit Normalization(Node &node) : node(node), epsilon(node.getFloat("epsilon", 1e-5)) {
    Value input = node.input(0);
    element = typeOf(input).getElementType();
    if (node.getInt("stash_type", onnx::TensorProto::FLOAT) != onnx::TensorProto::FLOAT) {
      node.fail("attribute \"stash_type\" " + Twine(node.getInt("stash_type", 1)) + " is not supported; use 1, float");
    }
    x = widen(node, input);
    axis = node.getAxis("axis", -1, typeOf(x).getRank());
    for (int64_t d = axis; d < typeOf(x).getRank(); ++d) {
      dims.push_back(d);
      count *= typeOf(x).getDimSize(d);
    }
    if (count == 0) {
      node.fail("has no elements to normalize");
    }
  }

  Value getInput() const { return x; }

  Value mean(Value value) const {
    Value sum = reduce(node, Reduction::Sum, value, dims);
    return node.create<nn::MulOp>(sum, splatConstant(node, typeOf(sum), 1.0 / count));
  }

  // Returns 1 / sqrt(mean(value^2) + epsilon).
  Value inverseDeviation(Value value) const {
    Value variance = mean(node.create<nn::MulOp>(value, value));
    Value root = node.create<nn::SqrtOp>(node.create<nn::AddOp>(variance, splatConstant(node, typeOf(variance), epsilon)));
    return node.create<nn::DivOp>(splatConstant(node, typeOf(root), 1), root);
  }

  // Repeats statistics along the normalized dims.
  Value repeat(Value statistics) const {
    return node.create<nn::BroadcastOp>(typeOf(x), statistics, llvm::to_vector(llvm::seq<int64_t>(0, axis)));
  }

  // Returns the value in the element type of the input, times input 1 and plus input 2, which may be missing.
  Value scaleAndShift(Value value) const {
    value = convertTo(node, value, element);
    value = node.create<nn::MulOp>(value, parameter(1));
    return node.hasInput(2) ? node.create<nn::AddOp>(value, parameter(2)).getResult() : value;
  }

  // Defines result `index` as statistics, with the normalized dims of size 1.
  void setStatistics(size_t index, Value statistics) const {
    if (node.hasResult(index)) {
      SmallVector<int64_t> shape(shapeOf(statistics));
      shape.append(dims.size(), 1);
      node.setResult(index, reshape(node, statistics, shape));
    }
  }

private:
  Value parameter(size_t index) const {
    Value value = node.input(index);
    ArrayRef<int64_t> shape = shapeOf(x);
    if (typeOf(value).getElementType() != element || ArrayRef<int64_t>(broadcastShapes(node, shapeOf(value), shape)) != shape) {
      std::string types;
      llvm::raw_string_ostream(types) << typeOf(value) << " does not fit " << node.inputType(0);
      node.fail("input " + Twine(index) + " of " + types);
    }
    return broadcastTo(node, value, shape);
  }

  Node &node;
  double epsilon;
  Type element;
  Value x; // at least f32
  int64_t axis = 0, count = 1;
  SmallVector<int64_t> dims;
};

void importLayerNormalization(Node &node) {
  Normalization normalization(node);
  Value x = normalization.getInput(), mean = normalization.mean(x);
  Value centred = node.create<nn::SubOp>(x, normalization.repeat(mean));
  Value inverse = normalization.inverseDeviation(centred);
  Value normalized = node.create<nn::MulOp>(centred, normalization.repeat(inverse));
  node.setResult(0, normalization.scaleAndShift(normalized));
  normalization.setStatistics(1, mean);
  normalization.setStatistics(2, inverse);
}

void importRmsNormalization(Node &node) {
  Normalization normalization(node);
  Value x = normalization.getInput();
  Value normalized = node.create<nn::MulOp>(x, normalization.repeat(normalization.inverseDeviation(x)));
  node.setResult(0, normalization.scaleAndShift(normalized));
}

constexpr RegistryRow kNormalizationRows[] = {{"LayerNormalization", importLayerNormalization, Accepts::Floats},
                                              {"RMSNormalization", importRmsNormalization, Accepts::Floats}};

} // namespace

ArrayRef<RegistryRow> normalizationRows() {
  return kNormalizationRows;
}

} // namespace ashlar::frontend
