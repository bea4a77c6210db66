// SPDX-License-Identifier: Apache-2.0
//
// Loops whose trips are alike, as a repeat.

#ifndef ASHLAR_COMPILER_FRONTEND_OPS_RECURRENT_LOOP_STEPS_H
#define ASHLAR_COMPILER_FRONTEND_OPS_RECURRENT_LOOP_STEPS_H

#include "compiler/frontend/node.h"

namespace ashlar::frontend {

// Imports a Loop that carries so many values as a repeat and sets its results, where that loses nothing: its number of trips is known, its
// condition holds throughout, and nothing in its body is known in one trip alone. Returns whether it did; nothing is changed otherwise.
bool importLoopAsRepeat(Node &node, const onnx::GraphProto &body, int64_t carried);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_OPS_RECURRENT_LOOP_STEPS_H
