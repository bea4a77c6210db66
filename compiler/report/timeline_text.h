// SPDX-License-Identifier: Apache-2.0
//
// The facts of a pipeline in sentences, and its step drawn with letters.

#ifndef ASHLAR_COMPILER_REPORT_TIMELINE_TEXT_H
#define ASHLAR_COMPILER_REPORT_TIMELINE_TEXT_H

#include "compiler/report/pipeline_facts.h"

namespace ashlar::report {

// Returns "12.5 %" of 0.125.
std::string shareText(double share);

// Returns "2 stages, 8 micro-batches, ONE_F_ONE_B; a step takes 6.1 ms predicted; a stage waits 12.5 % on average".
std::string stepText(const PipelineFacts &facts);

// Returns "computes 5.1 ms (87.3 %), receives 40.2 us (0.7 %), waits 701.3 us (12.0 %); sends 1.0 MB a step; at most 6.7 MB a rank".
std::string sharesText(const PipelineFacts &facts, size_t stage);

// Returns "2 slots of 393.2 KB and 5.9 MB besides".
std::string slotsText(const StageFacts &stage);

// Returns "once", "8 times".
std::string timesText(int64_t count);

// Returns a line for all that goes from one program to another: "8 times a step from stage 0 (forward) to stage 1 (forward): 131.1 KB in
// 5.8 us: fc1.out".
std::vector<std::string> crossingLines(const PipelineFacts &facts);

// Returns the step as lines of at most 96 columns of time, a row a program: at each time the micro-batch, 0 to 9 and a to z, that a stage
// runs it for; "*" for runs once a step, "<" while it receives. The first line gives the time of a column. None for a pipeline that is too
// large for that: of more than 36 micro-batches or 24 rows.
//
//   stage 0  forward   0011
//            backward        00001111
std::vector<std::string> timelineLines(const PipelineFacts &facts);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_TIMELINE_TEXT_H
