// SPDX-License-Identifier: Apache-2.0
//
// Random losses compute the same in blocks, however small the values are that are cut; and losses of jobs whose vocabulary is sharded.

#include "passes/partition/passes.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/reference/parsed_module.h"

#include "compiler/reference/equivalence.h"
#include "dialects/dist/dist.h"
#include "dialects/nn/nn.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

#include <catch2/catch.hpp>

#include <random>

namespace ashlar::test::compute_in_blocks_test {

using namespace mlir;

namespace {

// Writes a function of a product of 12 rows, (4, 3) samples and tokens, and 10 columns: random ops on it, some of which take rows, columns
// or another product, and smaller results of them. Of a sum over all rows nothing follows, or now and then another op, which no block can
// have. Where columns are sharded over two devices, so that each has 10 of 20, collectives lie between.
class RandomLoss {
public:
  RandomLoss(uint64_t seed, bool isSharded) : random(seed), isSharded(isSharded) {}

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
        "{0}func.func @forward(%x: tensor<12x4xf32>, %w: tensor<4x10xf32>{1}, %rows: tensor<12xf32>, %columns: tensor<10xf32>{2}) -> "
        "(tensor<4x10xf32>{1}, tensor<12x4xf32>{3}, tensor<12xf32>{4}) attributes {{nn.program = #nn.program<run>} {\n{5}  return {6}, "
        "{7}, "
        "{8} : tensor<4x10xf32>, tensor<12x4xf32>, tensor<12xf32>\n}\n",
        isSharded ? "dist.mesh @mesh <[\"tp\" = 2]>\n" : "", layout("[{}, {\"tp\"}]", "4x20xf32"), layout("[{\"tp\"}]", "20xf32"),
        layout("[{}, {}], partial = sum {\"tp\"}", "12x4xf32"), layout("[{}], partial = max {\"tp\"}", "12xf32"), text, dw, dx, most);
  }

private:
  // Returns the attributes of an argument or result.
  std::string layout(const char *sharded, const char *globalType) const {
    return isSharded ? llvm::formatv(" {{dist.layout = #dist.layout<{0}>, dist.global_type = tensor<{1}>}", sharded, globalType).str() : "";
  }

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
    switch (isSharded && roll(3) == 0 ? -1 : roll(11)) {
    case -1:
      addExchange();
      break;
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

  // Adds numbers of the rows that devices exchange: in rows of one or 4 numbers, or in samples of 3 rows. No block can have those of other
  // rows.
  void addExchange() {
    auto define = [&](const char *op, const std::string &value) { return this->define(llvm::formatv(op, value)); };
    const std::string most = define("nn.reduce max {0} dims = [1] : tensor<12x10xf32> -> tensor<12xf32>", any());
    const std::string few = define("nn.slice {0} [0, 3] to [12, 7] by [1, 1] : tensor<12x10xf32> -> tensor<12x4xf32>", any());
    std::string wide, rows;
    switch (roll(10)) {
    case 0:
      rows = define("dist.all_reduce max {0} over [\"tp\"] : tensor<12xf32>", most);
      break;
    case 1:
      rows = define("dist.all_reduce sum {0} over [\"tp\"] : tensor<12xf32>", most);
      break;
    case 2:
      rows = define("dist.permute {0} sources = [1, 0] over [\"tp\"] : tensor<12xf32>", most);
      break;
    case 3:
      rows = define("dist.broadcast {0} root = 1 over [\"tp\"] : tensor<12xf32>", most);
      break;
    case 4:
      wide = define("dist.all_gather {0} dim = 1 over [\"tp\"] : tensor<12x4xf32> -> tensor<12x8xf32>", few);
      rows = define("nn.reduce max {0} dims = [1] : tensor<12x8xf32> -> tensor<12xf32>", wide);
      break;
    case 5:
      wide = define("dist.reduce_scatter sum {0} dim = 1 over [\"tp\"] : tensor<12x4xf32> -> tensor<12x2xf32>", few);
      wide = define("dist.slice {0} dim = 1 over [\"tp\"] : tensor<12x2xf32> -> tensor<12x1xf32>", wide);
      rows = define("nn.reshape {0} : tensor<12x1xf32> -> tensor<12xf32>", wide);
      break;
    case 6:
      wide = define("dist.halo {0} dim = 1 size = 8 from <positions = 8> to <positions = 8, first = -1, last = 2> over [\"tp\"] : "
                    "tensor<12x4xf32> -> tensor<12x6xf32>",
                    few);
      rows = define("nn.reduce max {0} dims = [1] : tensor<12x6xf32> -> tensor<12xf32>", wide);
      break;
    case 7: {
      wide = define("nn.reshape {0} : tensor<12x4xf32> -> tensor<4x3x4xf32>", few);
      wide = define("dist.all_to_all {0} split_dim = 2 concat_dim = 1 over [\"tp\"] : tensor<4x3x4xf32> -> tensor<4x6x2xf32>", wide);
      rows = define("nn.reduce max {0} dims = [1, 2] : tensor<4x6x2xf32> -> tensor<4xf32>", wide);
      wide = define("nn.broadcast {0} dims = [0] : tensor<4xf32> -> tensor<4x3xf32>", rows);
      rows = define("nn.reshape {0} : tensor<4x3xf32> -> tensor<12xf32>", wide);
      break;
    }
    case 8:
      wide = define("dist.all_gather {0} dim = 0 over [\"tp\"] : tensor<12xf32> -> tensor<24xf32>", most);
      rows = define("nn.slice {0} [6] to [18] by [1] : tensor<24xf32> -> tensor<12xf32>", wide);
      break;
    default:
      wide = define("dist.slice {0} dim = 0 over [\"tp\"] : tensor<12xf32> -> tensor<6xf32>", most);
      rows = define("dist.all_gather {0} dim = 0 over [\"tp\"] : tensor<6xf32> -> tensor<12xf32>", wide);
    }
    wide = define("nn.broadcast {0} dims = [0] : tensor<12xf32> -> tensor<12x10xf32>", rows);
    add(llvm::formatv("nn.sub {0}, {1} : tensor<12x10xf32>", any(), wide));
  }

  std::mt19937_64 random;
  bool isSharded;
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
  options.timeShare = 1'000'000;
  PassManager passes(module.getContext());
  passes.addNestedPass<func::FuncOp>(partition::createComputeInBlocksPass(options));
  REQUIRE(succeeded(passes.run(module)));
  return countProducts() - before;
}

} // namespace

