// SPDX-License-Identifier: Apache-2.0
//
// ashlar-cut-stages on random models: what the stages compute, run in their order, is bit by bit what the whole model does.

#include "dialects/dist/dist.h"
#include "dialects/nn/nn.h"
#include "passes/partition/passes.h"
#include "passes/stage/order_file.h"
#include "passes/stage/passes.h"
#include "test/fuzz/pipeline_runs.h"
#include "test/fuzz/random_layout.h"
#include "test/fuzz/random_training.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <unistd.h>

namespace ashlar::fuzz::pipeline_test {

using namespace mlir;

namespace {

// How a model is to be cut; a schedule "" is an order drawn at random, with the weights apart or not.
struct Wanted {
  stage::Cut cut;
  std::string schedule;
  bool splitsBackward = false;
  bool recomputes = false; // all that can be computed again
};

// Returns any of the orders in which each stage can do all that it has to.
stage::StageOrders drawOrders(const Wanted &wanted, int64_t microBatches, uint64_t seed) {
  using stage::StepPhase;
  const stage::Cut &cut = wanted.cut;
  Dice dice(seed);
  stage::StageOrders orders(static_cast<size_t>(cut.stages));
  std::map<std::pair<StepPhase, int64_t>, int64_t> done; // micro-batches, by virtual stage
  std::vector<std::pair<StepPhase, int64_t>> open;
  for (int64_t at = 0; at < cut.virtualStages(); ++at) {
    open.emplace_back(StepPhase::Forward, at);
    open.emplace_back(StepPhase::Backward, at);
    if (wanted.splitsBackward) {
      open.emplace_back(StepPhase::Weights, at);
    }
  }
  while (!open.empty()) {
    const auto next = open[static_cast<size_t>(dice.roll(static_cast<int64_t>(open.size())))];
    const auto [phase, at] = next;
    const int64_t microBatch = done[next];
    auto isDone = [&](StepPhase other, int64_t place) { return done[{other, place}] > microBatch; };
    bool canRun = phase == StepPhase::Forward ? at == 0 || isDone(StepPhase::Forward, at - 1)
                  : phase == StepPhase::Backward
                      ? isDone(StepPhase::Forward, at) && (at + 1 == cut.virtualStages() || isDone(StepPhase::Backward, at + 1))
                      : isDone(StepPhase::Backward, at);
    if (canRun) {
      orders[static_cast<size_t>(cut.stageOf(at))].push_back({phase, microBatch, cut.chunkOf(at)});
      if (++done[next] == microBatches) {
        llvm::erase(open, next);
      }
    }
  }
  return orders;
}

// Returns the module cut into stages; nothing, with the fault, when that is refused.
OwningOpRef<ModuleOp> cutInto(ModuleOp module, const Wanted &wanted, int64_t microBatches, uint64_t seed, std::string &fault) {
  OwningOpRef<ModuleOp> model = module.clone();
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &error) {
    fault += error.str();
    return success();
  });
  stage::CutStagesPassOptions options;
  options.stages = wanted.cut.stages;
  options.chunks = wanted.cut.chunks;
  options.microBatches = microBatches;
  options.schedule = wanted.schedule.empty() ? stage::Schedule::GPipe : *stage::symbolizeSchedule(wanted.schedule);
  const std::string file = (std::filesystem::temp_directory_path() / ("order." + std::to_string(getpid()) + ".txt")).string();
  if (wanted.schedule.empty()) {
    std::ofstream(file) << stage::printOrders(drawOrders(wanted, microBatches, seed), wanted.cut);
    options.orderFile = file;
  }
  PassManager passes(module.getContext());
  if (wanted.recomputes) {
    stage::AssignStagesPassOptions assign;
    assign.stages = wanted.cut.stages;
    assign.chunks = wanted.cut.chunks;
    passes.addPass(stage::createAssignStagesPass(assign));
    partition::RecomputePassOptions recompute;
    recompute.moves = INT32_MAX;
    passes.addPass(partition::createRecomputePass(recompute));
  }
  passes.addPass(stage::createCutStagesPass(options));
  const bool isCut = succeeded(passes.run(*model));
  std::filesystem::remove(file);
  return isCut ? std::move(model) : OwningOpRef<ModuleOp>();
}

