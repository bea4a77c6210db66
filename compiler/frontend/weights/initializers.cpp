// SPDX-License-Identifier: Apache-2.0
//
// Float tensors with a shape are parameters, unless they steer the import or are buffers; all else is a constant.

#include "compiler/frontend/weights/initializers.h"

#include "compiler/frontend/registry.h"
#include "compiler/frontend/tensor_data.h"
#include "compiler/frontend/weights/buffers.h"
#include "compiler/frontend/weights/constant_parameters.h"
#include "compiler/frontend/weights/export_template.h"
#include "compiler/frontend/weights/init_rules.h"
#include "compiler/frontend/weights/scalar_parameters.h"
#include "compiler/frontend/weights/tied_weights.h"
#include "dialects/support/element_type.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

class InitializerImporter {
public:
  InitializerImporter(onnx::ModelProto &model, StringRef path, const ModelInfo &info, GraphValues &values, ModelEdits &edits,
                      WholeType wholeType)
      : model(model), graph(*model.mutable_graph()), path(path), info(info), options(info.options), values(values), edits(edits),
        context(values.getBuilder().getContext()), wholeType(std::move(wholeType)) {}

  std::vector<std::string> run();

private:
  llvm::StringSet<> knownFloats() const;
  // Returns why a float initializer is a buffer; "" when it is a parameter.
  std::string bufferReason(const BufferFinder &finder, const onnx::TensorProto &tensor) const;
  // Returns the float scalars that are parameters, and reports the others that may be.
  llvm::StringSet<> findScalars(const BufferFinder &finder, const llvm::StringSet<> &known) const;
  // Whether one of the floats with a shape is trained.
  bool hasParameter(const BufferFinder &finder, const llvm::StringSet<> &known) const;
  void remark(const Twine &text) const { emitRemark(UnknownLoc::get(context)) << inOneLine((path + ": " + text).str()); }
  // Returns how a parameter holds the numbers of the one to which options.ties ties it. Throws when it does not.
  Copy checkTie(const onnx::TensorProto &copy, const onnx::TensorProto &original) const;
  // Tells of copies that are not tied.
  void reportCopies(ArrayRef<const onnx::TensorProto *> trained);
  // Of a model without parameters: tells of those in Constant nodes.
  void reportConstantWeights(std::vector<std::string> names) const;
  // Ties parameters as options.ties says.
  void tieInitializers(ArrayRef<const onnx::TensorProto *> trained);

  onnx::ModelProto &model;
  onnx::GraphProto &graph;
  StringRef path;
  const ModelInfo &info;
  const ImportOptions &options;
  GraphValues &values;
  ModelEdits &edits;
  MLIRContext *context;
  WholeType wholeType;
  std::vector<std::string> parameters;
};

// Returns the names of the inputs that steer the import of a node, also of a node in a body.
llvm::StringSet<> InitializerImporter::knownFloats() const {
  llvm::StringSet<> names;
  SmallVector<const onnx::GraphProto *> pending = {&graph};
  while (!pending.empty()) {
    for (const onnx::NodeProto &node : pending.pop_back_val()->node()) {
      const RegistryRow *row = findOp(qualifiedOpType(node));
      for (int i = 0; row && i < node.input_size(); ++i) {
        if (row->knownFloats >> i & 1) {
          names.insert(node.input(i));
        }
      }
      for (const onnx::AttributeProto &attribute : node.attribute()) {
        if (attribute.has_g()) {
          pending.push_back(&attribute.g());
        }
      }
    }
  }
  return names;
}

// What the job says of an initializer holds against everything that is read off the model.
std::string InitializerImporter::bufferReason(const BufferFinder &finder, const onnx::TensorProto &tensor) const {
  const std::string &name = tensor.name();
  bool isDecided = !(options.training || options.findsBuffers) || options.local || info.rules.isNamed(name, /*isScalar=*/false);
  return isDecided ? "" : finder.findReason(tensor);
}

bool InitializerImporter::hasParameter(const BufferFinder &finder, const llvm::StringSet<> &known) const {
  return llvm::any_of(graph.initializer(), [&](const onnx::TensorProto &tensor) {
    return tensor.dims_size() > 0 && !known.contains(tensor.name()) && !finder.isStatistic(tensor.name()) &&
           isa<FloatType>(tensorType(tensor, context, "initializer \"" + tensor.name() + "\"").getElementType()) &&
           bufferReason(finder, tensor).empty();
  });
}

