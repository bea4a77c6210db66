// SPDX-License-Identifier: Apache-2.0
//
// Reads the model for what its file says, then imports it for what only an import knows.

#include "compiler/frontend/inspection/inspect.h"

#include "compiler/frontend/body.h"
#include "compiler/frontend/graph_inputs.h"
#include "compiler/frontend/node.h"
#include "compiler/frontend/onnx_file.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/tensor_data.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/result_names.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

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
    tensor.dims.push_back(!isOpen(dim) ? std::to_string(dim.dim_value()) : dim.dim_param().empty() ? "?" : dim.dim_param());
  }
  return tensor;
}

class Inspector {
public:
  Inspector(StringRef path, ImportOptions options, int64_t devices, MLIRContext *context)
      : path(path), options(std::move(options)), batch((kBatch + devices - 1) / devices * devices), context(context),
        proto(readModelFile(path)) {}

  Inspection run() {
    const onnx::GraphProto &graph = proto->graph();
    found.name = inOneLine(modelNameOf(graph, path).str());
    found.producer = inOneLine(proto->producer_name() + (proto->producer_version().empty() ? "" : " " + proto->producer_version()));
    int64_t ownOpset = 0;
    for (const onnx::OperatorSetIdProto &opset : proto->opset_import()) {
      found.opsets.push_back((opset.domain().empty() ? "" : opset.domain() + " ") + std::to_string(opset.version()));
      ownOpset = opset.domain().empty() ? opset.version() : ownOpset;
    }
    inputs = inputsWithoutData(graph);
    for (const onnx::ValueInfoProto *input : inputs) {
      found.inputs.push_back(describeValue(*input, context));
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
    found.loss = guessLoss(graph, ownOpset);
    tryImports();
    return std::move(found);
  }

private:
  // Whether an open dim is the batch: the first of an input, and what has its name.
  bool isBatch(const onnx::ValueInfoProto &input, int index) const;
  // Returns the sizes that the job gives.
  std::vector<job::Dim> givenDims() const;
  // Gives the open dims of an input the sizes of a choice.
  void chooseSizes(const onnx::ValueInfoProto &input, size_t choice, ImportOptions &tried, std::vector<job::Dim> &dims) const;
  void tryImports();
  // Notes the shapes that an import found out.
  void takeShapes(ModuleOp module);
  // Imports with the given choice of sizes. Returns whether that was possible.
  bool tryImport(size_t choice);

  StringRef path;
  ImportOptions options;
  int64_t batch; // where the model and the job leave it open
  MLIRContext *context;
  std::unique_ptr<onnx::ModelProto> proto;
  std::vector<const onnx::ValueInfoProto *> inputs;
  llvm::StringMap<SmallVector<int64_t>> shapes; // of the tensors of the module, by name
  bool hasChoices = false;                      // of sizes
  Inspection found;
};

bool Inspector::isBatch(const onnx::ValueInfoProto &input, int index) const {
  StringRef symbol = symbolOf(input.type().tensor_type().shape().dim(index));
  return index == 0 || (!symbol.empty() && llvm::any_of(inputs, [&](const auto *other) {
           const onnx::TensorShapeProto &shape = other->type().tensor_type().shape();
           return shape.dim_size() > 0 && symbolOf(shape.dim(0)) == symbol && !givenSize(*other, 0, options);
         }));
}

std::vector<job::Dim> Inspector::givenDims() const {
  std::vector<job::Dim> dims;
  for (const auto &[name, size] : options.dims) {
    dims.emplace_back().set_name(name.str());
    dims.back().set_size(size);
  }
  for (const auto &[place, size] : options.inputDims) {
    dims.emplace_back().set_input(place.first);
    dims.back().set_dim(place.second);
    dims.back().set_size(size);
  }
  return dims;
}

void Inspector::chooseSizes(const onnx::ValueInfoProto &input, size_t choice, ImportOptions &tried, std::vector<job::Dim> &dims) const {
  const onnx::TensorShapeProto &shape = input.type().tensor_type().shape();
  for (int i = 0; i < shape.dim_size(); ++i) {
    if (isBatch(input, i) || givenSize(input, i, tried)) {
      continue;
    }
    job::Dim &chosen = dims.emplace_back();
    chosen.set_size(shape.dim_size() == 4 ? kImageSizes[choice] : kOtherSizes[choice]);
    if (StringRef symbol = symbolOf(shape.dim(i)); !symbol.empty()) {
      chosen.set_name(symbol.str());
      tried.dims[symbol] = chosen.size();
    } else {
      chosen.set_input(input.name());
      chosen.set_dim(i);
      tried.inputDims[{input.name(), i}] = chosen.size();
    }
  }
}

bool Inspector::tryImport(size_t choice) {
  ImportOptions tried = options;
  ModelFacts facts;
  tried.facts = &facts;
  tried.training = true;
  tried.loss = tried.loss.empty() ? found.loss.tensor : tried.loss;
  std::vector<job::Dim> dims = givenDims();
  const size_t givenCount = dims.size();
  for (const onnx::ValueInfoProto *input : inputs) {
    const bool isKnown = llvm::any_of(options.inputs, [&](const job::KnownInput &known) { return known.name() == input->name(); });
    const onnx::TensorShapeProto &shape = input->type().tensor_type().shape();
    if (!tried.globalBatch && !isKnown && shape.dim_size() > 0 && (!isOpen(shape.dim(0)) || !givenSize(*input, 0, options))) {
      tried.globalBatch = isOpen(shape.dim(0)) ? batch : shape.dim(0).dim_value();
    }
    chooseSizes(*input, choice, tried, dims);
  }
  std::string fault;
  auto module = importOnnx(path, tried, context);
  if (!module) {
    fault = llvm::toString(module.takeError()).substr(path.size() + 2);
  }
  found.dependsOnSizes = found.dependsOnSizes || (choice > 0 && fault != found.fault);
  if (choice > 0 && !module && facts.faults.size() >= found.facts.faults.size()) {
    return false; // a try before says better what is wrong
  }
  found.facts = std::move(facts);
  found.fault = fault;
  found.batch = tried.globalBatch;
  found.dims = dims;
  hasChoices = dims.size() > givenCount;
  if (!module) {
    return false;
  }
  takeShapes(**module);
  return true;
}

void Inspector::takeShapes(ModuleOp module) {
  func::FuncOp forward = nn::findProgram(module, nn::ProgramRole::Run);
  auto shapeOf = [](Type type) { return SmallVector<int64_t>(cast<RankedTensorType>(type).getShape()); };
  for (auto argument : forward.getArguments()) {
    shapes[forward.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nn::kNameAttr).getValue()] = shapeOf(argument.getType());
  }
  forward.walk([&](Operation *op) {
    for (OpResult result : op->getResults()) {
      for (StringRef name : nn::namesOf(result)) {
        shapes[name] = shapeOf(result.getType());
      }
    }
  });
  for (auto [i, type] : llvm::enumerate(forward.getResultTypes())) {
    shapes[forward.getResultAttrOfType<StringAttr>(i, nn::kNameAttr).getValue()] = shapeOf(type);
  }
  for (auto *list : {&found.inputs, &found.outputs}) {
    for (Inspection::Tensor &tensor : *list) {
      tensor.shape = shapes.lookup(tensor.name);
    }
  }
}

void Inspector::tryImports() {
  for (size_t choice = 0; choice < std::size(kOtherSizes); ++choice) {
    if (tryImport(choice) || !hasChoices) {
      break;
    }
  }
  settleLoss(found.loss, [&](StringRef tensor) {
    auto shape = shapes.find(tensor);
    return shape == shapes.end() ? std::nullopt : std::optional(shape->second);
  });
}

} // namespace

llvm::Expected<Inspection> inspectOnnx(StringRef path, ImportOptions options, int64_t devices, MLIRContext *context) {
  std::string message;
  try {
    return Inspector(path, std::move(options), devices, context).run();
  } catch (const std::exception &error) {
    message = describeFailure(error);
  }
  return llvm::createStringError(llvm::inconvertibleErrorCode(), path + ": " + message);
}

} // namespace ashlar::frontend
