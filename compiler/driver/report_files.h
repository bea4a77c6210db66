// SPDX-License-Identifier: Apache-2.0
//
// The outputs of a compilation about its plan: the text of --explain, the JSON of --report and the page of --html, from the same facts.

#ifndef ASHLAR_COMPILER_DRIVER_REPORT_FILES_H
#define ASHLAR_COMPILER_DRIVER_REPORT_FILES_H

#include "compiler/command/options.h"
#include "compiler/job/job.pb.h"
#include "compiler/pipelines/pipelines.h"
#include "compiler/report/layout_report.h"

#include "llvm/Support/Error.h"

namespace ashlar::driver {

// Whether one of them is asked for.
bool asksForReport(const command::Options &options);

// Returns the ops of programs with layouts, with the redistributions of a copy of them. Empty on an error, which the compilation itself
// then reports.
report::ModelGraph readGraph(mlir::ModuleOp programs, const pipelines::Variant &variant);

// Returns the rules of a job as its file has them.
std::vector<report::JobRuleFact> listRules(const job::Job &job);

// Writes the outputs that are asked for. Fails where a file cannot be written, or where the page is to show one that is no trace of this
// model, or no report.
llvm::Error writeReport(const command::Options &options, const report::LayoutReport &report);

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_REPORT_FILES_H
