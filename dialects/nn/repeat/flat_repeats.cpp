// SPDX-License-Identifier: Apache-2.0
//
// See flat_repeats.h. The flat ops themselves are in flat_ops.cpp.

#include "dialects/nn/repeat/flat_repeats.h"

#include "dialects/nn/repeat/repeats.h"
#include "dialects/nn/result_names.h"
#include "dialects/support/op_interfaces.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace ashlar::nn {

namespace {

// The loop of a flat op.
struct LoopOfOp {
  int64_t number, count;
  bool reversed;
  Value condition; // of a carried value of it
};

// Returns the loop that a flat op begins or ends; nothing for other ops.
std::optional<LoopOfOp> findLoop(Operation *op) {
  if (auto next = dyn_cast<RepeatNextOp>(op)) {
    op = next.getCarried().getDefiningOp();
  }
  return llvm::TypeSwitch<Operation *, std::optional<LoopOfOp>>(op)
      .Case<RepeatCarryOp, RepeatRowOp, RepeatStackOp>([](auto flat) {
        auto carry = dyn_cast<RepeatCarryOp>(*flat);
        return LoopOfOp{static_cast<int64_t>(flat.getLoop()), static_cast<int64_t>(flat.getCount()), flat.getReversed(),
                        carry ? carry.getCondition() : Value()};
      })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<int64_t> loopOf(Operation *op) {
  std::optional<LoopOfOp> loop = findLoop(op);
  return loop ? std::optional(loop->number) : std::nullopt;
}

// Whether the results of a flat op are there in the iterations, not behind the loop.
bool isEntry(Operation *op) {
  return isa<RepeatCarryOp, RepeatRowOp>(op);
}

//===-- To the flat form --------------------------------------------------------------------------------------------------------------===//

// Writes a repeat as flat loop number `loop`. Repeats of its body are in the block behind this.
void flatten(RepeatOp op, int64_t loop) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  const int64_t count = op.getCount();
  const bool reversed = op.getReversed();
  SmallVector<Value> carried;
  for (auto [number, first, argument] : llvm::enumerate(op.getCarried(), op.getCarriedArguments())) {
    carried.push_back(RepeatCarryOp::create(b, first.getType(), first, op.getCondition(), loop, number, count, reversed));
    argument.replaceAllUsesWith(carried.back());
  }
  for (auto [stack, argument] : llvm::zip_equal(op.getSliced(), op.getSlicedArguments())) {
    argument.replaceAllUsesWith(RepeatRowOp::create(b, argument.getType(), stack, loop, count, reversed));
  }
  for (auto [value, argument] : llvm::zip_equal(op.getCaptured(), op.getCapturedArguments())) {
    argument.replaceAllUsesWith(value);
  }
  Block &body = op.getBody().front();
  SmallVector<Value> yielded(op.getYielded());
  body.getTerminator()->erase();
  op->getBlock()->getOperations().splice(Block::iterator(op), body.getOperations());
  for (auto [value, result] : llvm::zip_equal(yielded, op->getResults())) {
    const unsigned number = result.getResultNumber();
    Operation *made = number < carried.size() ? RepeatNextOp::create(b, value, carried[number])
                                              : RepeatStackOp::create(b, result.getType(), value, loop, count, reversed).getOperation();
    moveNames(result, made->getOpResult(0));
    result.replaceAllUsesWith(made->getResult(0));
  }
  op.erase();
}

//===-- To nn.repeat ------------------------------------------------------------------------------------------------------------------===//

// The ops at the ends of a loop, in the order of the block.
struct FlatLoop {
  SmallVector<RepeatCarryOp> carries;
  SmallVector<RepeatRowOp> rows;
  SmallVector<RepeatNextOp> nexts;
  SmallVector<RepeatStackOp> stacks;
};

std::map<int64_t, FlatLoop> findLoops(Block &block) {
  std::map<int64_t, FlatLoop> loops;
  for (Operation &op : block) {
    if (std::optional<int64_t> number = loopOf(&op)) {
      FlatLoop &loop = loops[*number];
      llvm::TypeSwitch<Operation *>(&op)
          .Case([&](RepeatCarryOp each) { loop.carries.push_back(each); })
          .Case([&](RepeatRowOp each) { loop.rows.push_back(each); })
          .Case([&](RepeatNextOp each) { loop.nexts.push_back(each); })
          .Case([&](RepeatStackOp each) { loop.stacks.push_back(each); });
    }
  }
  return loops;
}

// The loops without a condition that the ops of a block are in, repeats of the block included.
using LoopsOfOps = DenseMap<Operation *, Loops>;

// Makes the nn.repeat of one loop. State: `body`, the ops of an iteration in the order of the block; `behind`, the ops that stand before
// the last op of the loop and read its results.
class Nesting {
public:
  // `around`: the loops around the loop that have no condition.
  Nesting(Block &block, int64_t number, FlatLoop &loop, const Loops &around, LoopsOfOps &loopsOfOps)
      : block(block), number(number), loop(loop), around(around), loopsOfOps(loopsOfOps) {}

