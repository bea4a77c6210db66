// SPDX-License-Identifier: Apache-2.0
//
// The layout problem: the layout of each tensor of a module, and the layouts of the operands and results of each op. It
// is stated once from the module; propagation, split choice, lifting, slice counts, verification and cost estimates work on it. Nothing
// here decides (inference.h, decide.h), costs (estimate.h) or writes (insert_redistributions.cpp).

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_LAYOUT_PROBLEM_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_LAYOUT_PROBLEM_H

#include "dialects/nn/repeat/flat_repeats.h"
#include "passes/layout/inference/factor_split.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <memory>
#include <vector>

namespace ashlar::layout {

// The given layout of a tensor, before any decision.
struct GivenLayout {
  Layout layout;
  llvm::SmallVector<bool> open; // the dims to which inference may add axes, one a dim
  int64_t priority = 0;         // lower ones propagate first
  mlir::ArrayAttr origin;       // its source (kOriginAttr); may be null
};

// A tensor with one layout: a variable in all programs, inputs and outputs of one name and type, the result of an op, or an operand with a
// given layout.
struct ProblemTensor {
  mlir::RankedTensorType type;
  std::optional<GivenLayout> given;
  dist::LayoutAttr suggested = {}; // axes to add to what is inferred, where they fit; may be null
};

// An SSA value. The result of nn.read has the tensor of its variable, unless it is used in another layout than it is stored in. A carried
// value of a loop has one tensor: in the iterations, as the next value of each, and behind the loop.
struct ProblemValue {
  mlir::Value value;
  unsigned tensor;
  std::optional<unsigned> maker; // number of the op; none: an argument
  int64_t runs = 1;              // how often a run of the program makes it: the trips of the loops that it is in
};

// The sharding rule of an op, with its direct consequences. Ops of one kind with equal attributes and types share one.
struct OpRule : ShardingRule {
  explicit OpRule(ShardingRule rule);

  llvm::SmallVector<TensorFactors> tensors; // the dims of operands, then results, as factors
  llvm::SmallVector<bool> isBasic;          // for each factor: whether all tensors hold it, and nothing is reduced
  bool isPointwise;                         // all tensors have the same dims
};

// An op with its operands and results as numbers of values.
struct ProblemOp {
  mlir::Operation *op;
  std::shared_ptr<const OpRule> rule; // none for a read, a write, a return and a collective
  llvm::SmallVector<unsigned, 3> operands;
  llvm::SmallVector<unsigned, 1> results;
  // For each operand the tensor whose layout it must have: of a write its variable, of a return its result, of an op with a given layout
  // for an operand that operand; none where the op's split decides.
  llvm::SmallVector<std::optional<unsigned>, 3> taken;
  std::optional<unsigned> variable; // of a read: the tensor of its variable
  std::optional<unsigned> carried;  // of an op that begins or ends a carried value: its tensor, of operand 0, too
  nn::Loops loops;                  // in which the op runs
  int64_t runs = 1;                 // how often

  mlir::DictionaryAttr attributes; // compared for equality with others; without layouts

  // Returns true for a constant or an index: made where it is used, in any layout.
  bool isSource() const { return rule && operands.empty() && results.size() == 1; }
};

// Returns the cost of `runs` runs of what has the cost of one. A product is at most 2^52, so that the sum of many is no overflow.
inline int64_t costOfRuns(int64_t cost, int64_t runs) {
  constexpr int64_t kMost = int64_t(1) << 52;
  return runs == 1 ? cost : cost > kMost / runs ? std::max(cost, kMost) : cost * runs;
}

// A program: ops [firstOp, endOp) in its order.
struct ProblemProgram {
  mlir::func::FuncOp function;
  unsigned firstOp, endOp;
};

class LayoutProblem {
public:
  // States the problem of a module of programs. Fails, with an error, where a given layout does not fit its tensor, or is partial although
  // nothing was decided yet.
  static mlir::FailureOr<LayoutProblem> create(mlir::ModuleOp module, MeshAttr mesh, bool isDecided = false);

  // States the problem of single ops, with nothing given.
  static LayoutProblem createFor(llvm::ArrayRef<mlir::Operation *> ops, MeshAttr mesh);

  MeshAttr mesh;
  std::vector<ProblemTensor> tensors;
  std::vector<ProblemValue> values;
  std::vector<ProblemOp> ops;
  std::vector<ProblemProgram> programs;
  std::vector<std::pair<nn::VariableOp, unsigned>> variables; // each with its tensor

  // Returns the number of a value.
  unsigned find(mlir::Value value) const { return valueNumbers.at(value); }

  // Returns the type of a value.
  mlir::RankedTensorType typeOf(unsigned value) const { return tensors[values[value].tensor].type; }

  // Returns the tensor that a program returns as its result `index`.
  unsigned resultTensor(const ProblemProgram &program, unsigned index) const { return *ops[program.endOp - 1].taken[index]; }

private:
  friend class ProblemBuilder;
  explicit LayoutProblem(MeshAttr mesh) : mesh(mesh) {}

  llvm::DenseMap<mlir::Value, unsigned> valueNumbers;
};

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_LAYOUT_PROBLEM_H
