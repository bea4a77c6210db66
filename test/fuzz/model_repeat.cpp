// SPDX-License-Identifier: Apache-2.0
//
// Repeats of random models. All makers work in bodies, on values of the body and of outside; those from outside are captured. What a body
// carries has the bound of all values in each iteration, whatever the iteration before made of it.

#include "test/fuzz/model_generator.h"

#include "dialects/nn/repeat/repeats.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::fuzz {

namespace {

constexpr size_t kDeepest = 2;     // repeats in one another
constexpr int64_t kMostCount = 5;  // of iterations
constexpr size_t kMostStacked = 4; // results of a repeat

// Whether a carried value counts iterations; the others are floats.
bool isCounter(Value carried) {
  return typeOf(carried).getElementType().isInteger();
}

} // namespace

// Draws a number of iterations, often one that a tensor has rows for.
int64_t ModelGenerator::drawCount() {
  SmallVector<int64_t> rows;
  for (Value value : pool) {
    if (!shapeOf(value).empty() && shapeOf(value).front() <= kMostCount) {
      rows.push_back(shapeOf(value).front());
    }
  }
  const int64_t count = repeatDice.roll(kMostCount + 1);
  return rows.empty() || repeatDice.oneIn(2) ? count : rows[repeatDice.roll(static_cast<int64_t>(rows.size()))];
}

// Draws the condition of a repeat, which rounding does not change: whether a number of iterations is small, or parameters are.
Value ModelGenerator::drawCondition() {
  SmallVector<Value> counters;
  for (Body &body : bodies) {
    llvm::copy_if(body.block->getArguments(), std::back_inserter(counters), [&](Value value) { return value.getType() == i64({}); });
  }
  if (!counters.empty() && !repeatDice.oneIn(4)) {
    Value counter = counters[repeatDice.roll(static_cast<int64_t>(counters.size()))];
    Value bound = splat(i64({}), static_cast<double>(repeatDice.roll(4)));
    return nn::CompareOp::create(b, i1({}), nn::Predicate::Lt, counter, bound);
  }
  SmallVector<Value> parameters;
  for (auto read : function.front().getOps<nn::ReadOp>()) {
    if (isa<FloatType>(typeOf(read).getElementType()) && typeOf(read).getNumElements() > 0) {
      parameters.push_back(read);
    }
  }
  if (parameters.empty()) {
    return {};
  }
  constexpr double kLarge = 1e4; // no parameter is as large
  Value parameter = parameters[repeatDice.roll(static_cast<int64_t>(parameters.size()))];
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, typeOf(parameter).getRank()));
  Value most = dims.empty() ? parameter : nn::ReduceOp::create(b, Reduction::Max, parameter, dims).getResult();
  Value bound = splat(typeOf(most), repeatDice.oneIn(2) ? kLarge : -kLarge);
  return nn::CompareOp::create(b, i1({}), nn::Predicate::Lt, most, bound);
}

// The numbers of iterations around, where values have rows.
SmallVector<int64_t> ModelGenerator::countsAround() {
  SmallVector<int64_t> counts;
  for (const Body &body : bodies) {
    counts.append(body.hasCondition ? 0 : 1, body.count);
  }
  return counts;
}

Value ModelGenerator::rowOf(Value stack, Body &body) {
  body.sliced.push_back(stack);
  return body.block->addArgument(nn::rowType(typeOf(stack)), b.getLoc());
}

Value ModelGenerator::perIteration(Value stack) {
  for (Body &body : bodies) {
    stack = body.hasCondition ? stack : rowOf(stack, body);
  }
  return stack;
}

