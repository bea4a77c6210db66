// SPDX-License-Identifier: Apache-2.0
//
// The tools of random_model.cpp: a pool of the values that were made, each with an upper bound, and a maker for each family of ops, which
// takes values of the pool and adds others to it. The dice of a seed make its program, in this order: makers that came later draw with dice
// of their own, so that the rest of the program stays the same.

#ifndef ASHLAR_TEST_FUZZ_MODEL_GENERATOR_H
#define ASHLAR_TEST_FUZZ_MODEL_GENERATOR_H

#include "dialects/nn/nn.h"
#include "dialects/support/tensor_values.h"
#include "test/fuzz/random_model.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <memory>
#include <string>

namespace ashlar::fuzz {

constexpr double kMaxBound = 4; // of a value that other ops read

class ModelGenerator {
public:
  ModelGenerator(Dice &dice, mlir::ModuleOp module, const ModelOptions &options)
      : dice(dice), laterDice(dice), lastDice(Dice(laterDice).roll(INT64_MAX)), attentionDice(Dice(lastDice).roll(INT64_MAX)),
        repeatDice(Dice(attentionDice).roll(INT64_MAX)), insertDice(Dice(repeatDice).roll(INT64_MAX)), options(options), module(module),
        b(mlir::UnknownLoc::get(module.getContext()), module.getContext()) {}

  // Adds the variables and the function to the module.
  void generate();

private:
  // The frame of the model.
  mlir::Attribute randomInit();
  void addVariable(const std::string &name, mlir::Attribute init);
  void addFunction();
  void flat();
  void addResults();
  void addPrediction();
  void setResults(llvm::ArrayRef<mlir::Value> results, const std::string &name);

  // Makers: element-wise ops, ...
  void bounded(mlir::Value x);
  void unary();
  void exponents(mlir::Value exact);
  void binary();
  void select();
  void integers();
  void bias();
  void dropout();

  // ... ops that move elements, ...
  void broadcast();
  void reshape();
  void twoShapes();
  void transpose();
  void concat();
  void slice();
  void pad();
  void gather();
  void scatter();
  void insert();

  // ... ops that add up along dims, ...
  void reduce();
  mlir::Value bytes(llvm::ArrayRef<int64_t> shape);
  void matmul();
  void rows();
  void normaliseByMoments(mlir::Value x);
  void normalise();
  llvm::SmallVector<mlir::Value> drawOf(llvm::ArrayRef<int64_t> rows, int64_t keys);
  void attention();

  // ... ops of integers at the ends of their range, ...
  mlir::RankedTensorType wordType(llvm::ArrayRef<int64_t> shape);
  mlir::Value wordOp(unsigned op, mlir::Value x, mlir::Value y);
  mlir::Value digit(mlir::Value word);
  void words();
  mlir::Value fullWords(mlir::RankedTensorType type);
  mlir::Value readWords(unsigned reading, mlir::Value x);
  void wordOps();

  // ... ops with windows, ...
  nn::WindowAttr window(int64_t size);
  void windows(mlir::Value x);
  void resample(mlir::Value x, int64_t dim);
  void convolution();

  // ... and repeats, with all of these in their bodies.
  struct Body { // of a repeat that is being made
    std::unique_ptr<mlir::Block> block;
    int64_t count;
    bool hasCondition; // then it has no rows
    llvm::SmallVector<mlir::Value> sliced;
  };
  int64_t drawCount();
  mlir::Value drawCondition();
  mlir::Value stackedParameter();
  void addSliced(llvm::ArrayRef<mlir::Value> outside);
  void addLookup();
  mlir::Value nextOf(mlir::Value argument);
  llvm::SmallVector<mlir::Value> drawRows();
  void addStack(mlir::Value stack, double bound);
  llvm::SmallVector<mlir::Value> makeBody(llvm::ArrayRef<mlir::Value> outside);
  void repeat();

