// SPDX-License-Identifier: Apache-2.0
//
// Formats errors and diagnostics.

#include "compiler/driver/diagnostics.h"

#include "dialects/nn/nn.h"

#include "llvm/Support/raw_ostream.h"

namespace ashlar::driver {
namespace {

void printLine(llvm::StringRef kind, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  llvm::errs() << kind << ": " << llvm::StringRef(text).trim() << "\n";
}

// "layer1/Gemm: text", or just the text when the location has no path.
std::string withPath(const mlir::Diagnostic &diagnostic) {
  llvm::StringRef path = nn::getPath(diagnostic.getLocation());
  return path.empty() ? diagnostic.str() : (path + ": " + diagnostic.str()).str();
}

llvm::StringRef kindOf(mlir::DiagnosticSeverity severity) {
  switch (severity) {
  case mlir::DiagnosticSeverity::Error:
    return "error";
  case mlir::DiagnosticSeverity::Warning:
    return "warning";
  case mlir::DiagnosticSeverity::Note:
  case mlir::DiagnosticSeverity::Remark:
    return "note";
  }
  llvm_unreachable("unknown severity");
}

} // namespace

mlir::LogicalResult report(llvm::Error error) {
  if (!error) {
    return mlir::success();
  }
  printLine("error", llvm::toString(std::move(error)));
  return mlir::failure();
}

DiagnosticPrinter::DiagnosticPrinter(mlir::MLIRContext *context) : ScopedDiagnosticHandler(context) {
  setHandler([](mlir::Diagnostic &diagnostic) {
    std::string text = withPath(diagnostic);
    for (mlir::Diagnostic &note : diagnostic.getNotes()) {
      text += " (" + withPath(note) + ")";
    }
    printLine(kindOf(diagnostic.getSeverity()), text);
  });
}

} // namespace ashlar::driver
