// SPDX-License-Identifier: Apache-2.0
//
// Names of chips, and which of them the tools know.

#include "compiler/target/cuda/toolkit.h"

#include <catch2/catch.hpp>

namespace ashlar::test::chip_test {

using Catch::Matchers::Contains;

namespace {

std::string errorOf(const std::string &list) {
  llvm::Expected<std::vector<cuda::Chip>> chips = cuda::parseChips(list);
  return chips ? "" : llvm::toString(chips.takeError());
}

} // namespace

TEST_CASE("chips: a list comes back in the order of capabilities", "[cuda]") {
  std::vector<cuda::Chip> chips = llvm::cantFail(cuda::parseChips("sm_120,sm_80,sm_90"));
  REQUIRE(chips.size() == 3);
  CHECK(chips[0].name() == "sm_80");
  CHECK(chips[1].name() == "sm_90");
  CHECK(chips[2].virtualName() == "compute_120");
}

TEST_CASE("chips: what is no chip is refused by name", "[cuda]") {
  for (const char *name : {"", "sm_", "90", "compute_90", "sm_90a", "sm_090", "sm_-90", "sm_80,", "sm_99999999999"}) {
    CHECK_THAT(errorOf(name), Contains("is no name of a chip; names are sm_ and a number, such as sm_90"));
  }
  CHECK_THAT(errorOf("sm_80,sm_70"), Contains("\"sm_70\" is older than sm_75"));
  CHECK_THAT(errorOf("sm_90,sm_80,sm_90"), Contains("\"sm_90\" is there twice"));
}

#ifdef ASHLAR_CUDA
TEST_CASE("chips: ptxas and LLVM must know them", "[cuda]") {
  cuda::Toolkit toolkit = llvm::cantFail(cuda::findToolkit());
  CHECK(llvm::toString(cuda::checkChips(toolkit, {cuda::Chip{80}, cuda::Chip{90}})).empty());
  CHECK_THAT(llvm::toString(cuda::checkChips(toolkit, {cuda::Chip{80}, cuda::Chip{81}})),
             Contains("ptxas makes no code for \"sm_81\"; ptxas knows sm_75, ") && Contains("sm_90,"));
}
#else
TEST_CASE("chips: without the toolkit the target is refused", "[cuda]") {
  llvm::Expected<cuda::Toolkit> toolkit = cuda::findToolkit();
  REQUIRE(!toolkit);
  CHECK_THAT(llvm::toString(toolkit.takeError()), Contains("the target cuda was left out when Ashlar was configured"));
}
#endif

} // namespace ashlar::test::chip_test
