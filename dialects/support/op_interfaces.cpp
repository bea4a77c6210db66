// SPDX-License-Identifier: Apache-2.0
//
// Generated definitions of the op interfaces.

#include "dialects/support/op_interfaces.h"

#include "dialects/support/op_interfaces.cpp.inc"
