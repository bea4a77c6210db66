// SPDX-License-Identifier: Apache-2.0
//
// Random losses compute the same in blocks, however small the values are that are cut.

#include "passes/partition/passes.h"
#include "test/unit/reference/parsed_module.h"

#include "compiler/reference/equivalence.h"
#include "dialects/nn/nn.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

#include <catch2/catch.hpp>

#include <random>

using namespace mlir;
using namespace ashlar;
using namespace ashlar::test;

namespace {

// Writes a function of a product of 12 rows, (4, 3) samples and tokens, and 10 columns: random ops on it, some of which take rows, columns
// or another product, and smaller results of them. Of a sum over all rows nothing follows, or now and then another op, which no block can
// have.
class RandomLoss {
public:
  explicit RandomLoss(uint64_t seed) : random(seed) {}

  std::string write() {
    add("nn.matmul %x, %w : tensor<12x4xf32>, tensor<4x10xf32> -> tensor<12x10xf32>");
    for (int64_t count = 2 + roll(8); count > 0; --count) {
      addOp();
    }
    std::string all = last();
    for (const std::string &unused : std::vector<std::string>(large.begin(), large.end() - 1)) {
      all = add(llvm::formatv("nn.add {0}, {1} : tensor<12x10xf32>", all, unused));
    }
    const std::string dw =
        define(llvm::formatv("nn.matmul %x, {0} transpose_a : tensor<12x4xf32>, tensor<12x10xf32> -> tensor<4x10xf32>", all));
    const std::string dx =
        define(llvm::formatv("nn.matmul {0}, %w transpose_b : tensor<12x10xf32>, tensor<4x10xf32> -> tensor<12x4xf32>", all));
    std::string most = define(llvm::formatv("nn.reduce max {0} dims = [1] : tensor<12x10xf32> -> tensor<12xf32>", all));
    if (roll(4) == 0) { // some rows by number
      const std::string numbers = define("nn.constant dense<[0, 9, 3, 11]> : tensor<4xi64>");
      const std::string rows =
          define(llvm::formatv("nn.gather {0}, {1} : tensor<12x10xf32>, tensor<4xi64> -> tensor<4x10xf32>", all, numbers));
      const std::string few = define(llvm::formatv("nn.reduce sum {0} dims = [1] : tensor<4x10xf32> -> tensor<4xf32>", rows));
      most =
          define(llvm::formatv("nn.concat {0}, {0}, {0} dim = 0 : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<12xf32>", few));
    }
    return llvm::formatv(
        "func.func @forward(%x: tensor<12x4xf32>, %w: tensor<4x10xf32>, %rows: tensor<12xf32>, %columns: tensor<10xf32>) -> "
        "(tensor<4x10xf32>, tensor<12x4xf32>, tensor<12xf32>) attributes {{nn.program = #nn.program<run>} {\n{0}  return {1}, {2}, {3} : "
        "tensor<4x10xf32>, tensor<12x4xf32>, "
        "tensor<12xf32>\n}\n",
        text, dw, dx, most);
  }

private:
  int64_t roll(int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); }

  std::string define(const std::string &op) {
    std::string name = "%v" + std::to_string(next++);
    text += "  " + name + " = " + op + "\n";
    return name;
  }
  std::string add(const std::string &op) {
    large.push_back(define(op));
    return large.back();
  }
  const std::string &last() { return large.back(); }
  std::string any() { return large[roll(static_cast<int64_t>(large.size()))]; }

