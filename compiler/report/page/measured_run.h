// SPDX-License-Identifier: Apache-2.0
//
// The trace of a run (--trace of an executable) as the page draws it.

#ifndef ASHLAR_COMPILER_REPORT_PAGE_MEASURED_RUN_H
#define ASHLAR_COMPILER_REPORT_PAGE_MEASURED_RUN_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace ashlar::report {

// Returns the tracks of a trace as JSON:
//   {first_step, steps, ranks, step_ns: the mean of the measured steps of all ranks, names: [..], tracks: [{process, label, name, category:
//   [..], title: [..], step: [..], micro_batch: [..], begin_ns: [..], end_ns: [..]}]}
// with times from the first event on, and -1 where a slice has no step or micro-batch. Fails, naming `path`, where the text is no trace of
// an executable, or of one whose --plan differs from `plan` in more than predicted times and the line "determinism", which depends on a
// later variant.
llvm::Expected<std::string> measuredRun(llvm::StringRef text, llvm::StringRef path, llvm::StringRef plan);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_PAGE_MEASURED_RUN_H
