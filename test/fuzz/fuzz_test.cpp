// SPDX-License-Identifier: Apache-2.0
//
// The parts of the fuzzer, on passes that are wrong on purpose: a failure is found, keeps its kind, and is reduced to what matters.

#include "dialects/dist/dist.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/programs.h"
#include "test/fuzz/random_pipeline.h"
#include "test/fuzz/random_program.h"
#include "test/fuzz/reducer.h"
#include "test/fuzz/summary.h"
#include "test/fuzz/worker.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <csignal>
#include <map>
#include <set>

#include <sys/mman.h>
#include <unistd.h>

namespace ashlar::fuzz::fuzz_test {

using namespace mlir;

namespace {

// After partitioning, leaves out every sum over devices.
struct DropAllReduce : PassWrapper<DropAllReduce, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DropAllReduce)
  void runOnOperation() override {
    getOperation().walk([](dist::AllReduceOp op) {
      op.replaceAllUsesWith(op.getInputs());
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

// After the cut, has the last stage keep its parameters as they are.
struct SkipUpdate : PassWrapper<SkipUpdate, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SkipUpdate)
  void runOnOperation() override {
    SmallVector<ModuleOp> stages(getOperation().getOps<ModuleOp>());
    if (stages.empty()) {
      return;
    }
    stages.back().walk([&](nn::WriteOp write) {
      auto variable = stages.back().lookupSymbol<nn::VariableOp>(write.getVariable());
      if (variable.getTrainable() && nn::hasRole(write->getParentOp(), nn::ProgramRole::Update)) {
        write.erase();
      }
    });
  }
};

// After the cut, gives all micro-batches of a stage one slot.
struct ShareSlot : PassWrapper<ShareSlot, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ShareSlot)
  void runOnOperation() override {
    for (auto stage : getOperation().getOps<ModuleOp>()) {
      auto attribute = stage->getAttrOfType<dist::StageAttr>(dist::kStageAttr);
      stage->setAttr(dist::kStageAttr, dist::StageAttr::get(&getContext(), attribute.getIndex(), attribute.getCount(), /*slots=*/1));
    }
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
  return test::context();
}

// Returns the program of the first seed that fails in this way, of those without repeats where `flat`.
OwningOpRef<ModuleOp> firstFailure(const CheckOptions &options, FailureKind kind, const ProgramOptions &programs = {}, bool flat = false) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    OwningOpRef<ModuleOp> program = randomProgram(loadedContext(), seed, programs);
    bool isDrawn = static_cast<bool>(program);
    if (isDrawn && flat) {
      program->walk([&](nn::RepeatOp) { isDrawn = false; });
    }
    if (isDrawn && runIsolated([&] { return checkProgram(*program, options); }, /*seconds=*/60).kind == kind) {
      return program;
    }
  }
  return {};
}

