// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on the numbers of a training step that are the same for all elements: learning rates, bias corrections. Constants are folded;
// the rest becomes scalar ops in f64, so that 1 - 0.999^t has all its digits, and is rounded to the type of a parameter where an element
// takes it.

#ifndef ASHLAR_PASSES_TRAIN_UPDATE_STEP_NUMBERS_H
#define ASHLAR_PASSES_TRAIN_UPDATE_STEP_NUMBERS_H

#include "dialects/nn/nn.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <variant>

namespace ashlar::train {

// Known, or a scalar of f64 in the program.
using Number = std::variant<double, mlir::Value>;

// Returns the value in another element type; itself when it has that.
mlir::Value converted(mlir::ImplicitLocOpBuilder &builder, mlir::Value value, mlir::Type element);

// Builds Numbers at the place of a builder.
class NumberBuilder {
public:
  explicit NumberBuilder(mlir::ImplicitLocOpBuilder &builder) : builder(builder) {}

  Number add(Number x, Number y);
  Number subtract(Number x, Number y);
  Number multiply(Number x, Number y);
  Number divide(Number x, Number y);
  Number power(Number base, Number exponent);
  Number largest(Number x, Number y);
  Number smallest(Number x, Number y);
  Number cosine(Number x);
  Number floor(Number x);
  Number root(Number x);

  // Returns `below` where x < bound, else `otherwise`.
  Number chooseBelow(Number x, double bound, Number below, Number otherwise);

  // Returns an i64 scalar as a Number.
  Number ofInteger(mlir::Value integer);

  // Returns a tensor with every element `x`.
  mlir::Value spread(Number x, mlir::RankedTensorType type);

  // Returns factor * x for every element; x itself when the factor is known to be 1.
  mlir::Value scaled(mlir::Value x, Number factor);

private:
  // Returns a Number as a scalar of f64.
  mlir::Value valueOf(Number x);

  mlir::ImplicitLocOpBuilder &builder;
};

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_UPDATE_STEP_NUMBERS_H
