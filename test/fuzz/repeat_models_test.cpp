// SPDX-License-Identifier: Apache-2.0
//
// Repeats of random models: that they are of all kinds, and that what fails in a body is reduced like what fails outside.

#include "dialects/dist/dist.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/repeat/repeats.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"
#include "test/fuzz/random_program.h"
#include "test/fuzz/reducer.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <catch2/catch.hpp>

#include <map>
#include <set>

namespace ashlar::fuzz::repeat_models_test {

using namespace mlir;

namespace {

using Kinds = std::set<std::string>;

constexpr int64_t kAlignment = 64; // rows of other sizes are copied

// Adds the kinds of a carried value, by what takes its place.
void addCarriedKinds(nn::RepeatOp op, unsigned number, Kinds &kinds) {
  Value next = op.getYielded()[number];
  const std::optional<nn::RepeatArgument> argument = nn::argumentOfRepeat(next);
  const bool isCarried = argument && argument->repeat == op && argument->kind == nn::RepeatArgument::Kind::Carried;
  kinds.insert(typeOf(next).getElementType().isInteger()  ? "carries integers"
               : !isCarried                               ? "carries another value"
               : next == op.getCarriedArguments()[number] ? "carries it unchanged"
                                                          : "swaps");
}

// Returns what a repeat is like.
Kinds kindsOf(nn::RepeatOp op) {
  Kinds kinds = {op.getReversed() ? "reversed" : "forward", "count " + std::to_string(op.getCount())};
  if (op->getParentOfType<nn::RepeatOp>()) {
    kinds.insert(op.getCondition() ? "nested, with a condition" : "nested");
  } else if (op.getCondition()) {
    kinds.insert("has a condition");
  }
  for (unsigned i = 0; i < op.getCarried().size(); ++i) {
    addCarriedKinds(op, i, kinds);
  }
  for (Value row : op.getYieldedStacked()) {
    const int64_t bytes = byteSize(typeOf(row));
    kinds.insert(bytes < kAlignment ? "small rows" : bytes % kAlignment != 0 ? "uneven rows" : "aligned rows");
    const std::optional<nn::RepeatArgument> argument = nn::argumentOfRepeat(row);
    kinds.insert(row.getDefiningOp<nn::ConstantOp>() ? "stacks a constant" : argument ? "stacks an argument" : "stacks");
  }
  for (Value operand : op.getOperands()) {
    if (operand.getDefiningOp<nn::RepeatOp>()) {
      kinds.insert("feeds another");
    }
  }
  for (Value stack : op.getSliced()) {
    kinds.insert(stack.getDefiningOp<nn::ReadOp>()       ? "slices a parameter"
                 : stack.getDefiningOp<nn::ConstantOp>() ? "slices a constant"
                                                         : "slices a tensor");
  }
  for (Value captured : op.getCaptured()) {
    kinds.insert(captured.getDefiningOp<nn::ReadOp>() ? "captures a variable" : "captures a tensor");
  }
  op.getBody().walk([&](Operation *each) { kinds.insert(each->getName().getStringRef().str()); });
  return kinds;
}

} // namespace

TEST_CASE("fuzz: random models have repeats of all kinds", "[fuzz]") {
  constexpr uint64_t kSeeds = 1000;
  ProgramOptions options;
  options.varied = true;
  std::map<std::string, int> counts; // of models
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    RandomModel model = randomModel(test::context(), seed, options);
    Kinds kinds;
    model.module->walk([&](nn::RepeatOp op) {
      Kinds more = kindsOf(op);
      kinds.insert(model.job.has_loss() ? "trains" : "runs forward");
      kinds.insert(more.begin(), more.end());
    });
    for (const std::string &kind : kinds) {
      ++counts[kind];
    }
  }
  for (const char *kind : {"trains",
                           "runs forward",
                           "nested",
                           "nested, with a condition",
                           "has a condition",
                           "reversed",
                           "forward",
                           "small rows",
                           "uneven rows",
                           "aligned rows",
                           "carries another value",
                           "carries it unchanged",
                           "swaps",
                           "carries integers",
                           "stacks",
                           "stacks a constant",
                           "stacks an argument",
                           "feeds another",
                           "slices a parameter",
                           "slices a constant",
                           "slices a tensor",
                           "captures a variable",
                           "captures a tensor",
                           "count 0",
                           "count 1",
                           "count 2",
                           "count 3",
                           "count 4",
                           "count 5"}) {
    CAPTURE(kind, counts[kind]);
    CHECK(counts[kind] >= 20);
  }
  for (const char *op : {"nn.attention", "nn.conv", "nn.matmul", "nn.reduce", "nn.gather", "nn.scatter_add", "nn.random", "nn.softmax",
                         "nn.cast", "nn.concat", "nn.windows", "nn.resample"}) {
    CAPTURE(op, counts[op]);
    CHECK(counts[op] >= 5);
  }
}

TEST_CASE("fuzz: what fails in a body is reduced to one op of it", "[fuzz]") {
  OwningOpRef<ModuleOp> program = test::parse(R"(
    dist.mesh @mesh <["x" = 2]>
    func.func @forward(%x: tensor<2x3xf64> {nn.name = "x"}, %xs: tensor<4x2x3xf64> {nn.name = "xs"})
        -> (tensor<2x3xf64> {nn.name = "y"}, tensor<4x2x3xf64> {nn.name = "ys"}) attributes {nn.program = #nn.program<run>} {
      %c = nn.constant dense<2.0> : tensor<2x3xf64>
      %0:2 = nn.repeat 4 reversed carried(%h = %x, %g = %c) sliced(%row = %xs) captured(%v = %x)
          : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<4x2x3xf64>, tensor<2x3xf64>) -> (tensor<2x3xf64>, tensor<2x3xf64>) {
        %1 = nn.add %h, %row : tensor<2x3xf64>
        %2 = nn.mul %1, %v : tensor<2x3xf64>
        %3 = nn.tanh %2 : tensor<2x3xf64>
        nn.yield %3, %h : tensor<2x3xf64>, tensor<2x3xf64>
      }
      %4 = nn.repeat 4 sliced(%row = %xs) captured(%u = %0#0, %w = %0#1) : (tensor<4x2x3xf64>, tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<4x2x3xf64> {
        %5 = nn.add %row, %u : tensor<2x3xf64>
        %6 = nn.add %5, %w : tensor<2x3xf64>
        nn.yield %6 : tensor<2x3xf64>
      }
      return %0#0, %4 : tensor<2x3xf64>, tensor<4x2x3xf64>
    })");
  auto hasTanh = [](ModuleOp module) {
    return module.walk([](nn::TanhOp op) { return op->getParentOfType<nn::RepeatOp>() ? WalkResult::interrupt() : WalkResult::advance(); })
        .wasInterrupted();
  };
  OwningOpRef<ModuleOp> reduced = reduceProgram(*program, hasTanh);
  std::map<std::string, int> counts;
  reduced->walk([&](Operation *op) { ++counts[op->getName().getStringRef().str()]; });
  CAPTURE(counts);
  CHECK(counts["nn.repeat"] == 1);
  CHECK(counts["nn.tanh"] == 1);
  CHECK(counts["nn.yield"] == 1);
  CHECK(counts["nn.add"] + counts["nn.mul"] + counts["nn.constant"] == 0);
  reduced->walk([](nn::RepeatOp op) {
    CHECK(!op.getReversed());
    CHECK(op.getNumResults() == 1);
    CHECK(op.getCount() == 1);
  });
}

} // namespace ashlar::fuzz::repeat_models_test
