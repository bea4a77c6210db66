// SPDX-License-Identifier: Apache-2.0
//
// Walks from an output towards the inputs, past nodes that only move elements, and looks for the last non-linear function.

#include "compiler/frontend/inspection/loss_guess.h"

#include "compiler/frontend/graph_inputs.h"
#include "compiler/frontend/tensor_data.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <cstring>

using llvm::StringRef;

namespace ashlar::frontend {

namespace {

constexpr llvm::StringLiteral kSameLogits[] = {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"};

// Finds the function that an output comes out of.
class OutputReader {
public:
  OutputReader(const onnx::GraphProto &graph, int64_t opset) : graph(graph), opset(opset) {
    for (const onnx::NodeProto &node : graph.node()) {
      for (const std::string &output : node.output()) {
        producers[output] = &node;
      }
    }
  }

  // Adds to a guess whose output is chosen what is ahead of it.
  void read(LossGuess &guess) const {
    const std::string tensor = skipMoves(guess.output);
    const onnx::NodeProto *node = producer(tensor);
    if (std::optional<std::string> logits = softmaxInput(node, guess.axis)) {
      guess.kind = LossGuess::Kind::SoftmaxCrossEntropy;
      guess.logits.push_back(*logits);
      while (const onnx::NodeProto *move = mover(guess.logits.back())) {
        guess.logits.push_back(move->input(0));
      }
    } else if (isLogSoftmax(node)) {
      guess.kind = LossGuess::Kind::NegativeLogLikelihood;
    } else if (isSigmoid(node)) {
      guess.kind = LossGuess::Kind::MeanSquaredError;
    }
  }

private:
  const onnx::NodeProto *producer(StringRef tensor) const { return producers.lookup(tensor); }

  // Returns the node that makes a tensor where it has this op; null elsewhere.
  const onnx::NodeProto *producer(StringRef tensor, StringRef op) const {
    const onnx::NodeProto *node = producer(tensor);
    return node && node->domain().empty() && op == node->op_type() ? node : nullptr;
  }

  const onnx::NodeProto *mover(StringRef tensor) const {
    const onnx::NodeProto *node = producer(tensor);
    return node && llvm::is_contained(kSameLogits, node->op_type()) && node->input_size() > 0 ? node : nullptr;
  }

  std::string skipMoves(std::string tensor) const {
    while (const onnx::NodeProto *node = mover(tensor)) {
      tensor = node->input(0);
    }
    return tensor;
  }

  // Returns the other input of a node of two where one is `tensor`; "" elsewhere.
  static std::string otherInput(const onnx::NodeProto &node, StringRef tensor) {
    return node.input_size() != 2 ? "" : tensor == node.input(0) ? node.input(1) : tensor == node.input(1) ? node.input(0) : "";
  }

  const onnx::TensorProto *constant(StringRef tensor) const {
    for (const onnx::TensorProto &initializer : graph.initializer()) {
      if (tensor == initializer.name()) {
        return &initializer;
      }
    }
    const onnx::NodeProto *node = producer(tensor, "Constant");
    return node && node->attribute_size() == 1 && node->attribute(0).name() == "value" ? &node->attribute(0).t() : nullptr;
  }

  bool isOne(StringRef tensor) const {
    const onnx::TensorProto *value = constant(tensor);
    if (!value || value->data_type() != onnx::TensorProto::FLOAT) {
      return false;
    }
    float number = value->float_data_size() == 1 ? value->float_data(0) : 0;
    if (value->raw_data().size() == sizeof(number)) {
      std::memcpy(&number, value->raw_data().data(), sizeof(number));
    }
    return number == 1;
  }

  // Returns the one axis of a reduction; -1 where it is not known.
  int64_t axisOf(const onnx::NodeProto &reduction) const {
    for (const onnx::AttributeProto &attribute : reduction.attribute()) {
      if (attribute.name() == "axes" && attribute.ints_size() == 1) {
        return attribute.ints(0);
      }
    }
    const onnx::TensorProto *axes = reduction.input_size() == 2 ? constant(reduction.input(1)) : nullptr;
    int64_t axis = axes && axes->int64_data_size() == 1 ? axes->int64_data(0) : -1;
    if (axes && axes->raw_data().size() == sizeof(axis)) {
      std::memcpy(&axis, axes->raw_data().data(), sizeof(axis));
    }
    return axis;
  }

  // Returns what a tensor is where it is x or x - max(x), which has the same softmax.
  std::string withoutMaximum(const std::string &tensor) const {
    const onnx::NodeProto *difference = producer(tensor, "Sub");
    const onnx::NodeProto *maximum = difference ? producer(difference->input(1), "ReduceMax") : nullptr;
    return maximum && maximum->input(0) == difference->input(0) ? difference->input(0) : tensor;
  }

  // Returns the logits of exp(x) / sum(exp(x)), of a quotient or of a product with the inverse.
  std::optional<std::string> partsOfSoftmax(const onnx::NodeProto &node, int64_t &axis) const {
    if (node.input_size() != 2 || (node.op_type() != "Div" && node.op_type() != "Mul")) {
      return std::nullopt;
    }
    for (int i = 0; i < (node.op_type() == "Div" ? 1 : 2); ++i) {
      std::string denominator = node.input(1 - i);
      if (node.op_type() == "Mul") {
        const onnx::NodeProto *inverse = producer(denominator, "Reciprocal");
        denominator = inverse ? inverse->input(0) : "";
      }
      const onnx::NodeProto *exponential = producer(node.input(i), "Exp"), *sum = producer(denominator, "ReduceSum");
      if (exponential && sum && sum->input(0) == node.input(i)) {
        axis = axisOf(*sum);
        return withoutMaximum(exponential->input(0));
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> softmaxInput(const onnx::NodeProto *node, int64_t &axis) const {
    if (!node || !node->domain().empty()) {
      return std::nullopt;
    }
    if (node->op_type() != "Softmax" || node->input_size() != 1) {
      return partsOfSoftmax(*node, axis);
    }
    axis = opset < 13 ? 1 : -1;
    for (const onnx::AttributeProto &attribute : node->attribute()) {
      axis = attribute.name() == "axis" ? attribute.i() : axis;
    }
    return node->input(0);
  }

  // log(softmax(x)), x - log(sum(exp(x))), or x - logsumexp(x).
  bool isLogSoftmax(const onnx::NodeProto *node) const {
    int64_t axis = 0;
    if (!node || !node->domain().empty()) {
      return false;
    }
    if (node->op_type() == "Log") {
      return softmaxInput(producer(node->input(0)), axis).has_value();
    }
    if (node->op_type() != "Sub" || node->input_size() != 2) {
      return node->op_type() == "LogSoftmax";
    }
    if (const onnx::NodeProto *logSum = producer(node->input(1), "ReduceLogSumExp")) {
      return logSum->input(0) == node->input(0);
    }
    const onnx::NodeProto *log = producer(node->input(1), "Log"), *sum = log ? producer(log->input(0), "ReduceSum") : nullptr;
    const onnx::NodeProto *exponential = sum ? producer(sum->input(0), "Exp") : nullptr;
    return exponential && exponential->input(0) == node->input(0);
  }

  // 1 / (1 + exp(-x)).
  bool isSigmoid(const onnx::NodeProto *node) const {
    if (!node || !node->domain().empty() || node->op_type() == "Sigmoid") {
      return node && node->op_type() == "Sigmoid";
    }
    const bool isInverse = node->op_type() == "Reciprocal", isQuotient = node->op_type() == "Div" && isOne(node->input(0));
    const onnx::NodeProto *sum = isInverse || isQuotient ? producer(node->input(isInverse ? 0 : 1), "Add") : nullptr;
    for (int i = 0; sum && i < sum->input_size(); ++i) {
      const onnx::NodeProto *exponential = producer(sum->input(i), "Exp");
      if (exponential && producer(exponential->input(0), "Neg") && isOne(otherInput(*sum, sum->input(i)))) {
        return true;
      }
    }
    return false;
  }

  const onnx::GraphProto &graph;
  int64_t opset;
  llvm::StringMap<const onnx::NodeProto *> producers;
};

bool containsAny(StringRef name, llvm::ArrayRef<StringRef> words) {
  return llvm::any_of(words, [&](StringRef word) { return name.contains_insensitive(word); });
}

// How much an output looks like that of a classifier.
int rankOf(const onnx::ValueInfoProto &output, const LossGuess &read) {
  const onnx::TensorShapeProto &shape = output.type().tensor_type().shape();
  const bool isMatrix = shape.dim_size() == 2 && (isOpen(shape.dim(1)) || shape.dim(1).dim_value() > 1);
  return containsAny(output.name(), {"logits"})                                                                     ? 5
         : read.kind == LossGuess::Kind::SoftmaxCrossEntropy || read.kind == LossGuess::Kind::NegativeLogLikelihood ? 4
         : containsAny(output.name(), {"prob", "score", "class", "label"})                                          ? 3
         : read.kind == LossGuess::Kind::MeanSquaredError                                                           ? 2
                                                                                                                    : isMatrix;
}

llvm::SmallVector<int64_t> withoutOnes(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> rest;
  llvm::copy_if(shape, std::back_inserter(rest), [](int64_t size) { return size != 1; });
  return rest;
}

} // namespace

LossGuess guessLoss(const onnx::GraphProto &graph, int64_t opset) {
  OutputReader reader(graph, opset);
  LossGuess best;
  int bestRank = -1;
  for (const onnx::ValueInfoProto &output : graph.output()) {
    const onnx::TypeProto::Tensor &type = output.type().tensor_type();
    if (!output.type().has_tensor_type() || !isFloat(type.elem_type())) {
      continue;
    }
    LossGuess guess;
    guess.output = guess.tensor = output.name();
    if (containsAny(output.name(), {"loss"}) || (type.has_shape() && type.shape().dim_size() == 0)) {
      guess.kind = LossGuess::Kind::ModelOutput;
      return guess;
    }
    reader.read(guess);
    if (int rank = rankOf(output, guess); rank > bestRank) {
      bestRank = rank;
      best = guess;
    }
  }
  if (bestRank < 0) {
    return best;
  }
  if (best.kind == LossGuess::Kind::None) {
    best.kind = LossGuess::Kind::SoftmaxCrossEntropy;
  }
  best.tensor = best.logits.empty() ? best.output : best.logits.front();
  best.labels = "labels";
  while (llvm::any_of(graph.input(), [&](const onnx::ValueInfoProto &input) { return input.name() == best.labels; })) {
    best.labels += "_of_loss";
  }
  return best;
}

void settleLoss(LossGuess &guess, llvm::function_ref<std::optional<llvm::SmallVector<int64_t>>(StringRef)> shapeOf) {
  const std::optional<llvm::SmallVector<int64_t>> output = shapeOf(guess.output);
  if (guess.kind == LossGuess::Kind::None || !output) {
    return;
  }
  guess.tensor = guess.output;
  guess.shape = *output;
  if (guess.kind != LossGuess::Kind::SoftmaxCrossEntropy) {
    return;
  }
  bool isFound = guess.logits.empty();
  if (!isFound) {
    const std::optional<llvm::SmallVector<int64_t>> read = shapeOf(guess.logits.front());
    const auto rank = static_cast<int64_t>(read ? read->size() : output->size());
    // Dims of size 1 behind the axis of a softmax leave the classes the last ones.
    const bool isLast =
        guess.axis == -1 || guess.axis == rank - 1 ||
        (read && guess.axis >= 0 && llvm::all_of(llvm::drop_begin(*read, guess.axis + 1), [](int64_t size) { return size == 1; }));
    for (const std::string &logits : guess.logits) {
      const std::optional<llvm::SmallVector<int64_t>> shape = shapeOf(logits);
      if (!isFound && isLast && shape && !shape->empty() && !output->empty() && shape->back() == output->back() &&
          shape->front() == output->front() && withoutOnes(*shape) == withoutOnes(*output)) {
        guess.tensor = logits;
        guess.shape = *shape;
        isFound = true;
      }
    }
  }
  if (!isFound || guess.shape.size() < 2 || guess.shape.back() == 1) { // no logits, or no classes
    guess.kind = LossGuess::Kind::MeanSquaredError;
    guess.tensor = guess.output;
    guess.shape = *output;
  }
}

} // namespace ashlar::frontend
