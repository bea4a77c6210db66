// SPDX-License-Identifier: Apache-2.0
//
// Greedy reduction; see reducer.h. The loop makes the chances of each step one by one, each on a copy, and keeps the copies that still
// fail.

#include "test/fuzz/reducer.h"

#include "dialects/dist/dist.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/repeat/repeats.h"
#include "passes/layout/passes.h"
#include "test/fuzz/random_program.h"
#include "test/fuzz/reducer_steps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/SetVector.h"

#include <functional>
#include <set>

using namespace mlir;

namespace ashlar::fuzz {

namespace {

//===-- Functions, results, writes, arguments, variables ------------------------------------------------------------------------------===//

void leaveOutFunctions(ModuleOp module, Chances &chances) {
  SmallVector<func::FuncOp> functions = functionsOf(module);
  for (func::FuncOp function : functions) {
    if (functions.size() > 1) {
      chances.push_back([=]() mutable { function.erase(); });
    }
  }
}

void leaveOutResults(ModuleOp module, Chances &chances) {
  for (func::FuncOp function : functionsOf(module)) {
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      chances.push_back([=]() mutable {
        function.front().getTerminator()->eraseOperand(i);
        (void)function.eraseResult(i);
      });
    }
    for (auto write : function.front().getOps<nn::WriteOp>()) {
      chances.push_back([=]() mutable { write.erase(); });
    }
  }
}

// What is written becomes the result of a function that has none, so that an earlier value can take its place.
void returnWritten(ModuleOp module, Chances &chances) {
  for (func::FuncOp function : functionsOf(module)) {
    for (auto write : function.front().getOps<nn::WriteOp>()) {
      if (function.getNumResults() == 0) {
        chances.push_back([=]() mutable {
          Operation *end = function.front().getTerminator();
          end->insertOperands(0, write.getValue());
          function.setType(FunctionType::get(function.getContext(), function.getArgumentTypes(), end->getOperandTypes()));
          function.setResultAttr(0, nn::kNameAttr, StringAttr::get(function.getContext(), "written"));
          write.erase();
        });
      }
    }
  }
}

// An earlier value in place of the first result.
void returnEarlier(ModuleOp module, Chances &chances) {
  for (func::FuncOp function : functionsOf(module)) {
    Operation *end = function.front().getTerminator();
    Operation *last = end->getNumOperands() == 0 ? nullptr : end->getOperand(0).getDefiningOp();
    for (Operation &op : function.front()) {
      if (!last || op.getNumResults() != 1 || !op.isBeforeInBlock(last)) {
        continue;
      }
      chances.push_back([=, &op]() mutable {
        end->setOperand(0, op.getResult(0));
        function.removeResultAttr(0, StringAttr::get(function.getContext(), dist::kLayoutAttr));
        function.setType(FunctionType::get(function.getContext(), function.getArgumentTypes(), end->getOperandTypes()));
      });
    }
  }
}

void leaveOutInputs(ModuleOp module, Chances &chances) {
  for (func::FuncOp function : functionsOf(module)) {
    for (BlockArgument argument : function.getArguments()) {
      if (argument.use_empty()) {
        chances.push_back([=]() mutable { (void)function.eraseArgument(argument.getArgNumber()); });
      }
    }
  }
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (SymbolTable::symbolKnownUseEmpty(variable, module)) {
      chances.push_back([=]() mutable { variable.erase(); });
    }
  }
}

//===-- Ops ---------------------------------------------------------------------------------------------------------------------------===//

// Puts a value in the place of an op, which is gone then, also one with an effect.
void replaceOp(Operation *op, Value value) {
  op->getResult(0).replaceAllUsesWith(value);
  op->erase();
}

