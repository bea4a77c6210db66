// SPDX-License-Identifier: Apache-2.0
//
// The job's rules for first values, applied to parameters.

#ifndef ASHLAR_COMPILER_FRONTEND_WEIGHTS_INIT_RULES_H
#define ASHLAR_COMPILER_FRONTEND_WEIGHTS_INIT_RULES_H

#include "compiler/job/job.pb.h"

#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace ashlar::frontend {

// Returns the nn attribute a rule means for a parameter of this type; throws an ImportError when the rule does not fit the shape.
mlir::Attribute makeInitAttribute(const job::Init &rule, llvm::StringRef name, mlir::RankedTensorType type);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_WEIGHTS_INIT_RULES_H
