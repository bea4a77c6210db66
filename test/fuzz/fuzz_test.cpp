// SPDX-License-Identifier: Apache-2.0
//
// The parts of the fuzzer, on passes that are wrong on purpose: a failure is found, keeps its kind, and is reduced to what matters.

#include "dialects/dist/dist.h"
#include "dialects/nn/nn.h"
#include "test/fuzz/random_program.h"
#include "test/fuzz/reducer.h"
#include "test/fuzz/worker.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <map>

using namespace mlir;
using namespace ashlar;
using namespace ashlar::fuzz;

namespace {

// After partitioning, leaves out every sum over devices.
struct DropAllReduce : PassWrapper<DropAllReduce, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DropAllReduce)
  void runOnOperation() override {
    getOperation().walk([](dist::AllReduceOp op) {
      op.replaceAllUsesWith(op.getInput());
      op.erase();
    });
  }
};

// Ends the process on a transpose.
struct CrashOnTranspose : PassWrapper<CrashOnTranspose, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CrashOnTranspose)
  void runOnOperation() override {
    getOperation().walk([](nn::TransposeOp) { raise(SIGSEGV); });
  }
};

template <typename WrongPass> CheckOptions withPass() {
  CheckOptions options;
  options.lower = false;
  options.addPasses = [](OpPassManager &passes, ModuleOp program) {
    addDistPasses(passes, program);
    passes.addPass(std::make_unique<WrongPass>());
  };
  return options;
}

MLIRContext &loadedContext() {
  test::context().loadAllAvailableDialects();
  return test::context();
}

// Returns the program of the first seed that fails in this way.
OwningOpRef<ModuleOp> firstFailure(const CheckOptions &options, FailureKind kind) {
  for (uint64_t seed = 1; seed < 500; ++seed) {
    OwningOpRef<ModuleOp> program = randomProgram(loadedContext(), seed, {});
    if (program && runIsolated([&] { return checkProgram(*program, options); }, /*seconds=*/60).kind == kind) {
      return program;
    }
  }
  return {};
}

std::map<std::string, int64_t> countOps(ModuleOp module) {
  std::map<std::string, int64_t> counts;
  module.walk([&](Operation *op) { ++counts[op->getName().getStringRef().str()]; });
  return counts;
}

std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

} // namespace

TEST_CASE("fuzz: a seed stands for one program", "[fuzz]") {
  auto text = [](uint64_t seed) { return print(*randomProgram(loadedContext(), seed, {})); };
  CHECK(text(7) == text(7));
  CHECK(text(7) != text(8));
}

TEST_CASE("fuzz: a sum that a pass left out is found and reduced to one op", "[fuzz]") {
  // Ranks disagree on a result, or they agree on wrong numbers, for which the sum has to be split again.
  auto [kind, maxOps] = GENERATE(std::make_pair(FailureKind::Run, 3), std::make_pair(FailureKind::Difference, 6));
  CAPTURE(nameOf(kind).str());
  CheckOptions options = withPass<DropAllReduce>();
  OwningOpRef<ModuleOp> program = firstFailure(options, kind);
  REQUIRE(program);
  auto stillFails = [&, kind = kind](ModuleOp module) { return checkProgram(module, options).kind == kind; };
  OwningOpRef<ModuleOp> reduced = reduceProgram(*program, stillFails);
  INFO(print(*reduced));
  CHECK(stillFails(*reduced));
  CHECK(checkProgram(*reduced, {}).ok());
  std::map<std::string, int64_t> counts = countOps(*reduced);
  // What sums, perhaps what makes an operand, and the way out of the function.
  CHECK(counts["func.func"] == 1);
  CHECK(counts["nn.matmul"] + counts["nn.reduce"] + counts["nn.scatter_add"] + counts["nn.gather"] == 1);
  CHECK(std::distance(reduced->getOps<nn::VariableOp>().begin(), reduced->getOps<nn::VariableOp>().end()) <= 1);
  auto function = *reduced->getOps<func::FuncOp>().begin();
  CHECK(function.front().getOperations().size() <= static_cast<size_t>(maxOps));
  CHECK(dist::findMesh(*reduced).getMesh().getAxes().size() == 1);
}

TEST_CASE("fuzz: a pass that crashes costs one seed, and its program is reduced too", "[fuzz]") {
  CheckOptions options = withPass<CrashOnTranspose>();
  auto check = [&](ModuleOp module) { return runIsolated([&] { return checkProgram(module, options); }, /*seconds=*/60); };
  OwningOpRef<ModuleOp> program = firstFailure(options, FailureKind::Crash);
  REQUIRE(program);
  std::string signature = check(*program).signature();
  OwningOpRef<ModuleOp> reduced = reduceProgram(*program, [&](ModuleOp module) { return check(module).signature() == signature; });
  auto function = *reduced->getOps<func::FuncOp>().begin();
  CHECK(function.front().getOperations().size() == 2); // nn.transpose and return
}

TEST_CASE("fuzz: a process that ends or hangs is reported with its seed, and the others go on", "[fuzz]") {
  std::map<uint64_t, Verdict> verdicts;
  auto check = [](uint64_t seed, Census &census) -> Verdict {
    ++census["seeds"];
    if (seed == 12) {
      raise(SIGABRT);
    }
    while (seed == 15) {
      pause();
    }
    return {FailureKind::None, "", static_cast<double>(seed)};
  };
  Census census = runSeeds({10, 100, /*jobs=*/2, /*secondsPerSeed=*/1}, check,
                           [&](const SeedResult &result) { verdicts[result.seed] = result.verdict; });
  CHECK(verdicts.size() == 100);
  for (auto &[seed, verdict] : verdicts) {
    CAPTURE(seed);
    CHECK(verdict.kind == (seed == 12 || seed == 15 ? FailureKind::Crash : FailureKind::None));
    CHECK((verdict.difference == seed || !verdict.ok()));
  }
  CHECK(census["seeds"] == 94); // the processes that ended took theirs with them
}

TEST_CASE("fuzz: signatures tell kinds of failures apart, not names and numbers", "[fuzz]") {
  Verdict first{FailureKind::Passes, "\"x0\" has 6 rows", 0}, same{FailureKind::Passes, "\"y\" has 12 rows", 0};
  Verdict other{FailureKind::Passes, "\"x0\" has 6 columns", 0}, lower{FailureKind::Lower, "\"x0\" has 6 rows", 0};
  CHECK(first.signature() == same.signature());
  CHECK(first.signature() != other.signature());
  CHECK(first.signature() != lower.signature());
}

TEST_CASE("fuzz: executables on one rank and on several equal the interpreter", "[fuzz]") {
  CheckOptions options;
  options.executable = true;
  for (uint64_t seed : {2, 3}) {
    CAPTURE(seed);
    ProgramOptions f32;
    f32.f32Allowed = true;
    OwningOpRef<ModuleOp> program = randomProgram(loadedContext(), seed, f32);
    REQUIRE(program);
    CHECK(checkProgram(*program, options).message == "");
  }
}
