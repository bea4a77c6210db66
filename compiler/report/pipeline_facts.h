// SPDX-License-Identifier: Apache-2.0
//
// The facts on a pipeline for the plan, --explain, --report and --timeline: from the tables of its stages.

#ifndef ASHLAR_COMPILER_REPORT_PIPELINE_FACTS_H
#define ASHLAR_COMPILER_REPORT_PIPELINE_FACTS_H

#include "compiler/report/timeline.h"
#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"
#include "passes/analysis/costs.h"
#include "passes/lower/memory/collective_order.h"
#include "passes/lower/memory/memory_use.h"

namespace ashlar::report {

// The messages from one stage to another in a step.
struct CrossingFact {
  std::string name;             // of the value
  int64_t from, to;             // stages
  std::string sender, receiver; // programs
  int64_t bytes = 0;            // of one message of one device
  int64_t timePs = 0;           // predicted, of one message
  int64_t messages = 0;         // a step
};

// A program that a step runs.
struct StageProgramFact {
  std::string name;
  int64_t runs = 0;          // a step
  int64_t timePs = 0;        // predicted, of one run
  nn::ProgramAttr role = {}; // null: none
};

struct StageFacts {
  std::vector<StageProgramFact> programs; // in the order in which a step first runs them: as in the timeline
  int64_t slots = 1, slotBytes = 0;
  lower::MemoryUse memory; // of a rank
  lower::CollectiveOrder order;

  // Returns the memory of a rank besides the slots.
  uint64_t fixedBytes() const { return memory.bytes() - slots * slotBytes; }
};

struct PipelineFacts {
  std::string schedule;
  int64_t microBatches = 1;
  std::vector<StageFacts> stages;
  std::vector<CrossingFact> crossings; // by sending stage
  Timeline timeline;
};

// The facts that are not in the tables: by stage the memory of a rank; and the link of messages between two stages.
struct PipelineContext {
  std::string schedule;
  int64_t microBatches = 1;
  std::vector<lower::MemoryUse> memory;
  llvm::function_ref<analysis::Link(int64_t from, int64_t to)> linkOf;
};

// Collects the facts of a pipeline. `variants`: one a stage, in their order, with an order of a step.
PipelineFacts makePipelineFacts(llvm::ArrayRef<exec::VariantOp> variants, const PipelineContext &context);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_PIPELINE_FACTS_H
