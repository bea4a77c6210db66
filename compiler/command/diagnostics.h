// SPDX-License-Identifier: Apache-2.0
//
// Errors as the user sees them: one line each, "error: <module path of the op>: <fact>".

#ifndef ASHLAR_COMPILER_COMMAND_DIAGNOSTICS_H
#define ASHLAR_COMPILER_COMMAND_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Error.h"

namespace ashlar::command {

// Prints "error: <message>" on stderr, line breaks as spaces, and returns failure.
mlir::LogicalResult report(llvm::Error error);

// While it lives, the diagnostics of the context are printed this way, notes in parentheses behind their error.
class DiagnosticPrinter : public mlir::ScopedDiagnosticHandler {
public:
  explicit DiagnosticPrinter(mlir::MLIRContext *context);
};

// While it lives, the first error of the context is kept and no diagnostic is printed.
class FirstError : public mlir::ScopedDiagnosticHandler {
public:
  explicit FirstError(mlir::MLIRContext *context);

  // Returns it as DiagnosticPrinter prints it, without "error: "; "" when there was none.
  const std::string &text() const { return first; }

private:
  std::string first;
};

} // namespace ashlar::command

#endif // ASHLAR_COMPILER_COMMAND_DIAGNOSTICS_H
