// SPDX-License-Identifier: Apache-2.0
//
// The walk over the graph: inputs and initializers get a meaning, then every node in order, then the outputs are returned.
// Longer than 500 lines: one class; what it checks of inputs, batch, rules and outputs shares the graph's state.

#include "compiler/frontend/import.h"

#include "compiler/frontend/annotations/annotations.h"
#include "compiler/frontend/body.h"
#include "compiler/frontend/exporter_notes.h"
#include "compiler/frontend/folding/known_node.h"
#include "compiler/frontend/folding/stored_constants.h"
#include "compiler/frontend/graph_inputs.h"
#include "compiler/frontend/node.h"
#include "compiler/frontend/onnx_file.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/tensor_data.h"
#include "compiler/frontend/weights/init_rules.h"
#include "compiler/frontend/weights/initializers.h"
#include "compiler/frontend/weights/merged_initializers.h"
#include "compiler/job/job.h"
#include "dialects/nn/counted_dims.h"
#include "dialects/support/tensor_size.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

#include <map>

using namespace mlir;

namespace ashlar::frontend {

namespace {

constexpr int64_t kOldestOpset = 7;  // before it, broadcasting was an attribute
constexpr int64_t kNewestOpset = 28; // of ONNX 1.23; what a later one changes in an op is not known here

bool isDefaultDomain(StringRef domain) {
  return domain.empty() || domain == "ai.onnx";
}

int64_t findOpset(const onnx::ModelProto &model) {
  std::vector<std::string> others;
  for (const onnx::OperatorSetIdProto &opset : model.opset_import()) {
    if (!isDefaultDomain(opset.domain())) {
      others.push_back(opset.domain() + " " + std::to_string(opset.version()));
      continue;
    }
    if (opset.version() < kOldestOpset) {
      throw ImportError("opset " + Twine(opset.version()) + " but the oldest supported is " + Twine(kOldestOpset) +
                        "; convert the model with ONNX's version converter");
    }
    if (opset.version() > kNewestOpset) {
      throw ImportError("opset " + Twine(opset.version()) + " but the newest known is " + Twine(kNewestOpset) +
                        "; export the model with that one, or convert it with ONNX's version converter");
    }
    return opset.version();
  }
  if (!others.empty()) {
    throw ImportError("imports the opset of no domain but " + llvm::join(others, ", ") +
                      "; only models that import one of the default domain, ai.onnx, are supported");
  }
  throw ImportError("not an ONNX model: it names no opset");
}

// Throws unless the model means the version of our own domain that we know.
void checkOwnDomain(const onnx::ModelProto &model) {
  constexpr int64_t kVersion = 1;
  for (const onnx::OperatorSetIdProto &opset : model.opset_import()) {
    if (opset.domain() == kCollectiveDomain && opset.version() != kVersion) {
      throw ImportError("domain " + llvm::Twine(kCollectiveDomain) + " has version " + Twine(opset.version()) + " but only version " +
                        Twine(kVersion) + " is supported");
    }
  }
}

// Returns one error with all the ops that have no row, and why; "" without any.
template <typename Nodes> std::string findUnsupported(const Nodes &nodes, int64_t opset) {
  constexpr size_t kNamesShown = 4;
  std::map<std::string, SmallVector<std::string>> unsupported; // op -> names of its nodes
  for (auto [i, node] : llvm::enumerate(nodes)) {
    if (std::string name = qualifiedOpType(node); !findOp(name)) {
      unsupported[name].push_back(nodePath(node, static_cast<int>(i)));
    }
  }
  std::vector<std::string> ops;
  for (const auto &[op, names] : unsupported) {
    std::string shown = llvm::join(ArrayRef(names).take_front(kNamesShown), "\", \"");
    std::string more = names.size() > kNamesShown ? " and " + std::to_string(names.size() - kNamesShown) + " more" : "";
    ops.push_back(op + " (node" + (names.size() > 1 ? "s" : "") + " \"" + shown + "\"" + more + ", opset " + std::to_string(opset) + ")");
  }
  return ops.empty() ? ""
                     : std::to_string(ops.size()) + (ops.size() == 1 ? " op is" : " ops are") + " not supported: " + llvm::join(ops, ", ");
}

class Importer {
public:
  Importer(StringRef path, const ImportOptions &options, MLIRContext *context)
      : path(path), options(options), context(context), builder(context), proto(readModelFile(path)), graph(*proto->mutable_graph()),
        rules(options), info{options,
                             rules,
                             llvm::sys::path::parent_path(path).str(),
                             findOpset(*proto),
                             budget,
                             counted,
                             storedInitializers(graph),
                             isByTorch(*proto)} {}