  void addOp() {
    constexpr const char *kLarge = "tensor<12x10xf32>";
    auto repeated = [&](const std::string &value, const char *type, int dim) {
      return define(llvm::formatv("nn.broadcast {0} dims = [{1}] : {2} -> {3}", value, dim, type, kLarge));
    };
    switch (roll(11)) {
    case 0:
      add(llvm::formatv("nn.tanh {0} : {1}", any(), kLarge));
      break;
    case 1:
      add(llvm::formatv("nn.softmax {0} : {1}", any(), kLarge));
      break;
    case 2:
      add(llvm::formatv("nn.sub {0}, {1} : {2}", any(), repeated("%rows", "tensor<12xf32>", 0), kLarge));
      break;
    case 3:
      add(llvm::formatv("nn.mul {0}, {1} : {2}", any(), repeated("%columns", "tensor<10xf32>", 1), kLarge));
      break;
    case 4:
      add("nn.matmul %x, %w : tensor<12x4xf32>, tensor<4x10xf32> -> tensor<12x10xf32>");
      break;
    case 5: {
      const std::string sum = define(llvm::formatv("nn.reduce sum {0} dims = [1] : {1} -> tensor<12xf32>", any(), kLarge));
      add(llvm::formatv("nn.sub {0}, {1} : {2}", any(), repeated(sum, "tensor<12xf32>", 0), kLarge));
      break;
    }
    case 6: {
      const std::string samples = define(llvm::formatv("nn.reshape {0} : {1} -> tensor<4x3x10xf32>", any(), kLarge));
      const std::string index = define("nn.index [7, 2, 1] : tensor<4x3x10xi64>");
      const std::string number = define(llvm::formatv("nn.cast {0} : tensor<4x3x10xi64> -> tensor<4x3x10xf32>", index));
      const std::string sum = define(llvm::formatv("nn.add {0}, {1} : tensor<4x3x10xf32>", samples, number));
      add(llvm::formatv("nn.reshape {0} : tensor<4x3x10xf32> -> {1}", sum, kLarge));
      break;
    }
    case 7: { // columns by number, of all rows
      const std::string numbers = define("nn.constant dense<[0, 9, 3, 3, 2, 1, 7, 6, 5, 11]> : tensor<10xi64>");
      const std::string columns = define(llvm::formatv("nn.transpose {0} [1, 0] : {1} -> tensor<10x12xf32>", any(), kLarge));
      const std::string few =
          define(llvm::formatv("nn.gather {0}, {1} : tensor<10x12xf32>, tensor<10xi64> -> tensor<10x12xf32>", columns, numbers));
      add(llvm::formatv("nn.transpose {0} [1, 0] : tensor<10x12xf32> -> {1}", few, kLarge));
      break;
    }
    case 8: { // rows by number
      const std::string numbers = define("nn.constant dense<[0, 9, 3, 3, 2, 1, 7, 6, 5, 11, 4, 4]> : tensor<12xi64>");
      add(llvm::formatv("nn.gather {0}, {1} : {2}, tensor<12xi64> -> {2}", any(), numbers, kLarge));
      break;
    }
    case 9: { // some columns, with others behind them
      const std::string first = define(llvm::formatv("nn.slice {0} [0, 3] to [12, 9] by [1, 1] : {1} -> tensor<12x6xf32>", any(), kLarge));
      const std::string second = define(llvm::formatv("nn.slice {0} [0, 0] to [12, 7] by [1, 2] : {1} -> tensor<12x4xf32>", any(), kLarge));
      add(llvm::formatv("nn.concat {0}, {1} dim = 1 : (tensor<12x6xf32>, tensor<12x4xf32>) -> {2}", first, second, kLarge));
      break;
    }
    default:
      if (roll(4) == 0) {
        const std::string sum = define(llvm::formatv("nn.reduce sum {0} dims = [0] : {1} -> tensor<10xf32>", any(), kLarge));
        add(llvm::formatv("nn.add {0}, {1} : {2}", any(), repeated(sum, "tensor<10xf32>", 1), kLarge));
      }
    }
  }

  std::mt19937_64 random;
  std::string text;
  std::vector<std::string> large;
  int next = 0;
};

// Computes in blocks whatever can be; returns how many products there are more.
int64_t cut(ModuleOp module) {
  auto countProducts = [&] {
    int64_t count = 0;
    module.walk([&](nn::MatMulOp) { ++count; });
    return count;
  };
  const int64_t before = countProducts();
  partition::ComputeInBlocksPassOptions options;
  options.leastBytes = options.leastRows = 1;
  options.sumShare = 1'000'000;
  PassManager passes(module.getContext());
  passes.addNestedPass<func::FuncOp>(partition::createComputeInBlocksPass(options));
  REQUIRE(succeeded(passes.run(module)));
  return countProducts() - before;
}

} // namespace

TEST_CASE("compute in blocks: random losses give the same numbers", "[partition]") {
  int changed = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    OwningOpRef<ModuleOp> module = parse(RandomLoss(seed).write());
    OwningOpRef<ModuleOp> blocks = module->clone();
    changed += cut(*blocks) > 0;
    FailureOr<double> difference = reference::compareModules(*module, *blocks, {});
    REQUIRE(succeeded(difference));
    CHECK(*difference <= 1e-4); // sums of up to 12 terms, in another order
  }
  CHECK(changed > 100);
  CHECK(changed < 290);
}
