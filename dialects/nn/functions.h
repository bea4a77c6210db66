// SPDX-License-Identifier: Apache-2.0
//
// The ops of functions.td.

#ifndef ASHLAR_DIALECTS_NN_FUNCTIONS_H
#define ASHLAR_DIALECTS_NN_FUNCTIONS_H

#include "dialects/nn/nn.h"

#define GET_OP_CLASSES
#include "dialects/nn/functions.h.inc"

#endif // ASHLAR_DIALECTS_NN_FUNCTIONS_H
