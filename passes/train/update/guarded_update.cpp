// SPDX-License-Identifier: Apache-2.0
//
// See guarded_update.h.

#include "passes/train/update/guarded_update.h"

#include "dialects/nn/nonfinite_steps.h"
#include "dialects/nn/scratch_state.h"
#include "dialects/support/tensor_values.h"

#include <limits>

using namespace mlir;

namespace ashlar::train {

namespace {

// Returns how many elements are infinite or no numbers, as a float. A sum, not a maximum of the elements: devices add their counts, and
// what one device lacks of a NaN another may drop.
Value countOfBad(ImplicitLocOpBuilder &b, Value gradient) {
  RankedTensorType type = typeOf(gradient);
  Value zero = nn::ConstantOp::create(b, nn::splat(type, 0)), one = nn::ConstantOp::create(b, nn::splat(type, 1));
  Value isBad = nn::SelectOp::create(b, type, isFinite(b, gradient), zero, one);
  return nn::ReduceOp::create(b, Reduction::Sum, isBad, llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())));
}

// Has a variable keep its value where `isGood` does not hold. `current`: its value before the step; null when nothing reads it.
void guard(nn::WriteOp write, Value isGood, Value current) {
  ImplicitLocOpBuilder b(write.getLoc(), write);
  current = current ? current : nn::ReadOp::create(b, write.getValue().getType(), write.getVariable());
  write.getValueMutable().assign(selectAll(b, isGood, write.getValue(), current));
}

} // namespace

Value isFinite(ImplicitLocOpBuilder &b, Value value) {
  RankedTensorType type = typeOf(value);
  Value infinity = nn::ConstantOp::create(b, nn::splat(type, std::numeric_limits<double>::infinity()));
  return nn::CompareOp::create(b, type.clone(b.getI1Type()), nn::Predicate::Lt, nn::AbsOp::create(b, value), infinity);
}

Value areFinite(ImplicitLocOpBuilder &b, ArrayRef<nn::GradientOp> gradients) {
  Location own = b.getLoc();
  Value bad;
  for (nn::GradientOp gradient : gradients) {
    b.setLoc(gradient.getLoc());
    Value count = countOfBad(b, gradient);
    bad = bad ? nn::AddOp::create(b, bad, count).getResult() : count;
  }
  b.setLoc(own);
  RankedTensorType type = typeOf(bad);
  Value none = nn::ConstantOp::create(b, nn::splat(type, 0));
  return nn::CompareOp::create(b, type.clone(b.getI1Type()), nn::Predicate::Eq, bad, none);
}

Value selectAll(ImplicitLocOpBuilder &b, Value condition, Value onTrue, Value onFalse) {
  RankedTensorType type = typeOf(onTrue);
  Value everywhere = nn::BroadcastOp::create(b, type.clone(b.getI1Type()), condition, ArrayRef<int64_t>());
  return nn::SelectOp::create(b, type, everywhere, onTrue, onFalse);
}

void guardUpdate(func::FuncOp function, const UpdatePhase &update, Value isGood) {
  llvm::StringMap<Value> reads;
  for (auto read : function.front().getOps<nn::ReadOp>()) {
    reads.try_emplace(read.getVariable(), read);
  }
  SymbolTable symbols(function->getParentOfType<ModuleOp>());
  DenseSet<Value> depending;
  for (nn::GradientOp gradient : update.gradients()) {
    llvm::for_each(gradient->getUsers(), [&](Operation *user) { depending.insert_range(user->getResults()); });
  }
  for (Operation *op : update.ops()) {
    bool depends = llvm::any_of(op->getOperands(), [&](Value operand) { return depending.contains(operand); });
    if (depends) {
      depending.insert_range(op->getResults());
    }
    auto write = dyn_cast<nn::WriteOp>(op);
    if (write && (depends || write.getVariable() == nn::kUpdatesVariable) &&
        !nn::isScratch(symbols.lookup<nn::VariableOp>(write.getVariable()))) { // the norm that is logged is that of the step
      guard(write, isGood, reads.lookup(write.getVariable()));
    }
  }
  countBadSteps(function, nn::kSkippedStepsVariable, isGood);
}

void countBadSteps(func::FuncOp function, StringRef name, Value isGood) {
  auto type = RankedTensorType::get({}, IntegerType::get(function.getContext(), 64));
  auto own = NameLoc::get(StringAttr::get(function.getContext(), "nonfinite"));
  auto atModule = ImplicitLocOpBuilder::atBlockBegin(own, function->getParentOfType<ModuleOp>().getBody());
  auto variable = nn::VariableOp::create(atModule, name, type, nn::splat(type, 0), /*trainable=*/false,
                                         /*state_of=*/FlatSymbolRefAttr(), /*internal=*/true);
  variable->setAttr(nn::kScratchAttr, atModule.getUnitAttr());
  ImplicitLocOpBuilder b(own, function.front().getTerminator());
  Value count = nn::ReadOp::create(b, type, name);
  Value more = nn::AddOp::create(b, count, nn::ConstantOp::create(b, nn::splat(type, 1)));
  nn::WriteOp::create(b, name, nn::SelectOp::create(b, type, isGood, count, more));
}

} // namespace ashlar::train
