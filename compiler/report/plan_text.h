// SPDX-License-Identifier: Apache-2.0
//
// The plan of a program in about ten lines: what every rank holds, sends and computes.

#ifndef ASHLAR_COMPILER_REPORT_PLAN_TEXT_H
#define ASHLAR_COMPILER_REPORT_PLAN_TEXT_H

#include "compiler/report/pipeline_facts.h"
#include "dialects/exec/exec.h"
#include "passes/lower/memory/collective_order.h"
#include "passes/lower/memory/memory_use.h"

#include <string>

namespace ashlar::report {

// What the plan says besides what stands in the tables.
struct PlanFacts {
  std::string modelName;
  std::string target;      // what code is made for, and the precision; empty: not known
  int64_t globalBatch = 0; // of a step; 0: not known
  std::string deterministicRefusal;
  std::string optimizer;              // empty: nothing is trained
  int64_t accumulate = 1;             // micro-batches of a step
  std::string optimizerParallel = {}; // empty: nothing is split further
  lower::MemoryUse memory = {};       // no parts: not known
  lower::CollectiveOrder order = {};  // of no collectives: nothing to say
  const PipelineFacts *pipeline = {}; // of which the variant is a stage; null: of none, or not known
};

// Returns the plan of a variant: mesh, batch, parameters, layouts, collectives of a step by cause, memory of a device, work of a step.
std::string planText(exec::VariantOp variant, const PlanFacts &facts);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_PLAN_TEXT_H