  LogicalResult run() {
    if (failed(findBody())) {
      return failure();
    }
    RepeatOp made = makeRepeat();
    loopsOfOps[made] = around;
    Operation *last = made;
    for (Operation *op : behind) {
      op->moveAfter(last);
      last = op;
    }
    replaceEnds(made);
    return success();
  }

private:
  bool isExit(Operation *op) const { return loopOf(op) == number && !isEntry(op); }

  // Finds all that depends on what the iterations read, up to the exits of the loop.
  LogicalResult findBody() {
    DenseSet<Operation *> inside = findNeededAlone(), after;
    for (Operation &op : block) {
      const bool isOfLoop = loopOf(&op) == number;
      auto anyOperand = [&](auto holds) {
        return llvm::any_of(op.getOperands(), [&](Value operand) { return operand.getDefiningOp() && holds(operand.getDefiningOp()); });
      };
      if (isOfLoop) {
        last = &op;
        continue;
      }
      const bool readsBody =
          anyOperand([&](Operation *maker) { return inside.contains(maker) || (loopOf(maker) == number && isEntry(maker)); });
      if (anyOperand([&](Operation *maker) { return isExit(maker) || after.contains(maker); })) {
        after.insert(&op);
        behind.push_back(&op);
      } else if (readsBody || inside.contains(&op)) {
        inside.insert(&op);
        body.push_back(&op);
        last = &op;
      }
      if (readsBody && (after.contains(&op) || loopOf(&op) || !isMemoryEffectFree(&op) || op.hasTrait<OpTrait::IsTerminator>())) {
        return op.emitOpError("reads a value of the iterations of loop ") << number << " behind the loop";
      }
    }
    llvm::erase_if(behind, [&](Operation *op) { return last->isBeforeInBlock(op); });
    return success();
  }

  // Returns the ops that only the next values of a loop with a condition need, which run where it holds; but for ones that are the same in
  // all iterations of a loop around it, and are computed once in front of that.
  DenseSet<Operation *> findNeededAlone() {
    DenseSet<Operation *> needed;
    if (loop.carries.empty() || !loop.carries.front().getCondition()) {
      return needed;
    }
    for (Operation &op : llvm::reverse(block)) {
      auto isOfBody = [&](OpOperand &use) {
        auto next = dyn_cast<RepeatNextOp>(use.getOwner());
        const bool isNext = next && loopOf(next) == number && use.getOperandNumber() == 0;
        return isNext || needed.contains(use.getOwner());
      };
      const bool varies = loopsOfOps.lookup(&op) == around || op.hasTrait<OpTrait::ConstantLike>();
      if (varies && !op.use_empty() && !loopOf(&op) && isMemoryEffectFree(&op) && llvm::all_of(op.getUses(), isOfBody)) {
        needed.insert(&op);
      }
    }
    return needed;
  }

