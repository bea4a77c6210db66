// SPDX-License-Identifier: Apache-2.0
//
// If and Loop whose conditions are known: the body that is run stands in their place. Where only a run finds the condition of an If, each
// branch is a repeat that runs once, or not.

#include "compiler/frontend/body.h"
#include "compiler/frontend/emit.h"
#include "compiler/frontend/ops/recurrent/loop_steps.h"
#include "compiler/frontend/ops/recurrent/repeat.h"
#include "compiler/frontend/registry.h"
#include "dialects/nn/repeat.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <map>

using namespace mlir;

namespace ashlar::frontend {

namespace {

// What a Loop node says to the Loop node that is the rest of it, and an If to the one that chooses, in attributes of our own.
constexpr llvm::StringLiteral kIteration = "ashlar.iteration", kScans = "ashlar.scans", kChooses = "ashlar.chooses";

bool knownCondition(const Node &node, size_t index) {
  DenseElementsAttr condition = node.constantInput(index);
  if (!condition || !condition.getElementType().isInteger(1) || condition.getNumElements() != 1) {
    node.fail("its condition has to be a bool known at compile time" + node.whyUnknown() +
              "; where it follows from an input of the model, give that its value in the job: inputs { name: \"x\" value: 1 }");
  }
  return condition.getSplatValue<bool>();
}

void checkBranch(const Node &node, const onnx::GraphProto *branch) {
  if (!branch || branch->output_size() != static_cast<int>(node.numResults())) {
    node.fail("its branch has " + Twine(branch ? branch->output_size() : 0) + " outputs but the node has " + Twine(node.numResults()));
  }
}

// Both branches, and an If that chooses between their results: their types are known when it is imported. The opposite of the condition
// stands in front of them. The loops of the If get their numbers before those in its branches.
std::vector<onnx::NodeProto> openBranches(Node &node, const onnx::GraphProto *onTrue, const onnx::GraphProto *onFalse) {
  RankedTensorType condition = node.inputType(0);
  if (!condition.getElementType().isInteger(1) || condition.getNumElements() != 1) {
    node.fail("its condition is " + describeTensor(condition) + ", not one bool");
  }
  const std::string opposite = (node.uniqueName() + "/opposite").str();
  std::vector<std::string> inputs = {node.inputName(0).str(), opposite}, results;
  std::vector<onnx::NodeProto> nodes = {makeNode("Not", {inputs[0]}, {opposite}, node.getPath())};
  for (auto [branch, name] : {std::pair(onTrue, "then"), std::pair(onFalse, "else")}) {
    checkBranch(node, branch);
    Names names;
    std::vector<onnx::NodeProto> opened = openGraph(*branch, (node.uniqueName() + "/" + name).str(), node.getPath(), names);
    if (node.getInfo().options.training && llvm::any_of(opened, learnsStatistics)) {
      node.fail("its condition is only known at run time, but a BatchNormalization of its " + Twine(name) +
                "_branch would learn its running statistics only where that runs; move it out");
    }
    std::move(opened.begin(), opened.end(), std::back_inserter(nodes));
    for (const onnx::ValueInfoProto &output : branch->output()) {
      inputs.push_back(names[output.name()]);
    }
  }
  for (size_t i = 0; i < node.numResults(); ++i) {
    results.push_back(node.hasResult(i) ? node.resultName(i).str() : "");
  }
  node.spend(static_cast<int64_t>(nodes.size()));
  setInt(nodes.emplace_back(makeNode("If", inputs, results, node.getPath())), kChooses, node.getInfo().loops);
  node.getInfo().loops += 2;
  return nodes;
}

// Imports an If whose branches stand in front of it: each as a loop that runs once, or not. What a branch computes for its results alone is
// in its loop when the import ends; a result that it has from outside is none of it.
class Chooser {
public:
  explicit Chooser(Node &node)
      : node(node), condition(scalarInput(0)), opposite(scalarInput(1)), begin(node.input(1).getDefiningOp()),
        loop(node.getInt(kChooses, 0)) {}

