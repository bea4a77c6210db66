// SPDX-License-Identifier: Apache-2.0
//
// The losses that a model may hold itself.

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

// Rows whose label is `ignored` count neither in the losses nor in their mean.
struct Rows {
  Value losses;
  Value count; // of rows that count; null: all
};

Rows ignoreRows(Node &node, Value losses, Value labels, int64_t ignored) {
  auto boolType = RankedTensorType::get(shapeOf(labels), node.builder().getI1Type());
  Value counts = node.create<nn::CompareOp>(boolType, nn::Predicate::Ne, labels, splatConstant(node, typeOf(labels), ignored));
  Value kept = node.create<nn::SelectOp>(losses.getType(), counts, losses, splatConstant(node, typeOf(losses), 0));
  return {kept, sumAll(node, cast(node, counts, typeOf(losses).getElementType()))};
}

void importSoftmaxCrossEntropyLoss(Node &node) {
  std::string reduction = node.getString("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    node.fail("attribute \"reduction\" is \"" + reduction + "\"; one of none, mean, sum");
  }
  if (node.hasInput(2)) {
    node.fail("input \"weights\" is not supported");
  }
  Value scores = node.input(0), labels = node.input(1);
  int64_t rank = typeOf(scores).getRank();
  SmallVector<int64_t> expected(shapeOf(scores));
  if (rank >= 2) {
    expected.erase(expected.begin() + 1);
  }
  if (rank < 2 || !isa<FloatType>(typeOf(scores).getElementType()) || !isa<IntegerType>(typeOf(labels).getElementType()) ||
      ArrayRef<int64_t>(expected) != shapeOf(labels)) {
    std::string types;
    llvm::raw_string_ostream(types) << typeOf(scores) << " and labels of " << typeOf(labels);
    node.fail("scores of " + types + " do not fit; scores are (N, C, d1, ...), labels (N, d1, ...)");
  }
  Value logits = transpose(node, scores, classesLast(rank, /*inverse=*/false));
  Rows rows{node.create<nn::SoftmaxCrossEntropyOp>(logits, labels), Value()};
  if (node.hasAttribute("ignore_index")) {
    rows = ignoreRows(node, rows.losses, labels, node.getInt("ignore_index", 0));
  }
  Value loss = rows.losses;
  if (reduction != "none") {
    int64_t count = typeOf(loss).getNumElements();
    loss = sumAll(node, loss);
    if (reduction == "mean") {
      loss = rows.count ? node.create<nn::DivOp>(loss, rows.count).getResult()
                        : node.create<nn::MulOp>(loss, splatConstant(node, typeOf(loss), 1.0 / count)).getResult();
    }
  }
  node.setResult(0, loss);
  if (node.hasResult(1)) {
    node.setResult(1, transpose(node, node.create<nn::LogSoftmaxOp>(logits), classesLast(rank, /*inverse=*/true)));
  }
}

constexpr RegistryRow kRows[] = {{"SoftmaxCrossEntropyLoss", importSoftmaxCrossEntropyLoss, Accepts::Floats}};

} // namespace

ArrayRef<RegistryRow> lossRows() {
  return kRows;
}

} // namespace ashlar::frontend
