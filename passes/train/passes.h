// SPDX-License-Identifier: Apache-2.0
//
// The passes of this room, described in passes.td.

#ifndef ASHLAR_PASSES_TRAIN_PASSES_H
#define ASHLAR_PASSES_TRAIN_PASSES_H

#include "dialects/exec/exec.h"
#include "dialects/support/options/enum_option.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <limits>
#include <string>

#include "passes/train/train_enums.h.inc"

namespace ashlar::train {

#define GEN_PASS_DECL
#include "passes/train/passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/train/passes.h.inc"

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_PASSES_H
