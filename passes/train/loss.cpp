// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-loss; see passes.td.

#include "passes/train/dead_ops.h"
#include "passes/train/named_values.h"
#include "passes/train/passes.h"

#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_LOSSPASS
#include "passes/train/passes.h.inc"

namespace {

bool hasClasses(LossKind kind) {
  return kind == LossKind::SoftmaxCrossEntropy || kind == LossKind::NegativeLogLikelihood;
}

SmallVector<int64_t> allDims(Value value) {
  return llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank()));
}

// Builds losses at the end of one function; all ops have the module path "loss".
class LossBuilder : public ImplicitLocOpBuilder {
public:
  explicit LossBuilder(func::FuncOp function)
      : ImplicitLocOpBuilder(NameLoc::get(StringAttr::get(function.getContext(), "loss")), function.getContext()) {
    setInsertionPoint(function.getBody().front().getTerminator());
  }

  Value sumAll(Value x) { return nn::ReduceOp::create(*this, Reduction::Sum, x, allDims(x)); }

  Value scaled(Value x, double factor) {
    if (factor == 1) {
      return x;
    }
    Value constant = nn::ConstantOp::create(*this, nn::splat(typeOf(x), factor));
    return nn::MulOp::create(*this, x, constant);
  }

  // Returns the number that sums over `x` are divided by: the elements of all samples; with `samples` those of one, and only the first so
  // many samples count, the others having been set to 0.
  double divisor(Value x) const { return typeOf(x).getNumElements() / (samples ? typeOf(x).getDimSize(0) : 1.0); }

  Value meanAll(Value x) { return scaled(sumAll(counted(x)), 1.0 / divisor(x)); }

  // Returns x with 0 for the samples that do not count.
  Value counted(Value x) {
    if (!samples) {
      return x;
    }
    SmallVector<int64_t> strides(typeOf(x).getRank(), 0);
    strides.front() = 1;
    Value index = nn::IndexOp::create(*this, typeOf(x).clone(getI64Type()), strides);
    Value end = nn::BroadcastOp::create(*this, typeOf(index), samples, ArrayRef<int64_t>());
    return select(nn::CompareOp::create(*this, typeOf(x).clone(getI1Type()), nn::Predicate::Lt, index, end), x, 0);
  }

  // Returns 0, 1, 2, ... along the last dim of a tensor shaped as `like`.
  Value classIndex(Value like) {
    SmallVector<int64_t> strides(typeOf(like).getRank(), 0);
    strides.back() = 1;
    return nn::IndexOp::create(*this, typeOf(like).clone(getI64Type()), strides);
  }

  // Returns `rows` (rows...) repeated along a new last dim, with the shape of `like`.
  Value alongClasses(Value rows, Value like) {
    SmallVector<int64_t> dims = allDims(rows);
    return nn::BroadcastOp::create(*this, typeOf(rows).clone(typeOf(like).getShape()), rows, dims);
  }

  // Returns x, in f32 when its type is narrower: losses are small differences and long sums.
  Value inF32(Value x) {
    RankedTensorType type = typeOf(x);
    return isNarrowFloat(type.getElementType()) ? nn::CastOp::create(*this, type.clone(getF32Type()), x).getResult() : x;
  }

  Value wide(Value labels) {
    auto type = typeOf(labels).clone(getI64Type());
    return labels.getType() == type ? labels : nn::CastOp::create(*this, type, labels);
  }

  Value equal(Value x, Value y) { return nn::CompareOp::create(*this, typeOf(x).clone(getI1Type()), nn::Predicate::Eq, x, y); }

  Value select(Value condition, Value onTrue, double onFalse) {
    Value constant = nn::ConstantOp::create(*this, nn::splat(typeOf(onTrue), onFalse));
    return nn::SelectOp::create(*this, onTrue.getType(), condition, onTrue, constant);
  }

  Value loss(LossKind kind, Value output, Value labels) {
    switch (kind) {
    case LossKind::SoftmaxCrossEntropy:
      return meanAll(nn::SoftmaxCrossEntropyOp::create(*this, output, labels));
    case LossKind::MeanSquaredError: {
      Value difference = nn::SubOp::create(*this, output, labels);
      return meanAll(nn::MulOp::create(*this, difference, difference));
    }
    case LossKind::NegativeLogLikelihood: {
      Value isLabel = equal(classIndex(output), alongClasses(wide(labels), output));
      return scaled(sumAll(counted(select(isLabel, output, 0))), -1.0 / divisor(labels));
    }
    case LossKind::ModelOutput: // of one element, whatever its rank
      return typeOf(output).getRank() == 0 ? output : sumAll(output);
    }
    llvm_unreachable("unknown loss");
  }

  // Returns how many rows have their first largest output at the label. Ties count once, and a row of NaNs for nothing.
  Value correct(Value output, Value labels) {
    int64_t classes = typeOf(output).getRank() - 1;
    Value largest = nn::ReduceOp::create(*this, Reduction::Max, output, classes);
    Value isLargest = equal(output, alongClasses(largest, output));
    constexpr double kNoClass = 0x1p62; // no label is that large
    Value candidates = select(isLargest, classIndex(output), kNoClass);
    Value first = nn::ReduceOp::create(*this, Reduction::Min, candidates, classes);
    Value hit = equal(first, wide(labels));
    return sumAll(counted(nn::CastOp::create(*this, typeOf(hit).clone(getI64Type()), hit)));
  }

