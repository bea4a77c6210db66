// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-batch-norm; see passes.td.

#include "passes/train/passes.h"

#include "dialects/nn/nn.h"
#include "dialects/nn/pairs.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/repeat.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_BATCHNORMPASS
#include "passes/train/passes.h.inc"

namespace {

SmallVector<nn::NormalizeOp> findBatchNorms(func::FuncOp function) {
  SmallVector<nn::NormalizeOp> found;
  function.walk([&](nn::NormalizeOp op) {
    if (op.getMomentum()) {
      found.push_back(op);
    }
  });
  return found;
}

Value scaled(ImplicitLocOpBuilder &b, Value x, double factor) {
  return factor == 1 ? x : nn::MulOp::create(b, x, nn::ConstantOp::create(b, nn::splat(typeOf(x), factor))).getResult();
}

// Returns where a running statistic is read, which may be converted behind it: statistics of f16 move in f32. Null where it is no variable.
nn::ReadOp readOf(Value statistic) {
  auto compute = statistic.getDefiningOp<ComputeOpInterface>();
  bool isConverted = compute && compute.getPrecision() == Precision::Convert;
  return (isConverted ? compute->getOperand(0) : statistic).getDefiningOp<nn::ReadOp>();
}

// Rewrites the batch normalizations of one training step. State: the next value of each running statistic so far.
class StepRewrite {
public:
  StepRewrite(func::FuncOp step, int64_t replicas) : step(step), replicas(replicas) {}

  LogicalResult run(ArrayRef<nn::NormalizeOp> ops) {
    for (nn::NormalizeOp op : ops) {
      if (failed(rewrite(op))) {
        return failure();
      }
    }
    OpBuilder builder(step.front().getTerminator());
    for (auto &[variable, statistic] : running) {
      auto [kept, next] = statistic;
      if (next.getType() != kept) {
        next = nn::CastOp::create(builder, next.getLoc(), kept, next);
      }
      auto write = nn::WriteOp::create(builder, next.getLoc(), variable.getValue(), next);
      write->setAttr(nn::kForwardWriteAttr, builder.getUnitAttr());
    }
    return success();
  }

private:
  // What a normalization is of: with replicas, of a dim more.
  struct Batch {
    Value x, scale, shift;
    SmallVector<int64_t> dims, reduced; // dims that statistics have, and that they are taken along
  };

  Batch batchOf(ImplicitLocOpBuilder &b, nn::NormalizeOp op) {
    Batch batch{op.getInput(), op.getScale(), op.getShift(), SmallVector<int64_t>(op.getDims()), {}};
    if (replicas > 1) {
      SmallVector<int64_t> shape = {replicas, shapeOf(batch.x).front() / replicas};
      llvm::append_range(shape, shapeOf(batch.x).drop_front());
      batch.x = nn::ReshapeOp::create(b, typeOf(batch.x).clone(shape), batch.x);
      llvm::for_each(batch.dims, [](int64_t &dim) { ++dim; });
      for (Value *parameter : {&batch.scale, &batch.shift}) {
        SmallVector<int64_t> repeated = {replicas};
        llvm::append_range(repeated, shapeOf(*parameter));
        auto dims = llvm::to_vector(llvm::seq<int64_t>(1, repeated.size()));
        *parameter = nn::BroadcastOp::create(b, typeOf(*parameter).clone(repeated), *parameter, dims);
      }
      batch.dims.insert(batch.dims.begin(), 0);
    }
    for (int64_t d = 0; d < typeOf(batch.x).getRank(); ++d) {
      if (!llvm::is_contained(batch.dims, d)) {
        batch.reduced.push_back(d);
      }
    }
    return batch;
  }

  LogicalResult check(nn::NormalizeOp op) {
    if (isa<nn::RepeatOp>(op->getParentOp())) {
      return op.emitOpError("normalizes by the statistics of a batch in each iteration of a loop, whose running statistics would move in "
                            "each; name its parameters in the job's frozen");
    }
    for (Value statistic : {op.getMean(), op.getVariance()}) {
      if (!readOf(statistic)) {
        return op.emitOpError("has a momentum, but its mean and variance are not both read from variables");
      }
    }
    int64_t samples = op.getType().getRank() == 0 ? 0 : op.getType().getDimSize(0);
    if (samples % replicas != 0 || llvm::is_contained(op.getDims(), 0)) {
      return op.emitOpError("normalizes ") << op.getType() << ", whose " << samples << " samples are not " << replicas
                                           << " equal parts; leave out batch_norm: PER_REPLICA, or choose another global_batch";
    }
    return success();
  }

