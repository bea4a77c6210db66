// SPDX-License-Identifier: Apache-2.0
//
// Inputs of the graph as arguments of @forward, as parameters, or as values that the job gives.

#include "compiler/frontend/importer/importer.h"

#include "compiler/frontend/graph_inputs.h"
#include "compiler/frontend/tensor_data.h"
#include "compiler/frontend/weights/init_rules.h"
#include "dialects/support/tensor_size.h"

using namespace mlir;

namespace ashlar::frontend {

SmallVector<int64_t> Importer::inputShape(const onnx::ValueInfoProto &input, bool &hasOpenDim) {
  const onnx::TypeProto::Tensor &type = input.type().tensor_type();
  SmallVector<int64_t> shape;
  for (int i = 0; i < type.shape().dim_size(); ++i) {
    const Dimension &dim = type.shape().dim(i);
    const StringRef name = symbolOf(dim);
    const bool isBatch = i == 0 || batchSymbols.contains(name);
    if (std::optional<int64_t> size = givenSize(input, i, options)) {
      shape.push_back(*size);
      continue;
    }
    hasOpenDim = true;
    std::string symbol = dim.dim_param().empty() ? "" : " (\"" + dim.dim_param() + "\")";
    if (!isBatch) {
      throw ImportError("input \"" + input.name() + "\": dim " + Twine(i) + symbol + " has no size; only the first may be open, add " +
                        dimEntry(input, i) + ", or another size, to the job");
    }
    if (!options.globalBatch) {
      throw ImportError("input \"" + input.name() + "\": dim " + Twine(i) + symbol +
                        " has no size; give the batch as global_batch in the job file, or by --batch");
    }
    if (!name.empty()) {
      batchSymbols.insert(name);
    }
    int64_t pieces = piecesOf(input.name(), type.shape().dim_size())[i];
    if (*options.globalBatch % pieces != 0) {
      throw ImportError("input \"" + input.name() + "\": " + options.batchName + " " + Twine(*options.globalBatch) +
                        " is not divisible by the " + Twine(pieces) + " pieces that its rule cuts dim " + Twine(i) +
                        " into, and mode HYBRID pads nothing");
    }
    shape.push_back(*options.globalBatch / pieces);
  }
  return shape;
}

void Importer::defineInput(const onnx::ValueInfoProto &input) {
  std::string what = "input \"" + input.name() + "\"";
  if (!input.type().has_tensor_type()) {
    throw ImportError(what + ": is not a tensor");
  }
  if (!input.type().tensor_type().has_shape()) {
    throw ImportError(what + ": has no shape; fix it in the export");
  }
  Type element = convertElementType(input.type().tensor_type().elem_type(), context, what);
  bool hasOpenDim = false;
  RankedTensorType type = makeTensorType(inputShape(input, hasOpenDim), element, what);
  if (DenseElementsAttr value = knownValue(input.name(), type, options)) {
    if (wholeType(input.name(), type) != type) {
      throw ImportError(what + ": inputs gives it a value but the mesh cuts it in pieces; leave it out of the rules, or of inputs");
    }
    return values->define(input.name(), value);
  }
  const job::Init *rule = rules.initOf(input.name());
  if (rule && !hasOpenDim && !llvm::is_contained(options.dataInputs, input.name()) && isa<FloatType>(element) &&
      (type.getRank() > 0 || rules.isNamed(input.name(), /*isScalar=*/true))) {
    parameters.push_back(input.name());
    Attribute init = makeInitAttribute(*rule, input.name(), wholeType(input.name(), type));
    return values->defineParameter(input.name(), type, [init] { return init; });
  }
  unsigned index = forward.getNumArguments();
  if (failed(forward.insertArgument(index, type,
                                    builder.getDictionaryAttr(builder.getNamedAttr(nn::kNameAttr, builder.getStringAttr(input.name()))),
                                    values->locationOf(input.name())))) {
    throw ImportError(what + ": cannot be an argument");
  }
  values->define(input.name(), forward.getArgument(index));
}

void Importer::defineInputs() {
  for (const onnx::ValueInfoProto *input : inputsWithoutData(graph)) {
    defineInput(*input);
  }
}

std::vector<int64_t> Importer::piecesOf(StringRef name, int64_t rank) const {
  return options.local ? options.local->pieces(name, rank) : std::vector<int64_t>(rank, 1);
}

RankedTensorType Importer::wholeType(StringRef name, RankedTensorType type) const {
  SmallVector<int64_t> shape(type.getShape());
  for (auto [size, pieces] : llvm::zip_equal(shape, piecesOf(name, type.getRank()))) {
    if (llvm::MulOverflow(size, pieces, size)) {
      throw ImportError("\"" + name + "\" has more rows in all its pieces than can be counted");
    }
  }
  return makeTensorType(shape, type.getElementType(), "\"" + name + "\" with all its pieces");
}

// A model exported with a fixed batch cannot be run with another.
void Importer::checkBatch() {
  if (!options.globalBatch || forward.getNumArguments() == 0) {
    return;
  }
  for (BlockArgument argument : forward.getArguments()) {
    StringRef name = forward.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nn::kNameAttr).getValue();
    RankedTensorType tensor = wholeType(name, cast<RankedTensorType>(argument.getType()));
    if (tensor.getRank() > 0 && tensor.getDimSize(0) == *options.globalBatch) {
      return;
    }
  }
  auto type = cast<RankedTensorType>(forward.getArgumentTypes().front());
  std::string size = type.getRank() > 0 ? std::to_string(type.getDimSize(0)) : "none";
  for (const onnx::ValueInfoProto &input : graph.input()) {
    const onnx::TensorShapeProto &shape = input.type().tensor_type().shape();
    if (shape.dim_size() > 0 && isOpen(shape.dim(0)) && givenSize(input, 0, options)) {
      const std::string &name = shape.dim(0).dim_param();
      throw ImportError("input \"" + input.name() + "\": dims gives its first dim" + (name.empty() ? "" : ", \"" + name + "\",") +
                        " the size " + Twine(*givenSize(input, 0, options)) + " but " + options.batchName + " is " +
                        Twine(*options.globalBatch) + "; leave it out of dims in the job");
    }
  }
  throw ImportError("input \"" + forward.getArgAttrOfType<StringAttr>(0, nn::kNameAttr).getValue() + "\" has the fixed first dim " + size +
                    " but " + options.batchName + " is " + Twine(*options.globalBatch) +
                    "; export the model with a symbolic batch or set " + options.batchName + " to " + size);
}

} // namespace ashlar::frontend
