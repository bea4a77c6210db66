// SPDX-License-Identifier: Apache-2.0
//
// The component of training runs.

#include "runtime/run/session.h"

namespace ashlar::rt {

const Run ASHLAR_RT_COMPONENT(train) = train;

} // namespace ashlar::rt
