// SPDX-License-Identifier: Apache-2.0
//
// The expansions of the attention ops, as kernels compute them, against their reference semantics, on random shapes and masks.

#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"
#include "dialects/support/op_interfaces.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <catch2/catch.hpp>

namespace ashlar::test::attention_test {

using namespace mlir;
using ashlar::reference::Tensor;

namespace {

// A program of all ops of one attention, of element type {0}, in this order: the sizes of batch, rows, keys, width and columns; the type of
// the mask, "" for none; the element type of sums; causal.
struct Form {
  std::string element, sum, mask, causal;
  int64_t batch, rows, keys, width, columns;
  int64_t numbered = 0; // of a causal one with positions, the size of the batch of its key positions; 0: none
  int64_t drawn = 0;    // of a dropout, the size of the batch of its key index; 0: none

  std::string programText() const {
    auto type = [&](const std::string &of, std::initializer_list<int64_t> sizes) {
      std::string text = "tensor<" + std::to_string(batch) + "x";
      for (int64_t size : sizes) {
        text += std::to_string(size) + "x";
      }
      return text + of + ">";
    };
    std::string q = type(element, {rows, width}), k = type(element, {keys, width}), v = type(element, {keys, columns});
    std::string l = type(sum, {rows}), y = type(element, {rows, columns}), last = mask.empty() ? "" : ", " + mask;
    const std::string at = numbered == 0 ? "" : " at %rows, %keys";
    std::string scores = (mask.empty() ? "" : " mask = %m") + std::string(" scale = 6.000000e-01") +
                         (numbered == 0 ? causal : " causal" + at + causal.substr(7)),
                attributes = scores + " : (";
    std::string ofDraw, weights = attributes;
    if (drawn != 0) {
      ofDraw = ", " + type("i64", {rows}) + ", tensor<" + std::to_string(drawn) + "x" + std::to_string(keys) +
               "xi64>, tensor<i64>, tensor<i64>, tensor<i32>";
      weights = scores + " dropout = 4.000000e-01 by %r, %c, %seed, %step, %stream : (";
    }
    std::string text = "func.func @f(%q: " + q + ", %k: " + k + ", %v: " + v + ", %g: " + y + (mask.empty() ? "" : ", %m: " + mask) +
                       ") -> (" + l + ", " + y + ", " + q + ", " + k + ", " + v + ") {\n";
    if (numbered != 0) { // each batch has its own keys where their positions are whole
      std::string ofRows = "tensor<1x" + std::to_string(rows) + "xi64>",
                  ofKeys = "tensor<" + std::to_string(numbered) + "x" + std::to_string(keys) + "xi64>";
      text += "%rows = nn.index [0, 1] : " + ofRows + "\n%keys = nn.index [" + std::to_string(numbered == 1 ? 0 : 2) + ", 1] : " + ofKeys +
              "\n";
      last += ", " + ofRows + ", " + ofKeys;
    }
    if (drawn != 0) { // of which a batch has its own keys where its index is whole
      text += "%r = nn.index [100, 10] : " + type("i64", {rows}) + "\n%c = nn.index [" + std::to_string(drawn == 1 ? 0 : 1000) +
              ", 1] : tensor<" + std::to_string(drawn) + "x" + std::to_string(keys) +
              "xi64>\n%seed = nn.constant dense<7> : tensor<i64>\n%step = nn.constant dense<3> : tensor<i64>\n"
              "%stream = nn.constant dense<11> : tensor<i32>\n";
    }
    text += "%l = nn.attention_log_sum %q, %k" + attributes + q + ", " + k + last + ") -> " + l + "\n";
    std::string operands = q + ", " + k + ", " + v + ", " + l;
    text += "%y = nn.attention %q, %k, %v, %l" + weights + operands + last + ofDraw + ") -> " + y + "\n";
    for (auto [of, result] : {std::pair<std::string, std::string>{"query", q}, {"key", k}, {"value", v}}) {
      text += "%" + of + " = nn.attention_gradient " + of + " %q, %k, %v, %l, %y, %g" + weights + operands + ", " + y + ", " + y + last +
              ofDraw + ") -> " + result + "\n";
    }
    return text + "return %l, %y, %query, %key, %value : " + l + ", " + y + ", " + q + ", " + k + ", " + v + "\n}";
  }
};

Form drawForm(const std::string &element, std::mt19937_64 &random) {
  auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % limit); };
  Form form{element, element == "f64" ? "f64" : "f32", "", "", 1 + below(3), 1 + below(5), 1 + below(5), 1 + below(4), 1 + below(4)};
  if (below(2) == 0) {
    const int64_t diagonal = below(3);
    form.causal = " causal diagonal = " + std::to_string(diagonal);
    form.causal +=
        below(2) == 0 ? " window = " + std::to_string(diagonal + std::max<int64_t>(form.rows - form.keys, 0) + 1 + below(2)) : "";
  }
  form.causal += below(3) == 0 ? " softcap = 7.000000e-01" : "";
  if (int64_t kind = below(3); kind > 0) {
    auto size = [&](int64_t whole) { return std::to_string(below(2) == 0 ? whole : 1) + "x"; };
    form.mask = "tensor<" + size(form.batch) + size(form.rows) + size(form.keys) + (kind == 1 ? "i1>" : "f32>");
  }
  if (form.causal.substr(0, 7) == " causal" && below(2) == 0) {
    form.numbered = below(2) == 0 ? form.batch : 1;
  }
  if (below(2) == 0) {
    form.drawn = below(2) == 0 ? form.batch : 1;
  }
  return form;
}

