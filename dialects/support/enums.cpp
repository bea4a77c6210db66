// SPDX-License-Identifier: Apache-2.0
//
// How the shared enums are written and read.

#include "dialects/support/enums.h"

#include "llvm/ADT/StringSwitch.h"

#include "dialects/support/enums.cpp.inc"
