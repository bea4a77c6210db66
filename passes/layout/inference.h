// SPDX-License-Identifier: Apache-2.0
//
// The engine of layout inference. It knows nothing of ops: nodes are tensors with a layout, rows are sharding rules between nodes.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_H

#include "passes/layout/factor_split.h"

#include <deque>
#include <vector>

namespace ashlar::layout {

// What is said of a tensor before inference.
struct GivenLayout {
  Layout layout;
  llvm::SmallVector<bool> open; // the dims to which inference may add axes; none when empty
  int64_t priority = 0;         // lower ones propagate first
};

// Why an axis is in a layout: the node that was given it, and the row along which it came from there.
struct AxisOrigin {
  mlir::StringAttr axis;
  unsigned source;
  std::optional<unsigned> row; // none: the node itself was given the axis
};

// Infers layouts to a fixpoint, once for each priority of given layouts, lower ones first: until its turn a given layout neither passes
// its axes on nor takes any. A layout only ever grows, by one axis at a time, and a row is looked at again only when a node it touches
// grew: time is linear in the program for a fixed mesh. The result depends only on the order in which nodes and rows were added: where two
// rows could extend a node differently the one that is visited first does, and rows are visited in the order in which they were added.
class Inference {
public:
  explicit Inference(MeshAttr mesh) : mesh(mesh) {}

  // Adds a tensor of a rank and returns its number. Without a given layout it starts replicated and every dim is open.
  unsigned addNode(int64_t rank, std::optional<GivenLayout> given);

  // Adds a rule between the nodes of its operands and results and returns its number.
  unsigned addRow(ShardingRule rule, llvm::ArrayRef<unsigned> operands, llvm::ArrayRef<unsigned> results);

  // Runs to the fixpoint. In each round factors that are in every tensor of a rule without reductions go first, everywhere.
  void run();

  // Returns the layout of a node.
  const Layout &getLayout(unsigned node) const { return nodes[node].layout; }

  // Returns where the axes of a node's layout came from, in the order in which they arrived.
  llvm::ArrayRef<AxisOrigin> getOrigins(unsigned node) const { return nodes[node].origins; }

private:
  struct Node {
    Layout layout;
    llvm::SmallVector<bool> open; // one a dim
    int64_t priority;
    llvm::SmallVector<unsigned> rows; // that touch it
    llvm::SmallVector<AxisOrigin, 2> origins;
    bool takesPart = false; // its turn has come
  };
  struct Row {
    ShardingRule rule;
    llvm::SmallVector<TensorFactors> tensors; // operands, then results
    llvm::SmallVector<unsigned> nodes;        // one a tensor
    llvm::SmallVector<bool> isBasic;          // for each factor: goes first
  };

  void runToFixpoint();
  void push(unsigned row);
  void visit(unsigned number, bool basicOnly);
  void visitFactor(unsigned number, int64_t factor, llvm::SmallVectorImpl<FactorSplit> &splits);
  void extend(unsigned number, size_t t, int64_t factor, llvm::ArrayRef<mlir::StringAttr> axes, llvm::SmallVectorImpl<FactorSplit> &splits);
  bool isOpen(const Node &node, const TensorFactors &tensor, int64_t factor) const;
  const AxisOrigin &traceAxis(const Row &row, int64_t factor, mlir::StringAttr axis, llvm::ArrayRef<FactorSplit> splits) const;

  MeshAttr mesh;
  std::vector<Node> nodes;
  std::vector<Row> rows;
  std::deque<unsigned> queue[2]; // rows to visit: [0] for their basic factors, [1] for all
  std::vector<bool> queued[2];
};

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_H
