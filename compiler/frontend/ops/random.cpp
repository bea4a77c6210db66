// SPDX-License-Identifier: Apache-2.0
//
// Ops that draw. A number depends on the seed of the program, the name of its node, the step and the place of its element in the whole
// tensor (docs/numbers.md), so every mesh draws the same.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"

#include "llvm/ADT/bit.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

// Returns an element type that numbers are drawn in.
Type drawnElement(const Node &node, Type element) {
  return element.isF64() ? element : Type(node.builder().getF32Type());
}

// Draws a number for each element of a tensor. Nodes of one stream draw the same numbers. `streams`: of each iteration of the bodies around
// the node.
Value draw(const Node &node, nn::Distribution distribution, RankedTensorType type, ArrayRef<APInt> streams) {
  Value index = node.create<nn::IndexOp>(type.clone(node.builder().getI64Type()), rowMajorStrides(type.getShape()));
  Value seed = node.readScalarVariable(nn::kSeedVariable, std::nullopt), step = node.readScalarVariable(nn::kStepVariable, 0);
  Type element = node.builder().getI32Type();
  Value stream = node.isInBody() ? node.perIteration(element, streams)
                                 : node.create<nn::ConstantOp>(DenseElementsAttr::get(RankedTensorType::get({}, element), streams));
  return node.create<nn::RandomOp>(type, distribution, index, seed, step, stream);
}

// Returns the streams of a node: of `name`, and from the second step of a loop on of the number of the step too. Each step draws its own
// numbers.
SmallVector<APInt> streamsOf(const Node &node, const std::string &name) {
  constexpr unsigned kBits = 32;
  const int64_t count = node.countIterations();
  node.spend(count);
  int64_t &draws = node.getInfo().draws[node.getPath()];
  SmallVector<APInt> streams;
  for (int64_t step = draws; step < draws + count; ++step) {
    streams.push_back(APInt(kBits, nn::streamOf(step == 0 ? name : name + " step " + std::to_string(step))));
  }
  draws += count;
  return streams;
}

// The `seed` of a node, where it has one, stands for its name: nodes of equal seeds draw equal numbers.
SmallVector<APInt> streamsOf(Node &node) {
  if (!node.hasAttribute("seed")) {
    return streamsOf(node, node.getPath().str());
  }
  return streamsOf(node, "seed " + std::to_string(llvm::bit_cast<uint32_t>(static_cast<float>(node.getFloat("seed", 0)))));
}

// Defines the result as `scale` * a random number + `shift` for each element.
void setRandom(Node &node, nn::Distribution distribution, ArrayRef<int64_t> shape, Type element, double scale, double shift) {
  if (!isa<FloatType>(element)) {
    node.fail("draws " + elementName(element) + ", which is no float; attribute \"dtype\" has the type of its numbers");
  }
  node.checkSize(shape, element);
  Value numbers = draw(node, distribution, RankedTensorType::get(shape, drawnElement(node, element)), streamsOf(node));
  numbers = node.create<nn::MulOp>(numbers, splatConstant(node, typeOf(numbers), scale));
  numbers = node.create<nn::AddOp>(numbers, splatConstant(node, typeOf(numbers), shift));
  node.setResult(0, convertTo(node, numbers, element));
}

void setUniform(Node &node, ArrayRef<int64_t> shape, Type element) {
  double low = node.getFloat("low", 0), high = node.getFloat("high", 1);
  setRandom(node, nn::Distribution::Uniform, shape, element, high - low, low);
}

void setNormal(Node &node, ArrayRef<int64_t> shape, Type element) {
  setRandom(node, nn::Distribution::Normal, shape, element, node.getFloat("scale", 1), node.getFloat("mean", 0));
}

template <void set(Node &, ArrayRef<int64_t>, Type)> void importRandom(Node &node) {
  set(node, node.getInts("shape"), node.getElementType("dtype", node.builder().getF32Type()));
}

// The shape is that of the input, the element type too unless the node says another.
template <void set(Node &, ArrayRef<int64_t>, Type)> void importRandomLike(Node &node) {
  RankedTensorType like = node.inputType(0);
  set(node, like.getShape(), node.getElementType("dtype", like.getElementType()));
}

// 1 with the probability that the input is.
void importBernoulli(Node &node) {
  Value probability = node.input(0);
  RankedTensorType type = typeOf(probability);
  Type drawn = drawnElement(node, type.getElementType());
  Value number = draw(node, nn::Distribution::Uniform, type.clone(drawn), streamsOf(node));
  Value isOne = compare(node, nn::Predicate::Lt, number, convertTo(node, probability, drawn));
  node.setResult(0, convertTo(node, isOne, node.getElementType("dtype", type.getElementType())));
}

