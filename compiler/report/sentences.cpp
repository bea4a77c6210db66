// SPDX-License-Identifier: Apache-2.0
//
// Ends and origins -> text.

#include "compiler/report/sentences.h"

#include "compiler/report/units.h"
#include "dialects/nn/nn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ashlar::report {

namespace {

std::string opText(StringRef path, StringRef kind) {
  return path.empty() ? kind.str() : (path + " (" + kind + ")").str();
}

std::string textOf(StringAttr text) {
  return text ? text.str() : "";
}

// "input x", "argument 0" without a name.
std::string signatureText(StringRef named, StringRef numbered, dist::EndAttr end) {
  return end.getName() ? (named + " " + end.getName().getValue()).str() : (numbered + " " + Twine(end.getNumber())).str();
}

// An end as a cause, shorter than endText().
std::string causeText(dist::EndAttr end, StringRef program) {
  switch (end.getKind()) {
  case dist::EndKind::Op:
    return textOf(end.getName() ? end.getName() : end.getOp());
  case dist::EndKind::ParameterUpdate:
  case dist::EndKind::StateUpdate:
    return "next value of " + textOf(end.getName());
  case dist::EndKind::Output:
    return ("result " + Twine(end.getNumber()) + " of " + program).str();
  default:
    return endText(end);
  }
}

std::vector<std::string> causeTexts(ArrayAttr cause, Operation *op, StringRef program) {
  std::vector<std::string> texts;
  for (auto end : cause ? llvm::to_vector(cause.getAsRange<dist::EndAttr>()) : SmallVector<dist::EndAttr>()) {
    texts.push_back(causeText(end, program));
  }
  if (StringRef path = nn::getPath(op->getLoc()); !cause && !path.empty()) {
    texts.push_back(path.str());
  }
  return texts;
}

} // namespace

std::string endText(dist::EndAttr end) {
  std::string name = textOf(end.getName());
  switch (end.getKind()) {
  case dist::EndKind::Op:
    return opText(name, textOf(end.getOp()));
  case dist::EndKind::Parameter:
    return "parameter " + name;
  case dist::EndKind::State:
    return "state " + name;
  case dist::EndKind::ParameterUpdate:
    return "update of parameter " + name;
  case dist::EndKind::StateUpdate:
    return "update of state " + name;
  case dist::EndKind::Gradient:
    return "gradient of " + name;
  case dist::EndKind::Input:
    return signatureText("input", "argument", end);
  case dist::EndKind::Output:
    return signatureText("output", "result", end);
  }
  llvm_unreachable("unknown end");
}

std::vector<std::string> causeTexts(dist::CollectiveOpInterface op) {
  return causeTexts(op.getCauseAttr(), op, op->getParentOfType<func::FuncOp>().getName());
}

std::vector<std::string> causeTexts(exec::CollectiveOp op) {
  return causeTexts(op.getCauseAttr(), op, op->getParentOfType<exec::ProgramOp>().getSymName());
}

std::string causeText(dist::CollectiveOpInterface op) {
  return llvm::join(causeTexts(op), ", ");
}

std::string causeText(exec::CollectiveOp op) {
  return llvm::join(causeTexts(op), ", ");
}

std::string causeText(dist::TransferOpInterface op) {
  std::vector<std::string> texts = causeTexts(op.getCauseAttr(), op, op->getParentOfType<func::FuncOp>().getName());
  if (texts.size() < 2) {
    return llvm::join(texts, "");
  }
  return texts.front() + ", for " + llvm::join(llvm::drop_begin(texts), ", ");
}

std::string originText(ArrayAttr origins) {
  if (!origins) {
    return "";
  }
  std::vector<std::string> texts;
  for (auto origin : origins.getAsRange<dist::OriginAttr>()) {
    std::string axis = origin.getAxis() ? origin.getAxis().str() + ": " : "";
    std::string along = origin.getOp() ? ", along " + opText(textOf(origin.getPath()), origin.getOp()) : "";
    texts.push_back(axis + origin.getSource().str() + along);
  }
  return llvm::join(texts, "; ");
}

std::string replicatedText(dist::ReplicatedAttr replicated) {
  if (!replicated) {
    return "";
  }
  switch (replicated.getReason()) {
  case dist::ReplicatedReason::BelowThreshold: {
    const auto [bytes, threshold] = comparedBytes(replicated.getBytes(), replicated.getThreshold());
    return bytes + " on a device, below the threshold of " + threshold;
  }
  case dist::ReplicatedReason::OptedOut:
    return "a rule sets optimizer_parallel: false";
  case dist::ReplicatedReason::NothingReplicated:
    return "no devices replicate it";
  case dist::ReplicatedReason::TooFewElements:
    return "it is a single element on each device";
  }
  llvm_unreachable("unknown reason");
}

} // namespace ashlar::report
