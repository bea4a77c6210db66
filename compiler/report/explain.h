// SPDX-License-Identifier: Apache-2.0
//
// The layout report for a terminal.

#ifndef ASHLAR_COMPILER_REPORT_EXPLAIN_H
#define ASHLAR_COMPILER_REPORT_EXPLAIN_H

#include "compiler/report/layout_report.h"

namespace ashlar::report {

// Returns the report as text: totals, a paragraph a collective, a table of parameters. It has the order of the program.
std::string explainText(const LayoutReport &report);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_EXPLAIN_H
