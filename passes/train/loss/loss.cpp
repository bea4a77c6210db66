// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-loss; see passes.td.

#include "passes/train/dead_ops.h"
#include "passes/train/loss/divide_loss.h"
#include "passes/train/loss/named_values.h"
#include "passes/train/passes.h"

#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <limits>

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_LOSSPASS
#include "passes/train/passes.h.inc"

namespace {

constexpr int64_t kNothingIgnored = std::numeric_limits<int64_t>::min();

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

  // Returns x / count, where `count` is a multiple of the samples of the batch.
  Value dividedByCount(Value x, double count) {
    auto factor = nn::ConstantOp::create(*this, nn::splat(typeOf(x), 1.0 / count));
    factor->setAttr(nn::kSamplesPowerAttr, getI64IntegerAttr(-1));
    return nn::MulOp::create(*this, x, factor);
  }

  Value meanAll(Value x) { return dividedByCount(sumAll(x), static_cast<double>(typeOf(x).getNumElements())); }

  // Returns the mean over the rows that count.
  Value meanOfRows(Value rows, Value counts) {
    if (!counts) {
      return meanAll(rows);
    }
    Value count = sumAll(nn::CastOp::create(*this, typeOf(rows), counts));
    return nn::DivOp::create(*this, sumAll(select(counts, rows, 0)), count);
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

  Value compare(nn::Predicate predicate, Value x, Value y) {
    return nn::CompareOp::create(*this, typeOf(x).clone(getI1Type()), predicate, x, y);
  }

  Value equal(Value x, Value y) { return compare(nn::Predicate::Eq, x, y); }

  Value select(Value condition, Value onTrue, double onFalse) {
    Value constant = nn::ConstantOp::create(*this, nn::splat(typeOf(onTrue), onFalse));
    return nn::SelectOp::create(*this, onTrue.getType(), condition, onTrue, constant);
  }

  // Returns which rows have another label than the one that is left out; null for all.
  Value countedRows(Value labels, std::optional<int64_t> ignored) {
    if (!ignored) {
      return {};
    }
    auto type = cast<IntegerType>(typeOf(labels).getElementType());
    auto value = DenseElementsAttr::get(typeOf(labels), APInt(type.getWidth(), *ignored, /*isSigned=*/true, /*implicitTrunc=*/true));
    return compare(nn::Predicate::Ne, labels, nn::ConstantOp::create(*this, value));
  }

  Value loss(LossKind kind, Value output, Value labels, Value counts) {
    switch (kind) {
    case LossKind::SoftmaxCrossEntropy:
      return meanOfRows(nn::SoftmaxCrossEntropyOp::create(*this, output, labels), counts);
    case LossKind::MeanSquaredError: {
      Value difference = nn::SubOp::create(*this, output, labels);
      return meanAll(nn::MulOp::create(*this, difference, difference));
    }
    case LossKind::NegativeLogLikelihood: {
      Value isLabel = equal(classIndex(output), alongClasses(wide(labels), output));
      Value picked = nn::ReduceOp::create(*this, Reduction::Sum, select(isLabel, output, 0), typeOf(output).getRank() - 1);
      return meanOfRows(nn::NegOp::create(*this, picked), counts);
    }
    case LossKind::ModelOutput: // of one element, whatever its rank
      return typeOf(output).getRank() == 0 ? output : sumAll(output);
    }
    llvm_unreachable("unknown loss");
  }

  // Returns how many rows have their first largest output at the label. Ties count once, and a row of NaNs for nothing.
  Value correct(Value output, Value labels, Value counts) {
    int64_t classes = typeOf(output).getRank() - 1;
    Value largest = nn::ReduceOp::create(*this, Reduction::Max, output, classes);
    Value isLargest = equal(output, alongClasses(largest, output));
    constexpr double kNoClass = 0x1p62; // no label is that large
    Value candidates = select(isLargest, classIndex(output), kNoClass);
    Value first = nn::ReduceOp::create(*this, Reduction::Min, candidates, classes);
    Value hit = equal(first, wide(labels));
    return countOf(counts ? nn::AndOp::create(*this, hit, counts).getResult() : hit);
  }

  Value countOf(Value conditions) { return sumAll(nn::CastOp::create(*this, typeOf(conditions).clone(getI64Type()), conditions)); }
};

// Returns the type of a new labels argument.
RankedTensorType labelsType(LossKind kind, RankedTensorType output) {
  return hasClasses(kind) ? RankedTensorType::get(output.getShape().drop_back(), IntegerType::get(output.getContext(), 32)) : output;
}

// Returns the first dim of the first input that has dims; 1 without one.
int64_t batchOf(func::FuncOp function) {
  for (Type type : function.getArgumentTypes()) {
    if (auto tensor = cast<RankedTensorType>(type); tensor.getRank() > 0) {
      return std::max<int64_t>(tensor.getDimSize(0), 1);
    }
  }
  return 1;
}

struct LossPass : public impl::LossPassBase<LossPass> {
  using LossPassBase::LossPassBase;

