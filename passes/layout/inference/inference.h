// SPDX-License-Identifier: Apache-2.0
//
// The engine of layout inference: nodes are the tensors of a layout problem, rows are sharding rules between them.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_INFERENCE_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_INFERENCE_H

#include "passes/layout/inference/layout_problem.h"

#include <deque>
#include <vector>

namespace ashlar::layout {

// Why an axis is in a layout: the tensor that was given it, and the op along which it came from there.
struct AxisOrigin {
  mlir::StringAttr axis;
  unsigned source;
  std::optional<unsigned> op; // none: the tensor itself was given the axis
};

// Infers layouts to a fixpoint, once for each priority of given layouts, lower ones first: until its turn a given layout neither passes
// its axes on nor takes any. A layout only ever grows, by one axis at a time, and a row is looked at again only when a node it touches
// grew: time is linear in the program for a fixed mesh. The result depends only on the order in which nodes and rows were added: where two
// rows could extend a node differently the one that is visited first does, and rows are visited in the order in which they were added.
class Inference {
public:
  // Adds the tensors of a problem, those without a given layout replicated and every dim open, and its ops. `mayIdle`: dims may be split
  // over more devices than they have elements.
  explicit Inference(const LayoutProblem &problem, bool mayIdle = false);

  // Runs to the fixpoint. In each round factors that are in every tensor of a rule without reductions go first, everywhere. Suggested
  // axes come last.
  void run();

  // Returns the layout of a tensor.
  const Layout &getLayout(unsigned tensor) const { return nodes[tensor].layout; }

  // Returns where the axes of a tensor's layout came from, in the order in which they arrived.
  llvm::ArrayRef<AxisOrigin> getOrigins(unsigned tensor) const { return nodes[tensor].origins; }

private:
  struct Node {
    Layout layout;
    llvm::SmallVector<bool, 8> open; // one a dim
    int64_t priority;
    llvm::SmallVector<unsigned, 4> rows; // that touch it
    llvm::SmallVector<AxisOrigin, 2> origins;
    bool takesPart = false; // its turn has come
  };
  struct Row {
    unsigned op; // of the problem
    std::shared_ptr<const OpRule> rule;
    llvm::SmallVector<unsigned, 4> nodes; // one a tensor: operands, then results
  };

  void addNode(const ProblemTensor &tensor);
  void addRow(unsigned op, std::shared_ptr<const OpRule> rule, llvm::ArrayRef<unsigned> operands, llvm::ArrayRef<unsigned> results);
  void runToFixpoint();
  void addSuggested(unsigned number, const ProblemTensor &tensor);
  void push(unsigned row);
  void visit(unsigned number, bool basicOnly);
  void visitFactor(unsigned number, int64_t factor, llvm::SmallVectorImpl<FactorSplit> &splits);
  void extend(unsigned number, size_t t, int64_t factor, llvm::ArrayRef<mlir::StringAttr> axes, llvm::SmallVectorImpl<FactorSplit> &splits);
  bool isOpen(const Node &node, const TensorFactors &tensor, int64_t factor) const;
  const AxisOrigin &traceAxis(const Row &row, int64_t factor, mlir::StringAttr axis, llvm::ArrayRef<FactorSplit> splits) const;

  MeshAttr mesh;
  bool mayIdle;
  std::vector<Node> nodes;
  std::vector<Row> rows;
  std::deque<unsigned> queue[2]; // rows to visit: [0] for their basic factors, [1] for all
  std::vector<bool> queued[2];
  std::vector<std::pair<unsigned, ProblemTensor>> suggested; // tensors with their numbers
};

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_INFERENCE_H