namespace {

void checkRandomLosses(bool isSharded) {
  int changed = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    OwningOpRef<ModuleOp> module = parse(RandomLoss(seed, isSharded).write());
    OwningOpRef<ModuleOp> blocks = module->clone();
    changed += cut(*blocks) > 0;
    reference::EquivalenceOptions options;
    options.ranksBefore = options.ranksAfter = isSharded ? 2 : 1;
    FailureOr<double> difference = reference::compareModules(*module, *blocks, options);
    REQUIRE(succeeded(difference));
    CHECK(*difference <= 1e-4); // sums of up to 12 terms, in another order
  }
  CHECK(changed > 100);
  CHECK(changed < 290);
}

// A language model's head on 24 rows and a vocabulary of 40, which is sharded. `ops` make the loss of `%s`, the logits, and the labels.
struct HeadLoss {
  const char *name, *ops;
};

constexpr HeadLoss kLosses[] = {
    {"plain", R"(
  %r = nn.softmax_cross_entropy %s, %labels : tensor<24x40xf32>, tensor<24xi64> -> tensor<24xf32>)"},
    {"ignore_index: label 3 does not count", R"(
  %ignored = nn.constant dense<3> : tensor<24xi64>
  %is = nn.compare ne %labels, %ignored : tensor<24xi64> -> tensor<24xi1>
  %counts = nn.cast %is : tensor<24xi1> -> tensor<24xf32>
  %all = nn.softmax_cross_entropy %s, %labels : tensor<24x40xf32>, tensor<24xi64> -> tensor<24xf32>
  %counted = nn.mul %all, %counts : tensor<24xf32>
  %count = nn.reduce sum %counts dims = [0] : tensor<24xf32> -> tensor<f32>
  %each = nn.broadcast %count dims = [] : tensor<f32> -> tensor<24xf32>
  %r = nn.div %counted, %each : tensor<24xf32>)"},
    {"class weights", R"(
  %class = nn.read @class.weight : tensor<40xf32>
  %weights = nn.gather %class, %labels : tensor<40xf32>, tensor<24xi64> -> tensor<24xf32>
  %all = nn.softmax_cross_entropy %s, %labels : tensor<24x40xf32>, tensor<24xi64> -> tensor<24xf32>
  %r = nn.mul %all, %weights : tensor<24xf32>)"},
    {"label smoothing", R"(
  %all = nn.softmax_cross_entropy %s, %labels : tensor<24x40xf32>, tensor<24xi64> -> tensor<24xf32>
  %log = nn.log_softmax %s : tensor<24x40xf32>
  %sum = nn.reduce sum %log dims = [1] : tensor<24x40xf32> -> tensor<24xf32>
  %share = nn.constant dense<0.01> : tensor<24xf32>
  %smooth = nn.mul %sum, %share : tensor<24xf32>
  %r = nn.sub %all, %smooth : tensor<24xf32>)"},
    {"z-loss: the square of the log-sum-exp", R"(
  %all = nn.softmax_cross_entropy %s, %labels : tensor<24x40xf32>, tensor<24xi64> -> tensor<24xf32>
  %exp = nn.exp %s : tensor<24x40xf32>
  %sum = nn.reduce sum %exp dims = [1] : tensor<24x40xf32> -> tensor<24xf32>
  %lse = nn.log %sum : tensor<24xf32>
  %square = nn.mul %lse, %lse : tensor<24xf32>
  %share = nn.constant dense<0.01> : tensor<24xf32>
  %z = nn.mul %square, %share : tensor<24xf32>
  %r = nn.add %all, %z : tensor<24xf32>)"},
};

