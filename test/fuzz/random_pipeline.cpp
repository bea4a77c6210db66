// SPDX-License-Identifier: Apache-2.0
//
// Drawing pipelines; see random_pipeline.h.

#include "test/fuzz/random_pipeline.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"
#include "test/fuzz/random_layout.h"
#include "test/fuzz/random_program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <set>

using namespace mlir;

namespace ashlar::fuzz {

namespace {

constexpr int64_t kMostStages = 4, kMostMore = 3; // micro-batches than stages

// Returns the module of an op: 3 of "m3.op7". What the loss adds has other paths.
std::optional<int64_t> moduleOf(Operation *op) {
  StringRef path = nn::getPath(op->getLoc());
  int64_t number = 0;
  return path.consume_front("m") && !path.split('.').first.getAsInteger(10, number) ? std::optional(number) : std::nullopt;
}

// Returns the modules whose ops are on a stage of their own: no op of them is in a loop of another module.
std::set<int64_t> modulesOf(Block &body) {
  std::set<int64_t> modules, inLoops;
  for (Operation &outer : body) {
    outer.walk([&](Operation *op) {
      if (std::optional<int64_t> module = moduleOf(op)) {
        (module == moduleOf(&outer) ? modules : inLoops).insert(*module);
      }
    });
  }
  for (int64_t module : inLoops) {
    modules.erase(module);
  }
  return modules;
}

// Puts some modules on virtual stages, in the order of their ops, so that none goes backward. The last module stays without: what makes
// the loss may be of it, and has to be on the last stage.
void drawRules(Dice &dice, const pipelines::Stages &pipeline, ModuleOp program) {
  const std::set<int64_t> modules = modulesOf(nn::findProgram(program, nn::ProgramRole::TrainStep).front());
  Builder b(program.getContext());
  SmallVector<Attribute> rules;
  int64_t stage = 0;
  for (int64_t number : modules) {
    stage += dice.roll(2);
    if (number != *modules.rbegin() && stage < pipeline.stages * pipeline.chunks && dice.oneIn(2)) {
      DictionaryAttr values = b.getDictionaryAttr(b.getNamedAttr(dist::kStageAttr, b.getI64IntegerAttr(stage)));
      StringAttr match = b.getStringAttr("m" + std::to_string(number) + ".*");
      rules.push_back(dist::SettingAttr::get(program.getContext(), match, values, /*priority=*/0, StringAttr()));
    }
  }
  if (!rules.empty()) {
    program->setAttr(dist::kStageRulesAttr, b.getArrayAttr(rules));
  }
}

} // namespace

std::optional<pipelines::Stages> pipelineOf(ModuleOp program) {
  auto values = program->getAttrOfType<DictionaryAttr>(kPipelineAttr);
  if (!values) {
    return std::nullopt;
  }
  auto number = [&](StringRef name) { return cast<IntegerAttr>(values.get(name)).getInt(); };
  pipelines::Stages pipeline;
  pipeline.stages = number("stages");
  pipeline.chunks = number("chunks");
  pipeline.microBatches = number("micro_batches");
  pipeline.schedule = *stage::symbolizeSchedule(cast<StringAttr>(values.get("schedule")).getValue());
  return pipeline;
}

void setPipeline(ModuleOp program, const pipelines::Stages &pipeline) {
  Builder b(program.getContext());
  program->setAttr(kPipelineAttr,
                   b.getDictionaryAttr({b.getNamedAttr("stages", b.getI64IntegerAttr(pipeline.stages)),
                                        b.getNamedAttr("chunks", b.getI64IntegerAttr(pipeline.chunks)),
                                        b.getNamedAttr("micro_batches", b.getI64IntegerAttr(pipeline.microBatches)),
                                        b.getNamedAttr("schedule", b.getStringAttr(stage::stringifySchedule(pipeline.schedule)))}));
}

void dropPipeline(ModuleOp program) {
  program->removeAttr(kPipelineAttr);
  program->removeAttr(kHostsApartAttr);
  program->removeAttr(dist::kStageRulesAttr);
}

void drawPipeline(uint64_t seed, ModuleOp program) {
  constexpr uint64_t kFactor = 13, kOffset = 11;
  Dice dice(seed * kFactor + kOffset);
  if (!nn::findProgram(program, nn::ProgramRole::Update) || program->hasAttr(kGroupWeightsAttr) || dice.oneIn(4)) {
    return;
  }
  pipelines::Stages pipeline;
  pipeline.stages = 2 + dice.roll(kMostStages - 1);
  pipeline.schedule = *stage::symbolizeSchedule(static_cast<uint32_t>(dice.roll(stage::getMaxEnumValForSchedule() + 1)));
  pipeline.chunks = pipeline.schedule == stage::Schedule::Interleaved ? 2 + dice.roll(2) : 1;
  pipeline.microBatches = pipeline.stages + dice.roll(kMostMore + 1);
  setPipeline(program, pipeline);
  dist::findMesh(program).removeDeviceIdsAttr();
  if (dice.oneIn(2)) {
    program->setAttr(kHostsApartAttr, UnitAttr::get(program.getContext()));
  }
  if (dice.oneIn(2)) {
    drawRules(dice, pipeline, program);
  }
}

} // namespace ashlar::fuzz
