// SPDX-License-Identifier: Apache-2.0
//
// C++ side of op_interfaces.td.

#ifndef ASHLAR_DIALECTS_SUPPORT_OP_INTERFACES_H
#define ASHLAR_DIALECTS_SUPPORT_OP_INTERFACES_H

#include "dialects/support/sharding_rule.h"
#include "dialects/support/tensor_size.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

#include "dialects/support/op_interfaces.h.inc"

#endif // ASHLAR_DIALECTS_SUPPORT_OP_INTERFACES_H
