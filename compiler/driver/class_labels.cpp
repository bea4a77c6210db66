// SPDX-License-Identifier: Apache-2.0
//
// Finds class labels and indices by the ops that read them.

#include "compiler/driver/class_labels.h"

#include "compiler/job/job.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"
#include "passes/train/loss/named_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ashlar::driver {
namespace {

// Returns the size of the last dim; 0 for a scalar.
uint64_t lastDim(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getRank() == 0 ? 0 : type.getShape().back();
}

// Returns the input that the labels are, however it was reshaped and converted on the way; null when they are computed.
BlockArgument inputOf(Value labels) {
  while (Operation *op = labels.getDefiningOp()) {
    if (!isa<nn::CastOp, nn::ReshapeOp, nn::TransposeOp>(op)) {
      return nullptr;
    }
    labels = op->getOperand(0);
  }
  return cast<BlockArgument>(labels);
}

// Returns the indices that are counted from the front where negative ones count from the end: select(i < 0, i + rows, i). Others are
// returned as they are.
Value withoutCountingFromEnd(Value indices) {
  auto select = indices.getDefiningOp<nn::SelectOp>();
  auto isNegative = select ? select.getCondition().getDefiningOp<nn::CompareOp>() : nn::CompareOp();
  const bool counts = isNegative && isNegative.getPredicate() == nn::Predicate::Lt && isNegative.getLhs() == select.getOnFalse();
  return counts ? select.getOnFalse() : indices;
}

// Returns the label of the rows that a loss of the model leaves out, which a comparison names.
std::optional<int64_t> ignoredOf(Value labels) {
  for (Operation *user : labels.getUsers()) {
    auto compare = dyn_cast<nn::CompareOp>(user);
    DenseIntElementsAttr ignored;
    if (compare && compare.getPredicate() == nn::Predicate::Ne && matchPattern(compare.getRhs(), m_Constant(&ignored)) &&
        ignored.isSplat()) {
      return ignored.getSplatValue<llvm::APInt>().getSExtValue();
    }
  }
  return std::nullopt;
}

// Returns the size of the dim of classes where `sum` picks of each row the score at its label, as a NegativeLogLikelihoodLoss does, and
// sets `labels`; else 0. A constant in place of scores is a one-hot tensor, to which a label that is no class means something.
uint64_t classesOfPicked(nn::ReduceOp sum, Value &labels) {
  auto picked = sum.getInput().getDefiningOp<nn::SelectOp>();
  auto isLabel = picked ? picked.getCondition().getDefiningOp<nn::CompareOp>() : nn::CompareOp();
  auto classes = isLabel ? isLabel.getLhs().getDefiningOp<nn::IndexOp>() : nn::IndexOp();
  auto repeated = isLabel ? isLabel.getRhs().getDefiningOp<nn::BroadcastOp>() : nn::BroadcastOp();
  if (sum.getKind() != Reduction::Sum || sum.getDims().size() != 1 || !classes || !repeated ||
      isLabel.getPredicate() != nn::Predicate::Eq || llvm::is_contained(repeated.getDims(), sum.getDims()[0]) ||
      !matchPattern(picked.getOnFalse(), m_AnyZeroFloat()) || matchPattern(picked.getOnTrue(), m_Constant())) {
    return 0;
  }
  labels = repeated.getInput();
  if (auto widened = labels.getDefiningOp<nn::CastOp>()) {
    labels = widened.getInput();
  }
  return sum.getInput().getType().getDimSize(sum.getDims()[0]);
}

} // namespace

llvm::StringMap<ClassLabels> findClassLabels(const job::Job &job, ModuleOp module) {
  llvm::StringMap<ClassLabels> labels;
  func::FuncOp forward = nn::findProgram(module, nn::ProgramRole::Run);
  if (!forward) {
    return labels;
  }
  const job::Loss &loss = job.loss();
  if (loss.has_softmax_cross_entropy() || loss.has_negative_log_likelihood()) {
    ScopedDiagnosticHandler silent(module.getContext(), [](Diagnostic &) { return success(); }); // the loss pass says it
    FailureOr<Value> output = train::findNamedValue(forward, job::lossName(job));
    if (succeeded(output)) {
      labels[job::labelsName(job)] = {lastDim(*output), job::ignoredLabel(job)};
    }
  } else if (loss.has_model_output()) {
    auto add = [&](uint64_t classes, Value found) {
      if (BlockArgument input = inputOf(found)) {
        if (auto name = forward.getArgAttrOfType<StringAttr>(input.getArgNumber(), nn::kNameAttr)) {
          labels[name.getValue()] = {classes, ignoredOf(found)};
        }
      }
    };
    forward.walk([&](nn::SoftmaxCrossEntropyOp op) { add(lastDim(op.getLogits()), op.getLabels()); });
    forward.walk([&](nn::ReduceOp sum) {
      Value found;
      if (uint64_t classes = classesOfPicked(sum, found)) {
        add(classes, found);
      }
    });
  }
  return labels;
}

llvm::StringMap<uint64_t> findTableRows(ModuleOp module) {
  llvm::StringMap<uint64_t> rows;
  func::FuncOp forward = nn::findProgram(module, nn::ProgramRole::Run);
  if (!forward) {
    return rows;
  }
  forward.walk([&](nn::GatherOp gather) {
    BlockArgument input = inputOf(withoutCountingFromEnd(gather.getIndices()));
    if (!input || input.getOwner() != &forward.front() || gather.getBatchDims() != 0) {
      return;
    }
    if (auto name = forward.getArgAttrOfType<StringAttr>(input.getArgNumber(), nn::kNameAttr)) {
      const auto found = static_cast<uint64_t>(cast<RankedTensorType>(gather.getTable().getType()).getDimSize(0));
      uint64_t &least = rows[name.getValue()];
      least = least == 0 ? found : std::min(least, found);
    }
  });
  return rows;
}

} // namespace ashlar::driver
