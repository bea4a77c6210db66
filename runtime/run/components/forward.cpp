// SPDX-License-Identifier: Apache-2.0
//
// The component of single runs of a model.

#include "runtime/run/session.h"

namespace ashlar::rt {

const Run ASHLAR_RT_COMPONENT(forward) = runForward;

} // namespace ashlar::rt
