// SPDX-License-Identifier: Apache-2.0
//
// Einsum as products of two operands at a time: matrix products where a label is summed, element-wise ones elsewhere. A label is a letter,
// or a dim of the ellipsis, counted from its last one. Dims of size 1 are left out of the operands: the others repeat along them.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"

#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace mlir;

namespace ashlar::frontend {

namespace {

constexpr int kEllipsis = -1; // label -1 is the last dim of an ellipsis, -2 the one before; letters are their characters

using Labels = SmallVector<int>;

struct Operand {
  Value value;
  Labels labels; // one a dim, none twice
};

std::string nameOf(int label) {
  return label < 0 ? "the ellipsis" : std::string("\"") + static_cast<char>(label) + "\"";
}

// The labels of the terms, and their sizes.
class Equation {
public:
  explicit Equation(Node &node) : node(node), text(node.getString("equation", "")) {
    auto [inputs, output] = splitAtArrow();
    SmallVector<StringRef> parts;
    inputs.split(parts, ',');
    if (parts.size() != node.numInputs()) {
      fail("has " + Twine(parts.size()) + " terms for " + Twine(node.numInputs()) + " inputs");
    }
    for (auto [i, part] : llvm::enumerate(parts)) {
      readInput(i, part);
    }
    if (output && ellipsisDims > 0 && !output->contains("...")) {
      fail("has an ellipsis in the inputs and none in the result");
    }
    result = output ? readTerm(*output, ellipsisDims) : implicitResult();
    checkResult();
  }

  const std::vector<Labels> &getTerms() const { return terms; }
  const Labels &getResult() const { return result; }
  int64_t sizeOf(int label) const { return sizes.at(label); }

private:
  [[noreturn]] void fail(const Twine &fact) const { node.fail("attribute \"equation\" \"" + text + "\" " + fact); }

  std::pair<StringRef, std::optional<StringRef>> splitAtArrow() {
    llvm::erase(text, ' ');
    StringRef all = text;
    size_t arrow = all.find("->");
    return arrow == StringRef::npos ? std::pair(all, std::optional<StringRef>())
                                    : std::pair(all.take_front(arrow), all.drop_front(arrow + 2));
  }

  // `ellipsis`: how many dims "..." stands for.
  Labels readTerm(StringRef term, int64_t ellipsis) const {
    Labels labels;
    bool hasEllipsis = false;
    while (!term.empty()) {
      if (!hasEllipsis && term.consume_front("...")) {
        hasEllipsis = true;
        for (int64_t d = ellipsis; d > 0; --d) {
          labels.push_back(kEllipsis - static_cast<int>(d - 1));
        }
      } else if (llvm::isAlpha(term.front())) {
        labels.push_back(term.front());
        term = term.drop_front();
      } else {
        fail("has \"" + term + "\" where a letter or the one ellipsis of a term is expected");
      }
    }
    return labels;
  }

  void readInput(size_t i, StringRef term) {
    ArrayRef<int64_t> shape = node.inputType(i).getShape();
    const bool hasEllipsis = term.contains("...");
    const int64_t rank = shape.size(), letters = llvm::count_if(term, llvm::isAlpha), hidden = hasEllipsis ? rank - letters : 0;
    if (hidden < 0 || letters + hidden != rank) {
      fail("has the term \"" + term + "\" for input " + Twine(i) + " of rank " + Twine(rank));
    }
    ellipsisDims = std::max(ellipsisDims, hidden);
    terms.push_back(readTerm(term, hidden));
    for (auto [label, size] : llvm::zip_equal(terms.back(), shape)) {
      int64_t &known = sizes.try_emplace(label, size).first->second;
      if (known != size && known != 1 && size != 1) {
        fail("gives " + nameOf(label) + " the sizes " + Twine(known) + " and " + Twine(size));
      }
      known = known == 1 ? size : known;
    }
  }

  // The ellipsis, then the letters that appear once, in the order of their characters.
  Labels implicitResult() const {
    Labels labels;
    for (const auto &entry : sizes) { // sorted: the first dim of the ellipsis is the smallest
      int64_t uses = 0;
      for (const Labels &term : terms) {
        uses += llvm::count(term, entry.first);
      }
      if (entry.first < 0 || uses == 1) {
        labels.push_back(entry.first);
      }
    }
    return labels;
  }