  OwningOpRef<ModuleOp> run();

private:
  void defineInputs();
  // Defines one graph input as an argument of @forward, or as a parameter when a rule in options.init says so.
  void defineInput(const onnx::ValueInfoProto &input);
  SmallVector<int64_t> inputShape(const onnx::ValueInfoProto &input, bool &hasOpenDim);
  // Returns into how many pieces each dim of an input or parameter is cut: 1, unless the model is that of one device.
  std::vector<int64_t> piecesOf(StringRef name, int64_t rank) const;
  // Returns the type of the whole tensor of which the model names a device's piece.
  RankedTensorType wholeType(StringRef name, RankedTensorType type) const;
  void checkBatch();
  void importNodes();
  // Whether a node reads what a refused one should have computed.
  bool readsUnknown(const onnx::NodeProto &node) const;
  // Returns the type that the model declares for a value, if it is one of floats and all its sizes are known; else null.
  RankedTensorType declaredFloats(const onnx::ValueInfoProto &value) const;
  // Defines the results of a node that is refused by stand-ins, or as unknown.
  void standIn(const onnx::NodeProto &node);
  // Throws one error with all that is refused. `unsupported`: what findUnsupported() says of the graph.
  void reportFaults(const std::string &unsupported);
  // Imports a node, or returns the nodes that it stands for.
  std::vector<onnx::NodeProto> importNode(Node &node);
  // Throws when an output is declared with other elements than the graph computes, and warns of another shape, as ONNX Runtime does.
  void checkOutput(const onnx::ValueInfoProto &output, RankedTensorType type) const;
  void returnOutputs();
  // Returns the counts that results of @forward need beside them, each with a name that is not taken.
  llvm::MapVector<Value, std::string> nameCounts(ArrayRef<Value> results, const llvm::StringSet<> &taken) const;
  // Throws when the loss of a training job is of a tensor with a counted dim: it would be of the padding, too.
  void checkLoss() const;
  void freezeParameters();
  void verifyModule();
  void applyAnnotations();
  // Takes parameters apart that the exporter merged, and reports them.
  void untie();

