// SPDX-License-Identifier: Apache-2.0
//
// Constants of types that are only stored (isStored): here they have the numbers of a wider type, so an op that uses the type would be
// wrong.

#ifndef ASHLAR_COMPILER_FRONTEND_FOLDING_STORED_CONSTANTS_H
#define ASHLAR_COMPILER_FRONTEND_FOLDING_STORED_CONSTANTS_H

#include "compiler/frontend/node.h"

namespace ashlar::frontend {

// Returns the names of the initializers of such types.
llvm::StringSet<> storedInitializers(const onnx::GraphProto &graph);

// Adds the results of a node to `stored` where they are constants of such types. Fails where the node reads one and its result depends on
// the type.
void followStored(const onnx::NodeProto &proto, const Node &node, llvm::StringSet<> &stored);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_FOLDING_STORED_CONSTANTS_H
