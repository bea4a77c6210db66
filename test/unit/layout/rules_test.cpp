// SPDX-License-Identifier: Apache-2.0
//
// Training programs under random rules of the user - on parameters, inputs, inner tensors and ops, with priorities, open dims, parts of
// axes and slice counts - compute what one rank does.

#include "compiler/reference/equivalence.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"

#include "mlir/IR/Builders.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"

#include <catch2/catch.hpp>

namespace ashlar::test::rules_test {

using namespace mlir;

namespace {

// The same sums in another order, three f64 steps of them.
constexpr double kTolerance = 1e-10;

constexpr const char *kModel = R"(
  nn.variable @w1 trainable : tensor<8x12xf64> = #nn.uniform<-1.0 : f64, 1.0 : f64>
  nn.variable @b1 trainable : tensor<8xf64> = #nn.fill<0.1 : f64>
  nn.variable @w2 trainable : tensor<16x8xf64> = #nn.normal<0.0 : f64, 0.5 : f64>
  func.func @forward(%x: tensor<24x12xf64> {nn.name = "input"}) -> (tensor<24x16xf64> {nn.name = "logits"}) attributes {nn.program = #nn.program<run>} {
    %w1 = nn.read @w1 : tensor<8x12xf64>
    %b1 = nn.read @b1 : tensor<8xf64>
    %w2 = nn.read @w2 : tensor<16x8xf64>
    %0 = nn.matmul %x, %w1 transpose_b : tensor<24x12xf64>, tensor<8x12xf64> -> tensor<24x8xf64> loc("fc1")
    %1 = nn.broadcast %b1 dims = [1] : tensor<8xf64> -> tensor<24x8xf64> loc("fc1")
    %2 = nn.add %0, %1 {nn.outputs = ["hidden"]} : tensor<24x8xf64> loc("fc1")
    %3 = nn.tanh %2 {nn.outputs = ["active"]} : tensor<24x8xf64> loc("act")
    %4 = nn.matmul %3, %w2 transpose_b : tensor<24x8xf64>, tensor<16x8xf64> -> tensor<24x16xf64> loc("fc2")
    return %4 : tensor<24x16xf64>
  }
)";

OwningOpRef<ModuleOp> trainingPrograms() {
  OwningOpRef<ModuleOp> module = parse(kModel);
  REQUIRE(succeeded(addTraining(*module)));
  return module;
}

class RandomRules {
public:
  RandomRules(uint64_t seed, dist::MeshAttr mesh) : dice(seed), mesh(mesh), builder(&context()) {}

  ArrayAttr draw() {
    using Shape = SmallVector<int64_t>;
    for (const auto &[name, shape] : std::vector<std::pair<const char *, Shape>>{{"w1", {8, 12}},
                                                                                 {"b1", {8}},
                                                                                 {"w2", {16, 8}},
                                                                                 {"w2.momentum", {16, 8}},
                                                                                 {"input", {24, 12}},
                                                                                 {"labels", {24}},
                                                                                 {"hidd*", {24, 8}},
                                                                                 {"active", {24, 8}},
                                                                                 {"loss", {}}}) {
      if (dice.roll(5) < 2) {
        add(name, text(randomLayout(dice, mesh, shape)), {}, {});
      }
    }
    addCounts();
    return builder.getArrayAttr(rules);
  }

private:
  void add(StringRef match, StringAttr layout, ArrayAttr in, ArrayAttr out) {
    rules.push_back(dist::RuleAttr::get(&context(), builder.getStringAttr(match), layout, in, out, dice.roll(3), StringAttr()));
  }

  // Writes a layout as users do: quotes or none, sometimes parts of an axis of size 4, sometimes open.
  StringAttr text(const dist::Layout &layout) {
    std::vector<std::string> dims;
    for (const dist::AxisList &axes : layout.dims) {
      std::vector<std::string> parts;
      for (StringAttr axis : axes) {
        if (mesh.axisSize(axis) == 4 && dice.roll(2) == 0) {
          parts.push_back(axis.str() + (dice.roll(2) == 0 ? ":(1)2" : ":(2)2"));
        } else {
          parts.push_back(dice.roll(2) == 0 ? axis.str() : "\"" + axis.str() + "\"");
        }
      }
      if (dice.roll(3) == 0) {
        parts.emplace_back("?");
      }
      dims.push_back("{" + llvm::join(parts, ",") + "}");
    }
    return builder.getStringAttr("[" + llvm::join(dims, ", ") + "]");
  }

  // Draws a count that divides what is left of the devices.
  int64_t count(int64_t &left) {
    for (int64_t drawn : {dice.roll(6) + 1, dice.roll(2) + 1}) {
      if (left % drawn == 0) {
        left /= drawn;
        return drawn;
      }
    }
    return 1;
  }

  ArrayAttr tuples(ArrayRef<SmallVector<int64_t>> counts) {
    return builder.getArrayAttr(
        llvm::map_to_vector(counts, [&](ArrayRef<int64_t> tuple) -> Attribute { return builder.getDenseI64ArrayAttr(tuple); }));
  }

  // Rules about fc1: x (i, k), w (j, k), bias (j) to (i, j); the output may be split otherwise.
  void addCounts() {
    int64_t left = mesh.numDevices(), leftOut = mesh.numDevices();
    int64_t i = count(left), j = count(left), k = count(left);
    SmallVector<SmallVector<int64_t>> in = {{i, k}, {j, k}, {j}};
    in.truncate(dice.roll(4));
    ArrayAttr out = dice.roll(2) == 0 ? tuples({{count(leftOut), count(leftOut)}}) : ArrayAttr();
    if (!in.empty()) {
      add("fc1", StringAttr(), tuples(in), {});
    }
    if (out) {
      rules.push_back(dist::RuleAttr::get(&context(), builder.getStringAttr("fc2"), {}, {}, out, /*priority=*/1, {}));
    }
  }

  Dice dice;
  dist::MeshAttr mesh;
  Builder builder;
  SmallVector<Attribute> rules;
};

} // namespace

TEST_CASE("rules: training programs under random rules equal one rank", "[rules][random]") {
  OwningOpRef<ModuleOp> module = trainingPrograms();
  using Axes = std::vector<std::pair<StringRef, int64_t>>;
  for (const Axes &axes : std::vector<Axes>{{{"dp", 2}, {"tp", 4}}, {{"a", 3}, {"b", 2}}, {{"x", 2}, {"y", 2}, {"z", 2}}, {{"tp", 6}}}) {
    for (uint64_t seed = testSeed(); seed < testSeed() + 12; ++seed) {
      OwningOpRef<ModuleOp> split = module->clone();
      dist::MeshAttr mesh = meshOf(context(), axes);
      ArrayAttr rules = RandomRules(seed, mesh).draw();
      std::string text;
      llvm::raw_string_ostream(text) << mesh << " " << rules;
      CAPTURE(seed, text);
      OpBuilder builder = OpBuilder::atBlockBegin(split->getBody());
      dist::MeshOp::create(builder, split->getLoc(), "mesh", mesh);
      (*split)->setAttr(dist::kRulesAttr, rules);
      REQUIRE(succeeded(partitionModule(*split, /*splitVariables=*/true)));
      reference::EquivalenceOptions options;
      options.functions = {"init", "train_step", "train_step", "eval_step"};
      options.ranksAfter = mesh.numDevices();
      options.intLimit = 4;
      FailureOr<double> difference = reference::compareModules(*module, *split, options);
      REQUIRE(succeeded(difference));
      CHECK(*difference < kTolerance);
    }
  }
}

} // namespace ashlar::test::rules_test
