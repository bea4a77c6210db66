// SPDX-License-Identifier: Apache-2.0
//
// Stages take turns: each runs as far as it can.

#include "compiler/reference/pipeline_run.h"

#include "compiler/reference/equivalence.h"
#include "dialects/dist/dist.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/programs.h"

#include "llvm/ADT/STLExtras.h"

#include <optional>

using namespace mlir;

namespace ashlar::reference {

PipelineRun::PipelineRun(ModuleOp model, int64_t numRanks) {
  for (auto module : model.getOps<ModuleOp>()) {
    Stage &stage = stages.emplace_back(module, numRanks);
    auto attribute = module->getAttrOfType<dist::StageAttr>(dist::kStageAttr);
    stage.index = attribute.getIndex();
    stage.slots = attribute.getSlots();
    for (auto part : module->getAttrOfType<ArrayAttr>(dist::kOrderAttr).getAsRange<dist::RepeatAttr>()) {
      for (int64_t time = 0; time < part.getCount(); ++time) {
        for (auto run : part.getRuns().getAsRange<dist::RunAttr>()) {
          stage.step.push_back({run.getProgram().str(), run.getMicroBatch() + time * part.getStride()});
        }
      }
    }
  }
}

void PipelineRun::setVariable(StringRef name, const Tensor &value) {
  for (Stage &stage : stages) {
    if (stage.module.lookupSymbol<nn::VariableOp>(name)) {
      setGlobalVariable(stage.interpreter, name, value);
    }
  }
}

bool PipelineRun::hasVariable(StringRef name) const {
  return llvm::any_of(stages, [&](const Stage &stage) { return ModuleOp(stage.module).lookupSymbol<nn::VariableOp>(name) != nullptr; });
}

FailureOr<Tensor> PipelineRun::getVariable(StringRef name) {
  std::optional<Tensor> first;
  for (Stage &stage : stages) {
    if (!stage.module.lookupSymbol<nn::VariableOp>(name)) {
      continue;
    }
    FailureOr<Tensor> found = getGlobalVariable(stage.interpreter, name);
    if (failed(found)) {
      return failure();
    }
    if (first && maxDifference(*first, *found) != 0) {
      return stage.module.emitError("stage ") << stage.index << " has another @" << name << " than a stage before it";
    }
    first = first ? first : std::optional(std::move(*found));
  }
  if (!first) {
    return stages.front().module.emitError("no stage has @") << name;
  }
  return std::move(*first);
}

LogicalResult PipelineRun::runInit() {
  return success(llvm::all_of(stages, [](Stage &stage) {
    func::FuncOp init = nn::findProgram(stage.module, nn::ProgramRole::Init);
    return !init || succeeded(stage.interpreter.run(init.getSymName(), {}));
  }));
}

FailureOr<PipelineRun::Outputs> PipelineRun::runStep(Inputs inputs) {
  for (Stage &stage : stages) {
    stage.order = stage.step;
  }
  FailureOr<std::vector<Outputs>> outputs = run(inputs);
  if (failed(outputs)) {
    return failure();
  }
  return std::move(outputs->back());
}

FailureOr<std::vector<PipelineRun::Outputs>> PipelineRun::evaluate(int64_t batches, Inputs inputs) {
  int64_t group = static_cast<int64_t>(stages.size());
  for (const Stage &stage : stages) {
    group = std::min(group, stage.slots);
  }
  for (Stage &stage : stages) {
    stage.order.clear();
    for (int64_t first = 0; first < batches; first += group) {
      for (auto program : stage.module.getOps<func::FuncOp>()) {
        for (int64_t batch = first; nn::isEvaluation(program) && batch < std::min(first + group, batches); ++batch) {
          stage.order.push_back({program.getSymName().str(), batch});
        }
      }
    }
  }
  return run(inputs);
}

FailureOr<std::vector<PipelineRun::Outputs>> PipelineRun::run(Inputs inputs) {
  std::vector<Outputs> outputs;
  for (Stage &stage : stages) {
    stage.at = 0;
  }
  for (bool moves = true; moves;) {
    moves = false;
    for (Stage &stage : stages) {
      while (stage.at < stage.order.size() && canRun(stage)) {
        if (failed(runNext(stage, inputs, outputs))) {
          return failure();
        }
        moves = true;
      }
    }
  }
  for (Stage &stage : stages) {
    if (stage.at < stage.order.size()) {
      return stage.module.emitError("stage ") << stage.index << " waits for ever at " << stage.order[stage.at].program << " of micro-batch "
                                              << stage.order[stage.at].microBatch;
    }
  }
  if (!messages.empty()) {
    return stages.front().module.emitError("nobody received ") << messages.size() << " of the messages";
  }
  return outputs;
}

bool PipelineRun::canRun(const Stage &stage) const {
  const Run &run = stage.order[stage.at];
  auto function = ModuleOp(stage.module).lookupSymbol<func::FuncOp>(run.program);
  return llvm::all_of(function.front().getOps<dist::ReceiveOp>(), [&](dist::ReceiveOp op) {
    return messages.count({op.getFrom().getStage(), stage.index, op.getFrom().getChannel(), run.microBatch}) == 1;
  });
}

FailureOr<RankTensors> PipelineRun::take(Stage &stage, const Run &run, dist::SlotOpInterface op) {
  const int64_t slot = run.microBatch % stage.slots;
  Kept &kept = stage.kept[{slot, op.getSlot().str()}];
  if (auto receive = dyn_cast<dist::ReceiveOp>(op.getOperation())) {
    auto message = messages.find({receive.getFrom().getStage(), stage.index, receive.getFrom().getChannel(), run.microBatch});
    kept = {run.microBatch, std::move(message->second)};
    messages.erase(message);
  } else if (kept.value.empty() || kept.microBatch != run.microBatch) {
    return op.emitError("takes \"") << op.getSlot() << "\" of micro-batch " << run.microBatch << " from slot " << slot
                                    << ", which holds that of micro-batch " << kept.microBatch;
  }
  return kept.value;
}

void PipelineRun::put(Stage &stage, const Run &run, dist::SlotOpInterface op, const RankTensors &value) {
  stage.kept[{run.microBatch % stage.slots, op.getSlot().str()}] = {run.microBatch, value};
  if (auto send = dyn_cast<dist::SendOp>(op.getOperation())) {
    for (dist::PeerAttr peer : send.getPeers()) {
      messages[{stage.index, peer.getStage(), peer.getChannel(), run.microBatch}] = value;
    }
  }
}

LogicalResult PipelineRun::runNext(Stage &stage, Inputs inputs, std::vector<Outputs> &outputs) {
  const Run &run = stage.order[stage.at++];
  outputs.resize(std::max(outputs.size(), static_cast<size_t>(run.microBatch) + 1));
  auto function = stage.module.lookupSymbol<func::FuncOp>(run.program);
  std::vector<RankTensors> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    const StringRef name = function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr).getValue();
    arguments.push_back(scatterArgument(stage.interpreter, function, i, inputs(name, run.microBatch)));
  }
  stage.interpreter.setSlot({[&](Operation *op) { return take(stage, run, cast<dist::SlotOpInterface>(op)); },
                             [&](Operation *op, const RankTensors &value) { put(stage, run, cast<dist::SlotOpInterface>(op), value); }});
  FailureOr<std::vector<RankTensors>> results = stage.interpreter.run(run.program, arguments);
  stage.interpreter.setSlot({});
  if (failed(results)) {
    return failure();
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    FailureOr<Tensor> output = gatherResult(stage.interpreter, function, i, (*results)[i]);
    if (failed(output)) {
      return failure();
    }
    outputs[static_cast<size_t>(run.microBatch)][function.getResultAttrOfType<StringAttr>(i, nn::kNameAttr).str()] = std::move(*output);
  }
  return success();
}

} // namespace ashlar::reference