  // Copies broadcasts into the block of the body where it reads them: they are read there from the smaller tensor.
  void copyBroadcasts(Block &made) {
    OpBuilder front(block.getParentOp()->getContext());
    front.setInsertionPointToStart(&made);
    DenseMap<Value, Value> copies;
    for (Operation &op : llvm::make_early_inc_range(made)) {
      for (OpOperand &operand : op.getOpOperands()) {
        Operation *maker = operand.get().getDefiningOp();
        const bool repeats = maker && maker->getBlock() == &block && maker->hasTrait<MovesElements>() && maker->getNumOperands() == 1 &&
                             typeOf(maker->getOperand(0)).getNumElements() < typeOf(operand.get()).getNumElements() && !loopOf(maker);
        if (!repeats) {
          continue;
        }
        Value &copy = copies[operand.get()];
        if (!copy) {
          Operation *cloned = front.clone(*maker);
          cloned->removeAttr(kOutputsAttr);
          cloned->removeAttr(kAliasesAttr);
          copy = cloned->getResult(0);
        }
        operand.set(copy);
      }
    }
  }

  RepeatOp makeRepeat() {
    auto made = std::make_unique<Block>();
    auto enter = [&](auto op) { op.getResult().replaceAllUsesWith(made->addArgument(op.getType(), op.getLoc())); };
    SmallVector<Value> carried, sliced, yielded;
    SmallVector<RepeatNextOp> ordered; // as the carried values
    for (RepeatCarryOp carry : loop.carries) {
      carried.push_back(carry.getFirst());
      Value last = findLast(carry);
      assert(last && "the effect of a next value keeps it");
      ordered.push_back(last.getDefiningOp<RepeatNextOp>());
    }
    loop.nexts = ordered;
    llvm::for_each(loop.carries, enter);
    for (RepeatRowOp row : loop.rows) {
      sliced.push_back(row.getStack());
      enter(row);
    }
    for (RepeatNextOp next : loop.nexts) {
      yielded.push_back(next.getValue());
    }
    for (RepeatStackOp stack : loop.stacks) {
      yielded.push_back(stack.getRow());
    }
    for (Operation *op : body) {
      op->moveBefore(made.get(), made->end());
    }
    copyBroadcasts(*made);
    OpBuilder builder(block.getParentOp()->getContext());
    builder.setInsertionPointAfter(last);
    Operation *first = !loop.carries.empty() ? loop.carries.front() : !loop.rows.empty() ? loop.rows.front() : loop.stacks.front();
    const LoopOfOp form = *findLoop(first);
    return createRepeat(builder, first->getLoc(), form.count, form.reversed, carried, sliced, std::move(made), yielded, form.condition);
  }

  void replaceEnds(RepeatOp made) {
    SmallVector<Operation *> exits(loop.nexts.begin(), loop.nexts.end());
    exits.append(loop.stacks.begin(), loop.stacks.end());
    for (auto [op, result] : llvm::zip_equal(exits, made->getOpResults())) {
      moveNames(op->getOpResult(0), result);
      op->getResult(0).replaceAllUsesWith(result);
      op->erase();
    }
    llvm::for_each(loop.carries, [](RepeatCarryOp op) { op.erase(); });
    llvm::for_each(loop.rows, [](RepeatRowOp op) { op.erase(); });
  }

  Block &block;
  int64_t number;
  FlatLoop &loop;
  const Loops around;
  LoopsOfOps &loopsOfOps;
  SmallVector<Operation *> body, behind;
  Operation *last = nullptr; // of the loop
};

void merge(Loops &into, const Loops &other) {
  into.append(other);
  llvm::sort(into);
  into.erase(llvm::unique(into), into.end());
}

} // namespace

