// SPDX-License-Identifier: Apache-2.0
//
// Scan: a body that is a graph, run on the slices of its inputs. Since opset 9 the tensors are one sequence; in opset 8 they are a batch of
// sequences, which run one after the other.

#include "compiler/frontend/body.h"
#include "compiler/frontend/emit.h"
#include "compiler/frontend/ops/recurrent/repeat.h"
#include "compiler/frontend/registry.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

// Returns a value with dim `from` moved to place `to`.
Value moveDim(const Node &node, Value value, int64_t from, int64_t to) {
  SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank()));
  permutation.erase(permutation.begin() + from);
  permutation.insert(permutation.begin() + to, from);
  return transpose(node, value, permutation);
}

class Scan {
public:
  explicit Scan(Node &node) : node(node), isBatched(node.getOpset() < 9), first(isBatched ? 1 : 0) {
    const int64_t given = static_cast<int64_t>(node.numInputs()) - static_cast<int64_t>(first);
    scanned = node.getInt("num_scan_inputs", 0);
    if (scanned < 1 || scanned > given) {
      node.fail("attribute \"num_scan_inputs\" is " + Twine(scanned) + ", not in [1, " + Twine(given) +
                "], the number of its inputs that are states or scanned");
    }
    states = given - scanned;
    readBody(given);
    for (size_t i = first; i < node.numInputs(); ++i) {
      if (node.hasInput(i) && node.isSequence(node.inputName(i))) {
        node.fail("input " + Twine(i) + " \"" + node.inputName(i) + "\" is a sequence, which is not supported; stack its tensors");
      }
    }
    inputDirections = readDirections(isBatched ? "directions" : "scan_input_directions", scanned);
    outputDirections = isBatched ? SmallVector<int64_t>(stacked, 0) : readDirections("scan_output_directions", stacked);
    inputAxes = isBatched ? SmallVector<int64_t>(scanned, 0) : readList("scan_input_axes", scanned);
    outputAxes = isBatched ? SmallVector<int64_t>(stacked, 0) : readList("scan_output_axes", stacked);
  }

  void build() {
    StepResults results = isBatched ? runBatch() : run(inputsOf(0, states), inputsOf(states, states + scanned), node.uniqueName().str());
    for (auto [i, value] : llvm::enumerate(results.carried)) {
      node.setResult(i, value);
    }
    for (auto [i, value] : llvm::enumerate(results.stacked)) {
      node.setResult(static_cast<size_t>(states) + i, value);
    }
    node.followCounts();
  }

private:
  void readBody(int64_t given) {
    body = node.getGraph("body");
    if (!body || body->input_size() != given || body->output_size() < states ||
        static_cast<int64_t>(node.numResults()) > body->output_size()) {
      node.fail("has " + Twine(given) + " inputs and " + Twine(node.numResults()) + " outputs but a body with " +
                Twine(body ? body->input_size() : 0) + " and " + Twine(body ? body->output_size() : 0));
    }
    stacked = body->output_size() - states;
    if (node.getInfo().options.training && llvm::any_of(body->node(), learnsStatistics)) {
      node.fail("a BatchNormalization of its body would learn its running statistics in each step; move it out");
    }
  }

  SmallVector<int64_t> readList(StringRef name, int64_t count) {
    SmallVector<int64_t> list = node.getInts(name);
    if (!list.empty() && static_cast<int64_t>(list.size()) != count) {
      node.fail("attribute \"" + name + "\" has " + Twine(list.size()) + " numbers, not " + Twine(count));
    }
    list.resize(count, 0);
    return list;
  }

  SmallVector<int64_t> readDirections(StringRef name, int64_t count) {
    SmallVector<int64_t> directions = readList(name, count);
    for (int64_t direction : directions) {
      if (direction != 0 && direction != 1) {
        node.fail("attribute \"" + name + "\" holds " + Twine(direction) + ", which is neither 0, forward, nor 1, reverse");
      }
    }
    return directions;
  }

  SmallVector<Value> inputsOf(int64_t begin, int64_t end) const {
    return llvm::map_to_vector(llvm::seq(begin, end), [&](int64_t i) { return node.input(first + static_cast<size_t>(i)); });
  }

  // Runs the body on one sequence: `sequences` have a dim of steps, and the stacked results get one. `prefix`: of the names of its values.
  StepResults run(ArrayRef<Value> from, ArrayRef<Value> sequences, const std::string &prefix) {
    const bool reversed = llvm::all_of(inputDirections, [](int64_t direction) { return direction == 1; }) &&
                          llvm::all_of(outputDirections, [](int64_t direction) { return direction == 1; });
    SmallVector<Value> sliced;
    for (auto [i, value] : llvm::enumerate(sequences)) {
      const int64_t rank = typeOf(value).getRank();
      if (rank == 0) {
        node.fail("scanned input " + Twine(i) + " is a scalar");
      }
      Value rows = moveDim(node, value, node.normalizeAxis(inputAxes[i], rank), 0);
      sliced.push_back(inputDirections[i] == 1 && !reversed ? reverseAlong(node, rows, 0) : rows);
      if (shapeOf(sliced[i])[0] != shapeOf(sliced[0])[0]) {
        node.fail("scanned inputs 0 and " + Twine(i) + " have " + Twine(shapeOf(sliced[0])[0]) + " and " + Twine(shapeOf(sliced[i])[0]) +
                  " steps, not the same number");
      }
    }
    auto runStep = [&](const StepValues &values) { return runBody(values, prefix); };
    StepResults results = repeat(node, shapeOf(sliced[0])[0], reversed, from, sliced, runStep);
    for (auto [i, value] : llvm::enumerate(results.stacked)) {
      value = outputDirections[i] == 1 && !reversed ? reverseAlong(node, value, 0) : value;
      value = moveDim(node, value, 0, node.normalizeAxis(outputAxes[i], typeOf(value).getRank()));
    }
    return results;
  }

