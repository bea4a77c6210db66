// SPDX-License-Identifier: Apache-2.0
//
// Ends and origins -> text.

#include "compiler/report/sentences.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ashlar::report {

namespace {

std::string opText(StringRef path, StringRef kind) {
  return path.empty() ? kind.str() : (path + " (" + kind + ")").str();
}

// "input x", "argument 0" without a name.
std::string signatureText(StringRef named, StringRef numbered, const dist::End &end) {
  return end.name.empty() ? (numbered + " " + Twine(end.number)).str() : (named + " " + end.name).str();
}

} // namespace

std::string endText(const dist::End &end) {
  switch (end.kind) {
  case dist::End::Op:
    return opText(end.name, end.op);
  case dist::End::Parameter:
    return "parameter " + end.name;
  case dist::End::State:
    return "state " + end.name;
  case dist::End::ParameterUpdate:
    return "update of parameter " + end.name;
  case dist::End::StateUpdate:
    return "update of state " + end.name;
  case dist::End::Gradient:
    return "gradient of " + end.name;
  case dist::End::Input:
    return signatureText("input", "argument", end);
  case dist::End::Output:
    return signatureText("output", "result", end);
  }
  llvm_unreachable("unknown end");
}

std::string originText(ArrayAttr origins) {
  if (!origins) {
    return "";
  }
  std::vector<std::string> texts;
  for (auto origin : origins.getAsRange<dist::OriginAttr>()) {
    std::string axis = origin.getAxis() ? origin.getAxis().str() + ": " : "";
    std::string along = origin.getOp() ? ", along " + opText(origin.getPath() ? origin.getPath().getValue() : "", origin.getOp()) : "";
    texts.push_back(axis + origin.getSource().str() + along);
  }
  return llvm::join(texts, "; ");
}

} // namespace ashlar::report
