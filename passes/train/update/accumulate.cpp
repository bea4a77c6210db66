// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-accumulate; see passes.td. The update moves into a function of its own unchanged: it uses the sums of gradients instead of the
// gradients, and reads variables itself.

#include "passes/train/passes.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/repeat/repeats.h"
#include "dialects/nn/scratch_state.h"
#include "dialects/support/tensor_values.h"
#include "passes/train/update/step_numbers.h"
#include "passes/train/update/update_phase.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_ACCUMULATEPASS
#include "passes/train/passes.h.inc"

namespace {

constexpr llvm::StringLiteral kGradient = "gradient";

struct AccumulatePass : public impl::AccumulatePassBase<AccumulatePass> {
  using AccumulatePassBase::AccumulatePassBase;

  LogicalResult declare(SymbolTable &symbols, Operation *after, const Twine &name, RankedTensorType type, StringAttr parameter) {
    std::string text = name.str();
    if (symbols.lookup(text)) {
      return after->emitOpError("needs a state named @") << text << ", which the model already has";
    }
    OpBuilder builder(getOperation().getContext());
    builder.setInsertionPointAfter(after);
    auto variable = nn::VariableOp::create(builder, after->getLoc(), text, type, nn::splat(type, 0), /*trainable=*/false,
                                           parameter ? FlatSymbolRefAttr::get(parameter) : FlatSymbolRefAttr(), /*internal=*/!parameter);
    variable->setAttr(nn::kScratchAttr, builder.getUnitAttr());
    symbols.insert(variable);
    return success();
  }

  // Returns the name of the sum of a parameter's gradients.
  static std::string sumName(nn::GradientOp gradient) { return (gradient.getVariable() + "." + kGradient).str(); }

  // The type of a sum: the gradient's, but f32 for narrower ones.
  static RankedTensorType sumType(nn::GradientOp gradient) {
    RankedTensorType type = typeOf(gradient);
    return type.getElementTypeBitWidth() < 32 ? type.clone(Float32Type::get(gradient.getContext())) : type;
  }

  // Returns x in the first micro-batch of a step, else sum + x: the sum of the step before does not count. Linear in sum and x, and each is
  // used once, so that terms of x can add up.
  static Value addTo(ImplicitLocOpBuilder &b, Value isFirst, Value sum, Value x) {
    RankedTensorType type = typeOf(x);
    Value condition =
        type.getRank() == 0 ? isFirst : nn::BroadcastOp::create(b, type.clone(b.getI1Type()), isFirst, ArrayRef<int64_t>()).getResult();
    Value zero = nn::ConstantOp::create(b, nn::splat(type, 0));
    return nn::AddOp::create(b, nn::SelectOp::create(b, type, condition, zero, sum), x);
  }

  // Returns the sum of weights that the sums of losses and gradients are divided by, in f64: at least `least`.
  static Value divisorOf(ImplicitLocOpBuilder &b, Value weights, double least) {
    Value wide = converted(b, weights, b.getF64Type());
    return least > 0 ? nn::MaxOp::create(b, wide, nn::ConstantOp::create(b, nn::splat(typeOf(wide), least))).getResult() : wide;
  }

