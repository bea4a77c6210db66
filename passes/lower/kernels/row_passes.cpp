// SPDX-License-Identifier: Apache-2.0
//
// Levels forward over the body, passes backward from the reductions and the results.

#include "passes/lower/kernels/row_passes.h"

#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::lower {

std::optional<RowElement> elementOf(nn::ReduceOp reduce) {
  auto select = reduce.getInput().getDefiningOp<nn::SelectOp>();
  auto isPlace = select ? select.getCondition().getDefiningOp<nn::CompareOp>() : nn::CompareOp();
  auto index = isPlace ? isPlace.getLhs().getDefiningOp<nn::IndexOp>() : nn::IndexOp();
  auto place = isPlace ? isPlace.getRhs().getDefiningOp<nn::BroadcastOp>() : nn::BroadcastOp();
  const int64_t last = typeOf(reduce.getInput()).getRank() - 1;
  if (!index || !place || isPlace.getPredicate() != nn::Predicate::Eq || reduce.getKind() != Reduction::Sum ||
      reduce.getDims() != ArrayRef<int64_t>{last} || llvm::is_contained(place.getDims(), last)) {
    return std::nullopt;
  }
  ArrayRef<int64_t> strides = index.getStrides();
  auto zero = select.getOnFalse().getDefiningOp<nn::ConstantOp>();
  auto numbers = zero ? dyn_cast<DenseFPElementsAttr>(zero.getValue()) : DenseFPElementsAttr();
  const bool isOther = strides.back() != 1 || llvm::any_of(strides.drop_back(), [](int64_t stride) { return stride != 0; }) || !numbers ||
                       !numbers.isSplat() || !numbers.getSplatValue<APFloat>().isPosZero();
  return isOther ? std::nullopt : std::optional(RowElement{select.getOnTrue(), isPlace.getRhs()});
}

RowPasses::RowPasses(Block &body, ArrayRef<int64_t> domain) : body(body), domain(domain) {
  for (Operation &op : body.without_terminator()) {
    int64_t level = isa<nn::ReduceOp>(op) ? 1 : 0;
    for (Value operand : op.getOperands()) {
      level = std::max(level, levels.lookup(operand) + (isa<nn::ReduceOp>(op) ? 1 : 0));
    }
    levels[op.getResult(0)] = level;
    last = std::max(last, level);
  }
  walk([&](Value value, int64_t pass) {
    if (llvm::is_contained(passes[value], pass)) {
      return false;
    }
    passes[value].push_back(pass);
    return true;
  });
}

SmallVector<nn::ReduceOp> RowPasses::reductionsOf(int64_t level) const {
  SmallVector<nn::ReduceOp> found;
  for (auto reduce : body.getOps<nn::ReduceOp>()) {
    if (levelOf(reduce) == level) {
      found.push_back(reduce);
    }
  }
  return found;
}

ArrayRef<int64_t> RowPasses::passesOf(Value value) const {
  auto found = passes.find(value);
  return found == passes.end() ? ArrayRef<int64_t>() : ArrayRef<int64_t>(found->second);
}

void RowPasses::walk(llvm::function_ref<bool(Value, int64_t)> visit) const {
  SmallVector<std::pair<Value, int64_t>> worklist;
  auto follow = [&](Value first, int64_t pass) {
    worklist.push_back({first, pass});
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val().first;
      Operation *op = value.getDefiningOp();
      if (isa_and_nonnull<nn::ReduceOp>(op) || shapeOf(value) != domain || !visit(value, pass)) {
        continue;
      }
      for (Value operand : op ? op->getOperands() : OperandRange(nullptr, 0)) {
        worklist.push_back({operand, pass});
      }
    }
  };
  for (int64_t level = 1; level <= last; ++level) {
    for (nn::ReduceOp reduce : reductionsOf(level)) {
      follow(reduce.getInput(), level);
    }
  }
  for (Value value : body.getTerminator()->getOperands()) {
    follow(value, last + 1);
  }
}

int64_t RowPasses::heldBytes() const {
  llvm::MapVector<Value, std::pair<int64_t, int64_t>> lives; // first and last pass
  walk([&](Value value, int64_t pass) {
    auto [life, isNew] = lives.try_emplace(value, pass, pass);
    life->second.second = pass;
    return isNew;
  });
  int64_t most = 0;
  for (int64_t pass = 1; pass <= last; ++pass) {
    int64_t bytes = 0;
    for (auto &[value, life] : lives) {
      bool isFree = isa_and_nonnull<nn::BroadcastOp, nn::ConstantOp, nn::IndexOp>(value.getDefiningOp());
      if (!isFree && life.first <= pass && pass < life.second) {
        bytes += std::max<int64_t>(4, elementBytes(typeOf(value).getElementType()));
      }
    }
    most = std::max(most, bytes);
  }
  return most;
}

} // namespace ashlar::lower
