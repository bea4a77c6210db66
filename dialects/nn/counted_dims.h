// SPDX-License-Identifier: Apache-2.0
//
// Dims whose size only a run of the program finds: the tensor has the largest possible size, and a scalar counts the valid elements, which
// come first. The front end follows such dims (compiler/frontend/counted_dims.h); here are the attributes by which a function declares them
// for its results.

#ifndef ASHLAR_DIALECTS_NN_COUNTED_DIMS_H
#define ASHLAR_DIALECTS_NN_COUNTED_DIMS_H

#include "llvm/ADT/StringRef.h"

namespace ashlar::nn {

// Attribute of function results (array of strings, one a dim): the outside name of the result, an i64 scalar, that has the number of
// elements of the dim; "" for a dim of fixed size.
inline constexpr llvm::StringLiteral kCountsAttr = "nn.counts";

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_COUNTED_DIMS_H