void flattenRepeats(Block &block) {
  pruneRepeats(block); // a flat loop keeps what nobody reads
  int64_t loop = 0;
  for (Operation &op : block) {
    if (std::optional<int64_t> number = loopOf(&op)) {
      loop = std::max(loop, *number + 1);
    }
  }
  for (auto it = block.begin(); it != block.end();) {
    auto repeat = dyn_cast<RepeatOp>(*it);
    if (!repeat) {
      ++it;
      continue;
    }
    Operation *before = repeat->getPrevNode(); // the ops of the body come next: repeats inside of this one get larger numbers
    flatten(repeat, loop++);
    it = before ? std::next(Block::iterator(before)) : block.begin();
  }
}

bool hasFlatRepeats(Block &block) {
  return llvm::any_of(block, [](Operation &op) { return loopOf(&op).has_value(); });
}

LogicalResult nestRepeats(Block &block) {
  std::map<int64_t, FlatLoop> loops = findLoops(block);
  const LoopNest nest(block);
  LoopsOfOps loopsOfOps;
  for (Operation &op : block) {
    loopsOfOps[&op] = nest.withoutConditions(nest.of(&op));
  }
  for (auto &[number, loop] : llvm::reverse(loops)) { // inner ones first
    if (failed(Nesting(block, number, loop, nest.withoutConditions(nest.aroundLoop(number)), loopsOfOps).run())) {
      return failure();
    }
  }
  if (!loops.empty()) {
    pruneRepeats(block);
  }
  return success();
}

Value findCarried(Operation *op) {
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([](RepeatCarryOp carry) { return carry.getResult(); })
      .Case([](RepeatNextOp next) { return next.getCarried(); })
      .Default([](Operation *) { return Value(); });
}

Value findLast(Value carried) {
  for (Operation *user : carried.getUsers()) {
    if (auto next = dyn_cast<RepeatNextOp>(user); next && next.getCarried() == carried) {
      return next;
    }
  }
  return {};
}

LoopNest::LoopNest(Block &block) {
  if (!hasFlatRepeats(block)) {
    return;
  }
  for (int round = 0; round < 2; ++round) { // first the loops around each loop, then those of all values
    for (Operation &op : block) {
      Loops own = gather(&op);
      const std::optional<int64_t> loop = loopOf(&op);
      if (loop && isEntry(&op)) {
        const LoopOfOp entered = *findLoop(&op);
        counts[*loop] = entered.count;
        if (entered.condition) {
          conditional.insert(*loop);
        }
        merge(own, {*loop});
      } else if (loop) {
        llvm::erase(own, *loop);
        merge(around[*loop], own);
      }
      for (size_t i = 1; i < own.size(); ++i) { // an inner loop has a larger number
        merge(around[own[i]], Loops(own.begin(), own.begin() + i));
      }
      if (loop && !isEntry(&op)) {
        own = around.lookup(*loop);
      }
      for (Value result : op.getResults()) {
        if (!own.empty()) {
          loops[result] = own;
        }
      }
    }
  }
}

Loops LoopNest::gather(Operation *op) const {
  Loops own;
  for (Value operand : op->getOperands()) {
    merge(own, loops.lookup(operand));
  }
  if (std::optional<int64_t> loop = loopOf(op)) {
    merge(own, around.lookup(*loop));
  }
  return own;
}

Loops LoopNest::withoutConditions(Loops of) const {
  llvm::erase_if(of, [&](int64_t loop) { return conditional.contains(loop); });
  return of;
}

Loops LoopNest::of(Operation *op) const {
  Loops own = gather(op);
  if (std::optional<int64_t> loop = loopOf(op)) {
    llvm::erase(own, *loop);
  }
  return own;
}

int64_t LoopNest::countRuns(const Loops &of) const {
  constexpr int64_t kMost = int64_t(1) << 40;
  int64_t runs = 1;
  for (int64_t loop : of) {
    const int64_t count = std::max<int64_t>(1, counts.lookup(loop));
    runs = std::min(kMost, runs > kMost / count ? kMost : runs * count);
  }
  return runs;
}

} // namespace ashlar::nn