llvm::StringSet<> InitializerImporter::findScalars(const BufferFinder &finder, const llvm::StringSet<> &known) const {
  ScalarFinder scalars(model, info.rules);
  llvm::StringSet<> found;
  std::vector<std::string> candidates;
  for (const onnx::TensorProto &tensor : graph.initializer()) {
    const std::string &name = tensor.name();
    if (tensor.dims_size() > 0 || known.contains(name) ||
        !isa<FloatType>(tensorType(tensor, context, "initializer \"" + name + "\"").getElementType())) {
      continue;
    }
    const ScalarRole role = scalars.classify(name);
    if (role == ScalarRole::Constant || !finder.isRead(name) ||
        (!info.rules.isNamed(name, /*isScalar=*/true) && !finder.findReason(tensor).empty())) {
      continue;
    }
    if (role == ScalarRole::Parameter) {
      found.insert(name);
    } else {
      candidates.push_back(name);
    }
  }
  if (!options.training || candidates.empty()) {
    return found;
  }
  if (candidates.size() == 1 && found.empty() && options.init.empty() && !hasParameter(finder, known)) {
    found.insert(candidates.front()); // what else would the job train?
    return found;
  }
  if (options.facts) {
    options.facts->scalars = candidates;
    return found;
  }
  constexpr size_t kShown = 8;
  const std::string more = candidates.size() > kShown ? " and " + std::to_string(candidates.size() - kShown) + " more" : "";
  remark("scalar initializer" + Twine(candidates.size() > 1 ? "s" : "") + " \"" +
         llvm::join(ArrayRef(candidates).take_front(kShown), "\", \"") + "\"" + more +
         (candidates.size() > 1 ? " are constants" : " is a constant") + "; one that the module trains belongs into the job: trained: \"" +
         candidates.front() + "\"");
  return found;
}

std::vector<std::string> InitializerImporter::run() {
  llvm::StringSet<> known = knownFloats();
  liftConstants(graph, info.rules, known, edits);
  BufferFinder finder(model, options.loss, info.directory, context);
  llvm::StringSet<> scalars = findScalars(finder, known);
  std::vector<const onnx::TensorProto *> trained;
  for (onnx::TensorProto &tensor : *graph.mutable_initializer()) {
    std::string name = tensor.name(), what = "initializer \"" + name + "\"";
    RankedTensorType type = tensorType(tensor, context, what);
    if (!isa<FloatType>(type.getElementType()) || (type.getRank() == 0 && !scalars.contains(name)) || known.contains(name) ||
        isStored(tensor.data_type())) {
      values.define(name, TensorData::take(tensor, info.directory, context, what).toDense());
      continue;
    }
    std::string reason = bufferReason(finder, tensor);
    if (options.facts) {
      auto &list = !reason.empty() ? options.facts->buffers : finder.isStatistic(name) ? options.facts->states : options.facts->parameters;
      list.push_back({name, describeTensor(type), byteSize(type), reason});
    }
    if (!reason.empty()) {
      values.define(name, TensorData::take(tensor, info.directory, context, what).toDense());
      if (!options.facts && options.training) {
        remark(what + " " + describeTensor(type) + " is not trained: " + reason);
      }
      continue;
    }
    trained.push_back(&tensor);
    if (options.ties.contains(name)) {
      continue;
    }
    parameters.push_back(name);
    values.defineParameter(name, type, [&info = info, wholeType = wholeType, &tensor, name, what, type]() -> Attribute { // outlives *this
      if (const job::Init *rule = info.rules.initOf(name)) {
        return makeInitAttribute(*rule, name, wholeType(name, type));
      }
      return TensorData::take(tensor, info.directory, type.getContext(), what).intoAttribute(name);
    });
  }
  for (const onnx::SparseTensorProto &sparse : graph.sparse_initializer()) {
    const std::string &name = sparse.values().name();
    std::string what = "sparse initializer \"" + name + "\"";
    onnx::TensorProto dense = makeDense(sparse, info.directory, context, what);
    values.define(name, TensorData::take(dense, info.directory, context, what).toDense());
  }
  tieInitializers(trained);
  if ((options.needsParameters || options.facts) &&
      llvm::all_of(parameters, [&](const std::string &name) { return finder.isStatistic(name); })) {
    reportConstantWeights(findConstantWeights(graph, finder, known));
  }
  return std::move(parameters);
}

