// SPDX-License-Identifier: Apache-2.0
//
// Random programs with random layouts on their inputs, for tests that compare a program before and after partitioning.

#ifndef ASHLAR_TEST_UNIT_LAYOUT_RANDOM_PROGRAM_H
#define ASHLAR_TEST_UNIT_LAYOUT_RANDOM_PROGRAM_H

#include "dialects/dist/dist.h"

#include "mlir/IR/OwningOpRef.h"

#include <random>

namespace ashlar::test {

// Draws numbers below a limit.
class Dice {
public:
  explicit Dice(uint64_t seed) : engine(seed) {}

  // Returns a number in [0, limit).
  int64_t roll(int64_t limit) { return static_cast<int64_t>(engine() % static_cast<uint64_t>(limit)); }

private:
  std::mt19937_64 engine;
};

// Returns a random layout; not partial. Where the axes do not divide `shape`, half of the splits stay.
dist::Layout randomLayout(Dice &dice, dist::MeshAttr mesh, llvm::ArrayRef<int64_t> shape);

// Returns a module with a mesh, variables and a function @f of `numOps` random nn ops in f64. Arguments, variables and results have random
// layouts, or none. Every value stays of the order of 1, and no comparison of computed numbers decides anything, so rounding stays small.
mlir::OwningOpRef<mlir::ModuleOp> randomProgram(mlir::MLIRContext &context, uint64_t seed, dist::MeshAttr mesh, int64_t numOps);

// Returns a mesh of the given axes: {{"x", 2}, {"y", 3}}. Loads all dialects of the context.
dist::MeshAttr meshOf(mlir::MLIRContext &context, llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> axes);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_LAYOUT_RANDOM_PROGRAM_H
