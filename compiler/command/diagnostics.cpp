// SPDX-License-Identifier: Apache-2.0
//
// Formats errors and diagnostics.

#include "compiler/command/diagnostics.h"

#include "dialects/nn/nn.h"

#include "llvm/Support/raw_ostream.h"

namespace ashlar::command {
namespace {

std::string onOneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return llvm::StringRef(text).trim().str();
}

void printLine(llvm::StringRef kind, std::string text) {
  llvm::errs() << kind << ": " << onOneLine(std::move(text)) << "\n";
}

// "layer1/Gemm: text", or just the text when the location has no path.
std::string withPath(const mlir::Diagnostic &diagnostic) {
  llvm::StringRef path = nn::getPath(diagnostic.getLocation());
  return path.empty() ? diagnostic.str() : (path + ": " + diagnostic.str()).str();
}

// The same with its notes.
std::string fullText(const mlir::Diagnostic &diagnostic) {
  std::string text = withPath(diagnostic);
  for (const mlir::Diagnostic &note : diagnostic.getNotes()) {
    text += " (" + withPath(note) + ")";
  }
  return text;
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
  setHandler([](mlir::Diagnostic &diagnostic) { printLine(kindOf(diagnostic.getSeverity()), fullText(diagnostic)); });
}

FirstError::FirstError(mlir::MLIRContext *context) : ScopedDiagnosticHandler(context) {
  setHandler([this](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && first.empty()) {
      first = onOneLine(fullText(diagnostic));
    }
  });
}

} // namespace ashlar::command
