// SPDX-License-Identifier: Apache-2.0
//
// A guess at the loss of a model from its graph: the output for a loss, and the tensor before it that holds the logits.

#ifndef ASHLAR_COMPILER_FRONTEND_INSPECTION_LOSS_GUESS_H
#define ASHLAR_COMPILER_FRONTEND_INSPECTION_LOSS_GUESS_H

#include "compiler/frontend/onnx_proto.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace ashlar::frontend {

struct LossGuess {
  enum class Kind { None, ModelOutput, SoftmaxCrossEntropy, NegativeLogLikelihood, MeanSquaredError };
  Kind kind = Kind::None;
  std::string tensor;               // a tensor of the model
  std::string labels;               // a name for the labels that no input has
  llvm::SmallVector<int64_t> shape; // of the tensor
  std::string output;               // of the model, that the loss is about
  std::vector<std::string> logits;  // of a softmax before the output: its operand, and the source of its moves
  int64_t axis = -1;                // of the softmax, in its operand
};

// Guesses from the graph alone. An output after a softmax, a log-softmax or a sigmoid, written as one node or as its parts, and one that is
// named after logits or classes take precedence over others.
LossGuess guessLoss(const onnx::GraphProto &graph, int64_t opset);

// Chooses the tensor of a guess once shapes are known; `shapeOf` returns nothing for a tensor that the module does not have. The loss takes
// logits of the output's shape, classes last.
void settleLoss(LossGuess &guess, llvm::function_ref<std::optional<llvm::SmallVector<int64_t>>(llvm::StringRef)> shapeOf);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_INSPECTION_LOSS_GUESS_H