// Returns a parameter with a part for each iteration, like the stacked weights of layers; null where that would be too large, or empty.
Value ModelGenerator::stackedParameter() {
  SmallVector<int64_t> shape = countsAround();
  llvm::append_range(shape, randomShape(/*minRank=*/0));
  RankedTensorType type = floats(shape);
  if (shape.size() > 4 || type.getNumElements() == 0 || type.getNumElements() > options.maxElements) {
    return {};
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(function);
  const std::string name = "stack" + std::to_string(stackedParameters.size());
  nn::VariableOp::create(b, name, type, randomInit(), /*trainable=*/true, /*state_of=*/FlatSymbolRefAttr());
  b.setInsertionPointToEnd(&function.front());
  stackedParameters.push_back(nn::ReadOp::create(b, type, name));
  bounds[stackedParameters.back()] = 2;
  return stackedParameters.back();
}

Value ModelGenerator::stream(Dice &numbers) {
  RankedTensorType type = RankedTensorType::get(countsAround(), b.getI32Type());
  if (bodies.empty() || repeatDice.oneIn(4)) {
    return nn::ConstantOp::create(b, nn::splat(type.clone(ArrayRef<int64_t>{}), static_cast<double>(numbers.roll(1000))));
  }
  SmallVector<int32_t> streams;
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    streams.push_back(static_cast<int32_t>(numbers.roll(1000)));
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&function.front());
  return perIteration(nn::ConstantOp::create(b, DenseElementsAttr::get(type, ArrayRef(streams))));
}

// Adds to the body's pool the rows of a tensor that is there, of a parameter, or of a new one.
void ModelGenerator::addSliced(ArrayRef<Value> outside) {
  Body &body = bodies.back();
  auto fits = [&](Value value) { return !shapeOf(value).empty() && shapeOf(value).front() == body.count; };
  SmallVector<Value> fitting = llvm::to_vector(llvm::make_filter_range(outside, fits));
  if (!fitting.empty() && !repeatDice.oneIn(3)) {
    Value stack = fitting[repeatDice.roll(static_cast<int64_t>(fitting.size()))];
    return add(rowOf(stack, body), boundOf(stack));
  }
  if (Value parameter = repeatDice.oneIn(2) ? stackedParameter() : Value()) {
    return add(perIteration(parameter), boundOf(parameter));
  }
  SmallVector<int64_t> shape = countsAround();
  llvm::append_range(shape, randomShape(/*minRank=*/0));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&function.front());
  add(perIteration(constant(shape)), 1);
}

// Adds to the body's pool values from rows by a row of numbers, as a recurrent net looks words up.
void ModelGenerator::addLookup() {
  Value table = pick();
  if (shapeOf(table).empty() || shapeOf(table).size() > 3) {
    return;
  }
  SmallVector<int64_t> shape = countsAround();
  shape.push_back(1 + repeatDice.roll(3));
  RankedTensorType type = i64(shape);
  SmallVector<int64_t> places;
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    places.push_back(repeatDice.roll(shapeOf(table).front() + 2) - 1);
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&function.front());
  Value stack = nn::ConstantOp::create(b, DenseElementsAttr::get(type, ArrayRef(places)));
  b.setInsertionPointToEnd(bodies.back().block.get());
  add(nn::GatherOp::create(b, table, perIteration(stack), /*batch_dims=*/0), boundOf(table));
}

// Draws what the next iteration carries in place of an argument: another value, that of another place, the same, or a mean with it.
Value ModelGenerator::nextOf(Value argument) {
  SmallVector<Value> alike =
      llvm::to_vector(llvm::make_filter_range(pool, [&](Value value) { return value.getType() == argument.getType(); }));
  switch (repeatDice.roll(6)) {
  case 0:
    return argument;
  case 1:
  case 2:
    return alike[repeatDice.roll(static_cast<int64_t>(alike.size()))];
  case 3:
    return alike.back();
  default:
    Value sum = nn::AddOp::create(b, argument, another(shapeOf(argument)));
    return nn::MulOp::create(b, sum, splat(typeOf(sum), 0.5));
  }
}

// Draws the rows that the body yields: what nothing reads, and others, which may be constants or from outside.
SmallVector<Value> ModelGenerator::drawRows() {
  SmallVector<Value> rows;
  for (Value value : llvm::reverse(pool)) {
    if (value.getParentBlock() == bodies.back().block.get() && value.use_empty() && rows.size() < kMostStacked && !repeatDice.oneIn(4)) {
      rows.push_back(value);
    }
  }
  if (rows.size() < kMostStacked && repeatDice.oneIn(4)) {
    rows.push_back(repeatDice.oneIn(2) ? constant(randomShape(/*minRank=*/0)) : pool[repeatDice.roll(static_cast<int64_t>(pool.size()))]);
  }
  return rows;
}

