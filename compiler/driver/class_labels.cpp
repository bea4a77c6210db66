// SPDX-License-Identifier: Apache-2.0
//
// Finds class labels by the ops that read them.

#include "compiler/driver/class_labels.h"

#include "compiler/job/job.h"
#include "dialects/nn/nn.h"
#include "passes/train/named_values.h"

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

// Returns the labels that a loss of the model takes. Rows that it leaves out have the label that a comparison names.
ClassLabels labelsOf(nn::SoftmaxCrossEntropyOp loss) {
  ClassLabels found{lastDim(loss.getLogits()), 0};
  for (Operation *user : loss.getLabels().getUsers()) {
    auto compare = dyn_cast<nn::CompareOp>(user);
    DenseIntElementsAttr ignored;
    if (compare && compare.getPredicate() == nn::Predicate::Ne && matchPattern(compare.getRhs(), m_Constant(&ignored)) &&
        ignored.isSplat()) {
      found.ignored = ignored.getSplatValue<llvm::APInt>().getSExtValue();
    }
  }
  return found;
}

} // namespace

llvm::StringMap<ClassLabels> findClassLabels(const job::Job &job, ModuleOp module) {
  llvm::StringMap<ClassLabels> labels;
  auto forward = module.lookupSymbol<func::FuncOp>(nn::kForward);
  if (!forward) {
    return labels;
  }
  const job::Loss &loss = job.loss();
  if (loss.has_softmax_cross_entropy() || loss.has_negative_log_likelihood()) {
    ScopedDiagnosticHandler silent(module.getContext(), [](Diagnostic &) { return success(); }); // the loss pass says it
    FailureOr<Value> output = train::findNamedValue(forward, job::lossName(job));
    if (succeeded(output)) {
      labels[job::labelsName(job)] = {lastDim(*output), 0};
    }
  } else if (loss.has_model_output()) {
    forward.walk([&](nn::SoftmaxCrossEntropyOp op) {
      if (BlockArgument input = inputOf(op.getLabels())) {
        if (auto name = forward.getArgAttrOfType<StringAttr>(input.getArgNumber(), nn::kNameAttr)) {
          labels[name.getValue()] = labelsOf(op);
        }
      }
    });
  }
  return labels;
}

} // namespace ashlar::driver