  StepResults runBody(const StepValues &values, const std::string &prefix) {
    Names names;
    auto define = [&](const std::string &name, Value value) {
      names[name] = prefix + "/" + name;
      node.define(names[name], value);
    };
    for (int64_t i = 0; i < states + scanned; ++i) {
      define(body->input(static_cast<int>(i)).name(), i < states ? values.carried[i] : values.sliced[i - states]);
    }
    return importStep(node, *body, prefix, std::move(names), /*firstOutput=*/0, values.carried);
  }

  // Returns the number of steps of each sequence of a batch.
  SmallVector<int64_t> readLengths(int64_t batch, int64_t steps) {
    if (!node.hasInput(0)) {
      return SmallVector<int64_t>(batch, steps);
    }
    SmallVector<int64_t> lengths = node.intsInput(0, "sequence_lens");
    if (static_cast<int64_t>(lengths.size()) != batch || llvm::any_of(lengths, [&](int64_t n) { return n < 0 || n > steps; })) {
      node.fail("input \"sequence_lens\" has " + Twine(lengths.size()) + " numbers, not " + Twine(batch) + " in [0, " + Twine(steps) + "]");
    }
    return lengths;
  }

  // Runs the sequences of a batch. Stacked results behind the end of a sequence are zeros.
  StepResults runBatch() {
    RankedTensorType type = node.inputType(first + static_cast<size_t>(states));
    const int64_t batch = type.getRank() < 2 ? 0 : type.getDimSize(0), steps = type.getRank() < 2 ? 0 : type.getDimSize(1);
    for (size_t i = first; i < node.numInputs(); ++i) {
      RankedTensorType each = node.inputType(i);
      const bool isScanned = i >= first + static_cast<size_t>(states);
      if (batch < 1 || each.getRank() < (isScanned ? 2 : 1) || each.getDimSize(0) != batch || (isScanned && each.getDimSize(1) != steps)) {
        node.fail("input " + Twine(i) + " of " + describeTensor(each) + " is no batch of " + (isScanned ? "sequences" : "states") +
                  ", the first scanned input being " + describeTensor(type) + "; in opset 8 dim 0 is the batch and dim 1 the steps");
      }
    }
    SmallVector<SmallVector<Value>> parts(states + stacked); // of each result, by sample
    for (auto [sample, length] : llvm::enumerate(readLengths(batch, steps))) {
      auto at = static_cast<int64_t>(sample);
      auto ofSample = [&](Value value) { return reshape(node, sliceAlong(node, value, 0, at, at + 1), shapeOf(value).drop_front()); };
      SmallVector<Value> from = llvm::map_to_vector(inputsOf(0, states), ofSample), sequences;
      for (Value value : inputsOf(states, states + scanned)) {
        sequences.push_back(sliceAlong(node, ofSample(value), 0, 0, length));
      }
      StepResults results = run(from, sequences, (node.uniqueName() + "/" + Twine(at)).str());
      for (auto [i, value] : llvm::enumerate(llvm::concat<Value>(results.carried, results.stacked))) {
        SmallVector<int64_t> shape(shapeOf(value)), none(shape.size(), 0);
        if (static_cast<int64_t>(i) >= states && length < steps) {
          shape[0] = steps;
          value = node.create<nn::PadOp>(typeOf(value).clone(shape), value, none, none);
        }
        shape.insert(shape.begin(), 1);
        parts[i].push_back(reshape(node, value, shape));
      }
    }
    StepResults joined;
    for (auto [i, each] : llvm::enumerate(parts)) {
      Value all = each.size() == 1 ? each.front() : node.create<nn::ConcatOp>(each, /*dim=*/0).getResult();
      (static_cast<int64_t>(i) < states ? joined.carried : joined.stacked).push_back(all);
    }
    return joined;
  }

  Node &node;
  bool isBatched;
  size_t first; // input that is a state or scanned
  onnx::GraphProto *body = nullptr;
  int64_t states, scanned, stacked = 0;
  SmallVector<int64_t> inputDirections, outputDirections, inputAxes, outputAxes;
};

// Defines the results itself: a body cannot stand apart, as known nodes do (known_node.h), since it reads values from outside.
std::vector<onnx::NodeProto> expandScan(Node &node) {
  Scan(node).build();
  return {};
}

constexpr RegistryRow kStepRows[] = {{"Scan", nullptr, Accepts::Any, /*knownFloats=*/0, /*draws=*/false, expandScan}};

} // namespace

ArrayRef<RegistryRow> stepRows() {
  return kStepRows;
}

} // namespace ashlar::frontend