  // Moves the update into a new function, which takes the sums of the gradients and of the losses, divided by the weights of the losses
  // where they have any, returns the loss, and starts the next step.
  func::FuncOp outlineUpdate(func::FuncOp step, const UpdatePhase &update) {
    Location loc = step.getLoc();
    OpBuilder atModule(getOperation().getContext());
    atModule.setInsertionPointAfter(step);
    func::FuncOp function = nn::createProgram(atModule, loc, nn::ProgramRole::Update, atModule.getFunctionType({}, {}));
    ImplicitLocOpBuilder b(NameLoc::get(StringAttr::get(&getContext(), "accumulate")), &getContext());
    b.setInsertionPointToStart(function.addEntryBlock());
    NumberBuilder numbers(b);
    Number share = 1.0;
    auto lossType = cast<RankedTensorType>(step.getResultTypes().front());
    Value loss = nn::ReadOp::create(b, lossType, nn::kLossSumVariable);
    if (hasWeight(step)) {
      Value weights = nn::ReadOp::create(b, step.getResultTypes()[1], nn::kLossWeightVariable);
      Value divisor = divisorOf(b, weights, leastOf(step));
      share = numbers.divide(1.0, divisor);
      loss = converted(b, nn::DivOp::create(b, converted(b, loss, b.getF64Type()), divisor), lossType.getElementType());
    }
    IRMapping taken; // the update's operands from the rest of the step
    for (nn::GradientOp gradient : update.gradients()) {
      Value sum = nn::ReadOp::create(b, sumType(gradient), sumName(gradient));
      taken.map(gradient.getResult(), converted(b, numbers.scaled(sum, share), typeOf(gradient).getElementType()));
    }
    Operation *end = func::ReturnOp::create(b, loss);
    function.setFunctionType(b.getFunctionType({}, lossType));
    function.setResAttrsAttr(b.getArrayAttr(step.getResAttrsAttr()[0]));
    b.setInsertionPoint(end);
    for (Operation *op : update.ops()) {
      for (OpOperand &operand : op->getOpOperands()) {
        operand.set(lookUp(b, operand.get(), taken, function));
      }
      op->moveBefore(end);
    }
    auto type = RankedTensorType::get({}, b.getI64Type());
    nn::WriteOp::create(b, nn::kMicroBatchVariable, nn::ConstantOp::create(b, nn::splat(type, 0)));
    return function;
  }

  // Whether the runs of a step return weights of their losses.
  static bool hasWeight(func::FuncOp step) { return step.getNumResults() > 1; }

  static double leastOf(func::FuncOp step) {
    auto least = step.getResultAttrOfType<FloatAttr>(1, nn::kLeastAttr);
    return least ? least.getValueAsDouble() : 0;
  }

  // Returns the replacement of a value in the update: itself when it moved there already, the sum of a gradient, or a copy of a read or
  // constant.
  Value lookUp(OpBuilder &b, Value value, IRMapping &taken, func::FuncOp function) {
    Operation *def = value.getDefiningOp();
    if (def && def->getParentOp() == function) {
      return value;
    }
    if (Value known = taken.lookupOrNull(value)) {
      return known;
    }
    assert((isa_and_nonnull<nn::ReadOp, nn::ConstantOp>(def)) && "an update takes gradients, variables and constants");
    return b.clone(*def, taken)->getResult(0);
  }

  // Adds the gradients, the loss and its weight of a micro-batch to the sums of its step.
  void accumulate(func::FuncOp step, ArrayRef<nn::GradientOp> gradients) {
    Operation *end = step.front().getTerminator();
    auto own = NameLoc::get(StringAttr::get(&getContext(), "accumulate"));
    auto atStart = ImplicitLocOpBuilder::atBlockBegin(own, &step.front());
    auto index = RankedTensorType::get({}, atStart.getI64Type());
    Value number = nn::ReadOp::create(atStart, index, nn::kMicroBatchVariable);
    Value zero = nn::ConstantOp::create(atStart, nn::splat(index, 0));
    Value isFirst = nn::CompareOp::create(atStart, index.clone(atStart.getI1Type()), nn::Predicate::Eq, number, zero);
    numberSamples(step, number);
    ImplicitLocOpBuilder b(own, end);
    for (nn::GradientOp gradient : gradients) {
      b.setLoc(gradient.getLoc());
      b.setInsertionPointAfter(gradient);
      Value sum = nn::ReadOp::create(b, sumType(gradient), sumName(gradient));
      Value wide = converted(b, gradient, sumType(gradient).getElementType());
      nn::WriteOp::create(b, sumName(gradient), addTo(b, isFirst, sum, wide));
    }
    b.setLoc(own);
    b.setInsertionPoint(end);
    for (auto [x, variable] : llvm::zip(end->getOperands(), ArrayRef<StringRef>{nn::kLossSumVariable, nn::kLossWeightVariable})) {
      Value sum = addTo(b, isFirst, nn::ReadOp::create(b, x.getType(), variable), x);
      nn::WriteOp::create(b, variable, sum)->setAttr(nn::kForwardWriteAttr, b.getUnitAttr());
    }
    end->setOperands({});
    step.setFunctionType(b.getFunctionType(step.getArgumentTypes(), {}));
    step.setResAttrsAttr({});
    Value one = nn::ConstantOp::create(b, nn::splat(index, 1));
    nn::WriteOp::create(b, nn::kMicroBatchVariable, nn::AddOp::create(b, number, one));
  }

