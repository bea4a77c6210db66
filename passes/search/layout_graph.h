// SPDX-License-Identifier: Apache-2.0
//
// The layouts of a problem as a decision graph. A node is an op, whose choices are the splits of its factors, or a tensor, whose choices
// are the layouts in which it is held; edges are redistributions, at the planner's prices.

#ifndef ASHLAR_PASSES_SEARCH_LAYOUT_GRAPH_H
#define ASHLAR_PASSES_SEARCH_LAYOUT_GRAPH_H

#include "passes/analysis/planner/redistribution.h"
#include "passes/search/layout_space.h"
#include "passes/search/solver/decision_graph.h"

#include <memory>
#include <optional>

namespace ashlar::search {

// What was decided: the layout of each tensor of a problem, and how ops take operands otherwise. Null where nothing was: then inference
// decides.
struct DecidedLayouts {
  std::vector<dist::LayoutAttr> tensors;
  std::vector<llvm::SmallVector<dist::LayoutAttr>> operands; // by op; all null where the op takes what is held
};

// The graph of a problem.
//
// An op may split each of its factors over any of the mesh's axes, as far as sizes allow: over what its operands and results share, what it
// sums up (its result is then partial), and what its expansion computes on (softmax), at the price of the sums that this takes. It costs
// the time of its work on local shapes: arithmetic or memory, whichever is longer, where memory counts what other kernels wrote or will
// read.
//
// A tensor that several ops use, a variable, an input and an output have nodes of their own. A choice is the layout in which it is held,
// and maybe a second one that it is brought to once for several users. What one op alone uses goes straight to it.
//
// Rows are the bytes of a device at times of the step: variables, inputs, and what is alive then. At first they are those at which whole
// tensors would take most; addPeakRow adds others.
class LayoutGraph {
public:
  // The mesh's axes of one device take no part. Given layouts are constraints: a closed dim is split so, an open one at least so.
  // `smallBytes`: state of a parameter of fewer bytes is split as the parameter is. `firstRows`: of each program.
  LayoutGraph(const layout::LayoutProblem &problem, llvm::ArrayRef<WeightedProgram> programs, RepeatedParts parts, dist::Planner &planner,
              const dist::DeviceRates &rates, int64_t smallBytes = 0, size_t firstRows = 16);
  ~LayoutGraph();

  const DecisionGraph &getGraph() const;

  // Adds the row of the time at which a device holds most with these choices, where that is more than `limit` and the time has no row yet.
  // Returns whether it did.
  bool addPeakRow(const Choices &choices, int64_t limit);

  // Returns what choices mean.
  DecidedLayouts decode(const Choices &choices) const;

  // Returns the choices that a problem with the same tensors and ops, of which all tensors have layouts, amounts to: the splits that
  // chooseSplit() takes. Where parts that are one here are laid out differently, the first one counts. Nothing where a choice is not among
  // those of the graph.
  std::optional<Choices> encode(const layout::LayoutProblem &laidOut) const;

  // What a node decides, choice by choice.
  struct Decision {
    unsigned node;
    std::vector<dist::LayoutAttr> layouts;          // in which the tensor is held, or the op makes its first result
    std::vector<llvm::SmallVector<int64_t>> pieces; // into how many the tensor, or each factor of the op, is cut
  };

  // Returns the decision about a tensor or an op of the problem; nothing where it has no node.
  std::optional<Decision> decisionOfTensor(unsigned tensor) const;
  std::optional<Decision> decisionOfOp(unsigned op) const;

private:
  class Builder;
  std::unique_ptr<Builder> builder;
};

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_LAYOUT_GRAPH_H
