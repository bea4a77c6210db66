// SPDX-License-Identifier: Apache-2.0
//
// A program's instructions as facts: module, predicted time, and the temporary bytes that are alive.

#ifndef ASHLAR_COMPILER_REPORT_PAGE_INSTRUCTIONS_H
#define ASHLAR_COMPILER_REPORT_PAGE_INSTRUCTIONS_H

#include "compiler/report/page/live_bytes.h"
#include "compiler/report/page/module_tree.h"
#include "dialects/exec/exec.h"
#include "dialects/exec/spans.h"

#include <optional>
#include <string>
#include <vector>

namespace ashlar::report {

struct InstructionFact {
  unsigned module;
  std::string kind;                 // as in traces: "product", "convolution", else the name of the op
  exec::Span span;                  // in a run of the program; with rates that are unknown, of no length
  bool isStarted = false;           // a collective that is started, and awaited later
  std::optional<size_t> collective; // index in the program's list
};

struct ProgramInstructions {
  std::vector<InstructionFact> list; // a repeat is one
  LiveBytes live;                    // of temporaries
};

// Returns the instructions of a program of a variant. `numberOf`: of a collective among the program's, called in their order. An
// instruction without a span, such as a copy at the end, takes no time behind the one before it. A repeat with a condition counts as one
// that runs.
ProgramInstructions readInstructions(exec::VariantOp variant, exec::ProgramOp program, ModuleTree &modules,
                                     llvm::function_ref<std::optional<size_t>(exec::CollectiveOp)> numberOf);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_PAGE_INSTRUCTIONS_H
