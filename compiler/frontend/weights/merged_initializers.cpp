// SPDX-License-Identifier: Apache-2.0
//
// For each initializer that several nodes read: the parameter that each read means, by evidence of the exporter, else by its numbers and
// the modules around it; then an initializer for each.

#include "compiler/frontend/weights/merged_initializers.h"

#include "compiler/frontend/import_error.h"
#include "compiler/frontend/tensor_data.h"
#include "compiler/frontend/weights/buffers.h"
#include "compiler/frontend/weights/initializer_numbers.h"
#include "compiler/frontend/weights/parameter_uses.h"
#include "compiler/frontend/weights/scalar_parameters.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace mlir;

namespace ashlar::frontend {

namespace {

// One read of an initializer.
struct Read {
  onnx::NodeProto *node;
  int input = 0;
  onnx::NodeProto *view = nullptr; // an Identity between them whose result has a made-up name
  bool isNamed = false;            // the node is an Identity whose result is named as a parameter
  std::string parameter;           // its meaning; "" as long as that is open
};

bool isStatistic(const Read &read) {
  return read.node->op_type() == "BatchNormalization" && read.input >= 3;
}

// Whether numbers match a fresh parameter without random numbers: few different ones. Weights rounded to bf16 have more.
bool areFirstValues(const TensorData &data) {
  constexpr size_t kMostValues = 64;
  InitializerNumbers numbers(data);
  const size_t most = std::max<size_t>(1, std::min<size_t>(kMostValues, static_cast<size_t>(numbers.size()) / 4));
  std::set<double> values;
  for (int64_t i = 0; i < numbers.size() && values.size() <= most; ++i) {
    values.insert(numbers[i]);
  }
  return numbers.size() > 0 && values.size() <= most;
}

class Untier {
public:
  Untier(onnx::ModelProto &model, const ImportOptions &options, const ParameterRules &rules, StringRef directory, MLIRContext *context,
         ModelEdits &edits)
      : graph(*model.mutable_graph()), options(options), rules(rules), directory(directory), context(context), edits(edits), uses(graph),
        scalars(model, rules), buffers(model, options.loss, directory, context), isFromTorch(isByTorch(model)) {}

  std::vector<MergedParameter> run();

private:
  void collectReads();
  // Whether the result of an Identity is another parameter that was equal to the initializer it reads.
  bool namesParameter(const onnx::NodeProto &identity, const onnx::TensorProto &initializer) const;
  // Finds the meanings of the reads of an initializer: one parameter or several.
  void findParameters(const onnx::TensorProto &initializer, std::vector<Read> &initializerReads);
  // Decides reads without evidence of the exporter.
  void guessParameters(const onnx::TensorProto &initializer, std::vector<Read> &initializerReads);
  // Gives each read a parameter of its own.
  void separate(const onnx::TensorProto &initializer, std::vector<Read> &initializerReads);
  bool isParameter(const onnx::TensorProto &initializer) const;
  // Returns the name for a read of `initializer` in a layer: "layers.1.norm1.bias".
  std::string nameInModule(const onnx::TensorProto &initializer, const Read &read) const;
  // Whether two initializers of at most so many elements hold the same: an exporter that merges would not leave them.
  bool hasCopies(int64_t mostElements);
  void takeApart(const onnx::TensorProto &initializer, ArrayRef<Read> initializerReads);
  void dropNodes();

  TensorData peek(const onnx::TensorProto &tensor) const {
    return TensorData::peek(tensor, directory, context, "initializer \"" + tensor.name() + "\"");
  }

