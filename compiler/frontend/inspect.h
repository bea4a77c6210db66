// SPDX-License-Identifier: Apache-2.0
//
// What a model is, for people: an import that is tried, and what it found out.

#ifndef ASHLAR_COMPILER_FRONTEND_INSPECT_H
#define ASHLAR_COMPILER_FRONTEND_INSPECT_H

#include "compiler/frontend/import.h"

#include <map>

namespace ashlar::frontend {

// What a loss would be of, by what the outputs look like.
struct LossGuess {
  enum class Kind { None, ModelOutput, SoftmaxCrossEntropy, NegativeLogLikelihood, MeanSquaredError };
  Kind kind = Kind::None;
  std::string tensor;               // a tensor of the model
  std::string labels;               // a name for the labels that no input has
  llvm::SmallVector<int64_t> shape; // of the tensor
};

struct Inspection {
  std::string name, producer;
  std::vector<std::string> opsets; // "18", "ai.onnx.ml 3"
  struct Tensor {
    std::string name, element;        // "f32"
    std::vector<std::string> dims;    // sizes, and names of symbolic ones
    llvm::SmallVector<int64_t> shape; // with the sizes that were tried; of an input
  };
  std::vector<Tensor> inputs, outputs;
  std::map<std::string, int64_t> ops; // how many nodes have each, with functions in their places
  ModelFacts facts;
  std::string fault;                                 // why the model is refused; "" when it is imported
  std::optional<int64_t> batch;                      // with which it was tried
  std::vector<std::pair<std::string, int64_t>> dims; // the same for other symbolic dims
  LossGuess loss;
};

// Imports the model as for training. Sizes that `options` leave open are chosen: 8 samples, and the largest of a few sizes with which the
// model is imported. Fails when the file is no model.
llvm::Expected<Inspection> inspectOnnx(llvm::StringRef path, ImportOptions options, mlir::MLIRContext *context);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_INSPECT_H
