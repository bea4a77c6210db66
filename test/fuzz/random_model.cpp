// SPDX-License-Identifier: Apache-2.0
//
// Random models; see random_model.h.

#include "test/fuzz/random_model.h"

#include "dialects/nn/programs.h"
#include "dialects/support/tensor_values.h"
#include "test/fuzz/model_generator.h"

using namespace mlir;

namespace ashlar::fuzz {

void ModelGenerator::generate() {
  b.setInsertionPointToEnd(module.getBody());
  for (int64_t i = 0, count = 1 + dice.roll(4); i < count; ++i) {
    addVariable("w" + std::to_string(i), randomInit());
  }
  nn::VariableOp::create(b, nn::kSeedVariable, i64({}), Attribute(), /*trainable=*/false, /*state_of=*/FlatSymbolRefAttr(),
                         /*internal=*/true);
  nn::VariableOp::create(b, nn::kStepVariable, i64({}), nn::splat(i64({}), 0), /*trainable=*/false, /*state_of=*/FlatSymbolRefAttr(),
                         /*internal=*/true);
  addFunction();
  for (auto variable : module.getOps<nn::VariableOp>()) {
    Value read = nn::ReadOp::create(b, variable.getTensorType(), variable.getSymName());
    if (variable.getTrainable()) {
      add(read, /*bound=*/2);
    } else {
      (variable.getSymName() == nn::kSeedVariable ? seed : step) = read;
    }
  }
  const bool hasRepeats = repeatDice.oneIn(3);
  for (int64_t i = 0; i < options.numOps; ++i) {
    addOps(1);
    if (hasRepeats && repeatDice.oneIn(5)) {
      repeat();
    }
  }
  llvm::append_range(pool, stackedParameters);
  if (options.flat) {
    flat();
  }
  if (lastDice.oneIn(8)) {
    twoShapes();
  }
  if (lastDice.oneIn(2)) {
    wordOps();
  } else if (lastDice.oneIn(2)) {
    words();
  }
  options.batch != 0 ? addPrediction() : addResults();
}

void ModelGenerator::addOps(int64_t count) {
  static constexpr void (ModelGenerator::*kMakers[])() = {
      &ModelGenerator::unary,     &ModelGenerator::unary,     &ModelGenerator::binary, &ModelGenerator::binary, &ModelGenerator::select,
      &ModelGenerator::integers,  &ModelGenerator::broadcast, &ModelGenerator::reduce, &ModelGenerator::reduce, &ModelGenerator::reshape,
      &ModelGenerator::reshape,   &ModelGenerator::transpose, &ModelGenerator::concat, &ModelGenerator::slice,  &ModelGenerator::pad,
      &ModelGenerator::matmul,    &ModelGenerator::matmul,    &ModelGenerator::matmul, &ModelGenerator::rows,   &ModelGenerator::rows,
      &ModelGenerator::normalise, &ModelGenerator::dropout,   &ModelGenerator::bias,   &ModelGenerator::gather, &ModelGenerator::scatter};
  for (int64_t i = 0; i < count; ++i) {
    (this->*dice.pick(kMakers))();
    if (laterDice.oneIn(8)) {
      convolution();
    }
    if (attentionDice.oneIn(8)) {
      attention();
    }
    if (insertDice.oneIn(8)) {
      insert();
    }
  }
}

// A parameter with no part in the loss but for rounding: rows of a softmax add up to 1. Its gradient is what rounding leaves, of the second
// row a small part of that of the first one, which may be 0 in one order of the sum and not in another.
void ModelGenerator::flat() {
  constexpr double kSmall = 0x1p-8;
  RankedTensorType type = floats({2, 3 + lastDice.roll(4)}), sums = floats({2});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(function);
    nn::VariableOp::create(b, "flat", type, nn::UniformAttr::get(b.getContext(), -1.0, 1.0), /*trainable=*/true,
                           /*state_of=*/FlatSymbolRefAttr());
  }
  Value rows = nn::SoftmaxOp::create(b, nn::ReadOp::create(b, type, "flat"));
  Value scales = splat(sums, 1);
  scales = nn::SubOp::create(b, scales, nn::MulOp::create(b, nn::CastOp::create(b, sums, rowMajorIndex({2})), splat(sums, 1 - kSmall)));
  add(nn::MulOp::create(b, nn::ReduceOp::create(b, Reduction::Sum, rows, ArrayRef<int64_t>{1}), scales), 1);
}

