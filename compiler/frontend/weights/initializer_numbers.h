// SPDX-License-Identifier: Apache-2.0
//
// The origin of a float tensor, inferred from its numbers. Numbers that training made match none of this.

#ifndef ASHLAR_COMPILER_FRONTEND_WEIGHTS_INITIALIZER_NUMBERS_H
#define ASHLAR_COMPILER_FRONTEND_WEIGHTS_INITIALIZER_NUMBERS_H

#include "compiler/frontend/tensor_data.h"

#include <optional>

namespace ashlar::frontend {

// The elements of a tensor of floats, as doubles, read where they lie. Keeps a reference to the data.
class InitializerNumbers {
public:
  explicit InitializerNumbers(const TensorData &data) : type(data.getType()), bytes(data.getBytes()) {}

  int64_t size() const { return type.getNumElements(); }
  double operator[](int64_t position) const;

  // Whether all elements are equal, and there are some.
  bool isUniform() const;

  // Whether every element is 0 or one number of at most -100 (-inf too), and both occur: an addend of scores that hides them.
  bool isAdditiveMask() const;

  // Whether every element is 0 or 1, and both are there.
  bool isZeroOne() const;

  // Returns a dim along which every line is a sine, a cosine, a geometric or an arithmetic progression, as in tables of positions; nothing
  // where there is none. Such a line has x[i+1] + x[i-1] = c x[i] with one c; lines that hardly change are inconclusive, and most must be
  // conclusive. Stops at the first line that is none of this, so that it takes a few steps for the weights of a layer.
  //
  // Error: |x[i+1] + x[i-1] - c x[i]| <= 1e-3 (max - min of the line), which leaves room for the angles of some thousand positions in f32.
  // Of random numbers a line of 6 passes about once in 1e8.
  std::optional<int64_t> findProgression() const;

private:
  // Whether each element is 0 or `other`, and both are there; `other` is the first that is not 0.
  bool isZeroOr(bool (*accepts)(double other)) const;

  mlir::RankedTensorType type;
  llvm::StringRef bytes;
};

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_WEIGHTS_INITIALIZER_NUMBERS_H