// Draws two steps, the second of which finds what the first one left in slots and variables, and evaluations of a few batches.
PipelineCase drawCase(ModuleOp model, const Training &training, int64_t microBatches) {
  constexpr int64_t kSteps = 2, kBatches = 5; // no whole number of groups
  constexpr uint64_t kSeed = 7, kEvaluationSeed = 100;
  PipelineCase what;
  what.microBatches = microBatches;
  for (int64_t i = 0; i < kSteps * microBatches; ++i) {
    what.batches.push_back(drawInputs(model, "train_step", kSeed + static_cast<uint64_t>(i)));
  }
  auto function = model.lookupSymbol<func::FuncOp>("eval_step");
  const unsigned last = function.getNumArguments() - 1;
  for (uint64_t i = 0; i < kBatches; ++i) {
    what.evaluations.push_back(drawInputs(model, "eval_step", kEvaluationSeed + i));
    if (function.getArgAttrOfType<StringAttr>(last, nn::kNameAttr).getValue() == nn::kSamplesInput) {
      what.evaluations.back()[last].setInt(0, training.samples);
    }
  }
  what.variables = training.variables;
  drawVariables(model, /*seed=*/1, what.variables);
  return what;
}

// Compares steps and evaluations of the stages with those of the whole model, bit by bit. Returns what is wrong.
std::string compareSteps(ModuleOp model, const FailureOr<reference::ModuleRun> &whole, ModuleOp cut, const PipelineCase &what) {
  FailureOr<reference::ModuleRun> stages = runStages(model, cut, /*ranks=*/1, what);
  if (failed(whole) || failed(stages)) {
    return failed(whole) ? "the model cannot be run" : "the stages cannot be run";
  }
  auto pairs = reference::pairUp(model, *whole, *stages);
  if (failed(pairs)) {
    return "other results";
  }
  for (auto [expected, computed] : *pairs) {
    if (reference::maxDifference(expected->value, *computed) != 0) {
      return "another " + expected->name;
    }
  }
  return "";
}

// Whether a virtual stage computes nothing.
bool hasIdleStage(ModuleOp cut) {
  bool isIdle = false;
  for (auto stage : cut.getOps<ModuleOp>()) {
    for (auto program : stage.getOps<func::FuncOp>()) {
      isIdle |= program.getSymName().starts_with("forward") && llvm::all_of(program.front(), [](Operation &op) {
                  return !isa<ComputeOpInterface>(op) || op.hasTrait<OpTrait::ConstantLike>();
                });
    }
  }
  return isIdle;
}

// Whether several stages take one parameter.
bool hasCopies(ModuleOp cut) {
  std::set<StringRef> names;
  bool result = false;
  for (auto stage : cut.getOps<ModuleOp>()) {
    for (auto variable : stage.getOps<nn::VariableOp>()) {
      result |= variable.getTrainable() && !names.insert(variable.getSymName()).second;
    }
  }
  return result;
}

// Whether a stage takes a parameter in the forward programs of two chunks.
bool sharesAmongChunks(ModuleOp cut) {
  for (auto stage : cut.getOps<ModuleOp>()) {
    std::set<StringRef> names;
    for (auto program : stage.getOps<func::FuncOp>()) {
      for (auto read : program.getOps<nn::ReadOp>()) {
        if (program.getSymName().starts_with("forward") && stage.lookupSymbol<nn::VariableOp>(read.getVariable()).getTrainable() &&
            !names.insert(read.getVariable()).second) {
          return true;
        }
      }
    }
  }
  return false;
}

// Counts the values that programs take after others, for what they compute again.
int countTies(ModuleOp cut) {
  int count = 0;
  cut.walk([&](dist::AfterOp) { ++count; });
  return count;
}

