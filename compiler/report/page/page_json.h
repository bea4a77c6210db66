// SPDX-License-Identifier: Apache-2.0
//
// Graph and instructions as parts of the report: columns, a list of numbers on one line for each field, since a deep model has tens of
// thousands of ops.

#ifndef ASHLAR_COMPILER_REPORT_PAGE_PAGE_JSON_H
#define ASHLAR_COMPILER_REPORT_PAGE_PAGE_JSON_H

#include "compiler/report/page/instructions.h"
#include "compiler/report/page/model_graph.h"

#include "llvm/Support/JSON.h"

namespace ashlar::report {

// Writes "name": [1,2,3] on one line.
void writeColumn(llvm::json::OStream &out, llvm::StringRef name, llvm::ArrayRef<int64_t> numbers);

// The same for times, in nanoseconds.
void writeTimes(llvm::json::OStream &out, llvm::StringRef name, llvm::ArrayRef<int64_t> timesPs);

// Writes "name": ["a", "b"].
void writeTextColumn(llvm::json::OStream &out, llvm::StringRef name, llvm::ArrayRef<std::string> texts);

// Writes the attributes "modules" and "graph" of the object that is open. `collectivesOf`: of a redistribution, by its reasonKey.
void writeGraph(llvm::json::OStream &out, const ModelGraph &graph,
                llvm::function_ref<std::vector<int64_t>(const std::string &)> collectivesOf);

// Writes the attributes of a program's instructions into the object that is open. `firstCollective`: the number of the program's first
// collective among all.
void writeInstructions(llvm::json::OStream &out, const ProgramInstructions &instructions, int64_t firstCollective);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_PAGE_PAGE_JSON_H