void expandAll(ModuleOp module) {
  module.walk([&](ExpandableOpInterface composite) {
    OpBuilder builder(composite);
    composite->getResult(0).replaceAllUsesWith(composite.buildExpansion(builder));
    composite.erase();
  });
}

int64_t countOps(ModuleOp module, StringRef name) {
  int64_t count = 0;
  module.walk([&](Operation *op) { count += op->getName().getStringRef() == name; });
  return count;
}

} // namespace

TEST_CASE("attention: expansions are the reference semantics", "[reference][attention]") {
  uint64_t seed = testSeed();
  std::mt19937_64 random(seed);
  for (int i = 0; i < 60; ++i) {
    for (const char *element : {"f64", "f32", "bf16"}) {
      Form form = drawForm(element, random);
      std::string text = form.programText();
      INFO("seed " << seed << "\n" << text);
      OwningOpRef<ModuleOp> module = parse(text), expanded = module->clone();
      expandAll(*expanded);
      REQUIRE(succeeded(verify(*expanded)));
      std::vector<Tensor> inputs;
      for (RankedTensorType type : reference::globalArgumentTypes(module->lookupSymbol<func::FuncOp>("f"))) {
        inputs.push_back(reference::randomTensor(type, random, /*intLimit=*/1));
      }
      std::vector<Tensor> expected = run(*module, "f", inputs), actual = run(*expanded, "f", inputs);
      // Sums of at most 5 terms of size 1 in another order. In bf16 weights and the gradients of scores are rounded on the way.
      double tolerance = form.element == "f64" ? 1e-13 : form.element == "f32" ? 1e-5 : 0.05;
      for (auto [x, y] : llvm::zip_equal(expected, actual)) {
        REQUIRE(x.getType() == y.getType());
        CHECK(reference::maxDifference(x, y) < tolerance);
      }
    }
  }
}

// Keys cut into parts, of which rows may see none. Rows and keys have positions where they are causal.
TEST_CASE("attention: results on parts of the keys combine", "[reference][attention]") {
  uint64_t seed = testSeed();
  std::mt19937_64 random(seed);
  int64_t combined = 0;
  for (int i = 0; i < 80; ++i) {
    for (const char *element : {"f64", "f32", "bf16"}) {
      Form form = drawForm(element, random);
      const int64_t parts = 2 + static_cast<int64_t>(random() % 2);
      form.keys *= parts;
      form.mask = form.mask.empty() ? ""
                                    : "tensor<1x" + std::to_string(form.rows) + "x" + std::to_string(form.keys) + "x" +
                                          form.mask.substr(form.mask.rfind('x') + 1);
      if (form.causal.substr(0, 7) == " causal") {
        form.numbered = std::max<int64_t>(form.numbered, 1);
      }
      std::string text = form.programText();
      INFO("seed " << seed << ", " << parts << " parts\n" << text);
      OwningOpRef<ModuleOp> module = parse(text), other = module->clone();
      other->walk([&](CombinableOpInterface op) {
        const auto keys = static_cast<int64_t>(cast<RankedTensorType>(op->getOperand(0).getType()).getRank()) - 1; // the factor
        REQUIRE(op.combines(keys, parts));
        CHECK(!op.combines(keys - 1, parts));
        CHECK(!op.combines(keys, form.keys + 1));
        OpBuilder builder(op);
        op->getResult(0).replaceAllUsesWith(op.buildCombination(builder, keys, parts));
        op.erase();
        ++combined;
      });
      REQUIRE(succeeded(verify(*other)));
      std::vector<Tensor> inputs;
      for (RankedTensorType type : reference::globalArgumentTypes(module->lookupSymbol<func::FuncOp>("f"))) {
        inputs.push_back(reference::randomTensor(type, random, /*intLimit=*/1));
      }
      std::vector<Tensor> expected = run(*module, "f", inputs), actual = run(*other, "f", inputs);
      // In bf16 the results of parts are rounded, and each term.
      double tolerance = form.element == "f64" ? 1e-13 : form.element == "f32" ? 1e-5 : 0.05;
      for (auto [x, y] : llvm::zip_equal(expected, actual)) {
        REQUIRE(x.getType() == y.getType());
        CHECK(reference::maxDifference(x, y) < tolerance);
      }
    }
  }
  CHECK(combined == 2 * 3 * 80);
}

TEST_CASE("attention: forward and backward share scores and weights where they are expanded", "[reference][attention]") {
  for (const char *causal : {"", " causal"}) {
    OwningOpRef<ModuleOp> module = parse(Form{"bf16", "f32", "tensor<1x1x7xf32>", causal, 2, 5, 7, 3, 4}.programText());
    expandAll(*module);
    PassManager passes(&context());
    passes.addNestedPass<func::FuncOp>(createCSEPass());
    REQUIRE(succeeded(passes.run(*module)));
    CHECK(countOps(*module, "nn.matmul") == 6); // scores, result, gradient of the weights, and of query, key and value
    CHECK(countOps(*module, "nn.exp") == 2);    // of the sum, and of the weights
    CHECK(countOps(*module, "nn.reduce") == 3); // maximum, sum, and the mean of the gradients of the weights
  }
}

} // namespace ashlar::test::attention_test
