// SPDX-License-Identifier: Apache-2.0
//
// The component of text generation.

#include "runtime/run/session.h"

namespace ashlar::rt {

const Run ASHLAR_RT_COMPONENT(generate) = generateText;

} // namespace ashlar::rt