  void checkResult() const {
    for (auto [i, label] : llvm::enumerate(result)) {
      if (!sizes.count(label)) {
        fail("has " + nameOf(label) + " in the result and in no input");
      }
      if (llvm::is_contained(ArrayRef(result).take_front(i), label)) {
        fail("has " + nameOf(label) + " twice in the result");
      }
    }
  }

  Node &node;
  std::string text;
  std::vector<Labels> terms;
  Labels result;
  std::map<int, int64_t> sizes;
  int64_t ellipsisDims = 0;
};

// Multiplies operands, and sums each label once nothing else has it.
class Contraction {
public:
  Contraction(Node &node, const Equation &equation) : node(node), equation(equation) {
    for (auto [i, term] : llvm::enumerate(equation.getTerms())) {
      operands.push_back(withoutRepeats({node.input(i), term}));
    }
  }

  // Returns the value whose dims are the labels of the result.
  Value build() {
    for (size_t i = 0; i < operands.size(); ++i) {
      sumOwn(i);
    }
    while (operands.size() > 1) {
      auto [left, right] = cheapestPair();
      Operand product = multiply(left, right);
      operands.erase(operands.begin() + right);
      operands[left] = product;
    }
    Labels order;
    SmallVector<int64_t> shape;
    for (int label : equation.getResult()) {
      shape.push_back(equation.sizeOf(label));
      if (shape.back() != 1) {
        order.push_back(label);
      }
    }
    return reshape(node, ordered(operands.front(), order), shape);
  }

private:
  using Dims = SmallVector<int64_t>;

  Dims sizesOf(ArrayRef<int> labels) const {
    return llvm::map_to_vector(labels, [&](int label) { return equation.sizeOf(label); });
  }

  // Leaves dims of size 1 out, and takes the diagonal of two dims with one label: their elements in one dim, every (size + 1)th.
  Operand withoutRepeats(Operand operand) {
    Labels labels;
    Dims sizes;
    for (auto [label, size] : llvm::zip_equal(operand.labels, shapeOf(operand.value))) {
      if (size != 1) {
        labels.push_back(label);
        sizes.push_back(size);
      }
    }
    Value value = reshape(node, operand.value, sizes);
    for (size_t i = 0; i < labels.size(); ++i) {
      for (size_t j = i + 1; j < labels.size();) {
        if (labels[i] != labels[j]) {
          ++j;
          continue;
        }
        Dims toEnd = llvm::to_vector(llvm::seq<int64_t>(0, labels.size()));
        toEnd.erase(toEnd.begin() + j);
        toEnd.erase(toEnd.begin() + i);
        toEnd.append({static_cast<int64_t>(i), static_cast<int64_t>(j)});
        labels.erase(labels.begin() + j);
        std::rotate(labels.begin() + i, labels.begin() + i + 1, labels.end());
        value = diagonal(transpose(node, value, toEnd));
        j = i + 1; // another label is here now
      }
    }
    return {value, labels};
  }

  Value diagonal(Value value) {
    Dims shape(shapeOf(value).drop_back());
    const int64_t size = shape.back();
    shape.back() = size * size;
    Value flat = reshape(node, value, shape);
    Dims starts(shape.size(), 0), steps(shape.size(), 1);
    steps.back() = size + 1;
    return node.create<nn::SliceOp>(flat, starts, shape, steps);
  }

  // Whether the result or an operand besides these two has a label.
  bool isElsewhere(int label, size_t one, size_t other) const {
    bool found = llvm::is_contained(equation.getResult(), label);
    for (auto [i, operand] : llvm::enumerate(operands)) {
      found = found || (i != one && i != other && llvm::is_contained(operand.labels, label));
    }
    return found;
  }

  // Sums the labels of an operand that nothing else has.
  void sumOwn(size_t i) {
    Dims dims;
    Labels kept;
    for (auto [d, label] : llvm::enumerate(operands[i].labels)) {
      isElsewhere(label, i, i) ? kept.push_back(label) : dims.push_back(d);
    }
    operands[i] = {reduce(node, Reduction::Sum, operands[i].value, dims), kept};
  }

  // Returns the two operands whose product takes the fewest multiplications, the first of equal ones.
  std::pair<size_t, size_t> cheapestPair() const {
    std::pair<size_t, size_t> best(0, 1);
    double least = INFINITY;
    for (size_t i = 0; i < operands.size(); ++i) {
      for (size_t j = i + 1; j < operands.size(); ++j) {
        double count = 1;
        for (int label : operands[i].labels) {
          count *= static_cast<double>(equation.sizeOf(label));
        }
        for (int label : operands[j].labels) {
          count *= llvm::is_contained(operands[i].labels, label) ? 1 : static_cast<double>(equation.sizeOf(label));
        }
        if (count < least) {
          least = count;
          best = {i, j};
        }
      }
    }
    return best;
  }