// Makes a result an argument of the function, with the layout it has; bodies capture it.
void makeArgument(OpResult result) {
  Operation *op = result.getOwner();
  auto function = op->getParentOfType<func::FuncOp>();
  unsigned index = function.getNumArguments();
  std::set<std::string> taken;
  for (unsigned i = 0; i < index; ++i) {
    taken.insert(function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr).str());
  }
  unsigned number = index;
  while (taken.count("a" + std::to_string(number))) {
    ++number;
  }
  Builder builder(op->getContext());
  SmallVector<NamedAttribute> attributes = {builder.getNamedAttr(nn::kNameAttr, builder.getStringAttr("a" + std::to_string(number)))};
  dist::LayoutAttr layout = isa<nn::RepeatOp>(op) ? dist::LayoutAttr() : dist::findLayout(result);
  if (layout && !layout.getLayout().isPartial()) {
    attributes.push_back(builder.getNamedAttr(dist::kLayoutAttr, layout));
  }
  (void)function.insertArgument(index, result.getType(), builder.getDictionaryAttr(attributes), op->getLoc());
  result.replaceAllUsesWith(nn::captureIn(function.getArgument(index), op->getBlock()));
  if (op->use_empty()) {
    op->erase();
  }
}

void leaveOutOps(ModuleOp module, Chances &chances) {
  SmallVector<Operation *> ops;
  for (func::FuncOp function : functionsOf(module)) {
    function.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) { ops.push_back(op); });
  }
  for (Operation *op : llvm::reverse(ops)) {
    for (unsigned i = 0; op->getNumResults() == 1 && !isa<nn::RepeatOp>(op) && i < op->getNumOperands(); ++i) {
      if (op->getOperand(i).getType() == op->getResult(0).getType()) {
        chances.push_back([op, i] { replaceOp(op, op->getOperand(i)); });
      }
    }
    for (OpResult result : op->getResults()) {
      if (!result.use_empty() || op->getNumResults() == 1) {
        chances.push_back([result] { makeArgument(result); });
      }
    }
  }
}

// What the iterations carry and yield, operands of repeats that are sliced, and their order.
void simplifyRepeats(ModuleOp module, Chances &chances) {
  module.walk([&](nn::RepeatOp op) {
    for (unsigned i = 0; i < op.getYielded().size(); ++i) {
      Value yielded = op.getYielded()[i];
      auto put = [=](Value value) mutable { op.getBody().front().getTerminator()->setOperand(i, value); };
      for (BlockArgument argument : op.getBody().getArguments()) {
        if (argument.getType() == yielded.getType() && !isa<BlockArgument>(yielded)) {
          chances.push_back([=]() mutable { put(argument); });
        }
      }
      if (i < op.getCarried().size() && yielded != op.getCarriedArguments()[i]) {
        chances.push_back([=]() mutable { put(op.getCarriedArguments()[i]); });
      }
    }
    if (op.getCondition()) {
      chances.push_back([=]() mutable { op.getConditionMutable().clear(); });
    }
    if (op.getReversed()) {
      chances.push_back([=]() mutable { op.setReversed(false); });
    }
  });
}

// Constants with equal elements.
void simplifyConstants(ModuleOp module, Chances &chances) {
  module.walk([&](nn::ConstantOp op) {
    auto value = dyn_cast<DenseElementsAttr>(op.getValue());
    if (value && !value.isSplat() && value.getNumElements() > 0) {
      chances.push_back([=]() mutable { op.setValueAttr(value.resizeSplat(value.getType())); });
    }
  });
}

//===-- Sizes -------------------------------------------------------------------------------------------------------------------------===//

// Turns dims of size `from` into dims of size `to` in a type.
RankedTensorType resize(RankedTensorType type, int64_t from, int64_t to) {
  SmallVector<int64_t> shape(type.getShape());
  std::replace(shape.begin(), shape.end(), from, to);
  return type.clone(shape);
}

// Does so everywhere. What no longer fits together does not verify, and is dropped by the caller.
void resizeAll(ModuleOp module, int64_t from, int64_t to) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([=](RankedTensorType type) { return resize(type, from, to); });
  replacer.addReplacement([=](DenseElementsAttr value) -> std::pair<Attribute, WalkResult> {
    auto type = cast<RankedTensorType>(value.getType());
    RankedTensorType smaller = resize(type, from, to);
    return {smaller == type ? Attribute(value) : Attribute(value.resizeSplat(smaller)), WalkResult::skip()};
  });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true, /*replaceLocs=*/false, /*replaceTypes=*/true);
  module.walk([&](nn::SliceOp slice) {
    SmallVector<int64_t> limits(slice.getLimits());
    std::replace(limits.begin(), limits.end(), from, to);
    slice.setLimits(limits);
  });
  module.walk([&](nn::RepeatOp repeat) {
    if (static_cast<int64_t>(repeat.getCount()) == from && !repeat.getCondition()) {
      repeat.setCount(to);
    }
  });
}

