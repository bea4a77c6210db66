// SPDX-License-Identifier: Apache-2.0
//
// The table of ops that pass parts on, and what it says about layouts. A sum of parts passes through linear ops; a maximum of parts only
// through ops that move elements, and through maxima.

#include "passes/layout/partial_values.h"

#include "dialects/nn/nn.h"
#include "passes/layout/linear_ops.h"

#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::layout {

std::string printAxes(ArrayRef<StringAttr> axes) {
  return "[" + llvm::join(llvm::map_range(axes, [](StringAttr axis) { return "\"" + axis.str() + "\""; }), ", ") + "]";
}

namespace {

// Returns true when the op is linear in the operands in `partial` together.
bool isLinear(Operation *op, const llvm::SmallBitVector &partial) {
  return llvm::any_of(linearOperands(op), [&](ArrayRef<unsigned> set) {
    return set.size() == partial.count() && llvm::all_of(set, [&](unsigned operand) { return partial.test(operand); });
  });
}

// Returns true when the op passes parts that combine by `kind` on, where the operands in `partial` are parts and the others whole. Besides
// the ops on which the compiler itself delays sums, those that a model may put there.
bool passesParts(Operation *op, Reduction kind, const llvm::SmallBitVector &partial) {
  bool isSum = kind == Reduction::Sum;
  if (isSum && isLinear(op, partial)) {
    return true;
  }
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<nn::BroadcastOp, nn::ReshapeOp, nn::SliceOp, nn::TransposeOp, dist::BroadcastOp>([](auto) { return true; })
      .Case([&](nn::PadOp) { return isSum; })
      .Case([&](nn::ConcatOp) { return partial.all(); })
      .Case([&](nn::MaxOp) { return kind == Reduction::Max && partial.all(); })
      .Case([&](nn::MinOp) { return kind == Reduction::Min && partial.all(); })
      .Case([&](nn::MatMulOp) { return isSum && partial.count() == 1; })
      .Case([&](nn::SelectOp) { return !partial.test(0) && partial.count() == 2; })
      .Case([&](nn::ReduceOp reduce) { return reduce.getKind() == kind; })
      .Default([](Operation *) { return false; });
}

// "partial (sum) over ["tp"]"
std::string describeParts(const Layout &layout) {
  return "partial (" + stringifyReduction(layout.reduction).str() + ") over " + printAxes(layout.partial);
}

// Returns the first axis that a layout uses twice; null when there is none.
StringAttr findRepeatedAxis(const Layout &layout) {
  llvm::SmallPtrSet<StringAttr, 4> seen;
  SmallVector<AxisList> lists(layout.dims);
  lists.push_back(layout.partial);
  for (const AxisList &list : lists) {
    for (StringAttr axis : list) {
      if (!seen.insert(axis).second) {
        return axis;
      }
    }
  }
  return {};
}

} // namespace

FailureOr<SmallVector<Layout>> resultLayoutsOfParts(Operation *op, const ShardingRule &rule, const FactorSplit &split,
                                                    ArrayRef<Layout> operands, std::string &reason) {
  FailureOr<SmallVector<Layout>> results = resultLayouts(rule, split);
  if (failed(results)) {
    reason = "it would combine in two ways at once: its split dims are reduced differently";
    return failure();
  }
  llvm::SmallBitVector partial(operands.size());
  const Layout *parts = nullptr;
  for (auto [i, layout] : llvm::enumerate(operands)) {
    partial[i] = layout.isPartial();
    if (!layout.isPartial()) {
      continue;
    }
    Layout other = layout;
    other.dims = parts ? parts->dims : other.dims;
    if (parts && other != *parts) {
      reason = "one operand is " + describeParts(*parts) + " and another " + describeParts(layout);
      return failure();
    }
    parts = &layout;
  }
  if (parts && !passesParts(op, parts->reduction, partial)) {
    int whole = partial.find_first_unset();
    reason = "operand " + std::to_string(partial.find_first()) + " is " + describeParts(*parts) +
             (whole >= 0 ? " and operand " + std::to_string(whole) + " is not" : std::string(", which it needs combined"));
    return failure();
  }
  for (Layout &result : *results) {
    if (parts && result.isPartial() && result.reduction != parts->reduction) {
      reason = "an operand is " + describeParts(*parts) + " and the op itself is " + describeParts(result);
      return failure();
    }
    if (parts) {
      llvm::append_range(result.partial, parts->partial);
      result.reduction = parts->reduction;
    }
    if (StringAttr axis = findRepeatedAxis(result)) {
      reason = "its result would be " + result.toString() + ", which uses axis \"" + axis.str() + "\" twice";
      return failure();
    }
  }
  return results;
}

} // namespace ashlar::layout
