// SPDX-License-Identifier: Apache-2.0
//
// See sample_dependence.h: the bodies of repeats. A body keeps how its operands depend on samples: dim d of a sliced tensor is dim d - 1 of
// its rows. A carried value depends on samples as its first value and its next ones do, together, which is a fixed point.

#include "passes/train/loss/sample_dependence.h"

#include "dialects/nn/repeat/repeats.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::train {
namespace {

using Kind = Dependence::Kind;

// A carried value whose dependence has changed more often couples samples: the kinds below that one are fewer.
constexpr unsigned kMostChanges = 8;

Dependence rowOf(nn::RepeatOp op, Dependence stack) {
  if (stack.kind == Kind::Samples && stack.dim-- == 0) {
    return Dependence::coupled(op, "runs its body on samples, one after the other");
  }
  return stack;
}

Dependence stackOf(Dependence row) {
  row.dim += row.kind == Kind::Samples ? 1 : 0;
  return row;
}

// Returns how two values depend on samples that have parts of the same samples, or are parts of the same sum.
std::optional<Dependence> joinAlike(const Dependence &a, const Dependence &b) {
  const bool isAnywhere = a.outer == Dependence::kAnyOuter || b.outer == Dependence::kAnyOuter;
  if (a.kind != b.kind || a.divisor != b.divisor || a.dim != b.dim || (a.outer != b.outer && !isAnywhere)) {
    return std::nullopt;
  }
  return a.outer == Dependence::kAnyOuter ? b : a;
}

} // namespace

void SampleDependence::cutChanges(const Changes &kept) {
  quotients.resize(kept.quotients);
  addends.truncate(kept.addends);
  summed.truncate(kept.summed);
  sized.truncate(kept.sized);
}

// Whether a tensor that is the same for every batch has the same numbers along a dim.
bool SampleDependence::isUniform(Value value, int64_t dim) const {
  std::optional<nn::RepeatArgument> argument = nn::argumentOfRepeat(value);
  for (; argument && argument->kind != nn::RepeatArgument::Kind::Carried; argument = nn::argumentOfRepeat(value)) {
    value = argument->operand;
    dim += argument->kind == nn::RepeatArgument::Kind::Sliced;
  }
  if (auto constant = value.getDefiningOp<nn::ConstantOp>()) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    return dense && dense.isSplat();
  }
  if (auto index = value.getDefiningOp<nn::IndexOp>()) {
    return index.getStrides()[dim] == 0;
  }
  auto broadcast = value.getDefiningOp<nn::BroadcastOp>();
  return broadcast && !llvm::is_contained(broadcast.getDims(), dim);
}

// Visits the ops of a body whose arguments depend on samples like this. Returns the dependences of the yielded values.
SmallVector<Dependence> SampleDependence::visitBody(nn::RepeatOp op, ArrayRef<Dependence> arguments) {
  Block &body = op.getBody().front();
  for (auto [argument, dependence] : llvm::zip_equal(body.getArguments(), arguments)) {
    found[argument] = dependence;
  }
  for (const Pair &each : pairs.find(&body)->second) {
    visit(each);
  }
  SmallVector<Dependence> yielded;
  for (Value value : op.getYielded()) {
    const Dependence &each = of(value);
    Value divisor = each.divisor.sum;
    const bool isOfIteration = divisor && divisor.getParentBlock() == &body;
    yielded.push_back(isOfIteration ? Dependence::coupled(op, "divides by a sum over samples of each iteration") : each);
  }
  return yielded;
}

// Returns the dependence of carried value `i`, whose next value depends on samples like `next`.
Dependence SampleDependence::joinCarried(nn::RepeatOp op, unsigned i, const Dependence &next) const {
  Value firstValue = op.getCarried()[i], nextValue = op.getYielded()[i];
  const Dependence &first = of(firstValue);
  auto takes = [&](const Dependence &other, Value value, const Dependence &known) { // a value that has no samples
    const bool isSame = known.kind == Kind::Samples && !known.divisor && !other.divisor && isUniform(value, known.dim);
    return other.kind == Kind::None && (isSame || nn::isZero(nn::resolveCaptured(value)));
  };
  Dependence joined;
  if (first.kind == Kind::Coupled || next.kind == Kind::Coupled) {
    joined = first.kind == Kind::Coupled ? first : next;
  } else if (std::optional<Dependence> alike = joinAlike(first, next)) {
    joined = *alike;
  } else if (takes(first, firstValue, next)) {
    joined = next;
  } else if (takes(next, nextValue, first)) {
    joined = first;
  } else if (first.kind == Kind::None && !first.divisor && next.kind == Kind::Sum && (isStep || next.divisor)) {
    joined = next; // its first value is added once
  } else {
    joined = Dependence::coupled(op, "carries a value whose first and next ones depend on samples in other ways");
  }
  joined.isTrained = first.isTrained || next.isTrained;
  return joined;
}

// Notes the first values of sums that are no sums themselves: they are added once.
void SampleDependence::addFirstValues(nn::RepeatOp op, MutableArrayRef<Dependence> carried) {
  for (auto [i, sum] : llvm::enumerate(carried)) {
    Value first = op.getCarried()[i];
    if (sum.kind == Kind::Sum && of(first).kind == Kind::None && !nn::isZero(nn::resolveCaptured(first))) {
      addends.push_back({op, static_cast<unsigned>(i), sum.divisor});
    }
  }
}

void SampleDependence::visitRepeat(nn::RepeatOp op) {
  SmallVector<Dependence> arguments;
  for (Value argument : op.getBody().getArguments()) {
    const nn::RepeatArgument each = *nn::argumentOfRepeat(argument);
    arguments.push_back(each.kind == nn::RepeatArgument::Kind::Sliced ? rowOf(op, of(each.operand)) : of(each.operand));
  }
  auto carried = MutableArrayRef(arguments).take_front(op.getCarried().size());
  SmallVector<unsigned> changes(carried.size(), 0);
  const Changes before = countChanges();
  SmallVector<Dependence> yielded;
  for (bool changed = true; changed;) {
    cutChanges(before);
    yielded = visitBody(op, arguments);
    changed = false;
    for (auto [i, known] : llvm::enumerate(carried)) {
      Dependence joined = joinCarried(op, i, yielded[i]);
      if (changes[i] == kMostChanges) {
        joined = Dependence::coupled(op, "carries a value that depends on samples in several ways");
      }
      if (!(known == joined) && changes[i] <= kMostChanges) {
        known = joined;
        ++changes[i];
        changed = true;
      }
    }
  }
  addFirstValues(op, carried);
  for (OpResult result : op.getResults()) {
    const unsigned i = result.getResultNumber();
    found[result] = i < carried.size() ? carried[i] : stackOf(yielded[i]);
  }
  const Dependence condition = op.getCondition() ? of(op.getCondition()) : Dependence();
  if (condition.kind != Kind::None || condition.divisor) {
    Dependence coupled = condition.kind == Kind::Coupled ? condition : Dependence::coupled(op, "has a condition that depends on samples");
    for (Value result : op.getResults()) {
      coupled.isTrained = found[result].isTrained || condition.isTrained;
      found[result] = coupled;
    }
  }
}

} // namespace ashlar::train