void shrinkSizes(ModuleOp module, Chances &chances) {
  llvm::SetVector<int64_t> sizes;
  auto collect = [&](Type type) {
    if (auto tensor = dyn_cast<RankedTensorType>(type)) {
      sizes.insert(tensor.getShape().begin(), tensor.getShape().end());
    }
  };
  for (auto variable : module.getOps<nn::VariableOp>()) {
    collect(variable.getTensorType());
  }
  for (func::FuncOp function : functionsOf(module)) {
    llvm::for_each(function.getArgumentTypes(), collect);
    function.walk([&](Operation *op) { llvm::for_each(op->getResultTypes(), collect); });
  }
  for (int64_t from : sizes) {
    for (int64_t to : {1, 2, 3, 4, 6, 8, 12}) {
      if (to < from) {
        chances.push_back([=] { resizeAll(module, from, to); });
      }
    }
  }
}

//===-- The loop ----------------------------------------------------------------------------------------------------------------------===//

void eraseDeadOps(ModuleOp module) {
  for (func::FuncOp function : functionsOf(module)) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front()))) {
      if (isOpTriviallyDead(&op)) {
        op.erase();
      }
    }
    nn::pruneRepeats(function.front());
  }
}

// Writes down the layouts that inference finds, so that a value that becomes an argument keeps its own. Programs with repeats have some
// only in the flat form.
void writeLayouts(ModuleOp module, Chances &chances) {
  if (module.walk([](nn::RepeatOp) { return WalkResult::interrupt(); }).wasInterrupted()) {
    return;
  }
  chances.push_back([=]() mutable {
    PassManager passes(module.getContext());
    layout::PropagateLayoutsPassOptions options;
    options.splitVariables = module->hasAttr(kSplitVariablesAttr);
    passes.addPass(layout::createPropagateLayoutsPass(options));
    (void)passes.run(module);
  });
}

class Reducer {
public:
  Reducer(ModuleOp program, function_ref<bool(ModuleOp)> stillFails) : best(program.clone()), stillFails(stillFails) {}

  OwningOpRef<ModuleOp> run() {
    tryChance(writeLayouts, /*index=*/0);
    static constexpr void (*kSteps[])(ModuleOp, Chances &) = {
        leaveOutPipeline, leaveOutFunctions, leaveOutResults, returnWritten,     returnEarlier,   leaveOutOps,
        leaveOutInputs,   leaveOutLayouts,   leaveOutFusion,  leaveOutRecompute, leaveOutDetails, leaveOutAxes,
        simplifyRepeats,  shrinkMesh,        leaveOutLayouts, simplifyConstants, shrinkSizes};
    for (bool smaller = true; smaller;) {
      smaller = false;
      for (auto step : kSteps) {
        smaller |= exhaust(step);
      }
    }
    return std::move(best);
  }

private:
  // Makes a chance of the step on a copy; keeps it when it still fails. Nothing when the step has fewer chances.
  std::optional<bool> tryChance(void (*step)(ModuleOp, Chances &), size_t index) {
    OwningOpRef<ModuleOp> copy = best->clone();
    Chances chances;
    step(*copy, chances);
    if (index >= chances.size()) {
      return std::nullopt;
    }
    chances[index]();
    eraseDeadOps(*copy);
    ScopedDiagnosticHandler quiet(copy->getContext(), [](Diagnostic &) { return success(); });
    if (failed(verify(*copy)) || !stillFails(*copy)) {
      return false;
    }
    best = std::move(copy);
    return true;
  }

  bool exhaust(void (*step)(ModuleOp, Chances &)) {
    bool any = false;
    for (size_t index = 0;;) {
      std::optional<bool> kept = tryChance(step, index);
      if (!kept) {
        return any;
      }
      any |= *kept;
      index += *kept ? 0 : 1;
    }
  }

  OwningOpRef<ModuleOp> best;
  function_ref<bool(ModuleOp)> stillFails;
};

} // namespace

OwningOpRef<ModuleOp> reduceProgram(ModuleOp program, function_ref<bool(ModuleOp)> stillFails) {
  return Reducer(program, stillFails).run();
}

} // namespace ashlar::fuzz
