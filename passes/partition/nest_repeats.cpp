// SPDX-License-Identifier: Apache-2.0
//
// ashlar-nest-repeats; the work is done in dialects/nn/repeat/flat_repeats.h.

#include "dialects/nn/repeat/flat_repeats.h"
#include "passes/partition/passes.h"

using namespace mlir;

namespace ashlar::partition {

#define GEN_PASS_DEF_NESTREPEATSPASS
#include "passes/partition/passes.h.inc"

namespace {

struct NestRepeats : impl::NestRepeatsPassBase<NestRepeats> {
  void runOnOperation() override {
    if (failed(nn::nestRepeats(getOperation().front()))) {
      signalPassFailure();
    }
  }
};

} // namespace

} // namespace ashlar::partition
