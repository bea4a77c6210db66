// SPDX-License-Identifier: Apache-2.0
//
// Activations that a library applies to its results before it stores them: as ops, as exec names them, and as the ABI numbers them.

#ifndef ASHLAR_PASSES_LOWER_CALLS_EPILOGUE_H
#define ASHLAR_PASSES_LOWER_CALLS_EPILOGUE_H

#include "dialects/exec/exec.h"

namespace ashlar::lower {

// Returns the activation that the op is; None when it is none of them.
exec::Epilogue epilogueOf(mlir::Operation *op);

// Returns the number of an activation in the ABI.
uint32_t numberOf(exec::Epilogue epilogue);

// Returns the ashlar_rt_weights of a call with fixed weights, or with kept ones.
uint32_t numberOfWeights(bool areFixed, bool areKept);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_CALLS_EPILOGUE_H
