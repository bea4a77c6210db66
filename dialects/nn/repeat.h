// SPDX-License-Identifier: Apache-2.0
//
// The ops of repeat.td.

#ifndef ASHLAR_DIALECTS_NN_REPEAT_H
#define ASHLAR_DIALECTS_NN_REPEAT_H

#include "dialects/nn/nn.h"

#define GET_OP_CLASSES
#include "dialects/nn/repeat.h.inc"

#endif // ASHLAR_DIALECTS_NN_REPEAT_H
