// SPDX-License-Identifier: Apache-2.0
//
// See repeats.h.

#include "dialects/nn/repeat/repeats.h"

#include "dialects/nn/result_names.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;

namespace ashlar::nn {

namespace {

void eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (isOpTriviallyDead(&op)) {
      op.erase();
    }
  }
}

// Returns a copy of the op with these operands and result types, which takes over the body. Names of results are not copied.
RepeatOp remake(RepeatOp op, ValueRange carried, ValueRange sliced, ValueRange captured, TypeRange results) {
  OpBuilder builder(op);
  auto made = RepeatOp::create(builder, op.getLoc(), results, op.getCountAttr(), op.getReversedAttr(), carried, sliced, captured,
                               op.getCondition());
  made.getBody().takeBody(op.getBody());
  for (NamedAttribute attribute : op->getDiscardableAttrs()) {
    if (attribute.getName() != kOutputsAttr && attribute.getName() != kAliasesAttr) {
      made->setAttr(attribute.getName(), attribute.getValue());
    }
  }
  return made;
}

void replaceResult(OpResult from, OpResult to) {
  from.replaceAllUsesWith(to);
  moveNames(from, to);
}

// Returns the values of a range that are not dropped.
SmallVector<Value> without(ValueRange values, const llvm::SmallBitVector &dropped) {
  SmallVector<Value> kept;
  for (auto [i, value] : llvm::enumerate(values)) {
    if (!dropped.test(i)) {
      kept.push_back(value);
    }
  }
  return kept;
}

// Which values of a body are needed for the results that something reads.
class Liveness {
public:
  explicit Liveness(RepeatOp op) : op(op), carried(op.getCarried().size()) {
    for (auto [yielded, result] : llvm::zip_equal(op.getYielded(), op.getResults())) {
      if (!result.use_empty()) {
        mark(yielded);
        if (result.getResultNumber() < op.getCarried().size()) {
          mark(op.getCarriedArguments()[result.getResultNumber()]);
        }
      }
    }
    while (!pending.empty()) {
      Value value = pending.pop_back_val();
      if (Operation *maker = value.getDefiningOp()) {
        llvm::for_each(maker->getOperands(), [&](Value operand) { mark(operand); });
      } else if (const unsigned number = cast<BlockArgument>(value).getArgNumber(); number < op.getCarried().size()) {
        carried.set(number);
        mark(op.getYielded()[number]);
      }
    }
  }

  const llvm::SmallBitVector &liveCarried() const { return carried; }

private:
  void mark(Value value) {
    if (live.insert(value).second) {
      pending.push_back(value);
    }
  }

  RepeatOp op;
  llvm::SmallBitVector carried;
  DenseSet<Value> live;
  SmallVector<Value> pending;
};

// Returns which operands of a group no op reads, or which an earlier operand equals; uses of the latter go to the earlier one.
llvm::SmallBitVector findUnread(ValueRange operands, ArrayRef<BlockArgument> arguments) {
  llvm::SmallBitVector unread(operands.size());
  DenseMap<Value, BlockArgument> first;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    BlockArgument argument = arguments[i];
    if (argument.use_empty()) {
      unread.set(i);
      continue;
    }
    auto [it, isFirst] = first.try_emplace(operand, argument);
    if (!isFirst) {
      argument.replaceAllUsesWith(it->second);
      unread.set(i);
    }
  }
  return unread;
}

void prune(RepeatOp op) {
  const unsigned carriedCount = op.getCarried().size(), slicedCount = op.getSliced().size();
  llvm::SmallBitVector droppedCarried = ~Liveness(op).liveCarried(), droppedResults(op.getNumResults());
  for (OpResult result : op.getResults()) {
    const unsigned i = result.getResultNumber();
    droppedResults[i] = i < carriedCount ? droppedCarried.test(i) : result.use_empty();
  }
  Block &block = op.getBody().front();
  block.getTerminator()->setOperands(without(op.getYielded(), droppedResults));
  // A dropped carried value is read by ops alone that nothing needs; a cycle of these ends here.
  OpBuilder builder = OpBuilder::atBlockBegin(&block);
  for (unsigned i : droppedCarried.set_bits()) {
    BlockArgument argument = op.getCarriedArguments()[i];
    if (!argument.use_empty()) {
      argument.replaceAllUsesWith(ConstantOp::create(builder, op.getLoc(), splat(typeOf(argument), 0)));
    }
  }
  pruneRepeats(block);
  llvm::SmallBitVector sliced = findUnread(op.getSliced(), op.getSlicedArguments());
  llvm::SmallBitVector captured = findUnread(op.getCaptured(), op.getCapturedArguments());
  if (droppedResults.none() && sliced.none() && captured.none()) {
    return;
  }
  RepeatOp made = remake(op, without(op.getCarried(), droppedCarried), without(op.getSliced(), sliced), without(op.getCaptured(), captured),
                         ValueRange(without(op.getResults(), droppedResults)).getTypes());
  llvm::BitVector arguments(carriedCount + slicedCount + captured.size());
  for (unsigned i : droppedCarried.set_bits()) {
    arguments.set(i);
  }
  for (unsigned i : sliced.set_bits()) {
    arguments.set(carriedCount + i);
  }
  for (unsigned i : captured.set_bits()) {
    arguments.set(carriedCount + slicedCount + i);
  }
  made.getBody().front().eraseArguments(arguments);
  unsigned next = 0;
  for (OpResult result : op.getResults()) {
    if (!droppedResults.test(result.getResultNumber())) {
      replaceResult(result, made->getResult(next++));
    }
  }
  op.erase();
}

} // namespace

