// SPDX-License-Identifier: Apache-2.0
//
// Random decision graphs.

#ifndef ASHLAR_TEST_UNIT_SEARCH_RANDOM_GRAPH_H
#define ASHLAR_TEST_UNIT_SEARCH_RANDOM_GRAPH_H

#include "passes/search/solver/decision_graph.h"
#include "test/unit/layout/random_program.h"

namespace ashlar::test {

// A graph of some nodes with 1 to 4 choices, in which any two are joined in one of three cases; some pairs may not be. `hasRows`: two of
// them.
search::DecisionGraph randomGraph(Dice &dice, unsigned nodes, bool hasRows);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_SEARCH_RANDOM_GRAPH_H
