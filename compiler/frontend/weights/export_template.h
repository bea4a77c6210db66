// SPDX-License-Identifier: Apache-2.0
//
// The original model without the numbers of trained tensors: an executable inserts the trained numbers and has the model again.

#ifndef ASHLAR_COMPILER_FRONTEND_WEIGHTS_EXPORT_TEMPLATE_H
#define ASHLAR_COMPILER_FRONTEND_WEIGHTS_EXPORT_TEMPLATE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ashlar::frontend {

// On the imported module: a dictionary of initializers that the job ties, each an array of the parameter it is, and whether transposed.
inline constexpr llvm::StringLiteral kTiedAttr = "nn.tied";

// Where the numbers of a variable go.
struct ExportHole {
  uint64_t offset = 0; // of the text: they come before this byte of it
  std::string variable;
  mlir::Type type; // of an element in the file
  uint64_t bytes = 0;
  bool isTransposed = false; // the variable is a matrix, and the file has its transpose
};

struct ExportTemplate {
  std::string text;
  std::vector<ExportHole> holes; // by offset
  std::string dataFile;          // where the numbers go one after the other, when the text refers to it; "": into the text
  std::string refusal;           // why there is none; "" when there is one
};

// The size limit of a protobuf file.
inline constexpr uint64_t kMostModelBytes = (uint64_t{1} << 31) - 1;

// Makes the template of the model that `imported` was read from. All but the numbers of variables stays byte by byte, but data that other
// files hold of constants moves into the model. Where the whole would be more than `mostBytes`, the numbers of variables go into a file
// `name`.data beside it. The error names the path.
llvm::Expected<ExportTemplate> makeExportTemplate(llvm::StringRef path, mlir::ModuleOp imported, llvm::StringRef name,
                                                  uint64_t mostBytes = kMostModelBytes);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_WEIGHTS_EXPORT_TEMPLATE_H