void visitBlocks(Block &block, function_ref<void(Block &)> visit) {
  SmallVector<Block *> bodies;
  block.walk([&](RepeatOp op) { bodies.push_back(&op.getBody().front()); });
  for (Block *body : bodies) {
    visit(*body);
  }
  visit(block);
}

RankedTensorType rowType(RankedTensorType type) {
  return type.clone(type.getShape().drop_front());
}

RankedTensorType stackType(RankedTensorType row, int64_t count) {
  SmallVector<int64_t> shape = {count};
  llvm::append_range(shape, row.getShape());
  return row.clone(shape);
}

int64_t countRuns(Operation *op) {
  constexpr int64_t kMost = int64_t(1) << 40;
  int64_t runs = 1;
  for (auto repeat = op->getParentOfType<RepeatOp>(); repeat; repeat = repeat->getParentOfType<RepeatOp>()) {
    const int64_t count = repeat.getCount();
    runs = count > 0 && runs > kMost / count ? kMost : runs * count;
  }
  return runs;
}

std::optional<RepeatArgument> argumentOfRepeat(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto op = argument ? dyn_cast<RepeatOp>(argument.getOwner()->getParentOp()) : RepeatOp();
  if (!op) {
    return std::nullopt;
  }
  using Kind = RepeatArgument::Kind;
  const unsigned number = argument.getArgNumber(), carried = op.getCarried().size();
  const Kind kind = number < carried ? Kind::Carried : number - carried < op.getSliced().size() ? Kind::Sliced : Kind::Captured;
  return RepeatArgument{op, kind, op->getOperand(number)};
}

RepeatOp createRepeat(OpBuilder &builder, Location loc, int64_t count, bool reversed, ValueRange carried, ValueRange sliced,
                      std::unique_ptr<Block> block, ValueRange yielded, Value condition) {
  OpBuilder inside(builder.getContext());
  inside.setInsertionPointToEnd(block.get());
  auto yield = YieldOp::create(inside, loc, yielded);
  llvm::SetVector<Value> captured;
  IRMapping constants;
  for (Operation &op : llvm::make_early_inc_range(*block)) {
    for (OpOperand &operand : op.getOpOperands()) {
      Value value = operand.get();
      if (value.getParentBlock() == block.get()) {
        continue;
      }
      Operation *maker = value.getDefiningOp();
      if (maker && maker->hasTrait<OpTrait::ConstantLike>()) {
        if (!constants.contains(value)) {
          inside.setInsertionPointToStart(block.get());
          Operation *copy = inside.clone(*maker, constants);
          copy->removeAttr(kOutputsAttr);
          copy->removeAttr(kAliasesAttr);
        }
        operand.set(constants.lookup(value));
      } else {
        captured.insert(value);
      }
    }
  }
  for (Value value : captured) {
    BlockArgument argument = block->addArgument(value.getType(), value.getLoc());
    value.replaceUsesWithIf(argument, [&](OpOperand &use) { return use.getOwner()->getBlock() == block.get(); });
  }
  SmallVector<Type> results(ValueRange(yielded.take_front(carried.size())).getTypes());
  for (Value row : yield.getValues().drop_front(carried.size())) {
    results.push_back(stackType(typeOf(row), count));
  }
  auto made = RepeatOp::create(builder, loc, results, builder.getI64IntegerAttr(count), reversed ? builder.getUnitAttr() : UnitAttr(),
                               carried, sliced, captured.getArrayRef(), condition);
  made.getBody().push_back(block.release());
  return made;
}

RepeatOp rebuildRepeat(RepeatOp op, const llvm::SmallBitVector &dropped, ArrayRef<Value> stacked) {
  const unsigned carriedCount = op.getCarried().size();
  llvm::SmallBitVector gone = dropped;
  gone.resize(op.getNumResults());
  SmallVector<Value> yielded = without(op.getYielded(), gone), carried = without(op.getCarried(), dropped);
  SmallVector<Type> types(ValueRange(without(op.getResults(), gone)).getTypes());
  Block &block = op.getBody().front();
  OpBuilder builder(op);
  for (auto [i, value] : llvm::enumerate(stacked)) {
    yielded.push_back(value);
    types.push_back(op.getCondition() ? value.getType() : stackType(typeOf(value), op.getCount()));
    if (op.getCondition()) {
      block.insertArgument(carriedCount + i, value.getType(), value.getLoc());
      carried.push_back(ConstantOp::create(builder, op.getLoc(), splat(typeOf(value), 0)));
    }
  }
  block.getTerminator()->setOperands(yielded);
  eraseDeadOps(block);
  RepeatOp made = remake(op, carried, op.getSliced(), op.getCaptured(), types);
  llvm::BitVector arguments(block.getNumArguments());
  for (unsigned i : dropped.set_bits()) {
    assert(block.getArgument(i).use_empty() && i < carriedCount && "only its own next value reads a dropped carried value");
    arguments.set(i);
  }
  block.eraseArguments(arguments);
  unsigned next = 0;
  for (OpResult result : op.getResults()) {
    if (!gone.test(result.getResultNumber())) {
      replaceResult(result, made->getResult(next++));
    }
  }
  op.erase();
  return made;
}