  void run() {
    for (size_t i = 0; i < node.numResults(); ++i) {
      const size_t onTrue = i + 2, onFalse = onTrue + node.numResults();
      node.hasInput(onTrue); // one that nobody may read, too
      if (node.hasInput(onFalse) && node.hasResult(i)) {
        checkTypes(i, onTrue, onFalse);
        add(i, node.input(onTrue), node.input(onFalse));
      }
    }
    runWhen(condition, loop, whenTrue);
    runWhen(opposite, loop + 1, whenFalse);
    for (auto [result, value] : values) {
      node.setResult(result, value);
    }
    node.followCounts();
  }

private:
  // Results by number, and what a branch gives them.
  using Results = SmallVector<std::pair<size_t, Value>>;

  Value scalarInput(size_t index) { return reshape(node, node.input(index), {}); }

  void checkTypes(size_t result, size_t onTrue, size_t onFalse) {
    const std::string what = "result " + std::to_string(result) + " of an If whose condition is only known at run time";
    if (node.isSequence(node.inputName(onTrue)) || node.isSequence(node.inputName(onFalse))) {
      node.fail(what + " is a sequence, which is not supported; return its tensors");
    }
    if (node.inputType(onTrue) != node.inputType(onFalse)) {
      node.fail(what + " is " + describeTensor(node.inputType(onTrue)) + " in then_branch but " + describeTensor(node.inputType(onFalse)) +
                " in else_branch; give both the same type and shape, or the condition in the job: inputs { name: \"x\" value: 1 }");
    }
  }

  // Whether a value was computed by a branch.
  bool isOfBranch(Value value) const {
    Operation *maker = value.getDefiningOp();
    const bool isThere = !maker || isa<nn::ConstantOp, nn::ReadOp>(maker);
    return !isThere && maker->getBlock() == begin->getBlock() && begin->isBeforeInBlock(maker);
  }

  void add(size_t result, Value onTrue, Value onFalse) {
    const bool computesTrue = isOfBranch(onTrue), computesFalse = isOfBranch(onFalse);
    if (!computesTrue && !computesFalse) {
      values[result] = select(node, broadcastTo(node, condition, shapeOf(onTrue)), onTrue, onFalse);
      return;
    }
    values[result] = !computesTrue ? onTrue : !computesFalse ? onFalse : splatConstant(node, typeOf(onTrue), 0);
    if (computesTrue) {
      whenTrue.push_back({result, onTrue});
    }
    if (computesFalse) {
      whenFalse.push_back({result, onFalse});
    }
  }

  // Runs a loop if the condition holds: the results in `next` get these values, or stay.
  void runWhen(Value holds, int64_t number, const Results &next) {
    ImplicitLocOpBuilder b(node.location(), node.builder());
    SmallVector<Value> carried;
    for (auto [result, value] : next) {
      carried.push_back(nn::RepeatCarryOp::create(b, value.getType(), values[result], holds, number, carried.size(), /*count=*/1,
                                                  /*reversed=*/false));
    }
    for (auto [each, old] : llvm::zip_equal(next, carried)) {
      values[each.first] = nn::RepeatNextOp::create(b, each.second, old);
    }
  }

