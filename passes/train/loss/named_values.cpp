// SPDX-License-Identifier: Apache-2.0
//
// See named_values.h.

#include "passes/train/loss/named_values.h"

#include "dialects/nn/repeat.h"
#include "dialects/nn/result_names.h"
#include "dialects/support/names.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace ashlar::train {

namespace {

// Returns all named values in the order in which they are computed, results of the function last.
llvm::MapVector<StringRef, Value> collectNames(func::FuncOp function) {
  llvm::MapVector<StringRef, Value> values;
  for (Operation &op : function.getBody().front()) {
    for (OpResult result : op.getResults()) {
      for (StringRef name : nn::namesOf(result)) {
        values[name] = result;
      }
    }
  }
  for (auto [i, value] : llvm::enumerate(function.getBody().front().getTerminator()->getOperands())) {
    if (auto name = function.getResultAttrOfType<StringAttr>(i, nn::kNameAttr)) {
      values[name.getValue()] = value;
    }
  }
  return values;
}

// Returns the repeat around the op that makes the tensor of this name in its body; null without one.
nn::RepeatOp findRepeatOf(func::FuncOp function, StringRef name) {
  nn::RepeatOp around;
  function.walk([&](Operation *op) {
    auto repeat = dyn_cast<nn::RepeatOp>(op->getParentOp());
    if (repeat && llvm::any_of(op->getResults(), [&](OpResult result) { return llvm::is_contained(nn::namesOf(result), name); })) {
      around = repeat;
    }
  });
  return around;
}

} // namespace

FailureOr<Value> findNamedValue(func::FuncOp function, StringRef name) {
  if (name.empty()) {
    OperandRange results = function.getBody().front().getTerminator()->getOperands();
    if (results.size() != 1) {
      return function.emitError("model has ") << results.size() << " outputs; name the one that the loss is computed from";
    }
    return results.front();
  }
  llvm::MapVector<StringRef, Value> values = collectNames(function);
  auto found = values.find(name);
  if (nn::RepeatOp around = found == values.end() ? findRepeatOf(function, name) : nn::RepeatOp()) {
    return around.emitOpError("computes tensor \"") << name << "\" anew in each iteration; name a tensor outside of the loop";
  }
  if (found == values.end()) {
    return function.emitError("no tensor \"") << name << "\" in the model; nearest names: "
                                              << nearestNames(llvm::to_vector(llvm::make_first_range(values)), name);
  }
  return found->second;
}

std::optional<unsigned> findNamedArgument(func::FuncOp function, StringRef name) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (auto attribute = function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr); attribute && attribute.getValue() == name) {
      return i;
    }
  }
  return std::nullopt;
}

} // namespace ashlar::train