Attribute ModelGenerator::randomInit() {
  switch (dice.roll(3)) {
  case 0:
    return nn::NormalAttr::get(b.getContext(), 0.1, 0.5);
  case 1:
    return nn::FillAttr::get(b.getContext(), dice.real());
  default:
    return nn::UniformAttr::get(b.getContext(), -1.0, 1.0);
  }
}

void ModelGenerator::addVariable(const std::string &name, Attribute init) {
  nn::VariableOp::create(b, name, floats(randomShape(/*minRank=*/1)), init, /*trainable=*/true, /*state_of=*/FlatSymbolRefAttr());
}

void ModelGenerator::addFunction() {
  SmallVector<Type> inputs;
  for (int64_t i = 0, count = 1 + dice.roll(3); i < count; ++i) {
    inputs.push_back(floats(randomShape(/*minRank=*/i == 0 ? 2 : 1, options.batch)));
  }
  function = nn::createProgram(b, b.getLoc(), nn::ProgramRole::Run, b.getFunctionType(inputs, {}));
  b.setInsertionPointToStart(function.addEntryBlock());
  for (BlockArgument argument : function.getArguments()) {
    function.setArgAttr(argument.getArgNumber(), nn::kNameAttr, b.getStringAttr("x" + std::to_string(argument.getArgNumber())));
    add(argument, /*bound=*/1);
  }
}

void ModelGenerator::addResults() {
  SmallVector<Value> results = llvm::to_vector(llvm::make_filter_range(pool, [](Value value) { return value.use_empty(); }));
  if (results.empty()) {
    results.push_back(pool.back());
  }
  setResults(results, "y");
}

// The prediction is a value whose rows are the batch, and a little of all that is not used otherwise, and of each variable: what else is
// made of it may be constant.
void ModelGenerator::addPrediction() {
  Value prediction = pool.front();
  for (Value value : pool) {
    bool fits = shapeOf(value).size() >= 2 && shapeOf(value).front() == options.batch;
    prediction = fits && !dice.oneIn(3) ? value : prediction;
  }
  double bound = boundOf(prediction);
  for (Value value : pool) {
    if (value != prediction && (value.use_empty() || value.getDefiningOp<nn::ReadOp>())) {
      Value sum = nn::ReduceOp::create(b, Reduction::Sum, value, llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank())));
      Value mean = nn::MulOp::create(b, sum, splat(typeOf(sum), 1.0 / typeOf(value).getNumElements()));
      prediction = nn::AddOp::create(b, prediction, nn::BroadcastOp::create(b, prediction.getType(), mean, ArrayRef<int64_t>{}));
      bound += boundOf(value);
    }
  }
  if (bound > kMaxBound) {
    prediction = nn::MulOp::create(b, prediction, splat(typeOf(prediction), kMaxBound / bound));
  }
  setResults(prediction, "out");
}

void ModelGenerator::setResults(ArrayRef<Value> results, const std::string &name) {
  func::ReturnOp::create(b, results);
  function.setType(b.getFunctionType(function.getArgumentTypes(), ValueRange(results).getTypes()));
  for (size_t i = 0; i < results.size(); ++i) {
    function.setResultAttr(i, nn::kNameAttr, b.getStringAttr(options.batch != 0 ? name : name + std::to_string(i)));
  }
}

void addRandomModel(Dice &dice, ModuleOp module, const ModelOptions &options) {
  ModelGenerator(dice, module, options).generate();
}

} // namespace ashlar::fuzz
