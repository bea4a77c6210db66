// SPDX-License-Identifier: Apache-2.0
//
// Handlers of instructions that do the same in every lane: lanes<F, R, A...> writes F()(a...) to operand 0, for operands 1.. of types A.

#ifndef ASHLAR_TEST_EMULATOR_PTX_LANES_H
#define ASHLAR_TEST_EMULATOR_PTX_LANES_H

#include "test/emulator/ptx/warp.h"

#include <tuple>
#include <utility>

namespace ashlar::emulator {

template <class F, class R, class... A, size_t... I>
void runLanes(Warp &warp, const Instruction &instruction, uint32_t mask, std::index_sequence<I...>) {
  R *out = warp.slot<R>(instruction.operand[0]);
  const std::tuple<const A *...> in(warp.slot<A>(instruction.operand[I + 1])...);
  if (mask == kAllLanes) {
    // A lane reads its own values only, so it does not matter that `out` may be an operand too.
#pragma clang loop vectorize(assume_safety)
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      out[lane] = F()(std::get<I>(in)[lane]...);
    }
    return;
  }
  forEachLane(mask, [&](unsigned lane) { out[lane] = F()(std::get<I>(in)[lane]...); });
}

template <class F, class R, class... A> void lanes(Warp &warp, const Instruction &instruction, uint32_t mask) {
  runLanes<F, R, A...>(warp, instruction, mask, std::index_sequence_for<A...>());
}

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_PTX_LANES_H
