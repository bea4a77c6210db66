// SPDX-License-Identifier: Apache-2.0
//
// ashlar-flatten-repeats; the work is done in dialects/nn/repeat/flat_repeats.h.

#include "dialects/nn/repeat/flat_repeats.h"
#include "passes/layout/passes.h"

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_FLATTENREPEATSPASS
#include "passes/layout/passes.h.inc"

namespace {

struct FlattenRepeats : impl::FlattenRepeatsPassBase<FlattenRepeats> {
  void runOnOperation() override { nn::flattenRepeats(getOperation().front()); }
};

} // namespace

} // namespace ashlar::layout
