// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-assign-formats; see passes.td. One walk in program order: an op that computes in another order gets a copy on tensors in that
// order, and the op itself dies. Ops that follow their readers are copied on demand.

#include "passes/format/passes.h"

#include "dialects/exec/target_traits.h"
#include "dialects/nn/repeat/flat_repeats.h"
#include "dialects/nn/windows/convolution.h"
#include "dialects/support/operands_first.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <map>

using namespace mlir;

namespace ashlar::format {

#define GEN_PASS_DEF_ASSIGNFORMATSPASS
#include "passes/format/passes.h.inc"

namespace {

// A tensor in memory, and how its dims stand there.
struct Placed {
  Value value;
  DimOrder order;
};

// An op that is being made in other orders: the op, its replacement, the orders of both's operands and results.
struct Source {
  Operation *op, *copy;
  SmallVector<DimOrder> operands, results;
  SmallVector<Value> values = {}; // the operands that are made
};

// Returns whether the op computes each element by itself. A softmax has operands and result of one type, too, but works along the last dim.
bool isElementwise(Operation *op) {
  return op->hasTrait<OpTrait::Elementwise>() && !isa<ExpandableOpInterface>(op);
}

class FunctionFormats {
public:
  FunctionFormats(func::FuncOp function, const exec::TargetTraits &traits)
      : function(function), traits(traits), builder(function.getContext()) {}

  void run() {
    if (traits.weightsLast) {
      for (Operation &op : llvm::make_early_inc_range(function.front())) {
        putWeightsLast(&op);
      }
    }
    DenseSet<Operation *> replaced; // with an effect
    for (Operation &op : llvm::make_early_inc_range(function.front())) {
      if (placeCarried(&op)) {
        replaced.insert(&op);
      } else if (!followsReaders(&op) && !computeInOrder(&op)) {
        computeAsItIs(&op);
      }
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front()))) {
      if (isOpTriviallyDead(&op) || replaced.contains(&op)) { // each reader has taken a copy
        op.erase();
      }
    }
  }

private:
  // Has a convolution take or give its weights with the channels last. They stand as in the model everywhere else: a parameter is read in
  // the other order, which the forward pass and the data gradient share, and its gradient is put back.
  void putWeightsLast(Operation *op) {
    std::optional<nn::Convolution> conv = nn::Convolution::find(op);
    if (!conv || conv->format.weightsLast) {
      return;
    }
    DimOrder first = identityOrder(typeOf(conv->weights).getRank()), last = channelsLastOrder(first.size());
    op->setAttr("weights_last", builder.getUnitAttr());
    if (conv->kind != nn::ConvolutionKind::Weights) {
      Value &moved = weightsLast[conv->weights];
      moved = moved ? moved : transposed({conv->weights, first}, last);
      op->setOperand(1, moved);
      return;
    }
    conv->weights.setType(inOrder(last, typeOf(conv->weights)));
    Value moved = transposed({conv->weights, last}, first);
    conv->weights.replaceAllUsesExcept(moved, moved.getDefiningOp());
  }

  // Returns whether the op costs nothing and is made in any order that a reader wants: sources, and element-wise ops on nothing but them.
  bool followsReaders(Operation *op) {
    walkOperandsFirst(
        op, [&](Operation *each) { return !following.contains(each); },
        [&](Operation *each) {
          auto reorderable = dyn_cast<DimOrderOpInterface>(each);
          bool follows = reorderable && reorderable.followsResult();
          auto isKnown = [&](Value operand) { return operand.getDefiningOp() && following.at(operand.getDefiningOp()); };
          following[each] = follows || (isElementwise(each) && each->getNumOperands() > 0 && llvm::all_of(each->getOperands(), isKnown));
        });
    return following.at(op);
  }

  // Returns the order in which an operand stands, empty if any will do.
  DimOrder orderOf(Value operand) {
    if (Operation *op = operand.getDefiningOp(); op && followsReaders(op)) {
      return {};
    }
    auto found = placed.find(operand);
    return found == placed.end() ? identityOrder(typeOf(operand).getRank()) : found->second.order;
  }

  // Returns the cheapest order of a value: for ops that follow their readers, the order of their own operands.
  DimOrder naturalOrder(Value value) {
    auto find = [&](Value operand) {
      Operation *op = operand.getDefiningOp();
      return op && followsReaders(op) ? natural.at(op) : orderOf(operand);
    };
    if (Operation *op = value.getDefiningOp()) {
      walkOperandsFirst(
          op, [&](Operation *each) { return followsReaders(each) && !natural.contains(each); },
          [&](Operation *each) {
            DimOrder &order = natural[each];
            for (Value operand : each->getOperands()) {
              order = isIdentity(order) ? find(operand) : order;
            }
            if (isIdentity(order)) {
              order.clear();
            } else if (!isElementwise(each)) {
              order = carryOver(cast<ShardingRuleOpInterface>(each).getShardingRule(), order);
            }
          });
    }
    return find(value);
  }

