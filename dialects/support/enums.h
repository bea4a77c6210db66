// SPDX-License-Identifier: Apache-2.0
//
// C++ side of enums.td.

#ifndef ASHLAR_DIALECTS_SUPPORT_ENUMS_H
#define ASHLAR_DIALECTS_SUPPORT_ENUMS_H

#include "mlir/IR/OpImplementation.h"

#include "dialects/support/enums.h.inc"

#endif // ASHLAR_DIALECTS_SUPPORT_ENUMS_H
