// SPDX-License-Identifier: Apache-2.0
//
// Parts of the report that the whole program and each stage of a pipeline have.

#ifndef ASHLAR_COMPILER_REPORT_JSON_PARTS_H
#define ASHLAR_COMPILER_REPORT_JSON_PARTS_H

#include "passes/lower/memory/collective_order.h"
#include "passes/lower/memory/memory_use.h"

#include "llvm/Support/JSON.h"

namespace ashlar::report {

// Returns a text with names of a model as JSON: invalid UTF-8 is replaced.
llvm::json::Value jsonText(llvm::StringRef text);

// Returns a time in the unit of the report.
double nanoseconds(int64_t timePs);

// Writes the attributes "bytes", "bytes_each_further_thread" and "parts" of the object that is open.
void writeMemory(llvm::json::OStream &out, const lower::MemoryUse &use);

// Writes the attributes "devices", "collectives" and "hash" of the object that is open.
void writeOrder(llvm::json::OStream &out, const lower::CollectiveOrder &order);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_JSON_PARTS_H