// Whether a program writes a variable more than once.
bool writesTwice(ModuleOp cut) {
  return cut
      .walk([](func::FuncOp program) {
        std::set<StringRef> names;
        return llvm::all_of(program.getOps<nn::WriteOp>(), [&](nn::WriteOp write) { return names.insert(write.getVariable()).second; })
                   ? WalkResult::advance()
                   : WalkResult::interrupt();
      })
      .wasInterrupted();
}

// Whether a chunk takes a value of another chunk of its stage.
bool passesAmongChunks(ModuleOp cut) {
  for (auto stage : cut.getOps<ModuleOp>()) {
    auto later = stage.lookupSymbol<func::FuncOp>("forward_1");
    if (later && !later.getOps<dist::TakeOp>().empty()) {
      return true;
    }
  }
  return false;
}

} // namespace

TEST_CASE("pipeline: ashlar-cut-stages makes stages that compute what the model does", "[fuzz][passes]") {
  int compared = 0, clipped = 0, tied = 0, chunked = 0, skipped = 0, shared = 0, repeated = 0;
  std::vector<Wanted> all;
  for (int64_t stages : {2, 3}) {
    for (const char *schedule : {"GPIPE", "ONE_F_ONE_B", "ZERO_BUBBLE"}) {
      all.push_back({{stages, 1}, schedule});
    }
    all.push_back({{stages, 2}, "INTERLEAVED"});
    all.push_back({{stages, 2}, "", /*splitsBackward=*/true});
  }
  all.push_back({{2, 3}, "INTERLEAVED"});
  all.push_back({{3, 1}, ""});
  for (size_t i = 0, count = all.size(); i < count; ++i) { // the same with values computed again
    all.push_back(all[i]);
    all.back().recomputes = true;
  }
  auto accumulates = [](const job::Job &job) { return job.accumulate() > 1; };
  forEachTraining(60, varied(), accumulates, [&](Training &training) {
    ModuleOp model = *training.snapshots.back().module;
    std::map<int64_t, std::pair<PipelineCase, FailureOr<reference::ModuleRun>>> runs; // of the whole model, by number of micro-batches
    for (const Wanted &wanted : all) {
      // As many as the model divides by, or more: the sums of both are the same sums.
      const int64_t microBatches = std::max<int64_t>(training.job.accumulate(), wanted.cut.stages);
      std::string fault;
      OwningOpRef<ModuleOp> cut = cutInto(model, wanted, microBatches, static_cast<uint64_t>(compared), fault);
      INFO(wanted.cut.stages << " stages, " << wanted.cut.chunks << " chunks, " << wanted.schedule
                             << (wanted.recomputes ? ", values computed again " : " ") << fault);
      if (!cut) {
        CHECK(StringRef(fault).contains("too few for"));
        continue;
      }
      auto run = runs.find(microBatches);
      if (run == runs.end()) {
        PipelineCase what = drawCase(model, training, microBatches);
        FailureOr<reference::ModuleRun> whole = runWhole(model, what);
        run = runs.emplace(microBatches, std::pair(std::move(what), std::move(whole))).first;
      }
      CHECK(compareSteps(model, run->second.second, *cut, run->second.first) == "");
      ++compared;
      clipped += training.job.optimizer().has_clip_global_norm();
      tied += hasCopies(*cut);
      chunked += wanted.cut.chunks > 1;
      skipped += passesAmongChunks(*cut);
      shared += sharesAmongChunks(*cut);
      repeated += countTies(*cut) > 0;
      CHECK_FALSE(writesTwice(*cut));
      // Of the few ops of a virtual stage all may be broadcasts, which are made where they are taken.
      CHECK_FALSE((wanted.cut.chunks == 1 && hasIdleStage(*cut)));
    }
  });
  CHECK(compared > 100);
  CHECK(clipped > 10);
  CHECK(tied > 10);
  CHECK(chunked > 50);
  CHECK(skipped > 10);
  CHECK(shared > 5);
  CHECK(repeated > 50);
}

} // namespace ashlar::fuzz::pipeline_test