  // Returns the order of a result whose operand stands in `order`: a new dim stands after the one before it.
  static DimOrder carryOver(const ShardingRule &rule, ArrayRef<int64_t> order) {
    DimOrder result;
    const TensorFactors &from = rule.operands.front(), &to = rule.results.front();
    for (int64_t dim : order) {
      const auto *same = llvm::find_if(to, [&](const auto &factors) { return !factors.empty() && factors == from[dim]; });
      if (same == to.end()) {
        return {};
      }
      result.push_back(same - to.begin());
    }
    for (int64_t dim : llvm::seq<int64_t>(0, to.size())) {
      if (!llvm::is_contained(result, dim)) {
        result.insert(dim == 0 ? result.begin() : llvm::find(result, dim - 1) + 1, dim);
      }
    }
    return result;
  }

  // Chooses the orders in which `op` computes, given its operands' orders, and rewrites its attributes.
  static bool chooseOrders(Operation *op, MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
    if (auto reorderable = dyn_cast<DimOrderOpInterface>(op)) {
      return reorderable.reorderDims(operands, results);
    }
    if (!isElementwise(op)) {
      return false;
    }
    auto *given = llvm::find_if(operands, [](const DimOrder &order) { return !isIdentity(order); });
    DimOrder order = given == operands.end() ? identityOrder(typeOf(op->getResult(0)).getRank()) : *given;
    llvm::fill(operands, order);
    llvm::fill(results, order);
    return true;
  }

  // Computes a copy of the op in another order. Returns false where the op is to stay as it is.
  bool computeInOrder(Operation *op) {
    SmallVector<DimOrder> operands = llvm::map_to_vector(op->getOperands(), [&](Value operand) { return orderOf(operand); });
    if (llvm::all_of(operands, [](const DimOrder &order) { return order.empty(); })) {
      operands = llvm::map_to_vector(op->getOperands(), [&](Value operand) { return naturalOrder(operand); });
    }
    auto isPlain = [](const DimOrder &order) { return isIdentity(order); };
    if (!isa<DimOrderOpInterface>(op) && llvm::all_of(operands, isPlain)) {
      return false;
    }
    SmallVector<DimOrder> results(op->getNumResults());
    builder.setInsertionPoint(op);
    Operation *copy = builder.clone(*op);
    if (!chooseOrders(copy, operands, results) || (llvm::all_of(operands, isPlain) && llvm::all_of(results, isPlain))) {
      copy->erase();
      return false;
    }
    finish(op, copy, operands, results);
    for (auto [result, made, order] : llvm::zip_equal(op->getResults(), copy->getResults(), results)) {
      placed[result] = {made, order};
    }
    return true;
  }

  // Makes the operands of the copy.
  void finish(Operation *op, Operation *copy, ArrayRef<DimOrder> operands, ArrayRef<DimOrder> results) {
    SmallVector<Value> values;
    for (auto [operand, order] : llvm::zip_equal(op->getOperands(), operands)) {
      values.push_back(find(operand, order));
    }
    setTensors(copy, values, results);
  }

  // Gives the copy its operands and types.
  static void setTensors(Operation *copy, ArrayRef<Value> operands, ArrayRef<DimOrder> results) {
    copy->setOperands(operands);
    for (auto [result, order] : llvm::zip_equal(copy->getResults(), results)) {
      result.setType(inOrder(order, typeOf(result)));
    }
  }

  // Has a flat loop carry a value with the channels last where convolutions read it. Returns false for all other ops.
  bool placeCarried(Operation *op) {
    Value carried = nn::findCarried(op);
    if (!carried || (carried == op->getResult(0) ? !isConvolved(carried) : !placed.contains(carried))) {
      return false;
    }
    const DimOrder order = channelsLastOrder(typeOf(carried).getRank());
    builder.setInsertionPoint(op);
    Operation *copy = builder.clone(*op);
    auto orderOfOperand = [&](Value operand) { // a condition is a scalar
      return typeOf(operand) == typeOf(carried) ? order : identityOrder(typeOf(operand).getRank());
    };
    SmallVector<DimOrder> operands = llvm::map_to_vector(op->getOperands(), orderOfOperand);
    finish(op, copy, operands, {order});
    placed[op->getResult(0)] = {copy->getResult(0), order};
    return true;
  }

  // Whether a convolution reads a value, or what ops make of it that keep its order.
  static bool isConvolved(Value value) {
    SmallVector<Value> pending = {value};
    DenseSet<Operation *> seen;
    while (!pending.empty()) {
      Value next = pending.pop_back_val();
      for (OpOperand &use : next.getUses()) {
        Operation *user = use.getOwner();
        if (std::optional<nn::Convolution> conv = nn::Convolution::find(user)) {
          if (typeOf(value).getRank() == typeOf(conv->weights).getRank() && conv->weights != next) {
            return true;
          }
        } else if (!nn::findCarried(user) && (isElementwise(user) || isa<DimOrderOpInterface>(user)) && seen.insert(user).second &&
                   typeOf(user->getResult(0)).getRank() == typeOf(value).getRank()) {
          pending.push_back(user->getResult(0));
        }
      }
    }
    return false;
  }