  // Adds the results of so many makers, none of words.
  void addOps(int64_t count);

  // Returns the counts of the bodies around, the outermost first.
  llvm::SmallVector<int64_t> countsAround();

  // Returns the row of the iteration of a tensor that `body` slices, and of one from outside of all bodies with a dim for each of them.
  mlir::Value rowOf(mlir::Value stack, Body &body);
  mlir::Value perIteration(mlir::Value stack);

  // Returns the stream of a random op, in a body most often another one in each iteration.
  mlir::Value stream(Dice &numbers);

  mlir::RankedTensorType floats(llvm::ArrayRef<int64_t> shape) { return mlir::RankedTensorType::get(shape, options.floatType); }
  mlir::RankedTensorType i64(llvm::ArrayRef<int64_t> shape) { return mlir::RankedTensorType::get(shape, b.getI64Type()); }
  mlir::RankedTensorType i1(llvm::ArrayRef<int64_t> shape) { return mlir::RankedTensorType::get(shape, b.getI1Type()); }

  // Returns a shape of minRank to minRank + 2 dims; the first one is `front` unless that is 0.
  llvm::SmallVector<int64_t> randomShape(int64_t minRank, int64_t front = 0);

  // Takes a value into the pool: scaled when it may be large, not at all when it has too many elements.
  void add(mlir::Value value, double bound);

  // Picks a value, rather a late one.
  mlir::Value pick();

  // Returns the upper bound of a value; 1 for one that is not in the pool.
  double boundOf(mlir::Value value);

  // Returns a constant of one number.
  mlir::Value splat(mlir::RankedTensorType type, double value) { return nn::ConstantOp::create(b, nn::splat(type, value)); }

  // Returns a constant of numbers up to 1, of one or of different ones.
  mlir::Value constant(llvm::ArrayRef<int64_t> shape);

  // Returns a constant of different numbers, up to `bound`.
  mlir::Value numbers(mlir::RankedTensorType type, double bound);

  // Returns x moved away from wherever it may jump.
  mlir::Value generic(mlir::Value x) { return nn::AddOp::create(b, x, numbers(typeOf(x), /*bound=*/0.125)); }

  // Returns a value of the shape: one that is there, a constant, or random numbers. Bounded by 4.
  mlir::Value another(llvm::ArrayRef<int64_t> shape);

  // Returns |x| + offset.
  mlir::Value positive(mlir::Value x, double offset);

  // Returns the number of each element, row by row.
  mlir::Value rowMajorIndex(llvm::ArrayRef<int64_t> shape) { return nn::IndexOp::create(b, i64(shape), rowMajorStrides(shape)); }

  // Returns random numbers, other ones in every step.
  mlir::Value randomNumbers(llvm::ArrayRef<int64_t> shape, nn::Distribution distribution);

  // Returns integers below 16 that depend on the position, or on a value.
  mlir::Value integersLike(mlir::Value x);

  // Returns a bool of the shape: computed from positions, or from values away from the threshold.
  mlir::Value condition(mlir::Value x);

  // Returns some of the dims of x.
  llvm::SmallVector<int64_t> randomDims(mlir::Value x);

  // Returns numbers of rows or classes below a limit, some of them none, as constants or computed.
  mlir::Value numbers(llvm::ArrayRef<int64_t> shape, int64_t limit);

  Dice &dice;
  Dice laterDice, lastDice, attentionDice, repeatDice, insertDice;
  const ModelOptions &options;
  mlir::ModuleOp module;
  mlir::ImplicitLocOpBuilder b;
  mlir::func::FuncOp function;
  mlir::Value seed, step;
  llvm::SmallVector<mlir::Value> pool;
  llvm::SmallVector<Body> bodies; // that ops are being added to, the outermost first
  llvm::SmallVector<mlir::Value> stackedParameters;
  llvm::DenseMap<mlir::Value, double> bounds;
};

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_MODEL_GENERATOR_H
