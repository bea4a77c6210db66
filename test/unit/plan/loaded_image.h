// SPDX-License-Identifier: Apache-2.0
//
// Objects of the compiler, loaded into the test itself, which stands in for the runtime.

#ifndef ASHLAR_TEST_UNIT_PLAN_LOADED_IMAGE_H
#define ASHLAR_TEST_UNIT_PLAN_LOADED_IMAGE_H

#include "runtime/abi/ashlar_rt.h"

#include <string>

namespace ashlar::test {

// Links an object, which must hold a program, into a library beside it, loads that and returns its image. The library stays loaded.
const ashlar_rt_image *loadImage(const std::string &object);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_PLAN_LOADED_IMAGE_H