  void computeAsItIs(Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      operand.set(find(operand.get(), identityOrder(typeOf(operand.get()).getRank())));
    }
  }

  // Returns `value` with its dims in `order`: as it stands, as it was found before, made so, or transposed.
  Value find(Value value, const DimOrder &order) {
    std::vector<Source> path; // sources that are being made, each for the one before it
    auto enter = [&](Value entered, const DimOrder &wanted) {
      auto [entry, isNew] = found.try_emplace({entered.getAsOpaquePointer(), std::vector<int64_t>(wanted.begin(), wanted.end())});
      Operation *op = entered.getDefiningOp();
      if (isNew && op && followsReaders(op)) {
        path.push_back(beginSource(op, wanted));
        entry->second = path.back().copy->getResult(0);
      } else if (isNew) {
        entry->second = make(entered, wanted);
      }
      return entry->second;
    };
    Value result = enter(value, order);
    while (!path.empty()) {
      const size_t place = path.size() - 1, next = path[place].values.size();
      if (next < path[place].operands.size()) {
        const DimOrder wanted = path[place].operands[next];
        Value made = enter(path[place].op->getOperand(next), wanted);
        path[place].values.push_back(made);
        continue;
      }
      setTensors(path[place].copy, path[place].values, path[place].results);
      path.pop_back();
    }
    return result;
  }

  // Returns a value that does not follow its readers in `order`.
  Value make(Value value, DimOrder order) {
    while (!placed.contains(value)) {
      auto transpose = value.getDefiningOp<nn::TransposeOp>();
      DimOrder before = order;
      if (transpose) {
        before = llvm::map_to_vector<6>(order, [&](int64_t dim) { return transpose.getPermutation()[dim]; });
      }
      if (!transpose || before != orderOf(transpose.getInput())) {
        break;
      }
      value = transpose.getInput(); // the model's own transpose, taken back
      order = before;
    }
    Placed from = placed.contains(value) ? placed[value] : Placed{value, identityOrder(order.size())};
    return from.order == order ? from.value : transposed(from, order);
  }

  // Begins to make an op that follows its readers in `order`; in the model's order it is the op itself.
  Source beginSource(Operation *op, const DimOrder &order) {
    if (isIdentity(order)) {
      auto orders = [](ValueRange values) {
        return llvm::map_to_vector(values, [](Value value) { return identityOrder(typeOf(value).getRank()); });
      };
      return {op, op, orders(op->getOperands()), orders(op->getResults())};
    }
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(op);
    Operation *copy = builder.clone(*op);
    SmallVector<DimOrder> operands(op->getNumOperands()), results{order};
    if (!isa<DimOrderOpInterface>(copy)) {
      llvm::fill(operands, order);
    } else {
      cast<DimOrderOpInterface>(copy).reorderDims(operands, results);
    }
    return {op, copy, operands, results};
  }

  // Moves the elements; where only dims of one element change places, none has to.
  Value transposed(const Placed &from, const DimOrder &order) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(from.value);
    ArrayRef<int64_t> shape = shapeOf(from.value);
    SmallVector<int64_t> permutation = placesOf(from.order, order);
    SmallVector<int64_t> longPlaces = llvm::filter_to_vector(permutation, [&](int64_t place) { return shape[place] != 1; });
    if (llvm::is_sorted(longPlaces)) {
      return nn::ReshapeOp::create(builder, from.value.getLoc(), inOrder(permutation, typeOf(from.value)), from.value);
    }
    auto transpose = nn::TransposeOp::create(builder, from.value.getLoc(), from.value, permutation);
    transpose->setAttr(nn::kReorderedAttr, builder.getUnitAttr());
    return transpose;
  }

  func::FuncOp function;
  const exec::TargetTraits &traits;
  OpBuilder builder;
  DenseMap<Value, Value> weightsLast;
  DenseMap<Operation *, bool> following;
  DenseMap<Operation *, DimOrder> natural; // of ops that follow their readers
  DenseMap<Value, Placed> placed;          // of results whose op is replaced
  std::map<std::pair<void *, std::vector<int64_t>>, Value> found;
};

bool hasConvolutionInRepeat(func::FuncOp function) {
  return function
      .walk([](Operation *op) {
        const bool isInside = op->getParentOfType<nn::RepeatOp>() && nn::Convolution::find(op);
        return isInside ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

struct AssignFormats : impl::AssignFormatsPassBase<AssignFormats> {
  using AssignFormatsPassBase::AssignFormatsPassBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      const bool isFlat = !function.isExternal() && hasConvolutionInRepeat(function);
      if (isFlat) { // a transpose of what is the same in all iterations goes in front of the loop
        nn::flattenRepeats(function.front());
      }
      FunctionFormats(function, exec::traitsOf(target)).run();
      if (isFlat && failed(nn::nestRepeats(function.front()))) {
        return signalPassFailure();
      }
    }
  }
};

} // namespace
} // namespace ashlar::format
