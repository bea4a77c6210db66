// SPDX-License-Identifier: Apache-2.0
//
// Shape arithmetic: integer and bool tensors computed at import. Exporters spell a flatten as Shape, Gather, Unsqueeze, Concat, Reshape;
// with static shapes all of it is known here and none of it reaches the module.

#ifndef ASHLAR_COMPILER_FRONTEND_CONSTANT_FOLDING_H
#define ASHLAR_COMPILER_FRONTEND_CONSTANT_FOLDING_H

#include "compiler/frontend/node.h"

namespace ashlar::frontend {

// Computes the node when it is one of the foldable ops and what it reads is known; its result is then a constant. Returns whether it did.
bool foldNode(Node &node);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_CONSTANT_FOLDING_H
