// SPDX-License-Identifier: Apache-2.0
//
// Every pass before and after. The numbers of a random program stay the same through each pass of layout, partition and lowering; what the
// passes of training do, whose numbers are new, is in train_passes_test.cpp. A pass of which no test knows fails the last case.

#include "compiler/pipelines/pipelines.h"
#include "compiler/reference/equivalence.h"
#include "dialects/dist/dist.h"
#include "test/fuzz/oracle.h"
#include "test/fuzz/pass_snapshots.h"
#include "test/fuzz/random_pipeline.h"
#include "test/fuzz/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace ashlar::fuzz::pass_registry_test {

using namespace mlir;
using ashlar::reference::ModuleRun;
using ashlar::reference::Tensor;

namespace {

constexpr uint64_t kFirstSeed = 1, kLastSeed = 60;

// Passes whose result is compared in other files, which name them.
const std::map<std::string, const char *> kComparedElsewhere = {
    {"ashlar-mixed-precision", "test/fuzz/train_passes_test.cpp"},
    {"ashlar-search-layouts", "test/unit/search/layout_graph_test.cpp"},
    {"ashlar-decode", "test/unit/reference/decode_test.cpp"},
    {"ashlar-unroll-repeats", "test/unit/reference/repeat_test.cpp"},
    {"ashlar-segment-repeats", "test/unit/reference/repeat_test.cpp"},
    {"ashlar-sum-behind-repeats", "test/unit/reference/repeat_test.cpp"},
    {"ashlar-recognize-attention", "test/unit/reference/recognize_attention_test.cpp"},
    {"ashlar-accumulate", "test/fuzz/update_passes_test.cpp"},
    {"ashlar-apply-settings", "test/fuzz/update_passes_test.cpp"},
    {"ashlar-batch-norm", "test/fuzz/train_passes_test.cpp"},
    {"ashlar-clip-gradients", "test/fuzz/update_passes_test.cpp"},
    {"ashlar-loss", "test/fuzz/train_passes_test.cpp"},
    {"ashlar-autodiff", "test/fuzz/train_passes_test.cpp"},
    {"ashlar-loss-scale", "test/fuzz/update_passes_test.cpp"},
    {"ashlar-watch-nonfinite", "test/fuzz/update_passes_test.cpp"},
    {"ashlar-optimizer", "test/fuzz/update_passes_test.cpp"},
    {"ashlar-prepare-step", "test/fuzz/update_passes_test.cpp"},
    {"ashlar-init", "test/fuzz/train_passes_test.cpp"},
    {"ashlar-verify-train", "test/fuzz/train_passes_test.cpp"},
    {"ashlar-assign-stages", "test/fuzz/pipeline_test.cpp"},
    {"ashlar-shard-messages", "test/fuzz/random_pipeline.cpp"}, // compared by the oracle, on random meshes
    {"ashlar-cut-stages", "test/fuzz/pipeline_test.cpp"},
    {"ashlar-verify-stages", "test/passes/stage/verify_stages.mlir"}, // changes no program
    {"ashlar-lift-hybrid", "test/unit/layout/hybrid_test.cpp"},
    // It needs a file: what a saved strategy leads to is compared with what the rules led to.
    {"ashlar-apply-strategy", "test/driver/strategy.test"},
    // Instruction tables are not interpreted: executables are compared with the program.
    {"ashlar-plan-memory", "test/fuzz/executable.h"},
    {"ashlar-verify-exec", "test/fuzz/executable.h"},
    // They change no program: they print.
    {"ashlar-print-sharding-rules", "test/passes/layout/print_sharding_rules.mlir"},
    {"ashlar-interpret", "test/reference/interpret.mlir"},
};

std::string textOf(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns the flags of all passes that a td file declares.
std::set<std::string> declaredPasses() {
  std::set<std::string> flags;
  const std::regex declaration("def \\w+ : Pass<\"([a-z-]+)\"");
  for (const char *room : {"compiler", "dialects", "passes"}) {
    for (const auto &entry : std::filesystem::recursive_directory_iterator(std::filesystem::path(ASHLAR_SOURCE_FOLDER) / room)) {
      std::string text = entry.path().extension() == ".td" ? textOf(entry.path()) : "";
      for (std::sregex_iterator found(text.begin(), text.end(), declaration), end; found != end; ++found) {
        flags.insert((*found)[1]);
      }
    }
  }
  return flags;
}

// Returns the module between the passes that make instruction tables of a program with layouts.
std::vector<PassSnapshot> snapshotsOf(ModuleOp program) {
  std::vector<PassSnapshot> snapshots = snapshotPasses(program, [&](OpPassManager &passes) { addDistPasses(passes, program); });
  pipelines::Variant variant;
  variant.name = "default";
  for (PassSnapshot &snapshot : snapshotPasses(program, [&](OpPassManager &passes) { pipelines::addLowerPasses(passes, variant); })) {
    if (snapshot.pass != "") {
      snapshots.push_back(std::move(snapshot));
    }
  }
  return snapshots;
}

// What the program computed ahead of all passes, and the means to compute it again.
class Original {
public:
  explicit Original(ModuleOp program) : program(program.clone()), tolerances(tolerancesOf(precisionOf(program))) {
    for (const char *name : {"init", "forward", "train_step", "update", "eval_step"}) {
      if (program.lookupSymbol<func::FuncOp>(name)) {
        options.functions.push_back(name);
      }
    }
    inputs = *reference::randomInputs(program, options);
    expected = *reference::runModule(program, /*ranks=*/1, inputs, options);
  }

  // Returns what is wrong with the numbers of a later snapshot.
  std::string compare(ModuleOp snapshot, int64_t ranks) {
    FailureOr<ModuleRun> run = reference::runModule(snapshot, ranks, inputs, options);
    auto pairs = succeeded(run) ? reference::pairUp(*program, expected, *run)
                                : FailureOr<std::vector<std::pair<const reference::NamedTensor *, const Tensor *>>>(failure());
    if (failed(pairs)) {
      return "cannot be run";
    }
    std::vector<ComparedTensor> tensors;
    for (auto [x, y] : *pairs) {
      tensors.push_back({x->name, &x->value, y});
    }
    auto rerun = [&](const reference::Observer &observer) -> FailureOr<std::vector<Tensor>> {
      FailureOr<ModuleRun> moved = reference::runModule(*program, /*ranks=*/1, inputs, options, observer);
      auto pairs = reference::pairUp(*program, *moved, *run);
      std::vector<Tensor> values;
      for (auto [x, y] : *pairs) {
        values.push_back(x->value);
      }
      return values;
    };
    return compareRounded(tensors, tolerances, rerun).fault;
  }

private:
  OwningOpRef<ModuleOp> program;
  Tolerances tolerances;
  reference::EquivalenceOptions options = [] {
    reference::EquivalenceOptions none;
    none.functions.clear();
    none.intLimit = 4;
    return none;
  }();
  std::vector<std::vector<Tensor>> inputs;
  ModuleRun expected;
};

// Compares each snapshot of the seeds with the program; returns the passes that were.
std::set<std::string> compareAllStages() {
  std::set<std::string> compared;
  ProgramOptions varied;
  varied.varied = true;
  for (uint64_t seed = kFirstSeed; seed <= kLastSeed; ++seed) {
    OwningOpRef<ModuleOp> program = randomProgram(test::context(), seed, varied);
    REQUIRE(program);
    dropPipeline(*program); // snapshots are compared in pipeline_test.cpp
    int64_t devices = dist::findMesh(*program).getMesh().numDevices();
    Original original(*program);
    bool isPartitioned = false;
    for (PassSnapshot &snapshot : snapshotsOf(*program)) {
      if (snapshot.pass == "ashlar-plan-memory") {
        break;
      }
      isPartitioned |= snapshot.pass == "ashlar-partition";
      INFO("seed " << seed << " after " << snapshot.pass);
      CHECK(original.compare(*snapshot.module, isPartitioned ? devices : 1) == "");
      compared.insert(snapshot.pass);
    }
  }
  return compared;
}

} // namespace

TEST_CASE("passes: the numbers of a program stay the same through each pass, and no pass is left out", "[fuzz][passes]") {
  std::set<std::string> compared = compareAllStages();
  CHECK(compared.count("canonicalize") == 1);
  CHECK(compared.count("cse") == 1);
  std::set<std::string> declared = declaredPasses();
  CHECK(declared.size() >= 20);
  for (const std::string &flag : declared) {
    INFO(flag << " has no comparison of before and after; add one and name it here");
    auto elsewhere = kComparedElsewhere.find(flag);
    if (elsewhere == kComparedElsewhere.end()) {
      CHECK(compared.count(flag) == 1);
    } else {
      CHECK(compared.count(flag) == 0);
      CHECK(std::filesystem::exists(std::filesystem::path(ASHLAR_SOURCE_FOLDER) / elsewhere->second));
    }
  }
  for (auto &[flag, file] : kComparedElsewhere) {
    INFO(flag << " is no pass any more");
    CHECK(declared.count(flag) == 1);
  }
}

} // namespace ashlar::fuzz::pass_registry_test
