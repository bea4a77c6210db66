// SPDX-License-Identifier: Apache-2.0
//
// The passes of this room, described in passes.td.

#ifndef ASHLAR_PASSES_TRAIN_PASSES_H
#define ASHLAR_PASSES_TRAIN_PASSES_H

#include "dialects/exec/exec.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <limits>
#include <string>

namespace ashlar::train {

// What the loss is made of.
enum class LossKind { SoftmaxCrossEntropy, MeanSquaredError, NegativeLogLikelihood, ModelOutput };

// How parameters follow their gradients.
enum class OptimizerKind { Sgd, Momentum, Adam, AdamW, Lamb };

// How the learning rate follows the number of the step.
enum class ScheduleKind { Constant, Step, Piecewise, Cosine, Polynomial };

// The type of -ashlar-mixed-precision besides f32.
enum class NarrowType { BF16, F16 };

#define GEN_PASS_DECL
#include "passes/train/passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/train/passes.h.inc"

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_PASSES_H
