// SPDX-License-Identifier: Apache-2.0
//
// The layout report for programs.

#ifndef ASHLAR_COMPILER_REPORT_REPORT_JSON_H
#define ASHLAR_COMPILER_REPORT_REPORT_JSON_H

#include "compiler/report/layout_report.h"

namespace ashlar::report {

// Returns the report as JSON, by the schema in docs/explain.md. Fields and elements have a fixed order. `indent`: of a level; 0: all is on
// one line.
std::string reportJson(const LayoutReport &report, unsigned indent = 2);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_REPORT_JSON_H
