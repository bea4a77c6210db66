// SPDX-License-Identifier: Apache-2.0
//
// The part of the report that is about the stages of a pipeline; its fields are in docs/explain.md.

#ifndef ASHLAR_COMPILER_REPORT_PIPELINE_JSON_H
#define ASHLAR_COMPILER_REPORT_PIPELINE_JSON_H

#include "compiler/report/pipeline_facts.h"

#include "llvm/Support/JSON.h"

namespace ashlar::report {

// Writes the attributes of the object that is open. `ops`: by stage, the module paths of its ops.
void writePipeline(llvm::json::OStream &out, const PipelineFacts &facts, llvm::ArrayRef<std::vector<std::string>> ops);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_PIPELINE_JSON_H
