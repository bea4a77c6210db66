// SPDX-License-Identifier: Apache-2.0
//
// The losses that a model may hold itself. Those of f16 and bf16 are computed in f32 and rounded at the end: they are long sums.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

// Moves dim 1 (the classes) to the end, or back with `inverse`.
SmallVector<int64_t> classesLast(int64_t rank, bool inverse) {
  SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  inverse ? std::rotate(permutation.begin() + 1, permutation.end() - 1, permutation.end())
          : std::rotate(permutation.begin() + 1, permutation.begin() + 2, permutation.end());
  return permutation;
}

Value sumAll(Node &node, Value value) {
  return reduce(node, Reduction::Sum, value, llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank())));
}

std::string readLossReduction(Node &node) {
  std::string reduction = node.getString("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    node.fail("attribute \"reduction\" is \"" + reduction + "\"; one of none, mean, sum");
  }
  return reduction;
}

// Scores are (N, C, d1, ...), labels (N, d1, ...).
void checkScores(Node &node) {
  RankedTensorType scores = node.inputType(0), labels = node.inputType(1);
  SmallVector<int64_t> expected(scores.getShape());
  if (scores.getRank() >= 2) {
    expected.erase(expected.begin() + 1);
  }
  Type element = labels.getElementType();
  if (scores.getRank() < 2 || !(element.isInteger(32) || element.isInteger(64)) || ArrayRef<int64_t>(expected) != labels.getShape()) {
    std::string types;
    llvm::raw_string_ostream(types) << scores << " and labels of " << labels;
    node.fail("scores of " + types + " do not fit; scores are (N, C, d1, ...), labels (N, d1, ...)");
  }
}

// Returns what a row's loss is multiplied by, and counts as in the mean: the weight of its class (input 2), 0 for the label that is
// ignored. Null: 1 for all rows.
Value rowWeights(Node &node, Value losses, Value counts) {
  Value weights;
  RankedTensorType type = typeOf(losses);
  if (node.hasInput(2)) {
    RankedTensorType given = node.inputType(2), expected = node.inputType(0).clone({node.inputType(0).getDimSize(1)});
    if (given != expected) {
      node.fail("weights of " + describeTensor(given) + " but the classes take " + describeTensor(expected));
    }
    weights = node.create<nn::GatherOp>(convertTo(node, node.input(2), type.getElementType()), node.input(1));
  }
  if (!counts) {
    return weights;
  }
  return weights ? node.create<nn::SelectOp>(type, counts, weights, splatConstant(node, type, 0)).getResult()
                 : convertTo(node, counts, type.getElementType());
}

// Defines result 0, from the loss of each row.
void setLoss(Node &node, Value losses) {
  std::string reduction = readLossReduction(node);
  RankedTensorType type = typeOf(losses);
  Value labels = node.input(1), counts;
  if (node.hasAttribute("ignore_index")) {
    counts = compare(node, nn::Predicate::Ne, labels, splatConstant(node, typeOf(labels), node.getInt("ignore_index", 0)));
    losses = node.create<nn::SelectOp>(type, counts, losses, splatConstant(node, type, 0));
  }
  Value weights = rowWeights(node, losses, counts);
  if (node.isGiven(2)) {
    losses = node.create<nn::MulOp>(losses, weights);
  }
  if (reduction != "none") {
    losses = sumAll(node, losses);
  }
  if (reduction == "mean") {
    losses = weights ? node.create<nn::DivOp>(losses, sumAll(node, weights)).getResult()
                     : node.create<nn::MulOp>(losses, splatConstant(node, typeOf(losses), 1.0 / type.getNumElements())).getResult();
  }
  node.setResult(0, convertTo(node, losses, node.inputType(0).getElementType()));
}

void importSoftmaxCrossEntropyLoss(Node &node) {
  checkScores(node);
  int64_t rank = node.inputType(0).getRank();
  Value logits = transpose(node, widen(node, node.input(0)), classesLast(rank, /*inverse=*/false));
  setLoss(node, node.create<nn::SoftmaxCrossEntropyOp>(logits, node.input(1)));
  if (node.hasResult(1)) {
    Value logProb = transpose(node, node.create<nn::LogSoftmaxOp>(logits), classesLast(rank, /*inverse=*/true));
    node.setResult(1, convertTo(node, logProb, node.inputType(0).getElementType()));
  }
}

// The element at the label is picked by its class, so that a split along the classes leaves parts of a sum.
void importNegativeLogLikelihoodLoss(Node &node) {
  checkScores(node);
  Value scores = widen(node, node.input(0));
  RankedTensorType type = typeOf(scores);
  SmallVector<int64_t> strides(type.getRank(), 0), rows = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  strides[1] = 1;
  rows.erase(rows.begin() + 1);
  auto indexType = RankedTensorType::get(type.getShape(), node.builder().getI64Type());
  Value labels = node.create<nn::BroadcastOp>(indexType, convertTo(node, node.input(1), indexType.getElementType()), rows);
  Value isLabel = compare(node, nn::Predicate::Eq, node.create<nn::IndexOp>(indexType, strides), labels);
  Value picked = node.create<nn::SelectOp>(type, isLabel, scores, splatConstant(node, type, 0));
  setLoss(node, node.create<nn::NegOp>(reduce(node, Reduction::Sum, picked, {1})));
}

// Weights of classes are set, not trained.
constexpr unsigned kWeights = 1 << 2;

constexpr RegistryRow kLossRows[] = {{"NegativeLogLikelihoodLoss", importNegativeLogLikelihoodLoss, Accepts::Floats, kWeights},
                                     {"SoftmaxCrossEntropyLoss", importSoftmaxCrossEntropyLoss, Accepts::Floats, kWeights}};

} // namespace

ArrayRef<RegistryRow> lossRows() {
  return kLossRows;
}

} // namespace ashlar::frontend