  LogicalResult rewrite(nn::NormalizeOp op) {
    if (failed(check(op))) {
      return failure();
    }
    ImplicitLocOpBuilder b(op.getLoc(), op);
    Batch batch = batchOf(b, op);
    Value moments = nn::MomentsOp::create(b, batch.x, batch.reduced);
    double count = 2.0 * typeOf(batch.x).getNumElements() / typeOf(moments).getNumElements();
    if (op.getUnbiased() && count < 2) {
      return op.emitOpError("normalizes ") << op.getType() << ", one element a channel, which has no unbiased variance; train with "
                                           << "a larger batch, or name it in the job's frozen";
    }
    Value normalized =
        nn::NormalizeOp::create(b, batch.x.getType(), batch.x, batch.scale, batch.shift, nn::partOf(b, moments, 0),
                                nn::partOf(b, moments, 1), batch.dims, op.getEpsilon(), /*momentum=*/FloatAttr(), /*unbiased=*/false);
    if (normalized.getType() != op.getType()) {
      normalized = nn::ReshapeOp::create(b, op.getType(), normalized);
    }
    normalized.getDefiningOp()->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    moveStatistics(b, op, moments, op.getUnbiased() ? count / (count - 1) : 1);
    op.getResult().replaceAllUsesWith(normalized);
    op.erase();
    return success();
  }

  void moveStatistics(ImplicitLocOpBuilder &b, nn::NormalizeOp op, Value moments, double varianceFactor) {
    if (replicas > 1) {
      moments = scaled(b, nn::ReduceOp::create(b, Reduction::Sum, moments, ArrayRef<int64_t>{1}), 1.0 / replicas);
    }
    double momentum = op.getMomentum()->convertToDouble();
    move(b, op.getMean(), nn::partOf(b, moments, 0), momentum, 1);
    move(b, op.getVariance(), nn::partOf(b, moments, 1), momentum, varianceFactor);
  }

  // Moves the variable that `statistic` is read from: momentum * old + (1 - momentum) * factor * toward.
  void move(ImplicitLocOpBuilder &b, Value statistic, Value toward, double momentum, double factor) {
    nn::ReadOp read = readOf(statistic);
    Value &next = running.try_emplace(read.getVariableAttr().getAttr(), read.getType(), statistic).first->second.second;
    next = nn::AddOp::create(b, scaled(b, next, momentum), scaled(b, toward, (1 - momentum) * factor));
  }

  func::FuncOp step;
  int64_t replicas;
  llvm::MapVector<StringAttr, std::pair<Type, Value>> running; // with the type that the variable keeps it in
};

struct BatchNormPass : public impl::BatchNormPassBase<BatchNormPass> {
  using BatchNormPassBase::BatchNormPassBase;

  LogicalResult rewriteStep() {
    func::FuncOp step = nn::findProgram(getOperation(), nn::ProgramRole::TrainStep);
    SmallVector<nn::NormalizeOp> found = step ? findBatchNorms(step) : SmallVector<nn::NormalizeOp>();
    if (replicas > 1 && found.empty()) {
      return getOperation().emitError("has no batch normalization that is trained, whose statistics ")
             << replicas.getValue() << " replicas could take each for itself; leave out batch_norm: PER_REPLICA";
    }
    return found.empty() ? success() : StepRewrite(step, replicas).run(found);
  }

  void runOnOperation() override {
    if (replicas < 1) {
      getOperation().emitError("option replicas is ") << replicas.getValue() << "; at least 1";
      return signalPassFailure();
    }
    if (failed(rewriteStep())) {
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      for (nn::NormalizeOp op : findBatchNorms(function)) {
        op.removeMomentumAttr();
        op.setUnbiased(false);
      }
    }
  }
};

} // namespace

} // namespace ashlar::train