// Takes a stack into the pool, or what is made of it: the sum of its rows, or one that has rows.
void ModelGenerator::addStack(Value stack, double bound) {
  const int64_t count = shapeOf(stack).front();
  if (count == 0 && repeatDice.oneIn(2)) {
    SmallVector<int64_t> shape(shapeOf(stack));
    shape.front() = 1 + repeatDice.roll(2);
    return add(nn::ConcatOp::create(b, ArrayRef<Value>{stack, another(shape)}, /*dim=*/0), kMaxBound);
  }
  if (count == 0 || typeOf(stack).getNumElements() > options.maxElements || repeatDice.oneIn(4)) {
    return add(nn::ReduceOp::create(b, Reduction::Sum, stack, ArrayRef<int64_t>{0}), bound * static_cast<double>(count));
  }
  add(stack, bound);
}

// Makes the body of the last of `bodies`. `outside`: the pool around it. Returns what it yields for carried values, then rows.
SmallVector<Value> ModelGenerator::makeBody(ArrayRef<Value> outside) {
  SmallVector<Value> arguments(ValueRange(bodies.back().block->getArguments())), yielded;
  for (Value argument : arguments) {
    if (isCounter(argument)) {
      RankedTensorType type = floats(shapeOf(argument));
      add(nn::MulOp::create(b, nn::CastOp::create(b, type, argument), splat(type, 0.125)), kMaxBound);
    } else {
      add(argument, kMaxBound);
    }
  }
  for (int64_t i = repeatDice.roll(3); i > 0 && !bodies.back().hasCondition; --i) {
    addSliced(outside);
  }
  if (repeatDice.oneIn(4)) {
    addLookup();
  }
  addOps(1 + repeatDice.roll(4));
  if (bodies.size() < kDeepest && repeatDice.oneIn(3)) {
    repeat();
    addOps(repeatDice.roll(2));
  }
  if (repeatDice.oneIn(8)) {
    repeatDice.oneIn(2) ? wordOps() : words();
  }
  for (Value argument : arguments) {
    yielded.push_back(isCounter(argument) ? nn::AddOp::create(b, argument, splat(typeOf(argument), 1 + repeatDice.roll(3))).getResult()
                                          : nextOf(argument));
  }
  if (!bodies.back().hasCondition) {
    llvm::append_range(yielded, drawRows());
  }
  return yielded;
}

void ModelGenerator::repeat() {
  SmallVector<Value> carried, outside = pool;
  const Value condition = repeatDice.oneIn(4) ? drawCondition() : Value();
  const int64_t count = condition ? 1 : drawCount();
  for (int64_t i = condition ? 1 + repeatDice.roll(3) : repeatDice.roll(4); i > 0; --i) {
    Value first = pick();
    carried.push_back(first);
    if (repeatDice.oneIn(3)) { // of its type, so that the two may change places
      carried.push_back(another(shapeOf(first)));
    }
  }
  if (repeatDice.oneIn(4)) {
    carried.push_back(splat(i64({}), static_cast<double>(repeatDice.roll(3))));
  }
  const size_t depth = bodies.size();
  SmallVector<Value> yielded;
  SmallVector<double> bound;
  {
    OpBuilder::InsertionGuard guard(b);
    bodies.push_back({std::make_unique<Block>(), count, static_cast<bool>(condition), {}});
    for (Value value : carried) {
      bodies.back().block->addArgument(value.getType(), b.getLoc());
    }
    b.setInsertionPointToEnd(bodies.back().block.get());
    yielded = makeBody(outside);
    bound = llvm::map_to_vector(yielded, [&](Value value) { return boundOf(value); });
  }
  Body body = std::move(bodies[depth]);
  bodies.pop_back();
  pool = std::move(outside);
  auto op = nn::createRepeat(b, b.getLoc(), count, repeatDice.oneIn(2), carried, body.sliced, std::move(body.block), yielded, condition);
  for (Value result : op.getCarriedResults()) {
    isCounter(result) ? add(nn::CastOp::create(b, floats(shapeOf(result)), result), 16) : add(result, kMaxBound);
  }
  for (Value result : op.getStackedResults()) {
    addStack(result, bound[cast<OpResult>(result).getResultNumber()]);
  }
}

} // namespace ashlar::fuzz
