// SPDX-License-Identifier: Apache-2.0
//
// ONNX -> nn. The module that comes out holds one nn.variable a parameter and the function @forward; see docs/onnx.md for the ops.

#ifndef ASHLAR_COMPILER_FRONTEND_IMPORT_H
#define ASHLAR_COMPILER_FRONTEND_IMPORT_H

#include "compiler/job/job.pb.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace ashlar::frontend {

// What an import needs to know besides the model.
struct ImportOptions {
  // Replaces the symbolic first dim of the inputs. Without it a symbolic dim is an error.
  std::optional<int64_t> globalBatch;
  // Dropout draws a mask (from @ashlar.seed and @ashlar.step) instead of passing its input on; the product with the mask is marked
  // nn.training_only.
  bool training = false;
  // First values of parameters; the first rule that matches wins. A graph input that a rule matches and that has no data becomes a
  // parameter; data in the model gives way to a rule that matches.
  std::vector<job::Init> init;
  // Globs of parameters that are not trained. One that matches none is an error.
  std::vector<std::string> frozen;
  // Graph inputs that the data set feeds: never parameters, whatever the rules in `init` match.
  std::vector<std::string> dataInputs;
};

// Reads the model and returns it as a verified module. An error is one line that opens with the path. Loads the dialects it needs.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importOnnx(llvm::StringRef path, const ImportOptions &options,
                                                             mlir::MLIRContext *context);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_IMPORT_H
