// SPDX-License-Identifier: Apache-2.0
//
// A trip is imported alone where the number of the trip or a state that is known at first may steer it: an index into a constant, a size, a
// condition. A body that cannot be imported for all trips at once, as one whose states change their shapes, is left to the trips, too.

#include "compiler/frontend/ops/recurrent/loop_steps.h"

#include "compiler/frontend/body.h"
#include "compiler/frontend/emit.h"
#include "compiler/frontend/ops/recurrent/repeat.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

bool readsBelow(const onnx::NodeProto &node, const std::string &name) {
  return llvm::is_contained(node.input(), name) || llvm::any_of(node.attribute(), [&](const onnx::AttributeProto &attribute) {
           return attribute.has_g() && llvm::is_contained(outerNames(attribute.g()), name);
         });
}

bool reads(const onnx::GraphProto &graph, const std::string &name) {
  return llvm::any_of(graph.node(), [&](const onnx::NodeProto &node) { return readsBelow(node, name); }) ||
         llvm::any_of(graph.output(), [&](const onnx::ValueInfoProto &output) { return output.name() == name; });
}

// Whether a bool of one element is true.
bool isTrue(const onnx::TensorProto &tensor) {
  return tensor.data_type() == onnx::TensorProto::BOOL &&
         (tensor.raw_data().size() == 1 ? tensor.raw_data()[0] != 0 : tensor.int32_data_size() == 1 && tensor.int32_data(0) != 0);
}

// Whether the condition that a body returns is the one that it got, or true.
bool conditionHolds(const Node &node, const onnx::GraphProto &body) {
  std::string name = body.output(0).name();
  for (int hop = 0; hop <= body.node_size() && name != body.input(1).name(); ++hop) {
    auto initializer = llvm::find_if(body.initializer(), [&](const onnx::TensorProto &tensor) { return tensor.name() == name; });
    if (initializer != body.initializer().end()) {
      return isTrue(*initializer);
    }
    auto maker = llvm::find_if(body.node(), [&](const onnx::NodeProto &each) { return llvm::is_contained(each.output(), name); });
    if (maker == body.node().end()) {
      if (llvm::any_of(body.input(), [&](const onnx::ValueInfoProto &input) { return input.name() == name; })) {
        return false; // a state, whatever has its name outside
      }
      DenseElementsAttr known = node.isDefined(name) && !node.isSequence(name) ? node.constantOf(name) : DenseElementsAttr();
      return known && known.getElementType().isInteger(1) && known.isSplat() && known.getSplatValue<bool>();
    }
    if (maker->op_type() == "Constant") {
      return maker->attribute_size() == 1 && maker->attribute(0).has_t() && isTrue(maker->attribute(0).t());
    }
    if (maker->op_type() != "Identity" || maker->input_size() != 1) {
      return false;
    }
    name = maker->input(0);
  }
  return name == body.input(1).name();
}

// Returns the number of trips; nothing where it is not known.
std::optional<int64_t> countTrips(const Node &node) {
  DenseElementsAttr most = node.isGiven(0) ? node.peekConstant(0) : DenseElementsAttr();
  DenseElementsAttr condition = node.isGiven(1) ? node.peekConstant(1) : DenseElementsAttr();
  const bool begins = !node.isGiven(1) || (condition && condition.getElementType().isInteger(1) && condition.getNumElements() == 1 &&
                                           condition.getSplatValue<bool>());
  if (!begins || !most || !most.getElementType().isInteger(64) || most.getNumElements() != 1) {
    return std::nullopt;
  }
  return std::max<int64_t>(most.getSplatValue<APInt>().getSExtValue(), 0);
}

// Whether the states of the first trip say nothing about it: they are no sequences, and no integers that are known.
bool statesAreData(const Node &node, int64_t carried) {
  bool anyUnknown = false;
  for (int64_t i = 0; i < carried; ++i) {
    const size_t input = static_cast<size_t>(i) + 2;
    if (!node.isGiven(input) || node.isSequence(node.inputName(input))) {
      return false;
    }
    DenseElementsAttr known = node.peekConstant(input);
    if (known && !isa<FloatType>(known.getElementType())) {
      return false;
    }
    anyUnknown |= !known;
  }
  return anyUnknown;
}

// Imports the body for one step.
StepResults importTrip(Node &node, const onnx::GraphProto &body, int64_t carried, const StepValues &values) {
  const std::string prefix = node.uniqueName().str();
  Names names;
  for (int64_t i = 0; i < carried; ++i) {
    std::string &name = names[body.input(static_cast<int>(i) + 2).name()];
    name = prefix + "/" + body.input(static_cast<int>(i) + 2).name();
    node.define(name, values.carried[i]);
  }
  std::string &condition = names[body.input(1).name()];
  condition = prefix + "/" + body.input(1).name();
  node.getValues().define(condition, DenseElementsAttr::get(RankedTensorType::get({}, node.builder().getI1Type()), true));
  return importStep(node, body, prefix, std::move(names), /*firstOutput=*/1, values.carried);
}

} // namespace

bool importLoopAsRepeat(Node &node, const onnx::GraphProto &body, int64_t carried) {
  std::optional<int64_t> trips = countTrips(node);
  const bool learns = node.getInfo().options.training && llvm::any_of(body.node(), learnsStatistics);
  if (!trips || learns || !conditionHolds(node, body) || reads(body, body.input(0).name()) || !statesAreData(node, carried)) {
    return false;
  }
  SmallVector<Value> first;
  for (int64_t i = 0; i < carried; ++i) {
    first.push_back(node.input(static_cast<size_t>(i) + 2));
  }
  const llvm::StringMap<int64_t> draws = node.getInfo().draws;
  const size_t names = node.getValues().countDefined();
  StepResults results;
  try {
    results = repeat(node, *trips, /*reversed=*/false, first, {},
                     [&](const StepValues &values) { return importTrip(node, body, carried, values); });
  } catch (const BudgetError &) {
    throw; // the trips one after the other take longer
  } catch (const ImportError &) {
    node.getInfo().draws = draws;
    node.getValues().forgetBehind(names);
    return false;
  }
  node.hasInput(0);
  node.hasInput(1);
  for (auto [i, value] : llvm::enumerate(llvm::concat<Value>(results.carried, results.stacked))) {
    node.setResult(i, value);
  }
  node.followCounts();
  return true;
}

} // namespace ashlar::frontend
