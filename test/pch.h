// SPDX-License-Identifier: Apache-2.0
//
// The headers nearly every test of the compiler includes. Only to speed up the build, as tools/cmake/pch.h.

#ifndef ASHLAR_TEST_PCH_H
#define ASHLAR_TEST_PCH_H

#include "dialects/dist/dist.h"
#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/repeat.h"
#include "tools/cmake/pch.h"

#include <catch2/catch.hpp>

#include <map>
#include <random>
#include <string>
#include <vector>

#endif // ASHLAR_TEST_PCH_H
