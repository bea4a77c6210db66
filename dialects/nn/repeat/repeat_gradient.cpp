// SPDX-License-Identifier: Apache-2.0
//
// The gradient of nn.repeat. A second repeat takes the place of the first, which nothing reads any more: it stacks the values of the body
// that the gradient needs, too. Of a repeat that is to be computed again it stands beside the gradient, and the first one stays. The
// reversed repeat behind it carries the gradients of carried values and the sums of those of captured ones, reads rows of the gradients of
// stacked results, and stacks the gradients of sliced tensors. With a condition both have it: the values that the gradient needs are
// results of the first repeat as they are, which the second one captures.

#include "dialects/nn/ops/nn_builder.h"
#include "dialects/nn/repeat/repeats.h"
#include "dialects/support/element_type.h"

#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;

namespace ashlar::nn {

namespace {

bool hasFloats(Value value) {
  return isa<FloatType>(typeOf(value).getElementType());
}

// A zero that adds nothing to any number, -0 included, so that sums with it fold.
Value neutralZero(OpBuilder &builder, Location loc, RankedTensorType type) {
  return ConstantOp::create(builder, loc, splat(type, -0.0));
}

// Values that go into a body, and the arguments there.
struct Entries {
  SmallVector<Value> outside;
  SmallVector<BlockArgument> arguments;

  BlockArgument add(Block &block, Value value, Type type) {
    outside.push_back(value);
    return arguments.emplace_back(block.addArgument(type, value.getLoc()));
  }
};

// State: `forward`, the repeat that stacks more; `backward`, the body of the reversed one, with the entries for its arguments; `gradients`
// of the values of the forward body; `saved`, the values of it that are stacked for the backward body. Linear in the ops of the body.
class RepeatGradient {
public:
  RepeatGradient(RepeatOp op, OpBuilder &builder)
      : op(op), builder(builder), forward(copy(op, builder)), body(forward.getBody().front()), backward(std::make_unique<Block>()) {}

  void run(ValueRange resultGradients, Gradients out) {
    const bool isAgain = op->hasAttr(kComputedAgainAttr);
    if (!isAgain) {
      op->replaceAllUsesWith(forward);
    }
    Operation *unnamed = isAgain ? forward : op; // a tensor of the model has one name
    unnamed->removeAttr(kOutputsAttr);
    unnamed->removeAttr(kAliasesAttr);
    seed(resultGradients);
    differentiateBody();
    SmallVector<Value> yielded = yieldGradients();
    eraseUnused(yielded);
    saveValues(yielded);
    RepeatOp stacking = rebuildRepeat(forward, llvm::SmallBitVector(op.getCarried().size()), saved);
    for (auto [entry, result] : stacks) {
      sliced.outside[entry] = stacking->getResult(result);
    }
    for (auto [argument, result] : kept) {
      argument.replaceAllUsesWith(stacking->getResult(result));
      llvm::replace(yielded, Value(argument), Value(stacking->getResult(result)));
    }
    setGradients(close(yielded), out);
  }

private:
  // Returns the repeat that stacks what the gradient needs: in the place of the first one, or beside the gradient, where it computes the
  // iterations again.
  static RepeatOp copy(RepeatOp op, OpBuilder &builder) {
    OpBuilder behind(op->getBlock(), std::next(Block::iterator(op)));
    return cast<RepeatOp>((op->hasAttr(kComputedAgainAttr) ? builder : behind).clone(*op));
  }

  // Returns a builder at the end of the backward body.
  OpBuilder atEnd() const {
    OpBuilder inside(builder.getContext());
    inside.setInsertionPointToEnd(backward.get());
    return inside;
  }

  // Finds the carried values whose gradient is not zero in some iteration.
  llvm::SmallBitVector findCarried(ValueRange resultGradients) {
    llvm::SmallBitVector given(op.getNumResults()), found(op.getCarried().size());
    for (auto [i, gradient] : llvm::enumerate(resultGradients)) {
      given[i] = static_cast<bool>(gradient);
    }
    const DenseSet<Value> needed = findNeeded(forward, given, hasFloats);
    for (auto [i, argument] : llvm::enumerate(forward.getCarriedArguments())) {
      found[i] = needed.contains(argument) || given.test(i);
    }
    return found;
  }

  void accumulate(Value value, Value gradient) {
    OpBuilder inside = atEnd();
    Value &sum = gradients[value];
    sum = sum ? AddOp::create(inside, op.getLoc(), sum, gradient).getResult() : gradient;
  }