  StringRef path;
  const ImportOptions &options;
  MLIRContext *context;
  OpBuilder builder;
  std::unique_ptr<onnx::ModelProto> proto;
  onnx::GraphProto &graph;
  ImportBudget budget;
  CountedDims counted;
  ParameterRules rules; // of the options
  ModelInfo info;
  OwningOpRef<ModuleOp> module;
  func::FuncOp forward;
  std::unique_ptr<GraphValues> values;
  std::vector<std::string> parameters; // names of all, read or not
  llvm::StringSet<> batchSymbols;      // names that first dims of inputs carry; they mean the batch elsewhere too
  std::vector<std::string> faults;     // of the nodes that are refused
  llvm::StringSet<> unknown;           // results of these
  llvm::StringMap<const onnx::ValueInfoProto *> declared;
  ModelEdits edits; // of the graph, ahead of its import
};

// Why a job with a loss has nothing to train. `frozen`: how many parameters that would be trained each glob of options.frozen names.
std::string nothingTrained(ArrayRef<std::pair<std::string, size_t>> frozen) {
  size_t count = 0;
  std::string globs;
  for (const auto &[glob, own] : frozen) {
    count += own;
    globs += (globs.empty() ? "\"" : ", \"") + glob + "\"" + (frozen.size() == 1 ? "" : " (" + std::to_string(own) + ")");
  }
  if (count == 0) {
    return "nothing is trained: the model has no parameter; name initializers in the job's trained, or inputs in its init rules";
  }
  return "nothing is trained: frozen " + globs + " names all parameters, " + std::to_string(count) +
         "; leave out of the job's frozen what is to be trained";
}

// Takes the parameters that options.frozen names out of training. Running statistics may be among them: their handler has looked.
void Importer::freezeParameters() {
  llvm::MapVector<StringRef, nn::VariableOp> parts;
  NameTable names;
  for (auto variable : module->getOps<nn::VariableOp>()) {
    if (!variable.getInternal()) {
      parts.insert({variable.getSymName(), variable});
      names.add(NameKind::Parameter, variable.getSymName());
    }
  }
  rules.checkFrozen(names);
  SmallVector<std::pair<std::string, size_t>> frozen;
  for (const std::string &glob : options.frozen) {
    frozen.push_back({glob, 0});
    for (StringRef name : names.match(NameKind::Parameter, glob)) {
      nn::VariableOp variable = parts.lookup(name);
      frozen.back().second += variable.getTrainable();
      variable.setTrainable(false);
    }
  }
  if (options.needsParameters && !options.facts && llvm::none_of(parts, [](auto &part) { return part.second.getTrainable(); })) {
    throw ImportError(nothingTrained(frozen));
  }
}

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

// What a node stands for comes next, before the nodes that follow it. A node that is refused does not end the import: the others are tried,
// so that one error lists all.
void Importer::importNodes() {
  std::vector<onnx::NodeProto> pending; // the next one last
  auto import = [&](onnx::NodeProto &nodeProto, const std::string &path) {
    try {
      if (!findOp(qualifiedOpType(nodeProto)) || readsUnknown(nodeProto)) {
        return standIn(nodeProto);
      }
      Node node(nodeProto, path, info, *values);
      followStored(nodeProto, node, info.stored);
      std::vector<onnx::NodeProto> stoodFor = importNode(node);
      if (std::string fault = findUnsupported(stoodFor, info.opset); !fault.empty()) {
        throw ImportError(fault);
      }
      std::move(stoodFor.rbegin(), stoodFor.rend(), std::back_inserter(pending));
    } catch (const ImportError &error) {
      faults.push_back(error.what());
      standIn(nodeProto);
    }
  };
  for (int i = 0; i < graph.node_size(); ++i) {
    import(*graph.mutable_node(i), nodePath(graph.node(i), i));
    while (!pending.empty()) {
      onnx::NodeProto node = std::move(pending.back());
      pending.pop_back();
      import(node, nodePath(node, 0)); // it has a name
    }
  }
}

bool Importer::readsUnknown(const onnx::NodeProto &node) const {
  return llvm::any_of(node.input(), [&](const std::string &input) { return unknown.contains(input); });
}

RankedTensorType Importer::declaredFloats(const onnx::ValueInfoProto &value) const {
  const onnx::TypeProto::Tensor &type = value.type().tensor_type();
  bool isFloat = type.elem_type() == onnx::TensorProto::FLOAT || type.elem_type() == onnx::TensorProto::DOUBLE ||
                 type.elem_type() == onnx::TensorProto::FLOAT16 || type.elem_type() == onnx::TensorProto::BFLOAT16;
  if (!isFloat || !type.has_shape()) {
    return {};
  }
  SmallVector<int64_t> shape;
  for (int i = 0; i < type.shape().dim_size(); ++i) {
    std::optional<int64_t> size = givenSize(value, i, options);
    if (!size && batchSymbols.contains(symbolOf(type.shape().dim(i)))) {
      size = options.globalBatch;
    }
    if (!size) {
      return {};
    }
    shape.push_back(*size);
  }
  std::string what = "value \"" + value.name() + "\"";
  Type element = convertElementType(type.elem_type(), context, what);
  return findSizeFault(shape, element).empty() ? RankedTensorType::get(shape, element) : RankedTensorType();
}

// What a refused node computes has the type that the model declares, if it is one of floats: what is computed from integers may have to be
// known, so that it would be refused for the wrong reason.
void Importer::standIn(const onnx::NodeProto &node) {
  if (declared.empty()) {
    for (const auto *list : {&graph.value_info(), &graph.output()}) {
      for (const onnx::ValueInfoProto &value : *list) {
        declared[value.name()] = &value;
      }
    }
  }
  for (const std::string &output : node.output()) {
    if (output.empty()) {
      continue;
    }
    values->forget(output);
    const onnx::ValueInfoProto *value = declared.lookup(output);
    RankedTensorType type = value ? declaredFloats(*value) : RankedTensorType();
    if (!type) {
      unknown.insert(output);
      continue;
    }
    values->define(output, UnrealizedConversionCastOp::create(builder, values->locationOf(output), type, ValueRange()).getResult(0));
  }
}

void Importer::reportFaults(const std::string &unsupported) {
  constexpr size_t kShown = 16;
  if (!unsupported.empty()) {
    faults.insert(faults.begin(), unsupported);
  }
  if (options.facts) {
    options.facts->faults = faults;
  }
  if (!faults.empty()) {
    std::string more = faults.size() > kShown ? "; and " + std::to_string(faults.size() - kShown) + " more nodes are refused" : "";
    throw ImportError(llvm::join(ArrayRef(faults).take_front(kShown), "; ") + more);
  }
}

std::vector<onnx::NodeProto> Importer::importNode(Node &node) {
  node.checkOutputs();
  for (size_t input = 0; input < node.numInputs(); ++input) {
    if (node.isGiven(input) && !values->isDefined(node.inputName(input))) {
      node.fail("reads \"" + node.inputName(input) + "\" but nothing before defines it");
    }
  }
  const RegistryRow &row = *findOp(node.qualifiedOpType());
  checkElementType(node, row);
  std::vector<onnx::NodeProto> nodes;
  if (row.expand) {
    nodes = row.expand(node);
  } else {
    SmallVector<std::pair<size_t, unsigned>> countedInputs = node.countedInputs();
    importByHandler(node, row, *values);
    node.checkCountedInputs(countedInputs);
  }
  node.checkComplete(/*isExpanded=*/row.expand != nullptr);
  return nodes;
}

void Importer::checkOutput(const onnx::ValueInfoProto &output, RankedTensorType type) const {
  std::string what = "output \"" + output.name() + "\"";
  if (output.type().value_case() == onnx::TypeProto::VALUE_NOT_SET) {
    return;
  }
  if (!output.type().has_tensor_type()) {
    throw ImportError(what + " is declared as no tensor but the graph computes " + describeTensor(type));
  }
  const onnx::TypeProto::Tensor &declared = output.type().tensor_type();
  if (declared.elem_type() != onnx::TensorProto::UNDEFINED) {
    Type element = convertElementType(declared.elem_type(), context, what);
    if (element != type.getElementType()) {
      throw ImportError(what + " is declared with elements of " + elementName(element) + " but the graph computes " + describeTensor(type));
    }
  }
  if (!declared.has_shape()) {
    return;
  }
  auto warn = [&](const Twine &declaration) {
    if (!options.facts) {
      emitWarning(UnknownLoc::get(context)) << inOneLine(
          (path + ": " + what + " is declared with " + declaration + " but the graph computes " + describeTensor(type)).str());
    }
  };
  if (declared.shape().dim_size() != type.getRank()) {
    return warn("rank " + Twine(declared.shape().dim_size()));
  }
  ArrayRef<Value> counts = counted.of(values->peekValue(output.name()));
  for (auto [i, dim] : llvm::enumerate(declared.shape().dim())) {
    const bool fits = counts.empty() || !counts[i] ? dim.dim_value() == type.getDimSize(i) : dim.dim_value() <= type.getDimSize(i);
    if (!isOpen(dim) && !fits) {
      return warn("size " + Twine(dim.dim_value()) + " in dim " + Twine(i));
    }
  }
}

void Importer::returnOutputs() {
  SmallVector<Value> results;
  SmallVector<Type> types;
  llvm::StringSet<> names;
  for (const onnx::ValueInfoProto &output : graph.output()) {
    if (!values->isDefined(output.name())) {
      throw ImportError("output \"" + output.name() + "\" is computed by no node");
    }
    if (!names.insert(output.name()).second) {
      throw ImportError("output \"" + output.name() + "\" is listed twice; remove one in the export");
    }
    checkOutput(output, values->getType(output.name()));
    results.push_back(values->getValue(output.name()));
    types.push_back(results.back().getType());
  }
  if (results.empty()) {
    throw ImportError("the graph has no output");
  }
  llvm::MapVector<Value, std::string> counts = nameCounts(results, names);
  for (const auto &[count, name] : counts) {
    results.push_back(count);
    types.push_back(count.getType());
  }
  func::ReturnOp::create(builder, forward.getLoc(), results);
  forward.setType(builder.getFunctionType(forward.getArgumentTypes(), types));
  for (int i = 0; i < graph.output_size(); ++i) {
    forward.setResultAttr(i, nn::kNameAttr, builder.getStringAttr(graph.output(i).name()));
    ArrayRef<Value> own = counts.empty() ? ArrayRef<Value>() : counted.of(results[i]);
    if (!own.empty()) {
      SmallVector<Attribute> named;
      for (Value count : own) {
        named.push_back(builder.getStringAttr(counts.lookup(count)));
      }
      forward.setResultAttr(i, nn::kCountsAttr, builder.getArrayAttr(named));
    }
  }
  for (auto [i, count] : llvm::enumerate(counts)) {
    forward.setResultAttr(graph.output_size() + i, nn::kNameAttr, builder.getStringAttr(count.second));
    forward.setResultAttr(graph.output_size() + i, nn::kInternalAttr, builder.getUnitAttr());
  }
}

llvm::MapVector<Value, std::string> Importer::nameCounts(ArrayRef<Value> results, const llvm::StringSet<> &taken) const {
  llvm::MapVector<Value, std::string> counts;
  if (options.training) { // nothing is written
    return counts;
  }
  llvm::StringSet<> names = taken;
  for (auto [output, result] : llvm::zip(graph.output(), results)) {
    for (Value count : counted.of(result)) {
      if (!count || counts.contains(count)) {
        continue;
      }
      std::string name = output.name() + ".count";
      while (!names.insert(name).second) {
        name += "_";
      }
      counts[count] = name;
    }
  }
  return counts;
}

void Importer::checkLoss() const {
  if (!options.training || (options.loss.empty() && graph.output_size() == 0)) {
    return;
  }
  const std::string &name = options.loss.empty() ? graph.output(0).name() : options.loss;
  if (!counted.of(values->peekValue(name)).empty()) {
    throw ImportError("the loss is of \"" + name +
                      "\", which has a dim whose size only a run finds; let the model reduce it, by ReduceSum or ReduceMean, or keep the "
                      "tensor that was selected from, and a mask of what was selected");
  }
}

// What the handlers leave to the ops' own verifiers (a root of integers, say) becomes an error like any other.
void Importer::verifyModule() {
  std::string message;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (message.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error) {
      message = "node \"" + nn::getPath(diagnostic.getLocation()).str() + "\": " + diagnostic.str();
    }
    return success();
  });
  if (failed(verify(*module))) {
    throw ImportError(message);
  }
}

