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
    add("nn.matmul %x, %w : tensor<12x4xf64>, tensor<4x10xf64> -> tensor<12x10xf64>");
    for (int64_t count = 2 + roll(8); count > 0; --count) {
      addOp();
    }
    std::string all = last();
    for (const std::string &unused : std::vector<std::string>(large.begin(), large.end() - 1)) {
      all = add(llvm::formatv("nn.add {0}, {1} : tensor<12x10xf64>", all, unused));
    }
    const std::string dw =
        define(llvm::formatv("nn.matmul %x, {0} transpose_a : tensor<12x4xf64>, tensor<12x10xf64> -> tensor<4x10xf64>", all));
    const std::string dx =
        define(llvm::formatv("nn.matmul {0}, %w transpose_b : tensor<12x10xf64>, tensor<4x10xf64> -> tensor<12x4xf64>", all));
    const std::string most = define(llvm::formatv("nn.reduce max {0} dims = [1] : tensor<12x10xf64> -> tensor<12xf64>", all));
    return llvm::formatv(
        "func.func @forward(%x: tensor<12x4xf64>, %w: tensor<4x10xf64>, %rows: tensor<12xf64>, %columns: tensor<10xf64>) -> "
        "(tensor<4x10xf64>, tensor<12x4xf64>, tensor<12xf64>) {\n{0}  return {1}, {2}, {3} : tensor<4x10xf64>, tensor<12x4xf64>, "
        "tensor<12xf64>\n}\n",
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
    constexpr const char *kLarge = "tensor<12x10xf64>";
    auto repeated = [&](const std::string &value, const char *type, int dim) {
      return define(llvm::formatv("nn.broadcast {0} dims = [{1}] : {2} -> {3}", value, dim, type, kLarge));
    };
    switch (roll(8)) {
    case 0:
      add(llvm::formatv("nn.tanh {0} : {1}", any(), kLarge));
      break;
    case 1:
      add(llvm::formatv("nn.softmax {0} : {1}", any(), kLarge));
      break;
    case 2:
      add(llvm::formatv("nn.sub {0}, {1} : {2}", any(), repeated("%rows", "tensor<12xf64>", 0), kLarge));
      break;
    case 3:
      add(llvm::formatv("nn.mul {0}, {1} : {2}", any(), repeated("%columns", "tensor<10xf64>", 1), kLarge));
      break;
    case 4:
      add("nn.matmul %x, %w : tensor<12x4xf64>, tensor<4x10xf64> -> tensor<12x10xf64>");
      break;
    case 5: {
      const std::string sum = define(llvm::formatv("nn.reduce sum {0} dims = [1] : {1} -> tensor<12xf64>", any(), kLarge));
      add(llvm::formatv("nn.sub {0}, {1} : {2}", any(), repeated(sum, "tensor<12xf64>", 0), kLarge));
      break;
    }
    case 6: {
      const std::string samples = define(llvm::formatv("nn.reshape {0} : {1} -> tensor<4x3x10xf64>", any(), kLarge));
      const std::string index = define("nn.index [7, 2, 1] : tensor<4x3x10xi64>");
      const std::string number = define(llvm::formatv("nn.cast {0} : tensor<4x3x10xi64> -> tensor<4x3x10xf64>", index));
      const std::string sum = define(llvm::formatv("nn.add {0}, {1} : tensor<4x3x10xf64>", samples, number));
      add(llvm::formatv("nn.reshape {0} : tensor<4x3x10xf64> -> {1}", sum, kLarge));
      break;
    }
    default:
      if (roll(4) == 0) {
        const std::string sum = define(llvm::formatv("nn.reduce sum {0} dims = [0] : {1} -> tensor<10xf64>", any(), kLarge));
        add(llvm::formatv("nn.add {0}, {1} : {2}", any(), repeated(sum, "tensor<10xf64>", 1), kLarge));
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
  options.leastBytes = 1;
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
    CHECK(*difference <= 1e-9);
  }
  CHECK(changed > 100);
  CHECK(changed < 290);
}
