// SPDX-License-Identifier: Apache-2.0
//
// A model's description for people: a trial import, and its findings.

#ifndef ASHLAR_COMPILER_FRONTEND_INSPECTION_INSPECT_H
#define ASHLAR_COMPILER_FRONTEND_INSPECTION_INSPECT_H

#include "compiler/frontend/import.h"
#include "compiler/frontend/inspection/loss_guess.h"

#include <map>

namespace ashlar::frontend {

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
  std::string fault;            // why the model is refused; "" when it is imported
  std::optional<int64_t> batch; // with which it was tried
  std::vector<job::Dim> dims;   // the same for other open dims
  bool dependsOnSizes = false;  // other sizes that were tried are refused for other reasons
  LossGuess loss;
};

// Imports the model as for training. Sizes that `options` leave open are chosen: at least 8 samples, a multiple of `devices`, and the
// largest of a few sizes with which the model is imported. Fails when the file is no model.
llvm::Expected<Inspection> inspectOnnx(llvm::StringRef path, ImportOptions options, int64_t devices, mlir::MLIRContext *context);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_INSPECTION_INSPECT_H
