// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-prepare-step; see passes.td.

#include "passes/train/passes.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/scratch_state.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_PREPARESTEPPASS
#include "passes/train/passes.h.inc"

namespace {

// Returns the name of a floating-point type as jobs and reports have it, such as "bf16".
std::string nameOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

struct PrepareStepPass : public impl::PrepareStepPassBase<PrepareStepPass> {
  using PrepareStepPassBase::PrepareStepPassBase;

  // Returns the conversions of a micro-batch that are the same in all of them, and smaller than what they are made of.
  static SmallVector<Operation *> findShared(func::FuncOp step) {
    llvm::StringSet<> written;
    for (auto write : step.front().getOps<nn::WriteOp>()) {
      written.insert(write.getVariable());
    }
    SmallVector<Operation *> shared;
    for (Operation &op : step.front()) {
      auto compute = dyn_cast<ComputeOpInterface>(op);
      auto read = compute && compute.getPrecision() == Precision::Convert ? readOf(&op) : nn::ReadOp();
      if (read && !written.contains(read.getVariable()) && bitsOf(op.getResult(0)) < bitsOf(read)) {
        shared.push_back(&op);
      }
    }
    return shared;
  }

  static nn::ReadOp readOf(Operation *conversion) { return conversion->getOperand(0).getDefiningOp<nn::ReadOp>(); }

  static unsigned bitsOf(Value value) { return typeOf(value).getElementTypeBitWidth(); }

  // Declares the variable that keeps a conversion; null, after an error, where its name is taken.
  nn::VariableOp declare(SymbolTable &symbols, Operation *conversion) {
    auto parameter = symbols.lookup<nn::VariableOp>(readOf(conversion).getVariable());
    RankedTensorType type = typeOf(conversion->getResult(0));
    std::string name = (parameter.getSymName() + "." + nameOf(type.getElementType())).str();
    if (symbols.lookup(name)) {
      parameter.emitOpError("needs a state named @") << name << ", which the model already has";
      return {};
    }
    OpBuilder builder(parameter->getContext());
    builder.setInsertionPointAfter(parameter);
    auto copy = nn::VariableOp::create(builder, parameter.getLoc(), name, type, nn::splat(type, 0), /*trainable=*/false,
                                       FlatSymbolRefAttr::get(parameter.getSymNameAttr()), /*internal=*/false);
    copy->setAttr(nn::kScratchAttr, builder.getUnitAttr());
    if (Attribute layout = parameter->getAttr(dist::kLayoutAttr)) { // of a model that has them
      copy->setAttr(dist::kLayoutAttr, layout);
    }
    symbols.insert(copy);
    return copy;
  }

  void runOnOperation() override {
    func::FuncOp step = nn::findProgram(getOperation(), nn::ProgramRole::TrainStep);
    if (!step || !nn::findProgram(getOperation(), nn::ProgramRole::Update)) {
      getOperation().emitError("no @train_step and @update to prepare; run ashlar-accumulate first");
      return signalPassFailure();
    }
    SmallVector<Operation *> shared = findShared(step);
    if (shared.empty()) {
      return;
    }
    SymbolTable symbols(getOperation());
    OpBuilder builder(step);
    func::FuncOp prepare = nn::createProgram(builder, step.getLoc(), nn::ProgramRole::Prepare, builder.getFunctionType({}, {}));
    builder.setInsertionPointToStart(prepare.addEntryBlock());
    func::ReturnOp::create(builder, step.getLoc());
    DenseMap<Attribute, DenseMap<Type, nn::VariableOp>> copies; // by parameter
    for (Operation *conversion : shared) {
      nn::ReadOp read = readOf(conversion);
      Type type = conversion->getResult(0).getType();
      nn::VariableOp &copy = copies[read.getVariableAttr()][type];
      if (!copy) {
        copy = declare(symbols, conversion);
        if (!copy) {
          return signalPassFailure();
        }
        builder.setInsertionPoint(prepare.front().getTerminator());
        Operation *own = builder.clone(*read), *converted = builder.clone(*conversion);
        converted->setOperand(0, own->getResult(0));
        nn::WriteOp::create(builder, conversion->getLoc(), copy.getSymName(), converted->getResult(0));
      }
      builder.setInsertionPoint(conversion);
      auto taken = nn::ReadOp::create(builder, conversion->getLoc(), type, copy.getSymName());
      taken->setDiscardableAttrs(conversion->getDiscardableAttrDictionary()); // with layouts, in a model that has them
      taken->removeDiscardableAttr(dist::kOperandLayoutsAttr);
      conversion->replaceAllUsesWith(taken);
      conversion->erase();
      if (read->use_empty()) {
        read.erase();
      }
    }
    prependToOrder(prepare);
  }

  // Has a step begin with what is prepared.
  void prependToOrder(func::FuncOp prepare) {
    if (auto order = getOperation()->getAttrOfType<ArrayAttr>(dist::kOrderAttr)) {
      Builder builder(&getContext());
      auto run = dist::RunAttr::get(&getContext(), prepare.getSymNameAttr(), 0);
      SmallVector<Attribute> parts = {dist::RepeatAttr::get(&getContext(), builder.getArrayAttr({run}), 1, 0)};
      parts.append(order.begin(), order.end());
      getOperation()->setAttr(dist::kOrderAttr, builder.getArrayAttr(parts));
    }
  }
};

} // namespace

} // namespace ashlar::train