Value resolveCaptured(Value value) {
  std::optional<RepeatArgument> argument = argumentOfRepeat(value);
  for (; argument && argument->kind == RepeatArgument::Kind::Captured; argument = argumentOfRepeat(value)) {
    value = argument->operand;
  }
  return value;
}

Value captureIn(Value value, Block *block) {
  SmallVector<RepeatOp> around; // the innermost first
  for (Block *at = block; at != value.getParentBlock(); at = around.back()->getBlock()) {
    around.push_back(cast<RepeatOp>(at->getParentOp()));
  }
  for (RepeatOp op : llvm::reverse(around)) {
    const auto *known =
        llvm::find_if(op.getCapturedArguments(), [&](BlockArgument argument) { return op->getOperand(argument.getArgNumber()) == value; });
    if (known != op.getCapturedArguments().end()) {
      value = *known;
      continue;
    }
    op.getCapturedMutable().append(value);
    value = op.getBody().addArgument(value.getType(), value.getLoc());
  }
  return value;
}

void markDependents(Operation *op, DenseSet<Value> &marked, function_ref<bool(Value)> mayDepend) {
  auto add = [&](Value value) { return mayDepend(value) && marked.insert(value).second; };
  auto repeat = dyn_cast<RepeatOp>(op);
  if (!repeat) {
    if (llvm::any_of(op->getOperands(), [&](Value operand) { return marked.contains(operand); })) {
      llvm::for_each(op->getResults(), add);
    }
    return;
  }
  for (auto [operand, argument] : llvm::zip_equal(repeat.getEntering(), repeat.getBody().getArguments())) {
    if (marked.contains(operand)) {
      add(argument);
    }
  }
  if (Value condition = repeat.getCondition(); condition && marked.contains(condition)) {
    llvm::for_each(repeat.getResults(), add);
  }
  for (bool changed = true; changed;) {
    for (Operation &each : repeat.getBody().front().without_terminator()) {
      markDependents(&each, marked, mayDepend);
    }
    changed = false;
    for (auto [argument, next] : llvm::zip(repeat.getCarriedArguments(), repeat.getYielded())) {
      changed |= marked.contains(next) && add(argument);
    }
  }
  for (auto [i, yielded, result] : llvm::enumerate(repeat.getYielded(), repeat.getResults())) {
    // The result of a carried value may be the first one.
    if (marked.contains(yielded) || (i < repeat.getCarried().size() && marked.contains(repeat.getCarried()[i]))) {
      add(result);
    }
  }
}

DenseSet<Value> findNeeded(RepeatOp op, const llvm::SmallBitVector &results, function_ref<bool(Value)> mayDepend) {
  DenseSet<Value> needed;
  auto add = [&](Value value) { return mayDepend(value) && needed.insert(value).second; };
  for (unsigned i : results.set_bits()) {
    add(op.getYielded()[i]);
  }
  for (bool changed = true; changed;) {
    for (Operation &each : llvm::reverse(op.getBody().front().without_terminator())) {
      if (llvm::any_of(each.getResults(), [&](Value result) { return needed.contains(result); })) {
        llvm::for_each(each.getOperands(), add);
      }
    }
    changed = false;
    for (auto [argument, next] : llvm::zip(op.getCarriedArguments(), op.getYielded())) {
      changed |= needed.contains(argument) && add(next);
    }
  }
  return needed;
}

SmallVector<Value> selectResults(RepeatOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Block &body = op.getBody().front();
  SmallVector<Value> results(op.getYielded());
  body.getTerminator()->erase();
  for (auto [operand, argument] : llvm::zip_equal(op.getEntering(), op.getBody().getArguments())) {
    argument.replaceAllUsesWith(operand);
    llvm::replace(results, Value(argument), Value(operand));
  }
  op->getBlock()->getOperations().splice(Block::iterator(op), body.getOperations());
  for (auto [first, result, old] : llvm::zip_equal(op.getCarried(), results, op->getOpResults())) {
    RankedTensorType type = typeOf(first);
    Value condition = op.getCondition();
    if (type.getRank() > 0) {
      condition = BroadcastOp::create(b, typeOf(condition).clone(type.getShape()), condition, ArrayRef<int64_t>());
    }
    auto chosen = SelectOp::create(b, condition, result, first);
    result = chosen;
    replaceResult(old, cast<OpResult>(result));
  }
  op.erase();
  return results;
}

void pruneRepeats(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (isOpTriviallyDead(&op)) {
      op.erase();
    } else if (auto repeat = dyn_cast<RepeatOp>(op)) {
      prune(repeat);
    }
  }
}

} // namespace ashlar::nn
