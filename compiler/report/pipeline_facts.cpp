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

// What a stage needs of its programs beside the numbers.
struct Tables {
  SmallVector<exec::ProgramOp> programs; // as in StageWork
  analysis::StageWork work;
  std::vector<int64_t> runs; // by program
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
        tables.work.order.push_back({program, run.getMicroBatch() + round * part.getStride()});
      }
    }
  }
  return tables;
}

Tables readStage(exec::VariantOp variant, const PipelineContext &context) {
  Tables tables = readOrder(variant);
  tables.work.slots = variant.getNumSlots();
  for (exec::ProgramOp op : tables.programs) {
    analysis::TimedProgram program{op.getSymName().str(), static_cast<int64_t>(op.getPredictedNs().value_or(0)) * kPsPerNs};
    for (exec::TransferAttr transfer : transfersOf(op.getReceivesAttr())) {
      analysis::Link link = context.linkOf(transfer.getStage(), variant.getStage());
      program.receives.push_back({transfer.getStage(), transfer.getChannel(), analysis::stageMessagePs(bytesOf(variant, transfer), link)});
    }
    for (exec::TransferAttr transfer : transfersOf(op.getSendsAttr())) {
      program.sends.push_back({transfer.getStage(), transfer.getChannel()});
    }
    tables.work.programs.push_back(std::move(program));
  }
  return tables;
}

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
  std::vector<analysis::StageWork> work;
  for (auto [number, variant] : llvm::enumerate(llvm::to_vector(variants))) {
    tables.push_back(readStage(variant, context));
    StageFacts stage;
    for (auto [program, runs, op] : llvm::zip_equal(tables.back().work.programs, tables.back().runs, tables.back().programs)) {
      stage.programs.push_back({program.name, runs, program.timePs, nn::programOf(op)});
    }
    stage.slots = variant.getNumSlots();
    stage.slotBytes = variant.getSlotBytes();
    stage.memory = context.memory[number];
    stage.order = *lower::checkCollectiveOrder(variant); // ashlar-verify-exec let it pass
    facts.stages.push_back(std::move(stage));
    work.push_back(tables.back().work);
  }
  facts.crossings = listCrossings(variants, tables, context);
  facts.timeline = analysis::playStages(work);
  return facts;
}

} // namespace ashlar::report