// Makes rules of the annotations that the job chose.
void Importer::applyAnnotations() {
  if (options.annotations) {
    (*module)->setAttr(dist::kRulesAttr, readAnnotations(*proto, path, *options.annotations, *values));
  } else if (std::vector<std::string> names = deviceConfigurations(*proto); !names.empty()) {
    emitWarning(UnknownLoc::get(context)) << path
                                          << ": its multi-device annotations are not used; name one of its device configurations in "
                                          << "the job: device_configuration: \"" << llvm::join(names, "\" or \"") << "\"";
  }
}

void Importer::untie() {
  checkDataFiles(graph, info);
  std::vector<MergedParameter> merged = untieInitializers(*proto, options, rules, info.directory, context, edits);
  if (options.facts) {
    options.facts->merged = std::move(merged);
    return;
  }
  constexpr size_t kShown = 4;
  std::vector<std::string> lines;
  size_t parts = 0;
  for (const MergedParameter &each : merged) {
    parts += each.isUntied ? each.others.size() : 0;
    if (each.isUntied && lines.size() < kShown) {
      lines.push_back("\"" + each.initializer + "\" is \"" + each.others.front() + "\", too" +
                      (each.others.size() > 1 ? ", and " + std::to_string(each.others.size() - 1) + " more" : ""));
    }
  }
  if (options.training && parts > 0) {
    emitRemark(UnknownLoc::get(context)) << inOneLine((path + ": the exporter merged parameters that were equal; " + Twine(parts) +
                                                       " of them are parameters of their own again: " + llvm::join(lines, "; ") +
                                                       "; untie: NEVER in the job keeps them merged, --inspect lists them")
                                                          .str());
  }
}

