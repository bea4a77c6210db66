// SPDX-License-Identifier: Apache-2.0
//
// The causes of communication in the IR, in words. The one place where these sentences are made; nothing parses them.

#ifndef ASHLAR_COMPILER_REPORT_SENTENCES_H
#define ASHLAR_COMPILER_REPORT_SENTENCES_H

#include "dialects/dist/dist.h"
#include "dialects/exec/exec.h"

#include <string>
#include <vector>

namespace ashlar::report {

// "fc1 (nn.matmul)", "parameter fc1.weight", "update of state m", "gradient of fc1.weight", "input x", "result 1".
std::string endText(dist::EndAttr end);

// Returns the cause of a collective: "gradient of fc1.weight", "next value of w", "result 0 of forward", "fc1"; of several, one after the
// other. Without a cause it is the op's own path, or "".
std::string causeText(dist::CollectiveOpInterface op);
std::string causeText(exec::CollectiveOp op);

// Returns the cause of a message: what makes the value, and what takes it: "fc1, for fc2".
std::string causeText(dist::TransferOpInterface op);

// The same, one text each.
std::vector<std::string> causeTexts(dist::CollectiveOpInterface op);
std::vector<std::string> causeTexts(exec::CollectiveOp op);

// Of an attribute dist.origin; "" when it is null or empty:
//   rule "fc1.weight" (job.txtpb:14)                                the tensor was given its layout
//   rule "fc1.weight" (job.txtpb:14), along fc1 (nn.matmul)         it took its axes from another
//   dp: batch; tp: rule "fc1.weight" (job.txtpb:14), along ...      its axes come from several places
std::string originText(mlir::ArrayAttr origins);

// Why optimizer parallelism leaves a parameter replicated: "2.0 KB on a device, below the threshold of 65.5 KB"; "" when it is null.
std::string replicatedText(dist::ReplicatedAttr replicated);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_SENTENCES_H
