// SPDX-License-Identifier: Apache-2.0
//
// Classes of ops and tensors with equal neighbourhoods, such as the middle layers of a deep model: a class is decided as one.

#ifndef ASHLAR_PASSES_SEARCH_COLOUR_CLASSES_H
#define ASHLAR_PASSES_SEARCH_COLOUR_CLASSES_H

#include "passes/layout/inference/layout_problem.h"

namespace ashlar::search {

// The class of each op and each tensor of a problem: the number of its first member.
struct ColourClasses {
  std::vector<unsigned> ops, tensors;

  // Returns classes of one member each.
  static ColourClasses allDifferent(const layout::LayoutProblem &problem);
};

// Finds classes by structure, independent of names and paths. Two ops of forward or backward are in one class when they, and all ops within
// four steps along operands and users of each, have one kind, with equal attributes, types and given layouts (colour refinement; Weisfeiler
// and Leman 1968). So the first and the last layer of a model have classes of their own where their neighbours differ. Ops that update a
// parameter follow the class of the parameter.
ColourClasses findColourClasses(const layout::LayoutProblem &problem);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_COLOUR_CLASSES_H
