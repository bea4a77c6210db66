// SPDX-License-Identifier: Apache-2.0
//
// Reads the model for what its file says, then imports it for what only an import knows.

#include "compiler/frontend/inspect.h"

#include "compiler/frontend/body.h"
#include "compiler/frontend/node.h"
#include "compiler/frontend/onnx_file.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/tensor_data.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

using Dimension = onnx::TensorShapeProto::Dimension;

// Sizes that are tried for symbolic dims: of images, and of all others. The position table of a model may be short.
constexpr int64_t kImageSizes[] = {224, 128, 64, 32}, kOtherSizes[] = {128, 64, 32, 16};
constexpr int64_t kBatch = 8;

std::string describeElement(int32_t type, MLIRContext *context) {
  try {
    return elementName(convertElementType(type, context, ""));
  } catch (const ImportError &) {
    return StringRef(onnx::TensorProto_DataType_Name(static_cast<onnx::TensorProto_DataType>(type))).lower();
  }
}

Inspection::Tensor describeValue(const onnx::ValueInfoProto &value, MLIRContext *context) {
  const onnx::TypeProto::Tensor &type = value.type().tensor_type();
  Inspection::Tensor tensor{
      value.name(), value.type().has_tensor_type() ? describeElement(type.elem_type(), context) : "no tensor", {}, {}};
  for (const Dimension &dim : type.shape().dim()) {
    tensor.dims.push_back(dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.dim_param().empty() ? "?" : dim.dim_param());
  }
  return tensor;
}

class Inspector {
public:
  Inspector(StringRef path, ImportOptions options, MLIRContext *context)
      : path(path), options(std::move(options)), context(context), proto(readModelFile(path)) {}

  Inspection run() {
    const onnx::GraphProto &graph = proto->graph();
    found.name = inOneLine(graph.name().empty() ? llvm::sys::path::stem(path).str() : graph.name());
    found.producer = inOneLine(proto->producer_name() + (proto->producer_version().empty() ? "" : " " + proto->producer_version()));
    for (const onnx::OperatorSetIdProto &opset : proto->opset_import()) {
      found.opsets.push_back((opset.domain().empty() ? "" : opset.domain() + " ") + std::to_string(opset.version()));
    }
    llvm::StringSet<> initializers;
    for (const onnx::TensorProto &initializer : graph.initializer()) {
      initializers.insert(initializer.name());
    }
    for (const onnx::ValueInfoProto &input : graph.input()) {
      if (!initializers.contains(input.name())) {
        inputs.push_back(&input);
        found.inputs.push_back(describeValue(input, context));
      }
    }
    for (const onnx::ValueInfoProto &output : graph.output()) {
      found.outputs.push_back(describeValue(output, context));
    }
    try {
      inlineFunctions(*proto);
    } catch (const ImportError &) { // the import says it
    }
    for (const onnx::NodeProto &node : graph.node()) {
      ++found.ops[inOneLine(qualifiedOpType(node))];
    }
    guessLoss();
    tryImports();
    return std::move(found);
  }

private:
  void guessLoss();
  const onnx::NodeProto *producerOf(StringRef tensor) const;
  // Whether a dim is the batch: the first of an input, and what has its name.
  bool isBatch(const Dimension &dim, int index) const;
  void tryImports();
  // Imports with the given choice of sizes. Returns whether that was possible.
  bool tryImport(size_t choice);

  StringRef path;
  ImportOptions options;
  MLIRContext *context;
  std::unique_ptr<onnx::ModelProto> proto;
  std::vector<const onnx::ValueInfoProto *> inputs;
  Inspection found;
};

const onnx::NodeProto *Inspector::producerOf(StringRef tensor) const {
  for (const onnx::NodeProto &node : proto->graph().node()) {
    if (llvm::is_contained(node.output(), tensor)) {
      return &node;
    }
  }
  return nullptr;
}

void Inspector::guessLoss() {
  const onnx::ValueInfoProto *chosen = nullptr;
  for (const onnx::ValueInfoProto &output : proto->graph().output()) {
    const onnx::TypeProto::Tensor &type = output.type().tensor_type();
    std::string element = describeElement(type.elem_type(), context);
    if (!output.type().has_tensor_type() || (element != "f32" && element != "f64" && element != "f16")) {
      continue;
    }
    StringRef name = output.name();
    if (name.contains_insensitive("loss") || (type.has_shape() && type.shape().dim_size() == 0)) {
      found.loss.kind = LossGuess::Kind::ModelOutput;
      found.loss.tensor = output.name();
      return;
    }
    if (!chosen || (name.contains_insensitive("logits") && !StringRef(chosen->name()).contains_insensitive("logits"))) {
      chosen = &output;
    }
  }
  if (!chosen) {
    return;
  }
  found.loss.tensor = chosen->name();
  found.loss.labels = "labels";
  while (llvm::any_of(inputs, [&](const auto *input) { return input->name() == found.loss.labels; })) {
    found.loss.labels += "_of_loss";
  }
  const onnx::NodeProto *producer = producerOf(chosen->name());
  std::string op = producer ? producer->op_type() : "";
  if (op == "Softmax" && producer->input_size() == 1) { // the loss takes it again
    found.loss.tensor = producer->input(0);
  }
  found.loss.kind = op == "LogSoftmax" ? LossGuess::Kind::NegativeLogLikelihood
                    : op == "Sigmoid"  ? LossGuess::Kind::MeanSquaredError
                                       : LossGuess::Kind::SoftmaxCrossEntropy;
}

