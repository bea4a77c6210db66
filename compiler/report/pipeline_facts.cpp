// SPDX-License-Identifier: Apache-2.0
//
// Tables of stages -> numbers, and the step that follows of them.

#include "compiler/report/pipeline_facts.h"

#include "dialects/dist/stages.h"
#include "dialects/nn/programs.h"
#include "dialects/support/element_type.h"

#include <map>
#include <tuple>

using namespace mlir;

namespace ashlar::report {
namespace {

constexpr int64_t kPsPerNs = 1000;

// The programs of a stage that a step runs.
struct Tables {
  SmallVector<exec::ProgramOp> programs; // in the order in which a step first runs them
  std::vector<int64_t> runs;             // by program
  std::vector<ashlar_rt_run> order;      // of a step
};

exec::TensorOp tensorOf(exec::VariantOp variant, exec::TransferAttr transfer) {
  return cast<exec::TensorOp>(SymbolTable::lookupSymbolIn(variant, transfer.getTensor().getAttr()));
}

int64_t bytesOf(exec::VariantOp variant, exec::TransferAttr transfer) {
  return static_cast<int64_t>(byteSize(tensorOf(variant, transfer).getBuffer().getType()));
}

SmallVector<exec::TransferAttr> transfersOf(ArrayAttr list) {
  return list ? llvm::to_vector(list.getAsRange<exec::TransferAttr>()) : SmallVector<exec::TransferAttr>();
}

// Lists the runs of a step, and the programs that it has.
Tables readOrder(exec::VariantOp variant) {
  Tables tables;
  llvm::StringMap<unsigned> numbers;
  auto number = [&](FlatSymbolRefAttr name) {
    auto [found, isNew] = numbers.try_emplace(name.getValue(), tables.programs.size());
    if (isNew) {
      tables.programs.push_back(cast<exec::ProgramOp>(SymbolTable::lookupSymbolIn(variant, name.getAttr())));
      tables.runs.push_back(0);
    }
    return found->second;
  };
  for (auto part : variant.getOrderAttr().getAsRange<exec::RepeatAttr>()) {
    for (int64_t round = 0; round < part.getCount(); ++round) {
      for (auto run : part.getRuns().getAsRange<exec::RunAttr>()) {
        unsigned program = number(run.getProgram());
        ++tables.runs[program];
        tables.order.push_back({program, static_cast<uint32_t>(run.getMicroBatch() + round * part.getStride()), /*takes_batch=*/0});
      }
    }
  }
  return tables;
}

int64_t timeOf(exec::ProgramOp program) {
  return static_cast<int64_t>(program.getPredictedNs().value_or(0)) * kPsPerNs;
}

// The stages of a step and the channels between them, as the timeline has them.
class StepReader {
public:
  explicit StepReader(const PipelineContext &context) : context(context) {}

  void addStage(exec::VariantOp variant, const Tables &tables) {
    const auto self = static_cast<uint32_t>(step.runs.size());
    step.runs.push_back(tables.order);
    step.slots.push_back(variant.getNumSlots());
    step.programs.emplace_back();
    for (exec::ProgramOp op : tables.programs) {
      rt::TimedProgram &program = rt::addTimedProgram(step, self, timeOf(op));
      for (exec::TransferAttr transfer : transfersOf(op.getReceivesAttr())) {
        const uint32_t channel = channelOf(transfer.getStage(), self, transfer.getChannel());
        const analysis::Link link = context.linkOf(transfer.getStage(), variant.getStage());
        channels[channel].ps = analysis::stageMessagePs(bytesOf(variant, transfer), link);
        program.receives.push_back({channel, static_cast<uint32_t>(program.receives.size())});
      }
      for (exec::TransferAttr transfer : transfersOf(op.getSendsAttr())) {
        program.sends.push_back({channelOf(self, transfer.getStage(), transfer.getChannel()), static_cast<uint32_t>(program.sends.size())});
      }
    }
  }

  Timeline play() const { return makeTimeline(step, channels); }

private:
  uint32_t channelOf(int64_t from, int64_t to, int64_t channel) {
    auto [found, isNew] = numbers.try_emplace({from, to, channel}, static_cast<uint32_t>(channels.size()));
    if (isNew) {
      channels.push_back({static_cast<uint32_t>(from), static_cast<uint32_t>(to), /*ps=*/0});
    }
    return found->second;
  }

  const PipelineContext &context;
  rt::TimedStep step;
  std::vector<rt::StageMessages> channels;
  std::map<std::tuple<int64_t, int64_t, int64_t>, uint32_t> numbers; // by {from, to, channel}
};

std::string nameOf(exec::TensorOp tensor) {
  StringRef name = tensor.getOutsideName().value_or(tensor.getSymName());
  name.consume_front(dist::kPassedPrefix);
  return name.str();
}

// Lists what the programs of a step send, with the program at the other side.
std::vector<CrossingFact> listCrossings(ArrayRef<exec::VariantOp> variants, ArrayRef<Tables> tables, const PipelineContext &context) {
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::string> receivers; // by {from, to, channel}
  for (auto [number, stage] : llvm::enumerate(tables)) {
    for (exec::ProgramOp program : stage.programs) {
      for (exec::TransferAttr transfer : transfersOf(program.getReceivesAttr())) {
        receivers[{transfer.getStage(), static_cast<int64_t>(number), transfer.getChannel()}] = program.getSymName().str();
      }
    }
  }
  std::vector<CrossingFact> crossings;
  for (auto [number, stage] : llvm::enumerate(tables)) {
    const auto from = static_cast<int64_t>(number);
    exec::VariantOp variant = variants[number];
    for (auto [index, op] : llvm::enumerate(stage.programs)) {
      exec::ProgramOp program = op;
      const int64_t runs = stage.runs[index];
      for (exec::TransferAttr transfer : transfersOf(program.getSendsAttr())) {
        const int64_t to = transfer.getStage(), bytes = bytesOf(variant, transfer);
        crossings.push_back({nameOf(tensorOf(variant, transfer)), from, to, program.getSymName().str(),
                             receivers[{from, to, transfer.getChannel()}], bytes, analysis::stageMessagePs(bytes, context.linkOf(from, to)),
                             runs});
      }
    }
  }
  return crossings;
}

} // namespace

PipelineFacts makePipelineFacts(ArrayRef<exec::VariantOp> variants, const PipelineContext &context) {
  PipelineFacts facts;
  facts.schedule = context.schedule;
  facts.microBatches = context.microBatches;
  std::vector<Tables> tables;
  StepReader step(context);
  for (auto [number, variant] : llvm::enumerate(llvm::to_vector(variants))) {
    tables.push_back(readOrder(variant));
    StageFacts stage;
    for (auto [program, runs] : llvm::zip_equal(tables.back().programs, tables.back().runs)) {
      stage.programs.push_back({program.getSymName().str(), runs, timeOf(program), nn::programOf(program)});
    }
    stage.slots = variant.getNumSlots();
    stage.slotBytes = variant.getSlotBytes();
    stage.memory = context.memory[number];
    stage.order = *lower::checkCollectiveOrder(variant); // ashlar-verify-exec let it pass
    facts.stages.push_back(std::move(stage));
    step.addStage(variant, tables.back());
  }
  facts.crossings = listCrossings(variants, tables, context);
  facts.timeline = step.play();
  return facts;
}

} // namespace ashlar::report
