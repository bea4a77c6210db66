// SPDX-License-Identifier: Apache-2.0
//
// Stages take turns: each runs as far as it can.

#include "compiler/reference/pipeline_run.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/nn.h"

#include "llvm/ADT/STLExtras.h"

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
          stage.order.push_back({run.getProgram().str(), run.getMicroBatch() + time * part.getStride()});
        }
      }
    }
  }
}

void PipelineRun::setVariable(StringRef name, const RankTensors &value) {
  for (Stage &stage : stages) {
    if (stage.module.lookupSymbol<nn::VariableOp>(name)) {
      stage.interpreter.setVariable(name, value);
    }
  }
}

const RankTensors *PipelineRun::getVariable(StringRef name, bool &isAlike) const {
  const RankTensors *first = nullptr;
  for (const Stage &stage : stages) {
    const RankTensors *found = stage.interpreter.getVariable(name);
    if (first && found) {
      isAlike &=
          llvm::all_of(llvm::zip_equal(*first, *found), [](auto pair) { return maxDifference(std::get<0>(pair), std::get<1>(pair)) == 0; });
    }
    first = first ? first : found;
  }
  return first;
}

FailureOr<llvm::StringMap<RankTensors>> PipelineRun::runStep(Inputs inputs) {
  llvm::StringMap<RankTensors> outputs;
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
  return llvm::all_of(llvm::seq<unsigned>(0, function.getNumArguments()), [&](unsigned i) {
    auto peer = function.getArgAttrOfType<dist::PeerAttr>(i, dist::kFromAttr);
    return !peer || messages.count({peer.getStage(), stage.index, peer.getChannel(), run.microBatch}) == 1;
  });
}

LogicalResult PipelineRun::runNext(Stage &stage, Inputs inputs, llvm::StringMap<RankTensors> &outputs) {
  const Run &run = stage.order[stage.at++];
  auto function = stage.module.lookupSymbol<func::FuncOp>(run.program);
  const int64_t slot = run.microBatch % stage.slots;
  std::vector<RankTensors> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    std::string name = function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr).str();
    Kept &kept = stage.kept[{slot, name}];
    if (auto peer = function.getArgAttrOfType<dist::PeerAttr>(i, dist::kFromAttr)) {
      auto message = messages.find({peer.getStage(), stage.index, peer.getChannel(), run.microBatch});
      kept = {run.microBatch, std::move(message->second)};
      messages.erase(message);
    } else if (function.getArgAttr(i, dist::kSlotAttr)) {
      kept = {run.microBatch, inputs(name, run.microBatch)};
    } else if (kept.value.empty() || kept.microBatch != run.microBatch) {
      return function.emitError("takes \"") << name << "\" of micro-batch " << run.microBatch << " from slot " << slot
                                            << ", which holds that of micro-batch " << kept.microBatch;
    }
    arguments.push_back(kept.value);
  }
  FailureOr<std::vector<RankTensors>> results = stage.interpreter.run(run.program, arguments);
  if (failed(results)) {
    return failure();
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    std::string name = function.getResultAttrOfType<StringAttr>(i, nn::kNameAttr).str();
    if (!function.getResultAttr(i, dist::kPassedAttr)) {
      outputs[name] = (*results)[i];
      continue;
    }
    stage.kept[{slot, name}] = {run.microBatch, (*results)[i]};
    if (auto peers = function.getResultAttrOfType<ArrayAttr>(i, dist::kToAttr)) {
      for (auto peer : peers.getAsRange<dist::PeerAttr>()) {
        messages[{stage.index, peer.getStage(), peer.getChannel(), run.microBatch}] = (*results)[i];
      }
    }
  }
  return success();
}

} // namespace ashlar::reference
