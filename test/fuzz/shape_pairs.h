// SPDX-License-Identifier: Apache-2.0
//
// Layouts for two shapes of one value, (.., p, q, ..) and (.., 1, p q, ..), with which a device has the same elements of both: the dims in
// which they differ are cut by an axis of p devices, and another dim by a second axis, along which what uses them has all elements. Then
// one collective makes both, whatever the layouts are called.

#ifndef ASHLAR_TEST_FUZZ_SHAPE_PAIRS_H
#define ASHLAR_TEST_FUZZ_SHAPE_PAIRS_H

#include "dialects/dist/dist.h"

#include "mlir/IR/BuiltinOps.h"

namespace ashlar::fuzz {

// Gives such layouts to the shapes of a module that the mesh allows it for: to the results of two nn.reshape of one value, and to the
// operand of each nn.tanh of these.
void giveShapePairs(dist::MeshAttr mesh, mlir::ModuleOp module);

// Whether some of a module have them.
bool hasShapePair(mlir::ModuleOp module);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_SHAPE_PAIRS_H
