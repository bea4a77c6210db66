// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-init; see passes.td.

#include "passes/train/passes.h"

#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_INITPASS
#include "passes/train/passes.h.inc"

namespace {

RankedTensorType scalarType(MLIRContext *context) {
  return RankedTensorType::get({}, IntegerType::get(context, 64));
}

Value splatConstant(ImplicitLocOpBuilder &builder, RankedTensorType type, double value) {
  return nn::ConstantOp::create(builder, nn::splat(type, value));
}

// Returns scale * random + shift, with the stream of the variable. Drawn in f64 for f64 and in f32 for all narrower types.
Value buildRandom(ImplicitLocOpBuilder &builder, nn::VariableOp variable, nn::Distribution distribution, double scale, double shift) {
  RankedTensorType type = variable.getTensorType();
  Value index = nn::IndexOp::create(builder, type.clone(builder.getI64Type()), rowMajorStrides(type.getShape()));
  Value seed = nn::ReadOp::create(builder, scalarType(builder.getContext()), nn::kSeedVariable);
  Value counter = splatConstant(builder, scalarType(builder.getContext()), 0);
  RankedTensorType drawn = type.getElementType().isF64() ? type : type.clone(builder.getF32Type());
  Value stream = nn::ConstantOp::create(builder, nn::streamConstant(builder.getContext(), variable.getSymName()));
  Value numbers = nn::RandomOp::create(builder, drawn, distribution, index, seed, counter, stream);
  numbers = nn::MulOp::create(builder, numbers, splatConstant(builder, drawn, scale));
  numbers = nn::AddOp::create(builder, numbers, splatConstant(builder, drawn, shift));
  return drawn == type ? numbers : nn::CastOp::create(builder, type, numbers);
}

// Returns the initial value of a variable; emits an error when its attribute is none that can be computed.
FailureOr<Value> buildInitialValue(ImplicitLocOpBuilder &builder, nn::VariableOp variable) {
  RankedTensorType type = variable.getTensorType();
  Attribute init = variable.getInitAttr();
  if (!init) {
    return variable.emitOpError("@") << variable.getSymName() << " has no initial value; give one in the model or by an init rule";
  }
  if (auto elements = dyn_cast<ElementsAttr>(init)) {
    return nn::ConstantOp::create(builder, elements).getResult();
  }
  if (auto fill = dyn_cast<nn::FillAttr>(init)) {
    return splatConstant(builder, type, fill.getValue().getValueAsDouble());
  }
  auto uniform = dyn_cast<nn::UniformAttr>(init);
  auto normal = dyn_cast<nn::NormalAttr>(init);
  if ((!uniform && !normal) || !isa<FloatType>(type.getElementType())) {
    return variable.emitOpError("@") << variable.getSymName() << " of type " << type << " cannot start with " << init;
  }
  if (uniform) {
    double low = uniform.getLow().getValueAsDouble(), high = uniform.getHigh().getValueAsDouble();
    return buildRandom(builder, variable, nn::Distribution::Uniform, high - low, low);
  }
  return buildRandom(builder, variable, nn::Distribution::Normal, normal.getStd().getValueAsDouble(), normal.getMean().getValueAsDouble());
}

struct InitPass : public impl::InitPassBase<InitPass> {
  using InitPassBase::InitPassBase;

  void declareSeed() {
    if (!getOperation().lookupSymbol(nn::kSeedVariable)) {
      OpBuilder builder = OpBuilder::atBlockBegin(getOperation().getBody());
      nn::VariableOp::create(builder, getOperation().getLoc(), nn::kSeedVariable, scalarType(&getContext()), Attribute(),
                             /*trainable=*/false, /*state_of=*/FlatSymbolRefAttr(), /*internal=*/true);
    }
  }

  void runOnOperation() override {
    if (Operation *existing = nn::findProgram(getOperation(), nn::ProgramRole::Init)) {
      existing->emitError("@init is there already; ashlar-init runs once");
      return signalPassFailure();
    }
    declareSeed();
    // In front of the other functions, after all variables.
    OpBuilder atEnd = OpBuilder::atBlockEnd(getOperation().getBody());
    if (auto functions = getOperation().getOps<func::FuncOp>(); !functions.empty()) {
      atEnd.setInsertionPoint(*functions.begin());
    }
    func::FuncOp function =
        nn::createProgram(atEnd, getOperation().getLoc(), nn::ProgramRole::Init, FunctionType::get(&getContext(), {}, {}));
    ImplicitLocOpBuilder builder(function.getLoc(), &getContext());
    builder.setInsertionPointToStart(function.addEntryBlock());
    for (auto variable : getOperation().getOps<nn::VariableOp>()) {
      if (variable.getSymName() == nn::kSeedVariable) {
        continue;
      }
      builder.setLoc(NameLoc::get(variable.getSymNameAttr()));
      FailureOr<Value> value = buildInitialValue(builder, variable);
      if (failed(value)) {
        return signalPassFailure();
      }
      nn::WriteOp::create(builder, variable.getSymName(), *value);
      variable.removeInitAttr();
    }
    func::ReturnOp::create(builder);
  }
};

} // namespace

} // namespace ashlar::train
