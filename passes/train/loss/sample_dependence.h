// SPDX-License-Identifier: Apache-2.0
//
// How the values of a program depend on the samples of its batch: values with one part a sample, sums over samples, and values that need
// all samples at once. A step is split into micro-batches, and a data set into batches, as a mesh axis splits a batch into shards, so the
// rules of layouts apply (ShardingRuleOpInterface, ComputeOpInterface::passesParts).
//
//   %rows = nn.softmax_cross_entropy %logits, %labels                  one part a sample, in dim 0
//   %sum = nn.reduce sum %rows dims = [0]                              a sum over samples
//   %loss = nn.div %sum, %count                                        the same, to be divided by another one
//   %square = nn.mul %sum, %sum                                        coupled: not linear in a sum over samples

#ifndef ASHLAR_PASSES_TRAIN_LOSS_SAMPLE_DEPENDENCE_H
#define ASHLAR_PASSES_TRAIN_LOSS_SAMPLE_DEPENDENCE_H

#include "dialects/nn/repeat.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>
#include <string>

namespace ashlar::train {

// The divisor of a value once all samples are summed.
struct Divisor {
  enum class Kind {
    None,
    Samples, // the number of samples
    Sum      // a sum over samples, but at least `least`
  };
  Kind kind = Kind::None;
  mlir::Value sum; // of one float
  double least = 0;

  bool operator==(const Divisor &other) const { return kind == other.kind && sum == other.sum && least == other.least; }
  bool operator!=(const Divisor &other) const { return !(*this == other); }
  explicit operator bool() const { return kind != Kind::None; }
};

// How a value depends on the samples of the batch.
struct Dependence {
  enum class Kind {
    None,    // the same for every batch
    Count,   // proportional to the number of samples, whatever they are
    Samples, // holds one part a sample
    Sum,     // a sum over samples
    Coupled  // anything else
  };
  static constexpr int64_t kAnyOuter = 0; // all samples have the same part

  Kind kind = Kind::None;
  int64_t dim = 0, outer = 1; // Samples: dim `dim` is (outer, samples, inner)
  Divisor divisor;            // None, Samples, Sum
  bool isTrained = false;     // depends on a trainable variable
  std::string reason;         // Coupled: the op that couples samples, and why

  static Dependence ofKind(Kind kind, int64_t dim = 0, int64_t outer = 1);

  // Returns that an op couples samples: `why` follows its name.
  static Dependence coupled(mlir::Operation *op, const llvm::Twine &why);

  // Whether two values depend on samples in the same way, whatever the reason.
  bool operator==(const Dependence &other) const {
    return kind == other.kind && dim == other.dim && outer == other.outer && divisor == other.divisor && isTrained == other.isTrained;
  }
};

// The dependences of all values of a program, and the changes by which a part of the batch makes its part of a sum. Linear in the program;
// the body of a repeat is walked again for each carried value that turns out to depend on samples.
class SampleDependence {
public:
  // `larger`: the same program for a larger batch, which shows the dependence on the number of samples; null without one. `isStep`: the
  // larger batch is the step's, or without one the step has `growth` times the samples of the program, so that their number is known.
  // Otherwise it is not (an evaluation).
  SampleDependence(mlir::func::FuncOp function, mlir::func::FuncOp larger, int64_t batch, int64_t growth, bool isStep);

  // Finds all dependences. `assumed`: a value that is taken to hold one part a sample in dim 0, whatever it depends on; null for none.
  void run(mlir::Value assumed = {});

  // Whether there is a larger program, with the same ops.
  bool knowsLarger() const { return isPaired; }

  int64_t samplesOfBatch() const { return batch; }

  // Returns the dependence of a value of the program.
  const Dependence &of(mlir::Value value) const { return found.find(value)->second; }

  // An operand that is the same for every batch, and is added to a sum. By number: a repeat may get further operands.
  struct Addend {
    mlir::Operation *op;
    unsigned operand;
    Divisor divisor; // of the sum
  };
  // An operand whose parts, one a sample, its op adds up.
  struct Summed {
    mlir::OpOperand *operand;
    int64_t dim, outer;
  };
  // A constant that depends on the number of samples. `value`: of each element in a step, or where samples are divided by or counted in the
  // end, for one sample.
  struct Sized {
    nn::ConstantOp constant;
    double value;
  };
  // The changes for a part of the batch to make its part of a sum: quotients by sums, which become their dividends, and the above.
  llvm::SmallVector<mlir::Operation *> quotients;
  llvm::SmallVector<Addend> addends;
  llvm::SmallVector<Summed> summed;
  llvm::SmallVector<Sized> sized;

private:
  struct Pair {
    mlir::Operation *op, *larger; // equal without a larger program
  };
  using Operands = llvm::SmallVector<const Dependence *, 4>;

  // How many of each change there are.
  struct Changes {
    size_t quotients = 0, addends = 0, summed = 0, sized = 0;
  };

  bool pair(mlir::func::FuncOp larger);
  bool pairBlocks(mlir::Block &ours, mlir::Block &theirs);
  void visit(const Pair &pair);
  void visitRepeat(nn::RepeatOp op);
  llvm::SmallVector<Dependence> visitBody(nn::RepeatOp op, llvm::ArrayRef<Dependence> arguments);
  Dependence joinCarried(nn::RepeatOp op, unsigned i, const Dependence &next) const;
  void addFirstValues(nn::RepeatOp op, llvm::MutableArrayRef<Dependence> carried);
  Changes countChanges() const { return {quotients.size(), addends.size(), summed.size(), sized.size()}; }
  void cutChanges(const Changes &kept);
  Dependence visitArgument(mlir::BlockArgument argument, mlir::Type larger);
  Dependence visitConstant(nn::ConstantOp constant, nn::ConstantOp larger);
  Dependence visitIndex(const Pair &pair) const;
  Dependence visitDrawnIndex(const Pair &pair, mlir::OpOperand &index) const;
  Dependence visitIndependent(const Pair &pair, const Operands &operands) const;
  Dependence visitSums(mlir::Operation *op, const Operands &operands);
  Dependence visitSamples(const Pair &pair, const Operands &operands, unsigned result);
  std::optional<Dependence> visitQuotient(mlir::Operation *op, const Operands &operands);
  std::optional<std::string> findDivisor(mlir::Operation *op, const Operands &operands, Divisor &divisor) const;
  Divisor divisorOf(mlir::Value value) const;
  bool isUniform(mlir::Value value, int64_t dim) const;
  std::optional<int64_t> grownDim(mlir::Type type, mlir::Type larger) const;

  mlir::func::FuncOp function;
  int64_t batch, growth;
  bool isStep, isPaired = false;
  llvm::DenseMap<mlir::Block *, llvm::SmallVector<Pair>> pairs;
  llvm::SmallVector<mlir::Type> largerArguments;
  mlir::SymbolTable symbols;
  llvm::DenseMap<mlir::Value, Dependence> found;
};

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_LOSS_SAMPLE_DEPENDENCE_H
