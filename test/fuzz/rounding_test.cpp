// SPDX-License-Identifier: Apache-2.0
//
// The oracle at decisions that rounding makes: they are found and counted apart, and what is wrong beside them is still found.

#include "dialects/dist/dist.h"
#include "dialects/nn/nn.h"
#include "test/fuzz/oracle.h"
#include "test/fuzz/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

#include <catch2/catch.hpp>

#include <cmath>

namespace ashlar::fuzz::rounding_test {

using namespace mlir;
using ashlar::reference::Tensor;

namespace {

// A program in which rounding decides one of many numbers: in how many of some rows one sum is larger than the same sum in another order.
// Random programs of that kind are in test/driver/fuzz_ties.test, reduced.
OwningOpRef<ModuleOp> programWithTies() {
  return test::parse(R"(
    dist.mesh @mesh <["x" = 4]>
    func.func @train_step(%x: tensor<64x16xf64> {nn.name = "x", dist.layout = #dist.layout<[{}, {"x"}]>}) -> (tensor<f64> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
      %0 = nn.reduce sum %x dims = [0, 1] : tensor<64x16xf64> -> tensor<f64>
      return %0 : tensor<f64>
    }
    func.func @eval_step(%x: tensor<64x16xf64> {nn.name = "x", dist.layout = #dist.layout<[{}, {"x"}]>})
        -> (tensor<64xf64> {nn.name = "sums"}, tensor<f64> {nn.name = "count"}) attributes {nn.program = #nn.program<eval_step>} {
      %0 = nn.reduce sum %x dims = [1] : tensor<64x16xf64> -> tensor<64xf64>
      %1 = nn.reshape %x : tensor<64x16xf64> -> tensor<64x4x4xf64>
      %2 = nn.reduce sum %1 dims = [1] : tensor<64x4x4xf64> -> tensor<64x4xf64>
      %3 = nn.reduce sum %2 dims = [1] : tensor<64x4xf64> -> tensor<64xf64>
      %4 = nn.slice %0 [0] to [31] by [1] : tensor<64xf64> -> tensor<31xf64>
      %5 = nn.slice %3 [0] to [31] by [1] : tensor<64xf64> -> tensor<31xf64>
      %6 = nn.compare gt %4, %5 : tensor<31xf64> -> tensor<31xi1>
      %7 = nn.cast %6 : tensor<31xi1> -> tensor<31xf64>
      %8 = nn.reduce sum %7 dims = [0] : tensor<31xf64> -> tensor<f64>
      return %0, %8 : tensor<64xf64>, tensor<f64>
    })");
}

// Returns a tensor of two numbers.
Tensor pairOf(double first, double second) {
  Tensor tensor(RankedTensorType::get({2}, Float64Type::get(&test::context())));
  tensor.setFloat(0, first);
  tensor.setFloat(1, second);
  return tensor;
}

// Compares (0, 0) with two numbers, where rounding moves the elements by `spreads`.
Comparison comparePair(const Tensor &computed, const Tensor &spreads) {
  Tensor expected = pairOf(0, 0);
  return compareRounded(ComparedTensor{"pair", &expected, &computed}, tolerancesOf(fuzz::Precision::F64),
                        [&](const reference::Observer &) { return FailureOr<std::vector<Tensor>>(std::vector<Tensor>{spreads}); });
}

// After partitioning, multiplies the first float result of @train_step, its loss.
struct ScaleLoss : PassWrapper<ScaleLoss, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ScaleLoss)
  explicit ScaleLoss(double factor) : factor(factor) {}
  ScaleLoss(const ScaleLoss &other) : PassWrapper(other), factor(other.factor) {}
  void runOnOperation() override {
    Operation *end = getOperation().lookupSymbol<func::FuncOp>("train_step").front().getTerminator();
    OpBuilder builder(end);
    Value loss = end->getOperand(0);
    Value constant = nn::ConstantOp::create(builder, end->getLoc(), nn::splat(cast<RankedTensorType>(loss.getType()), factor));
    end->setOperand(0, nn::MulOp::create(builder, end->getLoc(), loss, constant));
  }
  double factor;
};

// Adds a number to the count of correct rows.
struct MiscountRows : PassWrapper<MiscountRows, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MiscountRows)
  void runOnOperation() override {
    Operation *end = getOperation().lookupSymbol<func::FuncOp>("eval_step").front().getTerminator();
    OpBuilder builder(end);
    Value count = end->getOperand(1);
    Value constant = nn::ConstantOp::create(builder, end->getLoc(), nn::splat(cast<RankedTensorType>(count.getType()), 40));
    end->setOperand(1, nn::AddOp::create(builder, end->getLoc(), count, constant));
  }
};

CheckOptions with(std::function<std::unique_ptr<Pass>()> make) {
  CheckOptions options;
  options.lower = false;
  options.addPasses = [make = std::move(make)](OpPassManager &passes, ModuleOp program) {
    addDistPasses(passes, program);
    passes.addPass(make());
  };
  return options;
}

// Runs @forward of a module on its random inputs.
std::vector<Tensor> run(ModuleOp module, const reference::Observer &observer) {
  reference::EquivalenceOptions options;
  FailureOr<reference::ModuleRun> run = reference::runModule(module, 1, *reference::randomInputs(module, options), options, observer);
  REQUIRE(succeeded(run));
  std::vector<Tensor> values;
  for (reference::NamedTensor &result : run->results) {
    values.push_back(std::move(result.value));
  }
  return values;
}

} // namespace

