// SPDX-License-Identifier: Apache-2.0
//
// The runners-up of a strategy: for each block of a model the best strategy in which it is sharded otherwise.

#ifndef ASHLAR_PASSES_SEARCH_RUNNER_UP_H
#define ASHLAR_PASSES_SEARCH_RUNNER_UP_H

#include "passes/search/layout_graph.h"
#include "passes/search/solver/elimination.h"

#include <string>

namespace ashlar::search {

// A decision of a graph, and which of the choices come to the same as one that was taken.
struct Taken {
  unsigned node;
  std::vector<bool> isSame; // by choice
};

// Searches the best choices that differ from the taken ones in the decision of one of a few nodes.
class RunnerUpSearch {
public:
  // `graph`, `taken`: of the search. `limit`: bound on the amount of each row. `effort` counts the work, and outlives this as they do.
  RunnerUpSearch(const DecisionGraph &graph, const Choices &taken, int64_t limit, Effort &effort);

  struct Other {
    Choices choices;
    Cost cost = kForbidden;
    Cost bound = 0; // no other choices cost less; equal to `cost` where these are proven the best
  };

  // Returns the best choices, within the limit, in which at least one of the decisions is another one; all other nodes are free. Nothing
  // where none were found.
  //
  // One node after the other is kept from its taken choice, in the order of the least loss by the relaxation; a node with a greater bound
  // than the best one found is skipped. For each, the taken choices are improved, one node at a time; then the best choices are found by
  // elimination among those that the relaxation has closest to the best, and among more, up to all with no greater loss than the found
  // ones, as long as these are few enough. Then they are the best, except for the limit.
  std::optional<Other> find(const std::vector<Taken> &decisions) const;

private:
  static constexpr size_t kMostEntries = size_t(1) << 14; // of a table
  static constexpr size_t kMostPairs = 200000;            // of choices of neighbours
  static constexpr size_t kMostStarts = 2;
  static constexpr int kMostHalvings = 4;

  using Kept = std::vector<std::vector<unsigned>>; // by node: some of its choices

  // Returns the best choices found in which one decision is another one. Choices that cost `known` or more need not be found; none cost
  // less than `least`.
  Other findOther(const Taken &decision, Cost known, Cost least) const;

  // Returns the other choices of a decision by which least has to be lost, at most kMostStarts; at least one, if it has any.
  std::vector<unsigned> likelyChoices(const Taken &decision) const;

  // Returns the choices with a loss below `most`, and the taken ones; other ones of the decision.
  Kept keepBelow(const Taken &decision, Cost most) const;

  bool isSmall(const Kept &kept) const;

  const DecisionGraph &graph;
  const Choices &taken;
  int64_t limit;
  Effort &effort;
  Cost bound = 0;                         // of the relaxation: no choices cost less
  std::vector<std::vector<Cost>> margins; // by node and choice: by how much more the bound is with it
};

// The runner-up of a block.
struct RunnerUp {
  std::string block; // "fc1", "layer0..layer11" where several are decided as one
  // What is decided otherwise: parameters, where there are any, else ops.
  llvm::SmallVector<dist::DifferenceAttr> differences;
  Choices choices; // all of the graph
};

// Returns the runner-up of each block that decides something, in the order of the model. A block is a module: the ops and parameters up to
// the first number in their path (name_globs.h). Blocks that share an op or a parameter of the search, the layers of a deep model, are one.
//
// A block is sharded otherwise when one of its parameters with at least two dims has another number of shards, or a product or convolution
// of its forward pass is cut into another number of shards along one of its factors. All else is free: so the runner-up is the result of a
// search that may not shard the block so. Counts its work; blocks that were not searched when the effort is over are left out.
std::vector<RunnerUp> findRunnersUp(const layout::LayoutProblem &problem, const LayoutGraph &graph,
                                    llvm::ArrayRef<WeightedProgram> programs, const Choices &taken, int64_t limit, Effort &effort);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_RUNNER_UP_H
