// SPDX-License-Identifier: Apache-2.0
//
// The nn dialect: the root td file, which the generators read.

#ifndef ASHLAR_DIALECTS_NN_NN_TD
#define ASHLAR_DIALECTS_NN_NN_TD

#ifndef ASHLAR_APART
include "dialects/nn/functions.td"
include "dialects/nn/repeat.td"
#endif
include "dialects/nn/nn_attention.td"
include "dialects/nn/nn_normalization.td"
include "dialects/nn/nn_ops.td"
include "dialects/nn/windows/window_ops.td"

#endif // ASHLAR_DIALECTS_NN_NN_TD
