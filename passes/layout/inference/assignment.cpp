// SPDX-License-Identifier: Apache-2.0
//
// Changes to an assignment.

#include "passes/layout/inference/assignment.h"

#include "llvm/ADT/STLExtras.h"

#include <utility>

using namespace mlir;

namespace ashlar::layout {

Place Assignment::redistribute(Place from, dist::LayoutAttr to, dist::EndAttr cause) {
  Holdings &holdings = values[from.value];
  unsigned number = holdings.size();
  holdings.push_back({to, from.holding, cause, {}, {}});
  SmallVectorImpl<unsigned> &siblings = holdings[from.holding].children;
  siblings.insert(siblings.begin(), number);
  return {from.value, number};
}

void Assignment::redistributeUses(unsigned value, dist::LayoutAttr to, dist::EndAttr cause) {
  Holdings &holdings = values[value];
  unsigned number = holdings.size();
  Holding made = holdings.front();
  holdings.push_back({to, 0, cause, {}, made.children});
  for (unsigned child : made.children) {
    holdings[child].parent = number;
  }
  holdings.front().children = {number};
  holdings.front().uses.clear();
  for (Use use : made.uses) {
    take(use, {value, number});
  }
}

void Assignment::release(Use use) {
  Place place = inputs[use.op][use.operand];
  llvm::erase(values[place.value][place.holding].uses, use);
}

void Assignment::take(Use use, Place place) {
  inputs[use.op][use.operand] = place;
  values[place.value][place.holding].uses.push_back(use);
}

void Assignment::drop(Place place) {
  Holding &holding = values[place.value][place.holding];
  assert(holding.children.empty() && "others start from here");
  llvm::erase(values[place.value][holding.parent].children, place.holding);
  for (Use use : std::exchange(holding.uses, {})) {
    take(use, {place.value, holding.parent});
  }
}

void Assignment::forEachRedistribution(unsigned value, function_ref<void(unsigned holding)> visit) const {
  SmallVector<unsigned> stack(llvm::reverse(values[value].front().children));
  while (!stack.empty()) {
    unsigned holding = stack.pop_back_val();
    visit(holding);
    llvm::append_range(stack, llvm::reverse(values[value][holding].children));
  }
}

std::vector<unsigned> orderOf(const ProblemProgram &program, const Assignment &assignment) {
  DenseSet<unsigned> moved;
  for (const auto &[anchor, ops] : assignment.movedBefore) {
    moved.insert(ops.begin(), ops.end());
  }
  std::vector<unsigned> order;
  for (unsigned op = program.firstOp; op < program.endOp; ++op) {
    llvm::append_range(order, assignment.movedBefore.lookup(op)); // also before one that was moved itself: where that stood
    if (!moved.contains(op)) {
      order.push_back(op);
    }
  }
  return order;
}

} // namespace ashlar::layout