OwningOpRef<ModuleOp> Importer::run() {
  checkOwnDomain(*proto);
  untie();
  inlineFunctions(*proto);
  std::string unsupported = findUnsupported(graph.node(), info.opset);
  StringRef name = modelNameOf(graph, path);
  module = ModuleOp::create(NameLoc::get(builder.getStringAttr(name)), name);
  builder.setInsertionPointToEnd(module->getBody());
  if (options.local) {
    dist::MeshOp::create(builder, module->getLoc(), "mesh", options.local->mesh);
  }
  forward = func::FuncOp::create(builder, module->getLoc(), nn::kForward, builder.getFunctionType({}, {}));
  builder.setInsertionPointToEnd(forward.addEntryBlock());
  values = std::make_unique<GraphValues>(forward, builder);
  try {
    parameters = defineInitializers(*proto, path, info, *values, edits,
                                    [this](StringRef name, RankedTensorType type) { return wholeType(name, type); });
    checkGivenInputs(graph, options);
    defineInputs();
    rules.checkInit(parameters);
    rules.checkTrained(parameters);
    checkBatch();
    importNodes();
  } catch (const ImportError &error) {
    faults.push_back(error.what());
  }
  reportFaults(unsupported);
  checkLoss();
  returnOutputs();
  freezeParameters();
  applyAnnotations();
  verifyModule();
  edits.attachTo(*module);
  return std::move(module);
}

} // namespace