// Returns the program of the first seed that has a pipeline.
OwningOpRef<ModuleOp> firstPipeline() {
  ProgramOptions varied;
  varied.varied = true;
  for (uint64_t seed = 1; seed < 500; ++seed) {
    if (OwningOpRef<ModuleOp> program = randomProgram(loadedContext(), seed, varied); pipelineOf(*program)) {
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
  OwningOpRef<ModuleOp> program = firstFailure(options, kind, {}, /*flat=*/true); // one that fails by a single sum
  REQUIRE(program);
  auto stillFails = [&, kind = kind](ModuleOp module) { return checkProgram(module, options).kind == kind; };
  OwningOpRef<ModuleOp> reduced = reduceProgram(*program, stillFails);
  INFO(print(*reduced));
  CHECK(stillFails(*reduced));
  CHECK(checkProgram(*reduced, {}).ok());
  std::map<std::string, int64_t> counts = countOps(*reduced);
  // What sums, perhaps what makes an operand, and the way out of the function.
  CHECK(counts["func.func"] == 1);
  const int64_t ofWindows = counts["nn.conv"] + counts["nn.conv_data"] + counts["nn.conv_weights"];
  CHECK(counts["nn.matmul"] + counts["nn.reduce"] + counts["nn.scatter_add"] + counts["nn.gather"] + ofWindows == 1);
  CHECK(std::distance(reduced->getOps<nn::VariableOp>().begin(), reduced->getOps<nn::VariableOp>().end()) <= 1);
  auto function = *reduced->getOps<func::FuncOp>().begin();
  CHECK(function.front().getOperations().size() <= static_cast<size_t>(maxOps));
  CHECK(dist::findMesh(*reduced).getMesh().getAxes().size() == 1);
}

TEST_CASE("fuzz: an update that a stage leaves out and a slot that is taken too early are found", "[fuzz]") {
  auto [options, kind] =
      GENERATE(std::make_pair(withPass<SkipUpdate>(), FailureKind::Difference), std::make_pair(withPass<ShareSlot>(), FailureKind::Run));
  CAPTURE(nameOf(kind).str());
  ProgramOptions varied;
  varied.varied = true;
  OwningOpRef<ModuleOp> program = firstFailure(options, kind, varied);
  REQUIRE(program);
  REQUIRE(pipelineOf(*program));
  CheckOptions right;
  right.lower = false;
  CHECK(checkProgram(*program, right).ok());
  if (kind == FailureKind::Difference) { // to reduce one of the two tells enough
    return;
  }
  auto stillFails = [&, &options = options, kind = kind](ModuleOp module) {
    return pipelineOf(module) && checkProgram(module, options).kind == kind && checkProgram(module, right).ok();
  };
  OwningOpRef<ModuleOp> reduced = reduceProgram(*program, stillFails);
  INFO(print(*reduced));
  CHECK(stillFails(*reduced));
  CHECK(pipelineOf(*reduced)->stages == 2);
  CHECK(pipelineOf(*reduced)->microBatches == 2);
}

TEST_CASE("fuzz: a pipeline is left out of what fails without it", "[fuzz]") {
  OwningOpRef<ModuleOp> program = firstPipeline();
  REQUIRE(program);
  OwningOpRef<ModuleOp> reduced = reduceProgram(*program, [](ModuleOp module) { return static_cast<bool>(module.lookupSymbol("init")); });
  CHECK(!pipelineOf(*reduced));
}

TEST_CASE("fuzz: a program with too few ops for its stages is counted and checked whole", "[fuzz]") {
  OwningOpRef<ModuleOp> program = firstPipeline();
  REQUIRE(program);
  Census census;
  CheckOptions options;
  options.lower = false;
  options.census = &census;
  CHECK(checkProgram(*program, options).ok());
  CHECK(census[kPipelineCensus] == 1);
  CHECK(census[kRefusedPipelineCensus] == 0);
  pipelines::Stages many = *pipelineOf(*program);
  many.stages = many.microBatches = 1000;
  setPipeline(*program, many);
  CHECK(checkProgram(*program, options).ok());
  CHECK(census[kPipelineCensus] == 1);
  CHECK(census[kRefusedPipelineCensus] == 1);
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
    return {FailureKind::None, "", static_cast<double>(seed), 2, 1};
  };
  Census census = runSeeds({10, 100, /*jobs=*/2, /*secondsPerSeed=*/1}, check,
                           [&](const SeedResult &result) { verdicts[result.seed] = result.verdict; });
  CHECK(verdicts.size() == 100);
  for (auto &[seed, verdict] : verdicts) {
    CAPTURE(seed);
    CHECK(verdict.kind == (seed == 12 ? FailureKind::Crash : seed == 15 ? FailureKind::Timeout : FailureKind::None));
    CHECK((verdict.difference == seed || !verdict.ok()));
  }
  CHECK(census["seeds"] == 94); // the processes that ended took theirs with them
}

TEST_CASE("fuzz: whatever its processes do, a run reports each seed once", "[fuzz]") {
  // Each process that begins with an odd number of starts before it dies ahead of its first seed; one in seven seeds kills it, too.
  auto *starts =
      static_cast<std::atomic<int> *>(mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(starts != MAP_FAILED);
  int how = GENERATE(SIGKILL, SIGABRT, 0);
  auto die = [how] { how != 0 ? (void)raise(how) : _exit(0); };
  Run run{10, 230, /*jobs=*/2, /*secondsPerSeed=*/60, [&] {
            if (starts->fetch_add(1) % 2 == 1) {
              die();
            }
          }};
  std::multiset<uint64_t> seeds;
  Summary summary(run.begin, run.count);
  uint64_t dead = 0;
  auto check = [&](uint64_t seed, Census &) -> Verdict {
    if (seed % 7 == 0) {
      die();
    }
    return {};
  };
  runSeeds(run, check, [&](const SeedResult &result) {
    seeds.insert(result.seed);
    summary.add(result);
    dead += result.verdict.kind == FailureKind::Crash;
    CHECK((result.seed % 7 != 0 || !result.verdict.ok()));
  });
  munmap(starts, sizeof(*starts));
  CHECK(seeds.size() == 230);
  CHECK(std::set<uint64_t>(seeds.begin(), seeds.end()).size() == 230);
  CHECK(dead > 230 / 7);
  CHECK(summary.getFailures().size() == dead);
  CHECK(StringRef(summary.text())
            .ends_with(std::to_string(230 - dead) + " passed, 0 failed, " + std::to_string(dead) + " died, 0 timed out"));
  CHECK(!summary.allPassed());
}

TEST_CASE("fuzz: a process that dies ahead of its check has not passed", "[fuzz]") {
  Verdict verdict;
  runSeeds(
      {0, 1, 1, 60, [] { _exit(0); }}, [](uint64_t, Census &) { return Verdict(); },
      [&](const SeedResult &result) { verdict = result.verdict; });
  CHECK(verdict.kind == FailureKind::Crash);
}

TEST_CASE("fuzz: a run with a seed that has no verdict has not passed", "[fuzz]") {
  Summary summary(5, 3);
  summary.add({5, {}});
  summary.add({6, {}});
  CHECK(!summary.allPassed());
  CHECK(StringRef(summary.text()).ends_with("2 passed, 0 failed, 0 died, 0 timed out, 1 have no verdict"));
  summary.add({6, {}}); // again, and one that was not asked for
  summary.add({8, {}});
  CHECK(!summary.allPassed());
  summary.add({7, {}});
  CHECK(summary.allPassed());
  CHECK(StringRef(summary.text()).ends_with("3 seeds from 5: 3 passed, 0 failed, 0 died, 0 timed out"));
}

TEST_CASE("fuzz: of each kind of failure some are reduced, not only the first of a run", "[fuzz]") {
  Summary summary(1, 9);
  for (uint64_t seed : {8, 3, 5, 2}) {
    summary.add({seed, {FailureKind::Lower, "too many of " + std::to_string(seed)}});
  }
  summary.add({4, {FailureKind::Difference, "other numbers"}});
  summary.add({6, {}});
  std::vector<uint64_t> seeds;
  for (const SeedResult &failure : summary.failuresToReduce(/*each=*/3)) {
    seeds.push_back(failure.seed);
  }
  CHECK(seeds == std::vector<uint64_t>{2, 3, 4, 5});
}

TEST_CASE("fuzz: a run that rounding decides has not passed", "[fuzz]") {
  Summary summary(1, 2);
  summary.add({1, {FailureKind::None, "", 0, /*elements=*/100, /*undecided=*/1}});
  summary.add({2, {FailureKind::None, "", 0, 100, 1}});
  CHECK(summary.allPassed());
  Summary worse(1, 2);
  worse.add({1, {FailureKind::None, "", 0, 100, 2}});
  worse.add({2, {FailureKind::None, "", 0, 100, 1}});
  CHECK(!worse.allPassed());
}

TEST_CASE("fuzz: a program with nothing to run does not pass", "[fuzz]") {
  OwningOpRef<ModuleOp> program = test::parse(R"(
    dist.mesh @mesh <["x" = 2]>
    func.func @backward(%x: tensor<4xf64>) -> tensor<4xf64> attributes {nn.program = #nn.program<backward>} { return %x : tensor<4xf64> })");
  Verdict verdict = runIsolated([&] { return checkProgram(*program, {}); }, /*seconds=*/60);
  CHECK(verdict.kind == FailureKind::Program);
  CHECK(StringRef(verdict.message).starts_with("no function to run"));
}

TEST_CASE("fuzz: signatures tell kinds of failures apart, not names and numbers", "[fuzz]") {
  Verdict first{FailureKind::Passes, "\"x0\" has 6 rows"}, same{FailureKind::Passes, "\"y\" has 12 rows"};
  Verdict other{FailureKind::Passes, "\"x0\" has 6 columns"}, lower{FailureKind::Lower, "\"x0\" has 6 rows"};
  CHECK(first.signature() == same.signature());
  CHECK(first.signature() != other.signature());
  CHECK(first.signature() != lower.signature());
}

TEST_CASE("fuzz: executables on one rank and on several equal the interpreter", "[fuzz]") {
  CheckOptions options;
  options.executable = true;
  for (uint64_t seed : {2, 3}) {
    CAPTURE(seed);
    ProgramOptions varied;
    varied.varied = true;
    OwningOpRef<ModuleOp> program = randomProgram(loadedContext(), seed, varied);
    REQUIRE(program);
    CHECK(checkProgram(*program, options).message == "");
  }
}

} // namespace ashlar::fuzz::fuzz_test