bool Inspector::isBatch(const Dimension &dim, int index) const {
  if (options.dims.contains(dim.dim_param())) {
    return false;
  }
  return index == 0 || (!dim.dim_param().empty() && llvm::any_of(inputs, [&](const auto *input) {
           const onnx::TensorShapeProto &shape = input->type().tensor_type().shape();
           return shape.dim_size() > 0 && shape.dim(0).dim_param() == dim.dim_param();
         }));
}

bool Inspector::tryImport(size_t choice) {
  ImportOptions tried = options;
  ModelFacts facts;
  tried.facts = &facts;
  tried.training = true;
  tried.loss = tried.loss.empty() ? found.loss.tensor : tried.loss;
  std::vector<std::pair<std::string, int64_t>> dims;
  std::optional<int64_t> batch = options.globalBatch;
  for (const onnx::ValueInfoProto *input : inputs) {
    const onnx::TensorShapeProto &shape = input->type().tensor_type().shape();
    for (int i = 0; i < shape.dim_size(); ++i) {
      const Dimension &dim = shape.dim(i);
      if (i == 0 && !batch && (dim.has_dim_value() || isBatch(dim, i))) {
        batch = dim.has_dim_value() ? dim.dim_value() : kBatch;
      }
      if (!dim.has_dim_value() && !isBatch(dim, i) && !dim.dim_param().empty()) {
        bool isImage = shape.dim_size() == 4;
        int64_t size = tried.dims.try_emplace(dim.dim_param(), isImage ? kImageSizes[choice] : kOtherSizes[choice]).first->second;
        if (!llvm::is_contained(dims, std::pair(dim.dim_param(), size))) {
          dims.emplace_back(dim.dim_param(), size);
        }
      }
    }
  }
  tried.globalBatch = batch;
  std::string fault;
  auto module = importOnnx(path, tried, context);
  if (!module) {
    fault = llvm::toString(module.takeError()).substr(path.size() + 2);
  }
  if (choice > 0 && !module && facts.faults.size() >= found.facts.faults.size()) {
    return false; // a try before says better what is wrong
  }
  found.facts = std::move(facts);
  found.fault = fault;
  found.batch = batch;
  found.dims = dims;
  if (!module) {
    return false;
  }
  auto forward = (*module)->lookupSymbol<func::FuncOp>(nn::kForward);
  for (auto argument : forward.getArguments()) {
    StringRef name = forward.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nn::kNameAttr).getValue();
    for (Inspection::Tensor &input : found.inputs) {
      if (input.name == name) {
        input.shape.assign(cast<RankedTensorType>(argument.getType()).getShape().begin(),
                           cast<RankedTensorType>(argument.getType()).getShape().end());
      }
    }
  }
  for (auto [i, type] : llvm::enumerate(forward.getResultTypes())) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape();
    if (i < found.outputs.size()) {
      found.outputs[i].shape.assign(shape.begin(), shape.end());
    }
  }
  return true;
}

void Inspector::tryImports() {
  for (size_t choice = 0; choice < std::size(kOtherSizes); ++choice) {
    if (tryImport(choice) || found.dims.empty()) {
      break;
    }
  }
  // A softmax does not change the shape of what the loss is of.
  for (const Inspection::Tensor &output : found.outputs) {
    const onnx::NodeProto *producer = producerOf(output.name);
    if (output.name == found.loss.tensor || (producer && producer->op_type() == "Softmax" && producer->input(0) == found.loss.tensor)) {
      found.loss.shape = output.shape;
    }
  }
  if (found.loss.kind == LossGuess::Kind::SoftmaxCrossEntropy && found.fault.empty() &&
      (found.loss.shape.size() < 2 || found.loss.shape.back() == 1)) {
    found.loss.kind = LossGuess::Kind::MeanSquaredError; // no classes
  }
}

} // namespace

llvm::Expected<Inspection> inspectOnnx(StringRef path, ImportOptions options, MLIRContext *context) {
  std::string message;
  try {
    return Inspector(path, std::move(options), context).run();
  } catch (const std::exception &error) {
    message = describeFailure(error);
  }
  return llvm::createStringError(llvm::inconvertibleErrorCode(), path + ": " + message);
}

} // namespace ashlar::frontend