ImportOptions makeImportOptions(const job::Job &job) {
  ImportOptions options;
  if (job.has_global_batch()) {
    options.globalBatch = job::programBatch(job);
    options.batchName = job.accumulate() == 1 ? "global_batch" : "global_batch / accumulate";
  }
  for (const job::Dim &dim : job.dims()) {
    if (dim.has_input()) {
      options.inputDims[{dim.input(), dim.dim()}] = dim.size();
    } else {
      options.dims[dim.name()] = dim.size();
    }
  }
  // Which numbers of a loss depend on the number of samples is seen where there are more of them.
  const bool asksForSamples = job.loss().has_model_output() || job::microBatches(job) > 1 || job::ignoredLabel(job);
  if (job.has_loss() && job.has_global_batch() && job::effectiveMode(job) != job::HYBRID && asksForSamples) {
    options.largerBatch = job::programBatch(job) * std::max<int64_t>(job::microBatches(job), 2);
  }
  options.inputs.assign(job.inputs().begin(), job.inputs().end());
  options.training = options.needsParameters = job.has_loss();
  options.straightThrough = job.straight_through();
  options.init.assign(job.init().begin(), job.init().end());
  options.frozen.assign(job.frozen().begin(), job.frozen().end());
  options.trained.assign(job.trained().begin(), job.trained().end());
  options.loss = job::lossName(job);
  for (const job::Tie &tie : job.ties()) {
    options.ties[tie.parameter()] = tie.to();
  }
  options.untieAuto = job.untie().empty();
  for (const std::string &glob : job.untie()) {
    if (glob == "AUTO") {
      options.untieAuto = true;
    } else if (glob != "NEVER") {
      options.untie.push_back(glob);
    }
  }
  if (job.has_batch_norm_variance()) {
    options.unbiasedVariance = job.batch_norm_variance() == job::BatchNorm::TORCH;
  }
  for (const job::Dataset::Feature &feature : job.dataset().features()) {
    options.dataInputs.push_back(feature.tensor());
  }
  options.mode = job::Mode_Name(job::effectiveMode(job));
  return options;
}

namespace {

// Adds @larger_forward to a module where the model can be imported for the larger batch: one with a fixed batch cannot.
void addLargerForward(ModuleOp module, StringRef path, const ImportOptions &options, MLIRContext *context) {
  ImportOptions larger = options;
  larger.globalBatch = options.largerBatch;
  larger.facts = nullptr;
  ScopedDiagnosticHandler silent(context, [](Diagnostic &) { return success(); }); // all has been said
  try {
    OwningOpRef<ModuleOp> made = Importer(path, larger, context).run();
    auto forward = made->lookupSymbol<func::FuncOp>(nn::kForward);
    forward->remove();
    forward.setName(nn::kLargerForward);
    forward.setPrivate();
    module.push_back(forward);
  } catch (const ImportError &) {
  }
}

} // namespace

llvm::Expected<OwningOpRef<ModuleOp>> importOnnx(StringRef path, const ImportOptions &options, MLIRContext *context) {
  context->loadDialect<dist::DistDialect, func::FuncDialect, nn::NnDialect>();
  std::string message;
  try {
    OwningOpRef<ModuleOp> module = Importer(path, options, context).run();
    if (options.largerBatch > 0) {
      addLargerForward(*module, path, options, context);
    }
    return module;
  } catch (const std::exception &error) {
    message = describeFailure(error);
  }
  return llvm::createStringError(llvm::inconvertibleErrorCode(), path + ": " + message);
}

} // namespace ashlar::frontend
