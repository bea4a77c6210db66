// SPDX-License-Identifier: Apache-2.0
//
// The rules, strongest evidence first.

#include "compiler/frontend/weights/buffers.h"

#include "compiler/frontend/registry.h"
#include "compiler/frontend/tensor_data.h"
#include "compiler/frontend/weights/initializer_numbers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;

namespace ashlar::frontend {

namespace {

// Ops whose result has the elements of input 0, or some of them.
constexpr llvm::StringLiteral kViews[] = {"Cast",  "Expand", "Flatten", "Gather",    "Identity", "Reshape",
                                          "Slice", "Split",  "Squeeze", "Transpose", "Trilu",    "Unsqueeze"};

// Ops in which an input is no weight of a layer.
constexpr llvm::StringLiteral kElementwise[] = {"Add", "Clip", "Concat",          "Div",       "Max", "Mean", "Min",  "Mod",
                                                "Mul", "Pow",  "ScatterElements", "ScatterND", "Sub", "Sum",  "Where"};

// Whether the results of a node do not change with small changes of its floats.
bool isFlat(const onnx::NodeProto &node) {
  if (node.op_type() == "Cast" || node.op_type() == "BitCast") {
    return llvm::any_of(node.attribute(), [](const auto &attribute) { return attribute.name() == "to" && !isFloat(attribute.i()); });
  }
  const RegistryRow *row = findOp(qualifiedOpType(node));
  return row && row->isFlat;
}

// Whether an input is the first state of a recurrent layer, which has a row for each sample.
bool isFirstState(const onnx::NodeProto &node, int input) {
  return (input == 5 && (node.op_type() == "LSTM" || node.op_type() == "GRU" || node.op_type() == "RNN")) ||
         (input == 6 && node.op_type() == "LSTM");
}

void collectReads(const onnx::GraphProto &graph, llvm::StringSet<> &names) {
  for (const onnx::NodeProto &node : graph.node()) {
    for (const std::string &input : node.input()) {
      names.insert(input);
    }
    for (const onnx::AttributeProto &attribute : node.attribute()) {
      if (attribute.has_g()) {
        collectReads(attribute.g(), names);
      }
    }
  }
  for (const onnx::ValueInfoProto &output : graph.output()) {
    names.insert(output.name());
  }
}

// Whether a name is `prefix` and a number.
bool isNumbered(StringRef name, StringRef prefix) {
  return name.consume_front(prefix) && llvm::all_of(name, llvm::isDigit);
}

} // namespace

BufferFinder::BufferFinder(const onnx::ModelProto &model, StringRef loss, StringRef directory, MLIRContext *context)
    : graph(model.graph()), directory(directory), context(context), notes(model.graph()) {
  collectUses();
  followGradients(loss);
  followInputs();
}

void BufferFinder::collectUses() {
  for (const onnx::NodeProto &node : graph.node()) {
    for (int i = 0; i < node.input_size(); ++i) {
      uses[node.input(i)].push_back({&node, i});
    }
    llvm::StringSet<> captured;
    for (const onnx::AttributeProto &attribute : node.attribute()) {
      if (attribute.has_g()) {
        collectReads(attribute.g(), captured);
      }
    }
    for (const auto &name : captured) {
      uses[name.first()].push_back({&node, -1});
    }
  }
  for (const onnx::ValueInfoProto &output : graph.output()) {
    outputs.insert(output.name());
  }
}

// From the back to the front: what nobody reads may be what the loss is of.
void BufferFinder::followGradients(StringRef loss) {
  for (const onnx::NodeProto &node : llvm::reverse(graph.node())) {
    bool matters = llvm::any_of(node.output(), [&](const std::string &output) {
      return !output.empty() && (withGradient.contains(output) || outputs.contains(output) || output == loss || !uses.contains(output));
    });
    if (!matters || isFlat(node)) {
      continue;
    }
    for (const std::string &input : node.input()) {
      withGradient.insert(input);
    }
    for (const onnx::AttributeProto &attribute : node.attribute()) {
      if (attribute.has_g()) {
        collectReads(attribute.g(), withGradient);
      }
    }
  }
}

void BufferFinder::followInputs() {
  llvm::StringSet<> initializers;
  for (const onnx::TensorProto &initializer : graph.initializer()) {
    initializers.insert(initializer.name());
  }
  for (const onnx::ValueInfoProto &input : graph.input()) {
    if (!initializers.contains(input.name())) {
      ofInputs.insert(input.name());
    }
  }
  for (const onnx::NodeProto &node : graph.node()) {
    bool keeps = node.op_type() == "Sub" || node.op_type() == "Div" || node.op_type() == "Cast" || node.op_type() == "Identity";
    if (keeps && node.input_size() > 0 && node.output_size() > 0 && ofInputs.contains(node.input(0))) {
      ofInputs.insert(node.output(0));
    }
  }
}

std::vector<BufferFinder::Use> BufferFinder::usesBehindViews(StringRef name) const {
  std::vector<Use> found;
  SmallVector<StringRef> pending = {name};
  llvm::StringSet<> seen;
  while (!pending.empty()) {
    StringRef value = pending.pop_back_val();
    auto each = uses.find(value);
    if (!seen.insert(value).second || each == uses.end()) {
      continue;
    }
    for (const Use &use : each->second) {
      if (use.input == 0 && llvm::is_contained(kViews, use.node->op_type()) && !isFlat(*use.node)) {
        pending.append(use.node->output().begin(), use.node->output().end());
      } else {
        found.push_back(use);
      }
    }
  }
  return found;
}

bool BufferFinder::isStatistic(StringRef name) const {
  auto direct = uses.find(name);
  return direct != uses.end() &&
         llvm::any_of(direct->second, [](const Use &use) { return use.node->op_type() == "BatchNormalization" && use.input >= 3; });
}

std::string BufferFinder::findReason(const onnx::TensorProto &initializer) const {
  const std::string &name = initializer.name();
  if (!uses.contains(name) || outputs.contains(name) || isStatistic(name)) {
    return "";
  }
  if (!withGradient.contains(name)) {
    return "no gradient reaches it: it only decides comparisons, roundings or integers";
  }
  ValueNote note = notes.lookup(name);
  if (note.kind == "BUFFER" || note.kind == "CONSTANT_TENSOR") {
    return "the exporter notes that it is a " + std::string(note.kind == "BUFFER" ? "buffer" : "constant") + " of the torch module";
  }
  if (!note.foldedFrom.empty() &&
      llvm::all_of(note.foldedFrom, [](StringRef from) { return isNumbered(from, "lifted_tensor_") || isNumbered(from, "val_"); })) {
    return "the exporter computed it from constants of the torch module";
  }
  TensorData data = TensorData::peek(initializer, directory, context, "initializer \"" + name + "\"");
  InitializerNumbers numbers(data);
  if (numbers.isAdditiveMask()) {
    return "it is a mask: every number is 0 or one of at most -100";
  }
  std::vector<Use> all = usesBehindViews(name);
  auto allAre = [&](auto accepts) { return !all.empty() && llvm::all_of(all, accepts); };
  const bool isElementwise =
      allAre([](const Use &use) { return use.input >= 0 && (llvm::is_contained(kElementwise, use.node->op_type()) || isFlat(*use.node)); });
  if (std::optional<int64_t> dim = isElementwise ? numbers.findProgression() : std::nullopt) {
    return "it is a table: its numbers are sines, cosines or progressions along dim " + std::to_string(*dim);
  }
  if (!note.kind.empty()) {
    return "";
  }
  if (isElementwise && numbers.isZeroOne()) {
    return "it is a mask: every number is 0 or 1, and it is no weight of a layer";
  }
  auto isState = [](const Use &use) { return isFirstState(*use.node, use.input); };
  const bool isExpanded = !llvm::all_of(uses.find(name)->second, isState); // to the samples, as one that is learned
  if (allAre(isState) && numbers.isUniform() && numbers[0] == 0 && (notes.isMadeByExporter(name) || !isExpanded)) {
    return "it is a first state of zeros, of a recurrent layer";
  }
  if (initializer.dims_size() > 0 && isElementwise && notes.isMadeByExporter(name) && numbers.isUniform()) {
    return "the exporter computed it, and all its numbers are equal";
  }
  if (initializer.dims_size() == 0) { // a learned temperature divides inputs, too
    constexpr double kHiddenScore = 1e4;
    return std::abs(numbers[0]) >= kHiddenScore ? "it hides scores" : "";
  }
  auto shiftsInput = [&](const Use &use) {
    return use.input == 1 && (use.node->op_type() == "Sub" || use.node->op_type() == "Div") && ofInputs.contains(use.node->input(0));
  };
  return allAre(shiftsInput) ? "it normalizes an input of the model, before anything else is computed from that" : "";
}

} // namespace ashlar::frontend