void InitializerImporter::reportConstantWeights(std::vector<std::string> names) const {
  if (options.facts) {
    options.facts->constantWeights = std::move(names);
  } else if (!names.empty() && options.init.empty()) {
    throw ImportError("nothing is trained: the " + Twine(names.size()) +
                      (names.size() > 1 ? " weights are in Constant nodes" : " weight is in a Constant node") +
                      "; name trained tensors in the job: trained: \"" + names.front() + "\"");
  }
}

Copy InitializerImporter::checkTie(const onnx::TensorProto &copy, const onnx::TensorProto &original) const {
  auto dataOf = [&](const onnx::TensorProto &tensor) {
    return TensorData::peek(tensor, info.directory, context, "initializer \"" + tensor.name() + "\"");
  };
  TensorData data = dataOf(original), other = dataOf(copy);
  Copy kind = compareNumbers(data, other);
  if (kind == Copy::None) {
    throw ImportError("parameter \"" + copy.name() + "\" " + describeTensor(other.getType()) + " does not hold the numbers of \"" +
                      original.name() + "\" " + describeTensor(data.getType()) + ", to which the job ties it; leave the tie out");
  }
  return kind;
}

void InitializerImporter::tieInitializers(ArrayRef<const onnx::TensorProto *> trained) {
  llvm::StringMap<const onnx::TensorProto *> byName;
  for (const onnx::TensorProto *tensor : trained) {
    byName[tensor->name()] = tensor;
  }
  llvm::StringMap<Copy> kinds;
  for (const auto &each : options.ties) {
    for (StringRef name : {each.first(), StringRef(each.second)}) {
      if (!byName.contains(name)) {
        throw ImportError("the job ties \"" + each.first() + "\" to \"" + each.second + "\" but \"" + name +
                          "\" is no parameter with data");
      }
    }
    kinds[each.first()] = checkTie(*byName[each.first()], *byName[each.second]);
  }
  reportCopies(trained); // reading a parameter takes its data
  Builder builder(context);
  SmallVector<NamedAttribute> tied;
  for (const auto &each : options.ties) {
    const bool isTransposed = kinds[each.first()] == Copy::Transposed;
    tied.push_back(
        builder.getNamedAttr(each.first(), builder.getArrayAttr({builder.getStringAttr(each.second), builder.getBoolAttr(isTransposed)})));
    if (!isTransposed) {
      values.alias(each.first(), each.second);
      continue;
    }
    values.define(each.first(), nn::TransposeOp::create(values.getBuilder(), values.locationOf(each.first()), values.getValue(each.second),
                                                        ArrayRef<int64_t>{1, 0}));
  }
  if (!tied.empty()) {
    values.getBuilder().getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>()->setAttr(kTiedAttr,
                                                                                                 builder.getDictionaryAttr(tied));
  }
}

void InitializerImporter::reportCopies(ArrayRef<const onnx::TensorProto *> trained) {
  if (!options.training) {
    return;
  }
  for (const CopiedWeight &each : findCopies(trained, info.directory, context)) {
    if (options.facts) {
      options.facts->copies.push_back(each);
    } else if (!options.ties.contains(each.copy)) {
      remark("initializer \"" + each.copy + "\" holds the numbers of \"" + each.original + "\"" +
             (each.isTransposed ? ", transposed," : "") +
             " but is trained apart; if the module has one parameter, add ties { parameter: \"" + each.copy + "\" to: \"" + each.original +
             "\" } to the job");
    }
  }
}

} // namespace

void checkDataFiles(const onnx::GraphProto &graph, const ModelInfo &info) {
  for (const onnx::TensorProto &tensor : graph.initializer()) {
    for (const onnx::StringStringEntryProto &entry : tensor.external_data()) {
      if (!info.options.checkDataFile || tensor.data_location() != onnx::TensorProto::EXTERNAL || entry.key() != "location") {
        continue;
      }
      SmallString<256> file(info.directory);
      llvm::sys::path::append(file, entry.value());
      if (llvm::Error error = info.options.checkDataFile(file)) {
        throw ImportError(llvm::toString(std::move(error)));
      }
    }
  }
}

std::vector<std::string> defineInitializers(onnx::ModelProto &model, StringRef path, const ModelInfo &info, GraphValues &values,
                                            ModelEdits &edits, WholeType wholeType) {
  return InitializerImporter(model, path, info, values, edits, std::move(wholeType)).run();
}

} // namespace ashlar::frontend