  // Keys random numbers of samples by the sample's place in the step: a micro-batch's numbers follow the earlier ones' numbers. Tensors
  // without a dim of samples are the same in all micro-batches, as they are for all samples of a step. Where samples are not the first dim,
  // numbers differ from the whole batch's, but no two micro-batches draw the same.
  void numberSamples(func::FuncOp step, Value number) {
    DenseMap<std::pair<Value, int64_t>, Value> moved; // an index of several ops is moved once: they draw the same
    SmallVector<DrawingOpInterface> drawing;          // in bodies of repeats, too
    step.walk([&](DrawingOpInterface op) { drawing.push_back(op); });
    for (DrawingOpInterface op : drawing) {
      OpOperand *index = op.getDrawnIndex();
      RankedTensorType drawn = index ? op.getDrawnType() : RankedTensorType();
      if (!index || llvm::none_of(drawn.getShape(), [&](int64_t size) { return size % samples == 0; })) {
        continue;
      }
      Value &place = moved[{index->get(), drawn.getNumElements()}];
      if (!place) {
        ImplicitLocOpBuilder b(op.getLoc(), op);
        Value elements = nn::ConstantOp::create(b, nn::splat(typeOf(number), static_cast<double>(drawn.getNumElements())));
        Value before = nn::MulOp::create(b, nn::captureIn(number, op->getBlock()), elements);
        Value everywhere = nn::BroadcastOp::create(b, typeOf(index->get()), before, ArrayRef<int64_t>());
        place = nn::AddOp::create(b, index->get(), everywhere);
      }
      index->set(place);
    }
  }

  void runOnOperation() override {
    func::FuncOp step = nn::findProgram(getOperation(), nn::ProgramRole::TrainStep);
    if (!step || step.front().getOps<nn::GradientOp>().empty()) {
      getOperation().emitError("no @train_step with gradients to add up; run ashlar-autodiff and ashlar-optimizer first");
      return signalPassFailure();
    }
    if (count < 2 || samples < 1) {
      step.emitError("gradients are added up over at least 2 micro-batches of at least one sample; got ")
          << count.getValue() << " of " << samples.getValue();
      return signalPassFailure();
    }
    UpdatePhase update(step);
    SymbolTable symbols(getOperation()); // a look-up in the module itself is linear
    for (nn::GradientOp gradient : update.gradients()) {
      auto parameter = symbols.lookup<nn::VariableOp>(gradient.getVariable());
      if (failed(declare(symbols, parameter, sumName(gradient), sumType(gradient), parameter.getSymNameAttr()))) {
        return signalPassFailure();
      }
    }
    nn::GradientOp first = update.gradients().front();
    auto parameter = symbols.lookup<nn::VariableOp>(first.getVariable());
    auto loss = cast<RankedTensorType>(step.getResultTypes().front());
    if (failed(declare(symbols, parameter, nn::kMicroBatchVariable, RankedTensorType::get({}, IntegerType::get(&getContext(), 64)), {})) ||
        failed(declare(symbols, parameter, nn::kLossSumVariable, loss, {})) ||
        (hasWeight(step) &&
         failed(declare(symbols, parameter, nn::kLossWeightVariable, cast<RankedTensorType>(step.getResultTypes()[1]), {})))) {
      return signalPassFailure();
    }
    func::FuncOp end = outlineUpdate(step, update);
    accumulate(step, update.gradients());
    setOrder(step, end);
  }

  // The order of a step: all micro-batches, then the update, in the place of the last one.
  void setOrder(func::FuncOp step, func::FuncOp update) {
    Builder builder(&getContext());
    auto part = [&](func::FuncOp program, int64_t microBatch, int64_t times) -> Attribute {
      auto run = dist::RunAttr::get(&getContext(), program.getSymNameAttr(), microBatch);
      return dist::RepeatAttr::get(&getContext(), builder.getArrayAttr({run}), times, /*stride=*/times > 1 ? 1 : 0);
    };
    getOperation()->setAttr(dist::kOrderAttr, builder.getArrayAttr({part(step, 0, count), part(update, count - 1, 1)}));
  }
};

} // namespace

} // namespace ashlar::train
