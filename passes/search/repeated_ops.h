// SPDX-License-Identifier: Apache-2.0
//
// Ops and tensors of a problem with equal parts, such as the layers of a deep model: they are decided as one.

#ifndef ASHLAR_PASSES_SEARCH_REPEATED_OPS_H
#define ASHLAR_PASSES_SEARCH_REPEATED_OPS_H

#include "passes/layout/inference/layout_problem.h"

namespace ashlar::search {

// For each op and each tensor of a problem the first one that plays its part; itself, where there is none before.
struct RepeatedParts {
  std::vector<unsigned> ops, tensors;

  // Returns the parts of a problem in which every op and tensor plays its own.
  static RepeatedParts allDifferent(const layout::LayoutProblem &problem);
};

// Finds parts by structure, independent of names and paths. Two ops of forward or backward have the same part when they, and all ops within
// four steps along operands and users of each, have one kind, with equal attributes, types and given layouts (colour refinement; Weisfeiler
// and Leman 1968). So the first and the last layer of a model have parts of their own where their neighbours differ. Ops that update a
// parameter take the parameter's part.
RepeatedParts findRepeatedParts(const layout::LayoutProblem &problem);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_REPEATED_OPS_H
