// SPDX-License-Identifier: Apache-2.0
//
// The layouts of a problem as a decision graph. A node is an op, whose choices are the splits of its factors, or a tensor, whose choices
// are its layouts; edges are redistributions, at the planner's costs.

#ifndef ASHLAR_PASSES_SEARCH_LAYOUT_GRAPH_H
#define ASHLAR_PASSES_SEARCH_LAYOUT_GRAPH_H

#include "passes/analysis/planner/redistribution.h"
#include "passes/search/layout_space.h"
#include "passes/search/solver/decision_graph.h"

#include <memory>
#include <optional>

namespace ashlar::search {

// The decisions: the layout of each tensor of a problem, and the layouts of operands that differ from it. Null where nothing was decided:
// then inference decides.
struct DecidedLayouts {
  std::vector<dist::LayoutAttr> tensors;
  std::vector<llvm::SmallVector<dist::LayoutAttr>> operands; // by op; all null where the op takes the tensors' layouts
};

// The graph of a problem.
//
// An op may shard each of its factors over any of the mesh's axes, as far as sizes allow: factors that its operands and results share,
// factors that it reduces (its result is then partial), and factors that its expansion computes on (softmax), at the cost of the sums of
// that. It costs the time of its work on local shapes: arithmetic or memory, whichever is longer, where memory counts traffic with other
// kernels.
//
// A tensor with several users, a variable, an input and an output have nodes of their own. A choice is its layout, and maybe a second one
// to which it is redistributed once for several users. A tensor with one user goes straight to it.
//
// Rows are the bytes of a device at times of the step: variables, inputs, and the values alive then. The first rows are the peaks with
// replicated tensors; addPeakRow adds others, and coverMemory what a row alone does not see.
class LayoutGraph {
public:
  // The mesh's axes of one device take no part. Given layouts are constraints: a closed dim is split so, an open one at least so.
  // `smallBytes`: state of a parameter of fewer bytes is split as the parameter is. `firstRows`: of each program.
  LayoutGraph(const layout::LayoutProblem &problem, llvm::ArrayRef<WeightedProgram> programs, ColourClasses classes,
              analysis::Planner &planner, const analysis::DeviceRates &rates, int64_t smallBytes = 0, size_t firstRows = 16);
  ~LayoutGraph();

  const DecisionGraph &getGraph() const;

  // Adds the row of the time at which a device holds most with these choices, where that is more than `limit` and the time has no row yet.
  // Returns whether it did.
  bool addPeakRow(const Choices &choices, int64_t limit);

  // Has the rows of each program count as many bytes as the program is known to take with these choices (MemoryRows::cover).
  bool coverMemory(const Choices &choices, llvm::ArrayRef<int64_t> programBytes);

  // Returns the layouts of choices.
  DecidedLayouts decode(const Choices &choices) const;

  // Returns the choices that correspond to a problem with the same tensors and ops, where all tensors have layouts: the splits of
  // chooseSplit(). Where tensors of one class have different layouts, the first one counts. Nothing where a choice is not in the graph.
  std::optional<Choices> encode(const layout::LayoutProblem &laidOut) const;

  // The meaning of a node's choices, one by one.
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
