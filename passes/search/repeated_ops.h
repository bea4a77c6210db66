// SPDX-License-Identifier: Apache-2.0
//
// Which ops and tensors of a problem play the same part, as those of the layers of a deep model do: they are decided as one.

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

// Finds parts by structure; names and paths are not looked at. Two ops of forward or backward play the same part when they, and all within
// four steps along operands and users of each, are of one kind, with equal attributes, types and given layouts (colour refinement;
// Weisfeiler and Leman 1968). So the first and the last layer of a model have parts of their own where they border on something else.
// What updates a parameter plays its part by that of the parameter.
RepeatedParts findRepeatedParts(const layout::LayoutProblem &problem);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_REPEATED_OPS_H
