// SPDX-License-Identifier: Apache-2.0
//
// A known node's ops are emitted into a block of their own, which is run and thrown away.

#include "compiler/frontend/folding/known_node.h"

#include "dialects/support/tensor_values.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace ashlar::frontend {

namespace {

// A tensor of more elements is data, which the program computes; no index, mask or table that exporters write comes near.
constexpr int64_t kMostElements = int64_t{1} << 24;

int64_t countElements(TypeRange types) {
  int64_t count = 0;
  for (Type type : types) {
    count += cast<RankedTensorType>(type).getNumElements(); // at most 2^46 bytes each
  }
  return count;
}

// Returns about how many steps the reference semantics of an op take; the largest number where nobody should wait for them.
int64_t countSteps(Operation *op) {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  int64_t elements = countElements(op->getOperandTypes()) + countElements(op->getResultTypes());
  if (auto product = dyn_cast<nn::MatMulOp>(op)) {
    int64_t contracted = shapeOf(product.getLhs())[typeOf(product.getLhs()).getRank() - (product.getTransposeA() ? 2 : 1)], steps = 0;
    return llvm::MulOverflow(countElements(op->getResultTypes()), contracted, steps) ? kNever : std::max(steps, elements);
  }
  auto compute = dyn_cast<ComputeOpInterface>(op);
  if (!compute || compute.getCost() == Cost::Contraction) {
    return kNever;
  }
  if (auto resample = dyn_cast<nn::ResampleOp>(op)) {
    elements *= cast<ShapedType>(resample.getPlaces().getShapedType()).getDimSize(1);
  }
  constexpr int64_t kRank = 8; // finding an element takes a step for each dim
  int64_t rank = 0;
  for (Type type : op->getResultTypes()) {
    rank = std::max(rank, cast<RankedTensorType>(type).getRank());
  }
  return elements * (1 + rank / kRank);
}

// Whether the results of a block's ops, which take nothing but constants, can be computed now. Pays for them.
bool canCompute(Block &block, ImportBudget &budget) {
  int64_t steps = 0;
  for (Operation &op : block) {
    if (isa<nn::ConstantOp>(op)) {
      continue;
    }
    bool isKnown =
        isa<ReferenceOpInterface>(op) && llvm::all_of(op.getResultTypes(), [](Type type) { return countElements(type) <= kMostElements; });
    if (!isKnown || llvm::AddOverflow(steps, countSteps(&op), steps)) {
      return false;
    }
  }
  return budget.spend(steps);
}

// Computes what a block's ops do. A constant may stand outside.
class Evaluation {
public:
  explicit Evaluation(Block &block) {
    for (Operation &op : block) {
      compute(&op);
    }
  }

  DenseElementsAttr constantOf(Value value) { return tensorOf(value).toAttribute(); }

private:
  const reference::Tensor &tensorOf(Value value) {
    auto known = tensors.find(value);
    return known != tensors.end() ? known->second : compute(value.getDefiningOp());
  }

  const reference::Tensor &compute(Operation *op) {
    SmallVector<reference::Tensor> operands; // what a single node takes: copies cost little
    for (Value operand : op->getOperands()) {
      operands.push_back(tensorOf(operand));
    }
    return tensors[op->getResult(0)] = cast<ReferenceOpInterface>(op).evaluate(operands);
  }

  DenseMap<Value, reference::Tensor> tensors;
};

bool isKnown(const Node &node) {
  bool anyInput = false;
  for (size_t i = 0; i < node.numInputs(); ++i) {
    if (node.isGiven(i)) {
      anyInput = true;
      if (!node.peekConstant(i)) {
        return false;
      }
    }
  }
  return anyInput;
}

} // namespace

void importByHandler(Node &node, const RegistryRow &row, GraphValues &values) {
  if (row.draws || !isKnown(node)) {
    return row.handler(node);
  }
  OpBuilder &builder = values.getBuilder();
  Block apart;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&apart);
    GraphValues::FreshConstants fresh(values);
    row.handler(node);
  }
  ImportBudget &budget = node.getInfo().budget;
  if (!canCompute(apart, budget)) {
    budget.tooLong = budget.tooLong.empty() ? node.getPath().str() : budget.tooLong;
    builder.getInsertionBlock()->getOperations().splice(builder.getInsertionPoint(), apart.getOperations());
    return;
  }
  Evaluation evaluation(apart);
  for (size_t i = 0; i < node.numResults(); ++i) {
    if (Value value = node.peekResult(i)) {
      node.replaceResult(i, evaluation.constantOf(value));
    }
  }
}

} // namespace ashlar::frontend
