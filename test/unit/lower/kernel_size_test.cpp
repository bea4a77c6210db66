// SPDX-License-Identifier: Apache-2.0
//
// What fusion may put into one kernel, on graphs of every shape that could go past it; and that what it makes of a graph of n ops is of
// the order of n. Work is counted, not timed: ops in fusions, which is what all later passes see.

#include "test/unit/lower/compiled_kernels.h"
#include "test/unit/reference/parsed_module.h"

#include "compiler/reference/equivalence.h"
#include "dialects/exec/exec.h"
#include "passes/lower/kernels/kernel_size.h"
#include "passes/lower/passes.h"

#include "mlir/Pass/PassManager.h"
#include <catch2/catch.hpp>

namespace ashlar::test::kernel_size_test {

using namespace mlir;

namespace {

// Writes a function of n ops, line by line; values are %v0, %v1, ...
class Writer {
public:
  int count = 0;

  std::string value(int i) const { return "%v" + std::to_string(i); }
  std::string last() const { return value(count - 1); }
  void op(const std::string &text) { body += "  " + value(count++) + " = " + text + "\n"; }
  void input(const std::string &type) { arguments += (arguments.empty() ? "" : ", ") + value(count++) + ": " + type; }
  void output(const std::string &value, const std::string &type) {
    outputs += (outputs.empty() ? "" : ", ") + value;
    outputTypes += (outputTypes.empty() ? "" : ", ") + type;
  }
  std::string finish() const {
    return "func.func @f(" + arguments + ") -> (" + outputTypes + ") {\n" + body + "  return " + outputs + " : " + outputTypes + "\n}";
  }

private:
  std::string arguments, body, outputs, outputTypes;
};

const std::string kType = "tensor<4x8xf64>";

std::string chain(int n) {
  Writer w;
  w.input(kType);
  for (int i = 0; i < n; ++i) {
    w.op(i % 3 ? "nn.add " + w.last() + ", %v0 : " + kType : "nn.tanh " + w.last() + " : " + kType);
  }
  w.output(w.last(), kType);
  return w.finish();
}

std::string sumOfInputs(int n) {
  Writer w;
  for (int i = 0; i < n; ++i) {
    w.input(kType);
  }
  w.op("nn.add %v0, %v1 : " + kType);
  for (int i = 2; i < n; ++i) {
    w.op("nn.add " + w.last() + ", " + w.value(i) + " : " + kType);
  }
  w.output(w.last(), kType);
  return w.finish();
}

std::string manyReaders(int n) {
  Writer w;
  w.input(kType);
  w.op("nn.exp %v0 : " + kType);
  for (int i = 0; i < n; ++i) {
    w.op("nn.add %v1, " + w.last() + " : " + kType);
    w.output(w.last(), kType);
  }
  return w.finish();
}

// Chains that all read one value, so that each could join the group of the one before.
std::string parallelChains(int n) {
  Writer w;
  w.input(kType);
  w.op("nn.exp %v0 : " + kType);
  for (int i = 0; i < n / 4; ++i) {
    w.op("nn.neg %v1 : " + kType);
    for (int k = 0; k < 3; ++k) {
      w.op("nn.mul %v1, " + w.last() + " : " + kType);
    }
    w.output(w.last(), kType);
  }
  return w.finish();
}

std::string rowReductions(int n) {
  Writer w;
  w.input(kType);
  for (int i = 0; i < n; i += 3) {
    std::string x = w.last();
    w.op("nn.reduce max " + x + " dims = [1] : " + kType + " -> tensor<4xf64>");
    w.op("nn.broadcast " + w.last() + " dims = [0] : tensor<4xf64> -> " + kType);
    w.op("nn.sub " + x + ", " + w.last() + " : " + kType);
  }
  w.output(w.last(), kType);
  return w.finish();
}

// A chain of transposes, each of which somebody reads too: all of them copied would be n * n / 2 ops.
std::string chainOfViews(int n) {
  Writer w;
  w.input("tensor<8x8xf64>");
  for (int i = 0; i < n; i += 2) {
    std::string view = i == 0 ? "%v0" : w.value(w.count - 2);
    w.op("nn.transpose " + view + " [1, 0] : tensor<8x8xf64> -> tensor<8x8xf64>");
    w.op("nn.exp " + w.last() + " : tensor<8x8xf64>");
    w.output(w.last(), "tensor<8x8xf64>");
  }
  return w.finish();
}

// Rolls: each reads the one before at two places, so the expression of the last has 2^n leaves.
std::string rolls(int n) {
  Writer w;
  w.input(kType);
  for (int i = 0; i < n; i += 3) {
    std::string x = w.last();
    w.op("nn.slice " + x + " [1, 0] to [4, 8] by [1, 1] : " + kType + " -> tensor<3x8xf64>");
    w.op("nn.slice " + x + " [0, 0] to [1, 8] by [1, 1] : " + kType + " -> tensor<1x8xf64>");
    w.op("nn.concat " + w.value(w.count - 2) + ", " + w.last() + " dim = 0 : (tensor<3x8xf64>, tensor<1x8xf64>) -> " + kType);
  }
  w.op("nn.exp " + w.last() + " : " + kType);
  w.output(w.last(), kType);
  return w.finish();
}

struct Graph {
  const char *name;
  std::string (*make)(int);
};

constexpr Graph kGraphs[] = {{"chain", chain},
                             {"sum of inputs", sumOfInputs},
                             {"many readers", manyReaders},
                             {"parallel chains", parallelChains},
                             {"row reductions", rowReductions},
                             {"chain of views", chainOfViews},
                             {"rolls", rolls}};

OwningOpRef<ModuleOp> fused(const std::string &text, exec::Target target) {
  OwningOpRef<ModuleOp> module = test::parse(text);
  PassManager passes(module->getContext());
  passes.addNestedPass<func::FuncOp>(lower::createOrderOpsPass());
  passes.addNestedPass<func::FuncOp>(lower::createFusePass({target}));
  REQUIRE(succeeded(passes.run(*module)));
  return module;
}

// Counts the ops of all fusions, and checks each of them against the bounds.
int64_t checkFusions(ModuleOp module) {
  int64_t total = 0;
  module.walk([&](exec::FusionOp fusion) {
    int64_t code = 0, ops = 0;
    for (Operation &op : fusion.getBody().front().without_terminator()) {
      code += lower::codeOf(op);
      ++ops;
    }
    CHECK(static_cast<int64_t>(fusion.getNumOperands() + fusion.getNumResults()) <= lower::kMaxKernelBuffers);
    CHECK(code <= lower::kMaxKernelCode);
    total += ops + 1;
  });
  return total;
}

} // namespace

TEST_CASE("fusion: no kernel is larger than the bounds, and all together grow with the graph", "[lower][fuse]") {
  auto target = GENERATE(exec::Target::Cpu, exec::Target::Cuda);
  for (const Graph &graph : kGraphs) {
    INFO(graph.name);
    int64_t small = checkFusions(*fused(graph.make(1200), target)), large = checkFusions(*fused(graph.make(2400), target));
    CHECK(small >= 400);
    CHECK(large < 2.2 * small);
  }
}

TEST_CASE("fusion: a graph cut into kernels computes what it did in one piece", "[lower][fuse]") {
  std::mt19937_64 random(1);
  for (const Graph &graph : kGraphs) {
    INFO(graph.name);
    std::string text = graph.make(300);
    OwningOpRef<ModuleOp> module = test::parse(text), cut = fused(text, exec::Target::Cpu);
    test::CompiledKernels kernels(*cut, random, /*inPlace=*/true, exec::Target::Cpu);
    std::vector<reference::Tensor> inputs;
    for (Type type : module->lookupSymbol<func::FuncOp>("f").getArgumentTypes()) {
      inputs.push_back(reference::randomTensor(cast<RankedTensorType>(type), random, /*intLimit=*/10));
    }
    std::vector<reference::Tensor> expected = test::run(*module, "f", inputs), actual = kernels.run("f", inputs);
    REQUIRE(actual.size() == expected.size());
    for (size_t r = 0; r < expected.size(); ++r) {
      // f64 over chains of 300 ops whose values stay below 1000: 300 * 2^-53 * 1000.
      CHECK(reference::maxDifference(expected[r], actual[r]) < 1e-10);
    }
  }
}

TEST_CASE("fusion: one kernel holds what two held together", "[lower][fuse]") {
  Block block;
  OpBuilder builder(&test::context());
  Value x = block.addArgument(builder.getF32Type(), builder.getUnknownLoc()), y = block.addArgument(x.getType(), x.getLoc()),
        z = block.addArgument(x.getType(), x.getLoc());
  lower::KernelSize size, other;
  size.code = 10, size.passes = 3, size.live = 4;
  size.inputs.insert(x);
  size.inputs.insert(y);
  other.code = 7, other.passes = 2, other.live = 5;
  other.inputs.insert(y);
  other.inputs.insert(z);
  size.add(other);
  CHECK(size.code == 17);
  CHECK(size.passes == 3);
  CHECK(size.live == 9);
  CHECK(size.inputs.size() == 3);
}

} // namespace ashlar::test::kernel_size_test