  void seed(ValueRange resultGradients) {
    active = findCarried(resultGradients);
    for (unsigned i : active.set_bits()) {
      Value given = resultGradients[i];
      Value first = given ? given : neutralZero(builder, op.getLoc(), typeOf(op.getCarried()[i]));
      accumulate(forward.getYielded()[i], carried.add(*backward, first, first.getType()));
    }
    for (unsigned i = active.size(); i < op.getNumResults(); ++i) {
      if (Value given = resultGradients[i]) {
        accumulate(forward.getYielded()[i], sliced.add(*backward, given, rowType(typeOf(given))));
      }
    }
  }

  void differentiateBody() {
    SmallVector<Operation *> ops = llvm::map_to_vector(body.without_terminator(), [](Operation &each) { return &each; });
    for (Operation *each : llvm::reverse(ops)) {
      SmallVector<Value> ofResults = llvm::map_to_vector(each->getResults(), [&](Value result) { return gradients.lookup(result); });
      auto differentiable = dyn_cast<GradientOpInterface>(each);
      if (!differentiable || llvm::none_of(ofResults, [](Value gradient) { return static_cast<bool>(gradient); })) {
        continue;
      }
      SmallVector<Value> ofOperands(each->getNumOperands());
      OpBuilder inside = atEnd();
      differentiable.buildGradients(inside, ofResults, ofOperands);
      for (auto [operand, gradient] : llvm::zip_equal(each->getOperands(), ofOperands)) {
        if (gradient) {
          accumulate(operand, gradient);
        }
      }
    }
  }

  // Returns the results of the backward body: gradients of carried values, sums for captured ones, and rows for sliced ones.
  SmallVector<Value> yieldGradients() {
    OpBuilder inside = atEnd();
    SmallVector<Value> yielded;
    for (unsigned i : active.set_bits()) {
      BlockArgument argument = forward.getCarriedArguments()[i];
      Value gradient = gradients.lookup(argument);
      yielded.push_back(gradient ? gradient : neutralZero(inside, op.getLoc(), typeOf(argument)));
    }
    for (BlockArgument argument : forward.getCapturedArguments()) {
      if (Value gradient = gradients.lookup(argument)) {
        operandsWithGradient.push_back(argument.getArgNumber());
        RankedTensorType type = sumType(typeOf(argument));
        Value zero = neutralZero(builder, op.getLoc(), type);
        Value term = castTo(inside, type, gradient);
        yielded.push_back(AddOp::create(inside, op.getLoc(), carried.add(*backward, zero, type), term));
      }
    }
    for (BlockArgument argument : forward.getSlicedArguments()) {
      if (Value gradient = gradients.lookup(argument)) {
        operandsWithGradient.push_back(argument.getArgNumber());
        yielded.push_back(gradient);
      }
    }
    return yielded;
  }

  void eraseUnused(ArrayRef<Value> yielded) {
    DenseSet<Value> kept(yielded.begin(), yielded.end());
    for (Operation &each : llvm::make_early_inc_range(llvm::reverse(*backward))) {
      if (isOpTriviallyDead(&each) && llvm::none_of(each.getResults(), [&](Value result) { return kept.contains(result); })) {
        each.erase();
      }
    }
  }

  bool isOfBody(Value value) { return value.getParentBlock() == &body; }

  // Whether the backward body may compute a value from its operand again, instead of reading it from a stack: it moves the elements of one
  // tensor, and no more of them than it needs.
  bool isView(Operation *maker) {
    auto compute = dyn_cast<ComputeOpInterface>(maker);
    if (!compute || compute.getCost() != Cost::Free || maker->getNumOperands() > 1) {
      return false;
    }
    if (maker->getNumOperands() == 0) {
      return true; // constants and indices
    }
    Value from = maker->getOperand(0);
    auto argument = dyn_cast<BlockArgument>(from);
    const bool isThere = argument && argument.getArgNumber() >= op.getCarried().size();
    return isThere || typeOf(from).getNumElements() <= typeOf(maker->getResult(0)).getNumElements();
  }

  // Returns a value of the forward body in the backward body: views are computed again, in front of it.
  Value inBackward(Value value) {
    SmallVector<Value> views;
    Value source = value;
    for (; !copies.contains(source); source = source.getDefiningOp()->getOperand(0)) {
      Operation *maker = source.getDefiningOp();
      if (!maker || !isView(maker)) {
        copies[source] = readSource(source);
        break;
      }
      views.push_back(source);
      if (maker->getNumOperands() == 0) {
        break;
      }
    }
    for (Value view : llvm::reverse(views)) {
      OpBuilder front(builder.getContext());
      lastCopy ? front.setInsertionPointAfter(lastCopy) : front.setInsertionPointToStart(backward.get());
      lastCopy = front.clone(*view.getDefiningOp());
      lastCopy->removeAttr(kOutputsAttr);
      lastCopy->removeAttr(kAliasesAttr);
      if (lastCopy->getNumOperands() > 0) {
        lastCopy->setOperand(0, copies.at(lastCopy->getOperand(0)));
      }
      copies[view] = lastCopy->getResult(0);
    }
    return copies.at(value);
  }

