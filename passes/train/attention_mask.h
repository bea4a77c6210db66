// SPDX-License-Identifier: Apache-2.0
//
// Masks of attention: which of them are causal, and their small form.

#ifndef ASHLAR_PASSES_TRAIN_ATTENTION_MASK_H
#define ASHLAR_PASSES_TRAIN_ATTENTION_MASK_H

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace ashlar::train {

// A finite number that is added to a score, or stands instead of one, hides its key from there on: exp of it is 0 next to the score of any
// key that is seen, for scores of less than 4e8.
constexpr double kHidesKey = -1e9;

// Whether an element of a float type hides its key: at most that number, as the type rounds it. bf16 has -998244352 for it.
bool hidesKey(mlir::Type type, double element);

// Which keys a mask of constants shows: row i those up to i + diagonal, of which a window leaves the last ones.
struct CausalMask {
  std::optional<int64_t> diagonal; // nothing where it shows all keys to all rows
  int64_t window = 0;              // 0: none
  bool isInfinite = true;          // hides by -infinity alone
};

// Finds causal masks. Keeps the answer of each, since the layers of a model often share one.
class CausalMasks {
public:
  // Returns what a mask shows; nothing where it depends on more than constants, has more than 2^24 elements but for repeats of its rows,
  // hides all keys of a row, or is no causal one. A mask of floats shows a key by 0; one of bools by true, or with `isInverted` by false.
  std::optional<CausalMask> find(mlir::Value mask, bool isInverted);

private:
  llvm::DenseMap<mlir::Value, std::optional<CausalMask>> found, inverted;
};

// Returns the mask with size 1 where a broadcast repeats it, behind conversions or not:
//   nn.broadcast %m dims = [2, 3] : tensor<8x8xf32> -> tensor<4x2x8x8xf32>   ==>   nn.reshape %m : tensor<8x8xf32> -> tensor<1x1x8x8xf32>
mlir::Value withoutRepeats(mlir::ImplicitLocOpBuilder &b, mlir::Value mask);

// Returns the one number that all elements of a value are, where it is a constant, repeated and converted or not.
std::optional<double> splatOfValue(mlir::Value value);

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_ATTENTION_MASK_H