// A direction that noise decides, as that of an update by a gradient that is 0 but for rounding: some draws bound how far elements go, not
// how far each does.
TEST_CASE("rounding: an undecided element goes as far as any of its tensor", "[fuzz]") {
  Comparison turned = comparePair(pairOf(0.7, 0.1), pairOf(0.1, 0.4));
  CHECK(turned.fault == "");
  CHECK(turned.undecided == 2);
  CHECK(comparePair(pairOf(0.9, 0.1), pairOf(0.1, 0.4)).fault != "");   // twice as far, and no further
  CHECK(comparePair(pairOf(1e-7, 0.1), pairOf(1e-8, 0.4)).fault != ""); // one that is decided has a bound of its own
}

TEST_CASE("rounding: ties that rounding parts are counted apart and fail no program", "[fuzz]") {
  Verdict verdict = checkProgram(*programWithTies(), {});
  CHECK(verdict.message == "");
  CHECK(verdict.ok());
  CHECK(verdict.undecided >= 1);
  CHECK(verdict.undecided <= 0.1 * verdict.elements);
}

TEST_CASE("rounding: what is wrong beside a tie is found", "[fuzz]") {
  OwningOpRef<ModuleOp> program = programWithTies();
  CHECK(checkProgram(*program, with([] { return std::make_unique<ScaleLoss>(1 + 1e-9); })).kind == FailureKind::Difference);
  // An undecided element itself may not be anything, either.
  CHECK(checkProgram(*program, with([] { return std::make_unique<MiscountRows>(); })).kind == FailureKind::Difference);
}

TEST_CASE("rounding: a program that rounding decides says nothing, which is a failure", "[fuzz]") {
  // Two sums of one row, in two orders: the sign of their difference is chance.
  OwningOpRef<ModuleOp> program = test::parse(R"(
    dist.mesh @mesh <["x" = 4]>
    func.func @forward(%x: tensor<64x16xf64> {nn.name = "x", dist.layout = #dist.layout<[{}, {"x"}]>}) -> (tensor<64xf64> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
      %0 = nn.reduce sum %x dims = [1] : tensor<64x16xf64> -> tensor<64xf64>
      %1 = nn.reshape %x : tensor<64x16xf64> -> tensor<64x4x4xf64>
      %2 = nn.reduce sum %1 dims = [1] : tensor<64x4x4xf64> -> tensor<64x4xf64>
      %3 = nn.reduce sum %2 dims = [1] : tensor<64x4xf64> -> tensor<64xf64>
      %4 = nn.sub %0, %3 : tensor<64xf64>
      %5 = nn.sign %4 : tensor<64xf64>
      return %5 : tensor<64xf64>
    })");
  Verdict verdict = checkProgram(*program, {});
  CHECK(verdict.kind == FailureKind::Undecided);
  CHECK(verdict.undecided > 0.9 * verdict.elements);
}

TEST_CASE("rounding: noise moves what an op rounds by some units of all it adds, and nothing else", "[fuzz]") {
  OwningOpRef<ModuleOp> program = test::parse(R"(
    func.func @forward(%x: tensor<40x8xf64>) -> (tensor<40xf64>, tensor<40x8xf64>, tensor<40x8xi1>, tensor<40xf64>) attributes {nn.program = #nn.program<run>} {
      %big = nn.constant dense<1048576.0> : tensor<40x8xf64>
      %shifted = nn.concat %x, %big dim = 1 : (tensor<40x8xf64>, tensor<40x8xf64>) -> tensor<40x16xf64>
      %minus = nn.neg %big : tensor<40x8xf64>
      %all = nn.concat %shifted, %minus dim = 1 : (tensor<40x16xf64>, tensor<40x8xf64>) -> tensor<40x24xf64>
      %sum = nn.reduce sum %all dims = [1] : tensor<40x24xf64> -> tensor<40xf64>
      %relu = nn.relu %x : tensor<40x8xf64>
      %greater = nn.compare gt %x, %relu : tensor<40x8xf64> -> tensor<40x8xi1>
      %largest = nn.reduce max %x dims = [1] : tensor<40x8xf64> -> tensor<40xf64>
      return %sum, %relu, %greater, %largest : tensor<40xf64>, tensor<40x8xf64>, tensor<40x8xi1>, tensor<40xf64>
    })");
  std::vector<Tensor> plain = run(*program, {}), moved = run(*program, roundingNoise(1)), again = run(*program, roundingNoise(1));
  double terms = 16 * 1048576, error = reference::maxDifference(plain[0], moved[0]);
  CHECK(error <= 17 * 0x1p-53 * (terms + 8));
  CHECK(error >= 0x1p-53 * terms); // although the sum itself is small
  for (size_t exact : {1, 2, 3}) {
    CHECK(reference::maxDifference(plain[exact], moved[exact]) == 0);
  }
  CHECK(reference::maxDifference(moved[0], again[0]) == 0);
}

TEST_CASE("rounding: a long sum moves by a unit for one term in eight", "[fuzz]") {
  OwningOpRef<ModuleOp> program = test::parse(R"(
    func.func @forward() -> tensor<f64> attributes {nn.program = #nn.program<run>} {
      %x = nn.constant dense<1.0> : tensor<1188xf64>
      %0 = nn.reduce sum %x dims = [0] : tensor<1188xf64> -> tensor<f64>
      return %0 : tensor<f64>
    })");
  double most = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    most = std::max(most, std::abs(run(*program, roundingNoise(seed)).front().getFloat(0) - 1188));
  }
  const double unit = 0x1p-53 * 1188;
  CHECK(most > 1188 / 16.0 * unit);
  CHECK(most <= 1188 / 8.0 * unit);
}