  // Returns a value of the forward body as an entry of the backward one: captured or sliced again, or from a stack.
  Value readSource(Value value) {
    std::optional<RepeatArgument> argument = argumentOfRepeat(value);
    const bool changes = argument && argument->kind == RepeatArgument::Kind::Carried && !op.getCondition();
    if (!argument || changes) {
      return readStack(value);
    }
    return argument->kind != RepeatArgument::Kind::Sliced ? argument->operand : sliced.add(*backward, argument->operand, value.getType());
  }

  // Returns a row of a stack of the value: of a result, or of one that the forward repeat gets for it.
  Value readStack(Value value) {
    if (op.getCondition()) {
      return readKept(value);
    }
    for (auto [row, result] : llvm::zip_equal(forward.getYieldedStacked(), forward.getStackedResults())) {
      if (row == value) {
        stacks.push_back({sliced.outside.size(), result.getResultNumber()});
        return sliced.add(*backward, result, value.getType());
      }
    }
    stacks.push_back({sliced.outside.size(), op.getNumResults() + saved.size()});
    saved.push_back(value);
    return sliced.add(*backward, value, value.getType()); // its stack is there when the forward repeat is made again
  }

  // Returns the value as a result of the forward repeat, which has it where the backward body runs.
  Value readKept(Value value) {
    OperandRange results = forward.getYielded();
    size_t result = llvm::find(results, value) - results.begin();
    if (result == results.size()) {
      result += saved.size();
      saved.push_back(value);
    }
    return kept.emplace_back(backward->addArgument(value.getType(), value.getLoc()), result).first;
  }

  void saveValues(SmallVector<Value> &yielded) {
    for (Operation &each : llvm::make_early_inc_range(*backward)) {
      for (OpOperand &operand : each.getOpOperands()) {
        if (isOfBody(operand.get())) {
          operand.set(inBackward(operand.get()));
        }
      }
    }
    for (Value &value : yielded) {
      value = isOfBody(value) ? inBackward(value) : value;
    }
  }

  // Makes the reversed repeat: arguments of carried values come before those of sliced ones.
  RepeatOp close(ArrayRef<Value> yielded) {
    auto block = std::make_unique<Block>();
    SmallVector<Value> values(yielded);
    for (const Entries *entries : {&carried, &sliced}) {
      for (BlockArgument argument : entries->arguments) {
        BlockArgument moved = block->addArgument(argument.getType(), argument.getLoc());
        argument.replaceAllUsesWith(moved);
        llvm::replace(values, Value(argument), Value(moved));
      }
    }
    block->getOperations().splice(block->end(), backward->getOperations());
    return createRepeat(builder, op.getLoc(), op.getCount(), !op.getReversed(), carried.outside, sliced.outside, std::move(block), values,
                        op.getCondition());
  }

  void setGradients(RepeatOp made, Gradients out) {
    unsigned next = 0;
    for (unsigned i : active.set_bits()) {
      out[i] = made->getResult(next++);
    }
    for (unsigned i : operandsWithGradient) {
      out[i] = castTo(builder, typeOf(op->getOperand(i)), made->getResult(next++));
    }
  }

  // A sum over iterations is f32 where its terms are narrower.
  static RankedTensorType sumType(RankedTensorType type) {
    return isNarrowFloat(type.getElementType()) ? type.clone(Float32Type::get(type.getContext())) : type;
  }

  Value castTo(OpBuilder &b, RankedTensorType type, Value value) {
    return value.getType() == type ? value : CastOp::create(b, op.getLoc(), type, value).getResult();
  }

  RepeatOp op;
  OpBuilder &builder;
  RepeatOp forward;
  Block &body;
  std::unique_ptr<Block> backward;
  llvm::SmallBitVector active; // carried values with a gradient
  Entries carried, sliced;
  DenseMap<Value, Value> gradients;
  DenseMap<Value, Value> copies; // of values of the forward body in the backward one
  Operation *lastCopy = nullptr;
  SmallVector<Value> saved;
  SmallVector<std::pair<size_t, size_t>> stacks;      // entries of `sliced` that are results of the forward repeat
  SmallVector<std::pair<BlockArgument, size_t>> kept; // arguments that are results of it as they are, under a condition
  SmallVector<unsigned> operandsWithGradient;         // captured and sliced ones, in the order of the results
};

} // namespace

void RepeatOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  RepeatGradient(*this, builder).run(g, out);
}

} // namespace ashlar::nn