  Node &node;
  const Value condition, opposite;
  Operation *const begin; // what comes behind it is of the branches
  const int64_t loop;
  std::map<size_t, Value> values; // of results
  Results whenTrue, whenFalse;
};

std::vector<onnx::NodeProto> expandIf(Node &node) {
  if (node.hasAttribute(kChooses)) {
    Chooser(node).run();
    return {};
  }
  onnx::GraphProto *onTrue = node.getGraph("then_branch"), *onFalse = node.getGraph("else_branch");
  if (!node.constantInput(0)) {
    return openBranches(node, onTrue, onFalse);
  }
  onnx::GraphProto *branch = knownCondition(node, 0) ? onTrue : onFalse;
  checkBranch(node, branch);
  Names names;
  std::vector<onnx::NodeProto> nodes = openGraph(*branch, node.uniqueName(), node.getPath(), names);
  node.spend(static_cast<int64_t>(nodes.size()));
  for (size_t i = 0; i < node.numResults(); ++i) {
    if (node.hasResult(i)) {
      nodes.push_back(
          makeNode("Identity", {names[branch->output(static_cast<int>(i)).name()]}, {node.resultName(i).str()}, node.getPath()));
    }
  }
  return nodes;
}

// Returns the nodes that join the parts of scan output `scan`, one part for each trip.
std::vector<onnx::NodeProto> joinScan(const Node &node, size_t result, ArrayRef<std::string> parts) {
  if (parts.empty()) {
    node.fail("makes no trip, so that its output " + Twine(result) + " has no shape");
  }
  const std::string name = node.resultName(result).str(), axes = name + "/axes";
  std::vector<onnx::NodeProto> nodes = {makeInts(axes, {0}, node.getPath())};
  std::vector<std::string> rows;
  for (const std::string &part : parts) {
    rows.push_back(name + "/row" + std::to_string(rows.size()));
    setList(nodes.emplace_back(makeNode("Unsqueeze", {part}, {rows.back()}, node.getPath())), node.getOpset(), "axes", {0}, axes);
  }
  setInt(nodes.emplace_back(makeNode("Concat", rows, {name}, node.getPath())), "axis", 0);
  return nodes;
}

// Returns the body of a loop that carries so many values. Fails where its inputs and outputs are not those of the node.
onnx::GraphProto *loopBody(Node &node, int64_t carried) {
  onnx::GraphProto *body = node.getGraph("body");
  if (!body || carried < 0 || body->input_size() != carried + 2 || body->output_size() < carried + 1 ||
      static_cast<int64_t>(node.numResults()) > body->output_size() - 1) {
    node.fail("has " + Twine(node.numInputs()) + " inputs and " + Twine(node.numResults()) + " outputs but a body with " +
              Twine(body ? body->input_size() : 0) + " and " + Twine(body ? body->output_size() : 0));
  }
  return body;
}

// What stands in the place of a loop without further trips: the carried values as they are, and the scans of the trips joined, of which
// each trip made `scanCount`.
std::vector<onnx::NodeProto> finishLoop(Node &node, int64_t carried, ArrayRef<std::string> scans, size_t scanCount) {
  std::vector<onnx::NodeProto> nodes;
  for (size_t i = 0; i < node.numResults(); ++i) {
    if (!node.hasResult(i)) {
      continue;
    }
    if (static_cast<int64_t>(i) < carried) {
      node.hasInput(i + 2);
      nodes.push_back(makeNode("Identity", {node.inputName(i + 2).str()}, {node.resultName(i).str()}, node.getPath()));
      continue;
    }
    std::vector<std::string> parts;
    for (size_t at = i - static_cast<size_t>(carried); at < scans.size(); at += scanCount) {
      parts.push_back(scans[at]);
    }
    std::vector<onnx::NodeProto> joined = joinScan(node, i, parts);
    std::move(joined.begin(), joined.end(), std::back_inserter(nodes));
  }
  for (int64_t i = 0; i < carried; ++i) {
    node.hasInput(static_cast<size_t>(i) + 2); // nobody may read it
  }
  return nodes;
}

// A repeat where all trips are alike. Else the first trip and a Loop that makes the others; nothing is known of their conditions before it
// is imported.
std::vector<onnx::NodeProto> expandLoop(Node &node) {
  const int64_t carried = static_cast<int64_t>(node.numInputs()) - 2, iteration = node.getInt(kIteration, 0);
  onnx::GraphProto *body = loopBody(node, carried);
  if (!node.hasAttribute(kIteration) && importLoopAsRepeat(node, *body, carried)) {
    return {};
  }
  const size_t scanCount = static_cast<size_t>(body->output_size() - 1 - carried);
  std::vector<std::string> scans = node.getStrings(kScans); // of the first trip, then of the second, ...
  SmallVector<int64_t> most = node.hasInput(0) ? node.intsInput(0, "M") : SmallVector<int64_t>();
  if (most.size() > 1) {
    node.fail("input \"M\" has " + Twine(most.size()) + " elements, not 1");
  }
  const bool hasCondition = node.hasInput(1), isLast = !most.empty() && iteration >= most.front();
  if (isLast || (hasCondition && !knownCondition(node, 1))) {
    return finishLoop(node, carried, scans, scanCount);
  }
  const std::string prefix = (node.uniqueName() + "/" + Twine(iteration)).str();
  std::vector<onnx::NodeProto> nodes;
  Names names;
  names[body->input(0).name()] = prefix + "/iteration";
  nodes.push_back(makeInt(prefix + "/iteration", iteration, node.getPath()));
  names[body->input(1).name()] = hasCondition ? node.inputName(1).str() : prefix + "/condition";
  if (!hasCondition) {
    setInt(nodes.emplace_back(makeNode("Cast", {prefix + "/iteration1"}, {prefix + "/condition"}, node.getPath())), "to",
           onnx::TensorProto::BOOL);
    nodes.insert(nodes.end() - 1, makeInt(prefix + "/iteration1", 1, node.getPath()));
  }
  for (int64_t i = 0; i < carried; ++i) {
    node.hasInput(static_cast<size_t>(i) + 2);
    names[body->input(static_cast<int>(i) + 2).name()] = node.inputName(static_cast<size_t>(i) + 2).str();
  }
  std::vector<onnx::NodeProto> trip = openGraph(*body, prefix, node.getPath(), names);
  constexpr int64_t kStepsOfScan = 8; // to hand on the name of a part
  node.spend(kStepsOfNode * static_cast<int64_t>(trip.size() + nodes.size()) + kStepsOfScan * static_cast<int64_t>(scans.size()));
  std::move(trip.begin(), trip.end(), std::back_inserter(nodes));
  auto outputOf = [&](int64_t i) { return names[body->output(static_cast<int>(i)).name()]; };
  std::vector<std::string> inputs = {node.isGiven(0) ? node.inputName(0).str() : "", outputOf(0)}, results;
  for (int64_t i = 0; i < carried; ++i) {
    inputs.push_back(outputOf(i + 1));
  }
  for (size_t i = 0; i < scanCount; ++i) {
    scans.push_back(outputOf(carried + 1 + static_cast<int64_t>(i)));
  }
  for (size_t i = 0; i < node.numResults(); ++i) {
    results.push_back(node.resultName(i).str());
  }
  onnx::NodeProto &rest = nodes.emplace_back(makeNode("Loop", inputs, results, node.getPath()));
  setInt(rest, kIteration, iteration + 1);
  onnx::AttributeProto *attribute = rest.add_attribute();
  attribute->set_name("body");
  attribute->set_type(onnx::AttributeProto::GRAPH);
  attribute->mutable_g()->Swap(body);
  onnx::AttributeProto *made = rest.add_attribute();
  made->set_name(kScans.str());
  made->set_type(onnx::AttributeProto::STRINGS);
  for (std::string &scan : scans) {
    made->add_strings(std::move(scan));
  }
  return nodes;
}

constexpr RegistryRow kControlFlowRows[] = {
    {"If", nullptr, Accepts::Any, /*knownFloats=*/0, /*draws=*/false, expandIf},
    {"Loop", nullptr, Accepts::Any, /*knownFloats=*/0, /*draws=*/false, expandLoop},
};

} // namespace

ArrayRef<RegistryRow> controlFlowRows() {
  return kControlFlowRows;
}

} // namespace ashlar::frontend