// The class whose log-probability plus a Gumbel number, -log(-log(u)), is largest: class c with a probability of e^input[c] / sum(e^input).
void importMultinomial(Node &node) {
  RankedTensorType type = node.inputType(0);
  int64_t samples = node.getInt("sample_size", 1);
  Type element = node.getElementType("dtype", node.builder().getI32Type());
  if (type.getRank() != 2 || type.getDimSize(1) == 0 || samples < 1 || !(element.isInteger(32) || element.isInteger(64))) {
    node.fail("draws " + Twine(samples) + " samples as " + elementName(element) + " from " + describeTensor(type) +
              "; it draws at least one, int32 or int64, from (batch, classes)");
  }
  SmallVector<int64_t> shape = {type.getDimSize(0), samples, type.getDimSize(1)};
  Type drawn = drawnElement(node, type.getElementType());
  node.checkSize(shape, drawn);
  auto scoresType = RankedTensorType::get(shape, drawn);
  Value uniform = draw(node, nn::Distribution::Uniform, scoresType, streamsOf(node));
  Value exponential = node.create<nn::NegOp>(node.create<nn::LogOp>(uniform));
  Value logits = node.create<nn::BroadcastOp>(scoresType, convertTo(node, node.input(0), drawn), ArrayRef<int64_t>{0, 2});
  Value scores = node.create<nn::SubOp>(logits, node.create<nn::LogOp>(exponential));
  Value largest = node.create<nn::BroadcastOp>(scoresType, reduce(node, Reduction::Max, scores, {2}), ArrayRef<int64_t>{0, 1});
  auto indexType = RankedTensorType::get(shape, node.builder().getI64Type());
  Value index = node.create<nn::IndexOp>(indexType, ArrayRef<int64_t>{0, 0, 1});
  Value candidates = node.create<nn::SelectOp>(indexType, compare(node, nn::Predicate::Eq, scores, largest), index,
                                               splatConstant(node, indexType, static_cast<double>(shape[2])));
  node.setResult(0, convertTo(node, reduce(node, Reduction::Min, candidates, {2}), element));
}

double readDropoutRatio(Node &node) {
  if (node.getOpset() < 12) {
    return node.getFloat("ratio", 0.5);
  }
  if (!node.hasInput(1)) {
    return 0.5;
  }
  std::optional<double> ratio = splatInput(node, 1);
  if (!ratio) {
    node.fail("input \"ratio\" has to be a scalar known at compile time");
  }
  return *ratio;
}

// y = x * mask, mask = (u >= ratio) / (1 - ratio), u = random(seed, step, node, index).
void importTrainingDropout(Node &node, double ratio) {
  Value input = node.input(0);
  RankedTensorType type = typeOf(input);
  RankedTensorType drawn = type.clone(drawnElement(node, type.getElementType()));
  Value random = draw(node, nn::Distribution::Uniform, drawn, streamsOf(node, node.getPath().str()));
  Value keep = compare(node, nn::Predicate::Ge, random, splatConstant(node, drawn, ratio));
  Value mask = node.create<nn::SelectOp>(type, keep, splatConstant(node, type, 1 / (1 - ratio)), splatConstant(node, type, 0));
  auto result = node.create<nn::MulOp>(input, mask);
  result->setAttr(nn::kTrainingOnlyAttr, node.builder().getUnitAttr());
  node.setResult(0, result.getResult());
  node.setResult(1, keep);
}

// Whether something is trained, and by which numbers, is for the job to say: the node's own `training_mode` and `seed` say how some other
// program ran it.
void importDropout(Node &node) {
  node.getInt("seed", 0);
  node.hasInput(2); // training_mode, since opset 12
  double ratio = readDropoutRatio(node);
  if (!(ratio >= 0 && ratio < 1)) {
    node.fail("ratio " + std::to_string(ratio) + " is not in [0, 1)");
  }
  if (node.getInfo().options.training && ratio > 0) {
    return importTrainingDropout(node, ratio);
  }
  node.aliasResult(0, 0);
  if (node.hasResult(1)) {
    auto type = RankedTensorType::get(node.inputType(0).getShape(), node.builder().getI1Type());
    node.setResult(1, DenseElementsAttr::get(type, true));
  }
}

constexpr RegistryRow drawing(llvm::StringLiteral opType, Handler handler, Accepts accepts) {
  return {opType, handler, accepts, /*knownFloats=*/0, /*draws=*/true};
}

constexpr RegistryRow kRandomRows[] = {
    drawing("Bernoulli", importBernoulli, Accepts::Floats),
    {"Dropout", importDropout, Accepts::Floats, /*knownFloats=*/0b10, /*draws=*/true},
    drawing("Multinomial", importMultinomial, Accepts::Floats),
    drawing("RandomNormal", importRandom<setNormal>, Accepts::Any),
    drawing("RandomNormalLike", importRandomLike<setNormal>, Accepts::Any),
    drawing("RandomUniform", importRandom<setUniform>, Accepts::Any),
    drawing("RandomUniformLike", importRandomLike<setUniform>, Accepts::Any),
};

} // namespace

ArrayRef<RegistryRow> randomRows() {
  return kRandomRows;
}

} // namespace ashlar::frontend
