// SPDX-License-Identifier: Apache-2.0
//
// The decisions on a layout problem whose tensors all have layouts: the layouts in which each op takes its operands and makes its results,
// and the redistributions between them. None of it is in the IR before it is applied (insert_redistributions.cpp).

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_ASSIGNMENT_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_ASSIGNMENT_H

#include "passes/analysis/planner/redistribution.h"
#include "passes/layout/inference/layout_problem.h"

namespace ashlar::layout {

// An operand of an op.
struct Use {
  unsigned op, operand;

  bool operator==(const Use &other) const { return op == other.op && operand == other.operand; }
};

// A layout in which a value is held: number 0 as it is made, others after a redistribution.
struct Holding {
  dist::LayoutAttr layout;
  unsigned parent = 0;                     // that it is redistributed from; of number 0 itself
  dist::EndAttr cause;                     // of the redistribution
  llvm::SmallVector<Use, 2> uses;          // by ops
  llvm::SmallVector<unsigned, 2> children; // in program order
  mlir::Type travels = {};                 // the element type during the redistribution; null: that of the value
};

// The layouts of one value, as a tree.
using Holdings = std::vector<Holding>;

// Where an op takes an operand.
struct Place {
  unsigned value, holding;
};

struct Assignment {
  std::vector<Holdings> values;                    // one a value of the problem
  std::vector<llvm::SmallVector<Place, 3>> inputs; // one an op, one an operand; a sum that was regrouped takes other values than in the IR
  std::vector<std::pair<nn::VariableOp, dist::LayoutAttr>> partialVariables; // variables that hold terms of a sum, with their layouts
  llvm::DenseMap<unsigned, llvm::SmallVector<unsigned, 1>> movedBefore;      // ops that were moved, by the op that they now stand before
  std::optional<analysis::MeshRefinement> cuts; // the parts of axes that plans of redistributions name; layouts name whole axes

  // Returns the layout in which an op takes an operand, or makes a value.
  dist::LayoutAttr taken(unsigned op, unsigned operand) const {
    Place place = inputs[op][operand];
    return values[place.value][place.holding].layout;
  }
  dist::LayoutAttr made(unsigned value) const { return values[value].front().layout; }

  // Returns the number of uses of a value where it is held so, redistributions among them.
  size_t countUses(Place place) const {
    const Holding &holding = values[place.value][place.holding];
    return holding.uses.size() + holding.children.size();
  }

  // Adds a redistribution, before the others from there.
  Place redistribute(Place from, dist::LayoutAttr to, dist::EndAttr cause);

  // Redistributes a value as it is made to `to`, from where all its uses then start.
  void redistributeUses(unsigned value, dist::LayoutAttr to, dist::EndAttr cause);

  // Makes an operand take a value from a place; before that, from none.
  void take(Use use, Place place);
  void release(Use use);

  // Moves the uses of a redistributed value to where it came from, and drops the redistribution. Assumes that no other starts from it.
  void drop(Place place);

  // Visits the redistributions of a value in program order.
  void forEachRedistribution(unsigned value, llvm::function_ref<void(unsigned holding)> visit) const;
};

// Returns the ops of a program in the order that the assignment gives them.
std::vector<unsigned> orderOf(const ProblemProgram &program, const Assignment &assignment);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_ASSIGNMENT_H