  Operand multiply(size_t leftPlace, size_t rightPlace) {
    const Operand &left = operands[leftPlace], &right = operands[rightPlace];
    Labels batch, summed, ofLeft, ofRight;
    for (int label : left.labels) {
      if (!llvm::is_contained(right.labels, label)) {
        ofLeft.push_back(label);
        continue;
      }
      (isElsewhere(label, leftPlace, rightPlace) ? batch : summed).push_back(label);
    }
    llvm::copy_if(right.labels, std::back_inserter(ofRight), [&](int label) { return !llvm::is_contained(left.labels, label); });
    Labels labels = batch;
    llvm::append_range(labels, ofLeft);
    llvm::append_range(labels, ofRight);
    if (summed.empty() || (ofLeft.empty() && ofRight.empty())) {
      llvm::append_range(labels, summed);
      Value product = node.create<nn::MulOp>(repeated(left, labels), repeated(right, labels));
      Dims dims = llvm::to_vector(llvm::seq<int64_t>(labels.size() - summed.size(), labels.size()));
      labels.truncate(labels.size() - summed.size());
      return {reduce(node, Reduction::Sum, product, dims), labels};
    }
    // Whichever order of a matrix's two sides is nearer to the operand's: nn.matmul takes both.
    bool transposeLeft = !llvm::is_contained(summed, left.labels.back());
    bool transposeRight = llvm::is_contained(summed, right.labels.back());
    Value lhs = transposeLeft ? asMatrices(left, batch, summed, ofLeft) : asMatrices(left, batch, ofLeft, summed);
    Value rhs = transposeRight ? asMatrices(right, batch, ofRight, summed) : asMatrices(right, batch, summed, ofRight);
    Value product = node.create<nn::MatMulOp>(lhs, rhs, transposeLeft, transposeRight);
    return {reshape(node, product, sizesOf(labels)), labels};
  }

  // (batch..., rows, columns), each of the last two made of all its labels.
  Value asMatrices(const Operand &operand, ArrayRef<int> batch, ArrayRef<int> rows, ArrayRef<int> columns) {
    Labels order(batch);
    llvm::append_range(order, rows);
    llvm::append_range(order, columns);
    Dims shape = sizesOf(batch);
    shape.push_back(llvm::product_of(sizesOf(rows)));
    shape.push_back(llvm::product_of(sizesOf(columns)));
    return reshape(node, ordered(operand, order), shape);
  }

  // The operand with its labels in this order, which has all of them.
  Value ordered(const Operand &operand, ArrayRef<int> order) {
    Dims permutation =
        llvm::map_to_vector(order, [&](int label) -> int64_t { return llvm::find(operand.labels, label) - operand.labels.begin(); });
    return transpose(node, operand.value, permutation);
  }

  // The same, repeated along the labels that it does not have.
  Value repeated(const Operand &operand, ArrayRef<int> labels) {
    Labels own;
    Dims dims;
    for (auto [d, label] : llvm::enumerate(labels)) {
      if (llvm::is_contained(operand.labels, label)) {
        own.push_back(label);
        dims.push_back(d);
      }
    }
    Value value = ordered(operand, own);
    if (own.size() == labels.size()) {
      return value;
    }
    return node.create<nn::BroadcastOp>(typeOf(value).clone(sizesOf(labels)), value, dims);
  }

  Node &node;
  const Equation &equation;
  std::vector<Operand> operands;
};

void importEinsum(Node &node) {
  for (size_t i = 1; i < node.numInputs(); ++i) {
    if (node.inputType(i).getElementType() != node.inputType(0).getElementType()) {
      node.fail("inputs 0 and " + Twine(i) + " are " + describeTensor(node.inputType(0)) + " and " + describeTensor(node.inputType(i)) +
                "; the element types differ");
    }
  }
  Equation equation(node);
  Value value = Contraction(node, equation).build();
  value == node.input(0) ? node.aliasResult(0, 0) : node.setResult(0, value);
}

constexpr RegistryRow kEinsumRows[] = {{"Einsum", importEinsum, Accepts::Numbers}};

} // namespace

ArrayRef<RegistryRow> einsumRows() {
  return kEinsumRows;
}

} // namespace ashlar::frontend
