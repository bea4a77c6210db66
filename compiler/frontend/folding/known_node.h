// SPDX-License-Identifier: Apache-2.0
//
// Nodes whose inputs are known at import. Their handlers emit nn ops as for any other node, and the reference semantics of these ops
// compute the results: constants. Exporters spell a flatten as Shape, Gather, Unsqueeze, Concat, Reshape, and a rotary table as Range, Mul,
// Cos; with static shapes nothing of it reaches the module.

#ifndef ASHLAR_COMPILER_FRONTEND_FOLDING_KNOWN_NODE_H
#define ASHLAR_COMPILER_FRONTEND_FOLDING_KNOWN_NODE_H

#include "compiler/frontend/registry.h"

namespace ashlar::frontend {

// Imports a node by its handler. Where all its inputs are known and the budget of the model allows it, its results are constants; else its
// ops stand where the values' builder does.
void importByHandler(Node &node, const RegistryRow &row, GraphValues &values);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_FOLDING_KNOWN_NODE_H
