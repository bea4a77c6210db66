// SPDX-License-Identifier: Apache-2.0
//
// The forms that an attention has in a program.

#ifndef ASHLAR_PASSES_TRAIN_ATTENTION_MATCHER_H
#define ASHLAR_PASSES_TRAIN_ATTENTION_MATCHER_H

#include "dialects/nn/nn.h"

#include "llvm/ADT/DenseSet.h"

#include <limits>
#include <optional>

namespace ashlar::train {

// A mask of scores, as the program has it.
struct AttentionMask {
  mlir::Value value;
  bool isBool, isInverted;                                  // of bools: inverted where true hides a key
  double hidden = -std::numeric_limits<double>::infinity(); // of bools: what stands instead of the score
};

// A dropout of weights: what it draws, and how many of them it leaves out.
struct AttentionDropout {
  nn::RandomOp drawn;  // one number for each weight, the element of an nn.index
  double ratio;        // the weights of smaller numbers are left out
  bool isTrainingOnly; // nn.training_only
};

// An attention of the program: what it is of, and the ops whose results are its scores and weights.
struct Attention {
  nn::MatMulOp last;             // of the weights and the values
  mlir::Value query, key, value; // the key as (batch..., width, keys) with `isKeyTransposed`
  bool isKeyTransposed = false;
  double scale = 1;
  double softcap = 0; // 0: none
  llvm::SmallVector<AttentionMask> masks;
  std::optional<AttentionDropout> dropout;
  nn::BroadcastOp zeroedRows; // bools, true for rows whose weights are 0: they are repeated for all keys; null: none
  bool zeroesNan = false;     // rows of NaN, which see no key, are 0, too
  llvm::SmallVector<mlir::Operation *> inner;
  // Of heads that share keys: the shape of the weights by heads, (batch..., heads, rows, keys), and the one that products have, in which
  // the heads of a group are rows.
  llvm::SmallVector<int64_t> apart, joined;
  bool isJoined = false; // the way from the softmax to the first product has passed the reshape to `apart`
};

// Returns whether a transpose swaps the last two dims, and no others.
bool swapsLastDims(nn::TransposeOp op);

// Returns the attention whose last product this is: of weights that a softmax makes of a product, scaled and masked, by ops that nothing
// else reads; a dropout may leave some of them out, and rows of them may be 0. Nothing where it is none, or a mask is one of the values
// that are trained.
std::optional<Attention> matchAttention(nn::MatMulOp last, const llvm::DenseSet<mlir::Value> &trained);

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_ATTENTION_MATCHER_H
