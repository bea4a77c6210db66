// SPDX-License-Identifier: Apache-2.0
//
// The dist dialect: the root td file, which the generators read.

#ifndef ASHLAR_DIALECTS_DIST_DIST_TD
#define ASHLAR_DIALECTS_DIST_DIST_TD

include "dialects/dist/dist_ops.td"
include "dialects/dist/dist_search.td"
include "dialects/dist/dist_transfers.td"

#endif // ASHLAR_DIALECTS_DIST_DIST_TD
