// SPDX-License-Identifier: Apache-2.0
//
// The plan of a program in about ten lines: the memory, communication and computation of every rank.

#ifndef ASHLAR_COMPILER_REPORT_PLAN_TEXT_H
#define ASHLAR_COMPILER_REPORT_PLAN_TEXT_H

#include "compiler/report/pipeline_facts.h"
#include "dialects/exec/exec.h"
#include "passes/lower/memory/collective_order.h"
#include "passes/lower/memory/memory_use.h"

#include <string>

namespace ashlar::report {

// The facts of the plan besides the tables.
struct PlanFacts {
  std::string modelName;
  std::string target;      // the target of the code, and the precision; empty: not known
  int64_t globalBatch = 0; // of a step; 0: not known
  std::string deterministicRefusal;
  std::string optimizer;              // empty: nothing is trained
  int64_t accumulate = 1;             // micro-batches of a step
  std::string optimizerParallel = {}; // empty: nothing is split further
  lower::MemoryUse memory = {};       // no parts: not known
  lower::CollectiveOrder order = {};  // without collectives: no line
  const PipelineFacts *pipeline = {}; // the variant is a stage of it; null: of none, or not known
  int64_t ranksPerHost = INT64_MAX;
};

// Returns the plan of a variant: mesh, batch, parameters, layouts, collectives of a step by cause, memory of a device, work of a step.
std::string planText(exec::VariantOp variant, const PlanFacts &facts);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_PLAN_TEXT_H
