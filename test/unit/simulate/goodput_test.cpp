// SPDX-License-Identifier: Apache-2.0
//
// Goodput with failures against its closed forms.

#include "runtime/simulate/goodput.h"

#include <catch2/catch.hpp>

namespace ashlar::test::goodput_test {

using namespace ashlar::rt;

TEST_CASE("goodput: without failures only checkpoints cost time", "[simulate][goodput]") {
  CHECK(goodput({/*saveSeconds=*/10, /*restartSeconds=*/300, /*failuresPerDay=*/0}, 90) == Approx(0.9).epsilon(1e-12));
}

TEST_CASE("goodput: with rare failures each costs a restart and half an interval", "[simulate][goodput]") {
  // One failure in 86400 s: to first order 1 - save / interval - (interval / 2 + restart) / mean.
  const FailureModel model{/*saveSeconds=*/0.1, /*restartSeconds=*/10, /*failuresPerDay=*/1};
  CHECK(goodput(model, 100) == Approx(1 - 0.1 / 100 - (50 + 10) / 86400.0).margin(3e-6));
}

TEST_CASE("goodput: Young's interval is the root, Daly's the best of all", "[simulate][goodput]") {
  const FailureModel model{/*saveSeconds=*/60, /*restartSeconds=*/300, /*failuresPerDay=*/24};
  CHECK(youngInterval(model) == Approx(657.267).margin(0.001)); // sqrt(2 * 60 * 3600)
  CHECK(dalyInterval(model) == Approx(617.874).margin(0.001));  // 657.267 * (1 + 0.091287 / 3 + 0.0083333 / 9) - 60
  double best = 1;
  for (double interval = 1; interval < 3600; interval += 0.5) {
    best = goodput(model, interval) > goodput(model, best) ? interval : best;
  }
  CHECK(dalyInterval(model) == Approx(best).margin(1));
  CHECK(goodput(model, dalyInterval(model)) >= goodput(model, youngInterval(model)));
  const FailureModel hopeless{/*saveSeconds=*/8000, /*restartSeconds=*/0, /*failuresPerDay=*/24};
  CHECK(dalyInterval(hopeless) == 3600); // longer saves than means: the mean
}

} // namespace ashlar::test::goodput_test
