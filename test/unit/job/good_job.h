// SPDX-License-Identifier: Apache-2.0
//
// The starting point of the tests of the job file.

#ifndef ASHLAR_TEST_UNIT_JOB_GOOD_JOB_H
#define ASHLAR_TEST_UNIT_JOB_GOOD_JOB_H

#include <catch2/catch.hpp>

#include <string>

namespace ashlar::job {

inline constexpr auto contains = [](const std::string &text) { return Catch::Contains(text); };

// A complete training job; tests add to it or replace in it.
inline const std::string kGood = R"(
mode: DATA_PARALLEL
mesh { axes { name: "dp" size: 4 } }
global_batch: 256
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { sgd {} learning_rate: 0.01 }
dataset { digits {} features { column: "image" tensor: "input" } features { column: "label" tensor: "labels" } }
)";

} // namespace ashlar::job

#endif // ASHLAR_TEST_UNIT_JOB_GOOD_JOB_H
