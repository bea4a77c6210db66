// SPDX-License-Identifier: Apache-2.0
//
// The engine of layout inference. It knows nothing of ops: nodes are tensors with a layout, rows are sharding rules between nodes.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_H

#include "passes/layout/factor_split.h"

#include <deque>
#include <vector>

namespace ashlar::layout {

// Infers layouts to a fixpoint. A layout only ever grows, by one axis at a time, and a row is looked at again only when a node it touches
// grew: time is linear in the program for a fixed mesh. The result depends only on the order in which nodes and rows were added.
class Inference {
public:
  explicit Inference(MeshAttr mesh) : mesh(mesh) {}

  // Adds a tensor of a rank and returns its number. A given layout stays as it is; without one the tensor starts replicated and may be
  // split.
  unsigned addNode(int64_t rank, std::optional<Layout> given);

  // Adds a rule between the nodes of its operands and results.
  void addRow(ShardingRule rule, llvm::ArrayRef<unsigned> operands, llvm::ArrayRef<unsigned> results);

  // Runs to the fixpoint. Factors that are in every tensor of a rule without reductions go first, everywhere.
  void run();

  // Returns the layout of a node.
  const Layout &getLayout(unsigned node) const { return nodes[node].layout; }

private:
  struct Node {
    Layout layout;
    bool isClosed;
    llvm::SmallVector<unsigned> rows; // that touch it
  };
  struct Row {
    ShardingRule rule;
    llvm::SmallVector<TensorFactors> tensors; // operands, then results
    llvm::SmallVector<unsigned> nodes;        // one a tensor
    llvm::SmallVector<bool> isBasic;          // for each factor: goes first
  };

  void push(unsigned row);
  void visit(Row &row, bool basicOnly);
  void visitFactor(Row &row, int64_t factor, llvm::SmallVectorImpl<FactorSplit> &splits);
  void extend(Row &row, size_t t, int64_t factor, llvm::ArrayRef<mlir::StringAttr> axes, llvm::SmallVectorImpl<FactorSplit> &splits);

  MeshAttr mesh;
  std::vector<Node> nodes;
  std::vector<Row> rows;
  std::deque<unsigned> queue[2]; // rows to visit: [0] for their basic factors, [1] for all
  std::vector<bool> queued[2];
};

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_H
