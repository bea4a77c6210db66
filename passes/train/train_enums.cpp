// SPDX-License-Identifier: Apache-2.0
//
// The enums of train_enums.td.

#include "passes/train/passes.h"

#include "passes/train/train_enums.cpp.inc"