  // A function with a loss, and what the loss is made of.
  struct Step {
    func::FuncOp function;
    Value output, loss;
    Value correct, rows; // of an evaluation with classes; rows: where labels leave some out
  };

  std::optional<int64_t> ignored() const { return ignoreIndex == kNothingIgnored ? std::nullopt : std::optional(ignoreIndex.getValue()); }

  // Checks that a loss can be computed from a tensor of this type.
  LogicalResult checkOutput(func::FuncOp forward, RankedTensorType type) {
    if (!isa<FloatType>(type.getElementType()) || (hasClasses(kind) && type.getRank() < 1) || type.getNumElements() == 0) {
      return forward.emitError("loss is computed from a non-empty tensor of floats")
             << (hasClasses(kind) ? " with a last dim of classes" : "") << ", not from " << type;
    }
    if (kind == LossKind::ModelOutput && type.getNumElements() != 1) {
      return forward.emitError("model_output \"")
             << output << "\" has type " << type << " but a loss is one number; reduce it in the model, for example by ReduceMean";
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

  // Makes a copy of the model that computes the loss, and for an evaluation how many rows are right.
  FailureOr<Step> makeStep(func::FuncOp forward, bool isTraining) {
    OpBuilder builder(forward);
    Step made;
    made.function = cast<func::FuncOp>(builder.clone(*forward));
    nn::setProgram(made.function, isTraining ? nn::ProgramRole::TrainStep : nn::ProgramRole::EvalStep);
    FailureOr<Value> found = findNamedValue(made.function, output);
    if (failed(found) || failed(checkOutput(made.function, typeOf(*found)))) {
      return failure();
    }
    if (!isTraining) {
      made.function.walk([](Operation *op) {
        if (op->hasAttr(nn::kTrainingOnlyAttr)) {
          OpBuilder before(op);
          auto other = dyn_cast<EvaluatedOpInterface>(op);
          op->getResult(0).replaceAllUsesWith(other ? other.buildEvaluation(before) : op->getOperand(0));
        }
      });
      found = findNamedValue(made.function, output); // which may be one of these
    }
    LossBuilder b(made.function);
    made.output = b.inF32(*found); // a tensor inside a model that computes in bf16 or f16
    FailureOr<Value> labelsValue = kind == LossKind::ModelOutput ? Value() : getLabels(made.function, typeOf(made.output));
    if (failed(labelsValue)) {
      return failure();
    }
    Value counts = hasClasses(kind) ? b.countedRows(*labelsValue, ignored()) : Value();
    made.loss = b.loss(kind, made.output, *labelsValue, counts);
    if (!isTraining && hasClasses(kind)) {
      made.correct = b.correct(made.output, *labelsValue, counts);
      made.rows = counts ? b.countOf(counts) : Value();
    }
    setResults(made, {made.loss}, {nn::kLossResult});
    return made;
  }

  // Has a function return these values, and nothing be computed for others.
  void setResults(Step &step, ArrayRef<Value> results, ArrayRef<StringRef> names) {
    SmallVector<Value> given;
    SmallVector<StringRef> givenNames;
    for (auto [value, name] : llvm::zip_equal(results, names)) {
      if (value) {
        given.push_back(value);
        givenNames.push_back(name);
      }
    }
    step.function.front().getTerminator()->setOperands(given);
    step.function.setType(FunctionType::get(&getContext(), step.function.getArgumentTypes(), ValueRange(given).getTypes()));
    step.function.removeResAttrsAttr();
    for (auto [i, name] : llvm::enumerate(givenNames)) {
      step.function.setResultAttr(i, nn::kNameAttr, StringAttr::get(&getContext(), name));
    }
  }

  void setLeast(Step &step, const LossShare &share) {
    if (share.weight && share.least > 0) {
      step.function.setResultAttr(1, nn::kLeastAttr, Builder(&getContext()).getF64FloatAttr(share.least));
    }
  }

  void finish(Step &step) {
    step.function.walk([](nn::ConstantOp op) { op->removeAttr(nn::kSamplesPowerAttr); });
    eraseDeadOps(step.function);
  }

  int64_t growth() const { return std::max<int64_t>(microBatches, 2); }

  // Has each run of a training step of several micro-batches return its share of the loss.
  LogicalResult divide(Step &step, func::FuncOp larger, std::string &reason) {
    const bool isOwn = kind != LossKind::ModelOutput;
    const int64_t batch = batchOf(step.function);
    SampleDependence dependence(step.function, larger, batch, growth(), /*isStep=*/true);
    // Of one sample no dim shows where it is, and the model may have other ops for it than for several. A loss of the job without left out
    // rows is a mean over them all the same, if the model for several does not couple them.
    const bool isMean = !dependence.knowsLarger() && batch == 1 && isOwn && !ignored();
    if (isMean && larger && !meanOfMicroBatches) {
      SampleDependence ofSeveral(larger, {}, batchOf(larger), growth(), /*isStep=*/true);
      ofSeveral.run();
      if (const Dependence &loss = ofSeveral.of(larger.front().getTerminator()->getOperand(0)); loss.kind == Dependence::Kind::Coupled) {
        reason = loss.reason;
        return failure();
      }
    }
    if (meanOfMicroBatches || isMean) {
      LossBuilder b(step.function);
      Value part = nn::ConstantOp::create(b, nn::splat(typeOf(step.loss), 1.0 / static_cast<double>(microBatches)));
      setResults(step, {nn::MulOp::create(b, step.loss, part)}, {nn::kLossResult});
      return success();
    }
    if (!dependence.knowsLarger() && (!isOwn || batch == 1)) {
      reason = larger ? "the model has other ops for " + std::to_string(batch * growth()) + " samples than for " + std::to_string(batch)
                      : "the model has a fixed batch, so it is not known which of its numbers depend on the number of samples";
      return failure();
    }
    dependence.run();
    FailureOr<LossShare> share = divideStep(dependence, step.loss, microBatches, reason);
    if (failed(share)) {
      return failure();
    }
    setResults(step, {share->share, share->weight}, {nn::kLossResult, nn::kLossWeightResult});
    setLeast(step, *share);
    return success();
  }

  LogicalResult makeTrainingStep(func::FuncOp forward, func::FuncOp larger) {
    FailureOr<Step> step = makeStep(forward, /*isTraining=*/true);
    if (failed(step)) {
      return failure();
    }
    if (microBatches > 1) {
      FailureOr<Step> whole = larger ? makeStep(larger, /*isTraining=*/true) : Step();
      if (failed(whole)) {
        return failure();
      }
      std::string reason;
      LogicalResult divided = divide(*step, whole->function, reason);
      if (whole->function) {
        whole->function.erase();
      }
      if (failed(divided)) {
        return step->function.emitError("the loss of a step cannot be computed in ")
               << microBatches.getValue() << " micro-batches: " << reason
               << "; leave out accumulate or pipeline, or take the mean of the micro-batches' losses: micro_batches: MEAN in the job's "
                  "loss";
      }
    }
    finish(*step);
    return success();
  }

  // The evaluation is one of any number of batches, of which the last one may be filled up with samples that do not count. Where its loss
  // is not known from those of the batches, it is what it is.
  LogicalResult makeEvaluation(func::FuncOp forward, func::FuncOp larger) {
    FailureOr<Step> step = makeStep(forward, /*isTraining=*/false);
    FailureOr<Step> whole = larger && succeeded(step) ? makeStep(larger, /*isTraining=*/false) : step;
    if (failed(step) || failed(whole)) {
      return failure();
    }
    SmallVector<Value> counts;
    llvm::copy_if(ArrayRef<Value>{step->correct, step->rows}, std::back_inserter(counts), [](Value value) { return value; });
    const int64_t batch = batchOf(step->function);
    SampleDependence dependence(step->function, larger ? whole->function : func::FuncOp(), batch, growth(), /*isStep=*/false);
    dependence.run();
    if (kind != LossKind::ModelOutput && dependence.of(step->loss).kind == Dependence::Kind::Coupled) {
      dependence.run(/*assumed=*/step->output); // its rows are those of samples, whatever the model computes them of
    }
    std::string reason;
    FailureOr<LossShare> share = failure();
    const bool isKnown = dependence.knowsLarger() || kind != LossKind::ModelOutput;
    if (isKnown) {
      FailureOr<Value> samples =
          addArgument(step->function, nn::kSamplesInput, RankedTensorType::get({}, Builder(&getContext()).getI64Type()));
      if (failed(samples)) {
        return failure();
      }
      step->function.setArgAttr(step->function.getNumArguments() - 1, nn::kInternalAttr, UnitAttr::get(&getContext()));
      share = divideEvaluation(dependence, step->loss, counts, *samples, reason);
      if (failed(share)) {
        if (failed(step->function.eraseArgument(step->function.getNumArguments() - 1))) {
          return failure();
        }
      }
    }
    if (larger) {
      whole->function.erase();
    }
    if (succeeded(share)) {
      setResults(*step, {share->share, share->weight, step->correct, step->rows},
                 {nn::kLossResult, nn::kLossWeightResult, nn::kCorrectResult, nn::kRowsResult});
      setLeast(*step, *share);
    } else {
      setResults(*step, {step->loss, step->correct, step->rows}, {nn::kLossResult, nn::kCorrectResult, nn::kRowsResult});
    }
    finish(*step);
    return success();
  }

  void runOnOperation() override {
    func::FuncOp forward = nn::findProgram(getOperation(), nn::ProgramRole::Run);
    if (!forward) {
      getOperation().emitError("no function @forward to compute the loss of");
      return signalPassFailure();
    }
    func::FuncOp larger = nn::findProgram(getOperation(), nn::ProgramRole::LargerRun);
    if (failed(makeTrainingStep(forward, larger)) || failed(makeEvaluation(forward, larger))) {
      return signalPassFailure();
    }
    forward.erase();
    if (larger) {
      larger.erase();
    }
  }
};

} // namespace

} // namespace ashlar::train