// A mesh, and the layout of the inputs and the logits: rows replicated, sharded over dp, or, of the inputs alone, over tp, as sequence
// parallelism has them.
struct HeadMesh {
  const char *mesh, *inputs, *logits;
  int64_t ranks;
};

constexpr HeadMesh kMeshes[] = {
    {R"("tp" = 2)", "[{}, {}]", R"([{}, {"tp"}])", 2},
    {R"("tp" = 4)", "[{}, {}]", R"([{}, {"tp"}])", 4},
    {R"("dp" = 2, "tp" = 2)", R"([{"dp"}, {}])", R"([{"dp"}, {"tp"}])", 4},
    {R"("tp" = 2)", R"([{"tp"}, {}])", R"([{}, {"tp"}])", 2},
};

std::string writeHead(const HeadLoss &loss, const HeadMesh &mesh) {
  return llvm::formatv(R"(
dist.mesh @mesh <[{0}]>
nn.variable @head.weight trainable : tensor<8x40xf32> = #nn.uniform<-1.0 : f64, 1.0 : f64> {{dist.layout = #dist.layout<[{{}, {{"tp"}]>}
nn.variable @class.weight : tensor<40xf32> = #nn.uniform<0.5 : f64, 2.0 : f64>
func.func @forward(%x: tensor<24x8xf32> {{nn.name = "x", dist.layout = #dist.layout<{1}>},
                   %labels: tensor<24xi64> {{nn.name = "labels"}) -> (tensor<f32> {{nn.name = "loss"}) attributes {{nn.program = #nn.program<run>} {{
  %w = nn.read @head.weight : tensor<8x40xf32>
  %t = nn.tanh %x : tensor<24x8xf32>
  %s = nn.matmul %t, %w : tensor<24x8xf32>, tensor<8x40xf32> -> tensor<24x40xf32>{2}
  %mean = nn.reduce sum %r dims = [0] : tensor<24xf32> -> tensor<f32>
  return %mean : tensor<f32>
})",
                       mesh.mesh, mesh.inputs, loss.ops);
}

// Returns the elements of the largest value of a training step that is made of others; what is made of nothing needs no memory.
int64_t largestValue(ModuleOp module) {
  int64_t most = 0;
  module.lookupSymbol<func::FuncOp>("train_step").walk([&](Operation *op) {
    for (Type type : op->getNumOperands() > 0 ? TypeRange(op->getResultTypes()) : TypeRange()) {
      most = std::max(most, cast<RankedTensorType>(type).getNumElements());
    }
  });
  return most;
}

} // namespace

TEST_CASE("compute in blocks: random losses give the same numbers", "[partition]") {
  checkRandomLosses(/*isSharded=*/false);
}

TEST_CASE("compute in blocks: random losses with collectives give the same numbers", "[partition]") {
  checkRandomLosses(/*isSharded=*/true);
}

TEST_CASE("compute in blocks: losses on a sharded vocabulary give the same numbers, and have no logits whole", "[partition]") {
  for (const HeadLoss &loss : kLosses) {
    for (const HeadMesh &mesh : kMeshes) {
      INFO(loss.name << ", mesh " << mesh.mesh << ", inputs " << mesh.inputs);
      OwningOpRef<ModuleOp> module = parse(writeHead(loss, mesh));
      job::Job job;
      job.mutable_loss()->mutable_model_output()->set_tensor("loss");
      job.mutable_optimizer()->mutable_sgd();
      job.mutable_optimizer()->set_learning_rate(0.1);
      PassManager train(&context());
      pipelines::addTrainPasses(train, job);
      REQUIRE(succeeded(train.run(*module)));
      OwningOpRef<ModuleOp> blocks = module->clone();
      Attribute logits = parseAttribute(llvm::formatv("#dist.layout<{0}>", mesh.logits).str(), &context());
      blocks->walk([&](nn::MatMulOp product) {
        if (product.getType().getShape() == ArrayRef<int64_t>{24, 40} && !product.getTransposeA()) {
          product->setAttr(dist::kLayoutsAttr, ArrayAttr::get(&context(), logits));
        }
      });
      pipelines::Variant variant = variantOf(*blocks);
      variant.cutsSmall = true;
      PassManager passes(&context());
      pipelines::addLayoutPasses(passes, variant, job);
      pipelines::addDistPasses(passes, variant);
      REQUIRE(succeeded(passes.run(*blocks)));
      CHECK(largestValue(*blocks) < 24 * 40 / mesh.ranks);
      reference::EquivalenceOptions options;
      options.functions = {"train_step"};
      options.ranksAfter = mesh.ranks;
      FailureOr<double> difference = reference::compareModules(*module, *blocks, options);
      REQUIRE(succeeded(difference));
      CHECK(*difference <= 1e-5); // sums of 24 rows and 40 columns, in another order
    }
  }
}

} // namespace ashlar::test::compute_in_blocks_test
