// SPDX-License-Identifier: Apache-2.0
//
// The layouts of results where operands are parts that an op passes on (ComputeOpInterface).

#include "passes/layout/inference/partial_values.h"

#include "dialects/support/op_interfaces.h"

#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ashlar::layout {

std::string printAxes(ArrayRef<StringAttr> axes) {
  return "[" + llvm::join(llvm::map_range(axes, [](StringAttr axis) { return "\"" + axis.str() + "\""; }), ", ") + "]";
}

namespace {

// Returns true when the op passes parts that combine by `kind` on, where the operands in `partial` are parts and the others whole.
bool passesParts(Operation *op, Reduction kind, const llvm::SmallBitVector &partial) {
  auto compute = dyn_cast<ComputeOpInterface>(op);
  return compute ? compute.passesParts(kind, partial) : isa<dist::BroadcastOp>(op); // a copy between devices
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
