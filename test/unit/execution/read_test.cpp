// SPDX-License-Identifier: Apache-2.0
//
// Every tensor that an image names can be read back at any time: cpu.

#include "test/unit/execution/loaded_run.h"

#include <catch2/catch.hpp>

namespace ashlar::test::read_test {

TEST_CASE("read: every tensor holds its number after every program, cpu", "[loaded][read]") {
  checkReads("cpu", /*trains=*/true);
  checkReads("cpu", /*trains=*/false);
}

TEST_CASE("read: every device of a process has its piece", "[loaded][read]") {
  checkReads("cpu", /*trains=*/true, "deterministic");
}

} // namespace ashlar::test::read_test
