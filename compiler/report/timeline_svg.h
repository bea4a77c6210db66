// SPDX-License-Identifier: Apache-2.0
//
// The step of a pipeline as a picture.

#ifndef ASHLAR_COMPILER_REPORT_TIMELINE_SVG_H
#define ASHLAR_COMPILER_REPORT_TIMELINE_SVG_H

#include "compiler/report/pipeline_facts.h"

namespace ashlar::report {

// Returns a standalone SVG 1.1 file: a row a stage, from left to right the runs of the step in the colour of their program, with the
// numbers of their micro-batches where there is room; received messages in grey before a run, idle times as gaps, messages as lines where
// they are not too many. Next to each row the idle share of the stage, below a legend and the time. Its size grows with the runs.
std::string timelineSvg(const PipelineFacts &facts, llvm::StringRef model);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_TIMELINE_SVG_H
