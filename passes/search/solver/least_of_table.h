// SPDX-License-Identifier: Apache-2.0
//
// The least costs of a table's rows and columns: the loops that take most of a search's time.

#ifndef ASHLAR_PASSES_SEARCH_SOLVER_LEAST_OF_TABLE_H
#define ASHLAR_PASSES_SEARCH_SOLVER_LEAST_OF_TABLE_H

#include "passes/search/solver/decision_graph.h"

namespace ashlar::search {

// Finds for each row of a row-major table the least sum of an entry and its column's cost; kForbidden where all are more.
void findLeastOfRows(const Cost *table, const Cost *ofColumns, size_t rows, size_t columns, Cost *least);

// Finds for each column of a row-major table the least sum of an entry and its row's cost; kForbidden where all are more.
void findLeastOfColumns(const Cost *table, const Cost *ofRows, size_t rows, size_t columns, Cost *least);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_SOLVER_LEAST_OF_TABLE_H