TEST_CASE("rounding: equal elements are moved alike where that is asked for", "[fuzz]") {
  auto program = test::parse(R"(
    func.func @forward() -> tensor<6xbf16> attributes {nn.program = #nn.program<run>} {
      %x = nn.constant dense<[1.0, 1.0, 2.0, 1.0, 2.0, 3.0]> : tensor<6xbf16>
      %0 = nn.exp %x : tensor<6xbf16>
      return %0 : tensor<6xbf16>
    })");
  auto moved = [&](uint64_t seed, bool alike) { return run(*program, roundingNoise(seed, alike)).front(); };
  bool differ = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Tensor result = moved(seed, /*alike=*/true), free = moved(seed, /*alike=*/false);
    CHECK(result.getFloat(0) == result.getFloat(1));
    CHECK(result.getFloat(0) == result.getFloat(3));
    CHECK(result.getFloat(2) == result.getFloat(4));
    differ |= free.getFloat(0) != free.getFloat(1) || free.getFloat(2) != free.getFloat(4);
  }
  CHECK(differ);
}

TEST_CASE("rounding: an element may be off by twice what rounding does to it, and no more", "[fuzz]") {
  Tensor expected = test::tensor("dense<[1.0, 2.0]> : tensor<2xf64>"), computed = expected;
  int runs = 0;
  auto rerun = [&](const reference::Observer &) -> FailureOr<std::vector<Tensor>> {
    Tensor moved = expected;
    moved.setFloat(1, 2 + (++runs % 2 == 0 ? 0.25 : -0.25));
    return std::vector<Tensor>{moved};
  };
  auto compare = [&] { return compareRounded({{"y", &expected, &computed}}, {/*close=*/1e-6, /*usable=*/1e-3}, rerun); };
  CHECK(compare().fault == "");
  CHECK(runs == 0); // what is close is not measured
  computed.setFloat(1, 2.49);
  CHECK(compare().fault == "");
  CHECK(compare().undecided == 1);
  CHECK(compare().difference == 0); // of the others
  computed.setFloat(1, 2.51);
  CHECK(compare().fault != "");
  computed.setFloat(1, std::nan(""));
  CHECK(compare().fault != "");
  computed.setFloat(1, 2.0);
  computed.setFloat(0, 1 + 1e-5);
  CHECK(StringRef(compare().fault).starts_with("y differs at element 0"));
  CHECK(compareRounded({{"y", &expected, &computed}}, {1e-4, 1e-3}, rerun).fault == "");
}

TEST_CASE("rounding: the precision of a program is that of its least exact op", "[fuzz]") {
  auto precision = [](const std::string &type) {
    return precisionOf(*test::parse("func.func @f(%x: tensor<2xf64>) -> tensor<2x" + type +
                                    "> { %0 = nn.cast %x : tensor<2xf64> -> tensor<2x" + type + ">\n return %0 : tensor<2x" + type +
                                    "> }"));
  };
  CHECK(precision("f64") == fuzz::Precision::F64);
  CHECK(precision("f32") == fuzz::Precision::F32);
  CHECK(precision("bf16") == fuzz::Precision::Narrow);
  CHECK(precision("f16") == fuzz::Precision::Narrow);
}

} // namespace ashlar::fuzz::rounding_test