  onnx::GraphProto &graph;
  const ImportOptions &options;
  const ParameterRules &rules;
  StringRef directory;
  MLIRContext *context;
  ModelEdits &edits;
  ParameterUses uses;
  ScalarFinder scalars;
  BufferFinder buffers;
  bool isFromTorch;
  llvm::MapVector<StringRef, std::vector<Read>> reads; // of initializers
  llvm::StringSet<> taken;                             // names of values
  bool namesMerged = false;                            // the exporter left an Identity for each parameter that it merged
  std::optional<int64_t> smallestCopy;                 // elements of the smallest two initializers that are equal; -1: there are none
};

void Untier::collectReads() {
  llvm::StringSet<> outputs;
  llvm::StringMap<const onnx::TensorProto *> floats;
  for (const onnx::TensorProto &initializer : graph.initializer()) {
    taken.insert(initializer.name());
    if (isFloat(initializer.data_type())) {
      floats[initializer.name()] = &initializer;
    }
  }
  for (const onnx::ValueInfoProto &input : graph.input()) {
    taken.insert(input.name());
  }
  for (const onnx::ValueInfoProto &output : graph.output()) {
    outputs.insert(output.name());
  }
  llvm::StringMap<std::pair<const onnx::TensorProto *, onnx::NodeProto *>> views; // result of an Identity -> its operand, and the node
  for (onnx::NodeProto &node : *graph.mutable_node()) {
    taken.insert(node.output().begin(), node.output().end());
    const bool isIdentity = node.op_type() == "Identity" && node.input_size() == 1 && node.output_size() == 1;
    const onnx::TensorProto *viewed = isIdentity && !outputs.contains(node.output(0)) ? floats.lookup(node.input(0)) : nullptr;
    if (viewed && namesParameter(node, *viewed)) {
      namesMerged = true;
      Read read{&node};
      read.isNamed = true;
      read.parameter = node.output(0);
      reads[viewed->name()].push_back(read);
      continue;
    }
    if (viewed && isMadeUpName(node.output(0))) {
      views[node.output(0)] = {viewed, &node};
      continue;
    }
    for (int i = 0; i < node.input_size(); ++i) {
      auto [initializer, view] = views.lookup(node.input(i));
      if (const onnx::TensorProto *tensor = initializer ? initializer : floats.lookup(node.input(i))) {
        reads[tensor->name()].push_back({&node, i, view});
      }
    }
  }
}

// Torch's exporter for TorchScript does so for each parameter that it merges. Two names in files of others may be one parameter.
bool Untier::namesParameter(const onnx::NodeProto &identity, const onnx::TensorProto &initializer) const {
  const std::string &result = identity.output(0);
  return !isMadeUpName(result) && (isFromTorch || (isModulePath(result) && areFirstValues(peek(initializer))));
}

bool Untier::isParameter(const onnx::TensorProto &initializer) const {
  if (initializer.dims_size() == 0 && scalars.classify(initializer.name()) != ScalarRole::Parameter) {
    return false;
  }
  return rules.isNamed(initializer.name(), /*isScalar=*/true) || buffers.findReason(initializer).empty();
}

bool Untier::hasCopies(int64_t mostElements) {
  if (!smallestCopy) {
    smallestCopy = -1;
    llvm::StringMap<int64_t> seen; // type and bytes -> elements
    for (const onnx::TensorProto &initializer : graph.initializer()) {
      constexpr int64_t kMostElements = 1 << 16;
      if (!isFloat(initializer.data_type()) || initializer.dims_size() == 0 || uses.getNotes().isMadeByExporter(initializer.name())) {
        continue;
      }
      TensorData data = peek(initializer);
      const int64_t elements = data.getType().getNumElements();
      if (elements > kMostElements || !areFirstValues(data)) {
        continue;
      }
      std::string key;
      llvm::raw_string_ostream(key) << data.getType() << data.getBytes();
      if (!seen.try_emplace(key, elements).second && (*smallestCopy < 0 || elements < *smallestCopy)) {
        smallestCopy = elements;
      }
    }
  }
  return *smallestCopy >= 0 && *smallestCopy <= mostElements;
}

std::string Untier::nameInModule(const onnx::TensorProto &initializer, const Read &read) const {
  auto [owner, leaf] = StringRef(initializer.name()).rsplit('.');
  std::string module = uses.findModule(*read.node);
  StringRef role = ParameterUses::findRole(*read.node, read.input);
  if (isStatistic(read) && module.empty()) {
    module = read.node->name();
  }
  const bool isSibling = !leaf.empty() && StringRef(module).rsplit('.').second == owner.rsplit('.').second && !isStatistic(read);
  StringRef last = isSibling || role.empty() ? (leaf.empty() ? owner : leaf) : role;
  return module.empty() ? last.str() : module + "." + last.str();
}

void Untier::guessParameters(const onnx::TensorProto &initializer, std::vector<Read> &initializerReads) {
  const std::string &name = initializer.name();
  auto isOfLayer = [](const Read &read) {
    return read.input == 1 && llvm::is_contained({"MatMul", "Gemm", "Conv", "ConvTranspose"}, read.node->op_type());
  };
  auto isTable = [](const Read &read) { return read.input == 0 && read.node->op_type() == "Gather"; };
  const size_t tables = static_cast<size_t>(llvm::count_if(initializerReads, isTable));
  TensorData data = peek(initializer);
  const bool isShared = namesMerged || (tables > 0 && tables < initializerReads.size()) || !areFirstValues(data) ||
                        (uses.getNotes().isMadeByExporter(name) && !llvm::all_of(initializerReads, isOfLayer)) ||
                        hasCopies(data.getType().getNumElements());
  const bool isKept = !llvm::all_of(initializerReads, isStatistic); // as a parameter; a statistic is none, whoever shares it
  llvm::StringMap<std::string> names;                               // of parameters, by module and role
  for (Read &read : initializerReads) {
    const bool isApart = isKept && isStatistic(read);
    if (!read.parameter.empty() || (!isApart && (isShared || uses.findModule(*read.node).empty()))) {
      read.parameter = read.parameter.empty() ? name : read.parameter;
      continue;
    }
    std::string key = nameInModule(initializer, read);
    if (names.empty() && isMadeUpName(name)) {
      names[key] = name; // the first one keeps it
    }
    read.parameter = key == name ? name : names.try_emplace(key, read.view ? read.view->output(0) : key).first->second;
  }
}

void Untier::separate(const onnx::TensorProto &initializer, std::vector<Read> &initializerReads) {
  auto isOwn = [&](const Read &read) { return read.parameter == initializer.name(); };
  auto keeps = llvm::find_if(initializerReads, isOwn); // the initializer; the first read where none means it
  Read *keeper = keeps == initializerReads.end() ? &initializerReads.front() : &*keeps;
  llvm::StringSet<> given;
  given.insert(initializer.name());
  for (Read &read : initializerReads) {
    if (&read == keeper && !read.isNamed) {
      read.parameter = initializer.name();
      continue;
    }
    const std::string name = !isOwn(read) && !read.parameter.empty() ? read.parameter
                             : read.view                             ? read.view->output(0)
                                                                     : nameInModule(initializer, read);
    read.parameter = name;
    for (int64_t n = 1; !given.insert(read.parameter).second; ++n) {
      read.parameter = name + "_" + std::to_string(n);
    }
  }
}

void Untier::findParameters(const onnx::TensorProto &initializer, std::vector<Read> &initializerReads) {
  // Folded from parameters, as a transposed weight: its uses are distinguished by them, but it has none of their names.
  const std::string &name = initializer.name();
  const bool isFolded = uses.getNotes().hasKinds() && uses.getNotes().lookup(name).kind.empty();
  std::string first;
  bool isOpen = false;
  for (Read &read : initializerReads) {
    if (!read.isNamed && !read.view) {
      read.parameter = uses.findNoted(*read.node, read.input);
    }
    isOpen |= read.parameter.empty();
    if (isFolded && !read.parameter.empty()) {
      first = first.empty() ? read.parameter : first;
      read.parameter = read.parameter == first ? name : uses.findModule(*read.node) + "." + name;
    }
  }
  if (isOpen) {
    guessParameters(initializer, initializerReads);
  }
}

void Untier::takeApart(const onnx::TensorProto &initializer, ArrayRef<Read> initializerReads) {
  llvm::StringMap<std::string> names; // parameter -> initializer
  names[initializer.name()] = initializer.name();
  for (const Read &read : initializerReads) {
    if (!read.isNamed) {
      continue;
    }
    names[read.parameter] = read.parameter; // its name in the graph already
    edits.dropped.push_back(read.node->output(0));
    edits.added.push_back({read.parameter, initializer.name()});
  }
  for (const Read &read : initializerReads) {
    auto [entry, isNew] = names.try_emplace(read.parameter, read.parameter);
    if (isNew) {
      for (int64_t n = 1; (!read.view || entry->second != read.view->output(0)) && !taken.insert(entry->second).second; ++n) {
        entry->second = read.parameter + "_" + std::to_string(n);
      }
      edits.added.push_back({entry->second, initializer.name()});
    }
    if (read.view && entry->second == read.view->output(0)) {
      if (!llvm::is_contained(edits.dropped, entry->second)) {
        edits.dropped.push_back(entry->second);
      }
    } else if (!read.isNamed && read.node->input(read.input) != entry->second) {
      edits.inputs.push_back({read.node->output(0), read.input, entry->second});
      read.node->set_input(read.input, entry->second);
    }
  }
}

void Untier::dropNodes() {
  llvm::StringSet<> dropped;
  dropped.insert(edits.dropped.begin(), edits.dropped.end());
  auto *nodes = graph.mutable_node();
  auto isDropped = [&](const onnx::NodeProto &node) { return node.output_size() > 0 && dropped.contains(node.output(0)); };
  nodes->erase(std::remove_if(nodes->begin(), nodes->end(), isDropped), nodes->end());
}

std::vector<MergedParameter> Untier::run() {
  collectReads();
  std::vector<MergedParameter> merged;
  std::vector<std::string> shared; // that a glob may name
  llvm::StringSet<> matched;
  llvm::StringMap<const onnx::TensorProto *> byName;
  for (const onnx::TensorProto &initializer : graph.initializer()) {
    byName[initializer.name()] = &initializer;
  }
  for (auto &[name, initializerReads] : reads) {
    if (initializerReads.size() < 2) {
      continue;
    }
    const onnx::TensorProto &initializer = *byName.lookup(name);
    if (!isParameter(initializer)) {
      continue;
    }
    shared.push_back(name.str());
    findParameters(initializer, initializerReads);
    const bool chosen = rules.isUntied(name);
    if (chosen) {
      separate(initializer, initializerReads);
    }
    MergedParameter found{name.str(), {}, chosen || (options.untieAuto && !options.local)};
    for (const Read &read : initializerReads) {
      if (read.parameter != name && !llvm::is_contained(found.others, read.parameter)) {
        found.others.push_back(read.parameter);
      }
    }
    if (found.others.empty()) {
      continue;
    }
    if (found.isUntied) {
      takeApart(initializer, initializerReads);
    }
    merged.push_back(std::move(found));
  }
  rules.checkUntied(shared);
  for (const ModelEdits::Added &each : edits.added) {
    onnx::TensorProto *added = graph.add_initializer();
    *added = *byName.lookup(each.from);
    added->set_name(each.name);
  }
  dropNodes();
  return merged;
}

} // namespace

std::vector<MergedParameter> untieInitializers(onnx::ModelProto &model, const ImportOptions &options, const ParameterRules &rules,
                                               StringRef directory, MLIRContext *context, ModelEdits &edits) {
  return Untier(model, options, rules, directory, context, edits).run();
}

} // namespace ashlar::frontend