  // How many samples of the batch count, the first ones; null: all of them.
  Value samples;
};

// Returns the type of a new labels argument.
RankedTensorType labelsType(LossKind kind, RankedTensorType output) {
  return hasClasses(kind) ? RankedTensorType::get(output.getShape().drop_back(), IntegerType::get(output.getContext(), 32)) : output;
}

struct LossPass : public impl::LossPassBase<LossPass> {
  using LossPassBase::LossPassBase;

  // Checks that a loss can be computed from a tensor of this type.
  LogicalResult checkOutput(func::FuncOp forward, RankedTensorType type) {
    if (!isa<FloatType>(type.getElementType()) || (hasClasses(kind) && type.getRank() < 1) || type.getNumElements() == 0) {
      return forward.emitError("loss is computed from a non-empty tensor of floats")
             << (hasClasses(kind) ? " with a last dim of classes" : "") << ", not from " << type;
    }
    if (kind == LossKind::ModelOutput && type.getNumElements() != 1) {
      return forward.emitError("model_output \"")
             << output << "\" has type " << type << " but a loss is one number; reduce it in the model, by ReduceMean say";
    }
    return success();
  }

  // Returns the value of the labels input, adding the argument when the function lacks it.
  FailureOr<Value> getLabels(func::FuncOp function, RankedTensorType output) {
    RankedTensorType type = labelsType(kind, output);
    if (std::optional<unsigned> index = findNamedArgument(function, labels)) {
      auto given = cast<RankedTensorType>(function.getArgumentTypes()[*index]);
      bool isLong = hasClasses(kind) && given == type.clone(IntegerType::get(&getContext(), 64));
      if (given != type && !isLong) {
        return function.emitError("input \"") << labels << "\" has type " << given << " but as labels of " << output << " it has to be "
                                              << type;
      }
      return Value(function.getArgument(*index));
    }
    return addArgument(function, labels, type);
  }

  FailureOr<Value> addArgument(func::FuncOp function, StringRef argument, RankedTensorType type) {
    unsigned index = function.getNumArguments();
    if (failed(function.insertArgument(index, type, DictionaryAttr(), function.getLoc()))) {
      return failure();
    }
    function.setArgAttr(index, nn::kNameAttr, StringAttr::get(&getContext(), argument));
    return Value(function.getArgument(index));
  }

  // Adds the input that says how many samples of an evaluated batch count. A loss that the model computes itself, or one without a batch,
  // is what it is.
  LogicalResult addSamples(func::FuncOp function, LossBuilder &loss, Value labels) {
    if (!labels || typeOf(labels).getRank() == 0) {
      return success();
    }
    FailureOr<Value> samples = addArgument(function, nn::kSamplesInput, RankedTensorType::get({}, loss.getI64Type()));
    if (failed(samples)) {
      return failure();
    }
    function.setArgAttr(function.getNumArguments() - 1, nn::kInternalAttr, UnitAttr::get(&getContext()));
    loss.samples = *samples;
    return success();
  }

  // Makes a copy of @forward that returns the loss, and with `count` the number of correct rows.
  LogicalResult makeStep(func::FuncOp forward, StringRef name, bool isTraining) {
    OpBuilder builder(forward);
    auto function = cast<func::FuncOp>(builder.clone(*forward));
    function.setName(name);
    FailureOr<Value> found = findNamedValue(function, output);
    if (failed(found) || failed(checkOutput(function, typeOf(*found)))) {
      return failure();
    }
    LossBuilder loss(function);
    Value prediction = loss.inF32(*found); // a tensor inside a model that computes in bf16 or f16
    FailureOr<Value> labelsValue = kind == LossKind::ModelOutput ? Value() : getLabels(function, typeOf(prediction));
    if (failed(labelsValue) || (!isTraining && failed(addSamples(function, loss, *labelsValue)))) {
      return failure();
    }
    SmallVector<Value> results = {loss.loss(kind, prediction, *labelsValue)};
    SmallVector<StringRef> names = {"loss"};
    if (!isTraining && hasClasses(kind)) {
      results.push_back(loss.correct(prediction, *labelsValue));
      names.push_back("correct");
    }
    Operation *terminator = function.getBody().front().getTerminator();
    terminator->setOperands(results);
    function.setType(FunctionType::get(&getContext(), function.getArgumentTypes(), ValueRange(results).getTypes()));
    function.removeResAttrsAttr();
    for (auto [i, resultName] : llvm::enumerate(names)) {
      function.setResultAttr(i, nn::kNameAttr, builder.getStringAttr(resultName));
    }
    if (!isTraining) {
      function.walk([](Operation *op) {
        if (op->hasAttr(nn::kTrainingOnlyAttr)) {
          op->getResult(0).replaceAllUsesWith(op->getOperand(0));
        }
      });
    }
    eraseDeadOps(function);
    return success();
  }

  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>(nn::kForward);
    if (!forward) {
      getOperation().emitError("no function @forward to compute the loss of");
      return signalPassFailure();
    }
    if (failed(makeStep(forward, nn::kTrainStep, /*isTraining=*/true)) || failed(makeStep(forward, nn::kEvalStep, /*isTraining=*/false))) {
      return signalPassFailure();
    }
    forward.erase();
  }
};

} // namespace

} // namespace ashlar::train
