// SPDX-License-Identifier: Apache-2.0
//
// Whether programs are such that faults show in them.

#include "test/fuzz/planted.h"
#include "test/fuzz/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>

#include <map>

namespace ashlar::fuzz::planted_test {

using namespace mlir;

// What becomes an executable of a run of 20,000 seeds are 400 with --executable-every 50, a number that few of the faults must escape.
TEST_CASE("fuzz: 400 executables show each op that takes words for signed numbers", "[fuzz]") {
  constexpr uint64_t kExecutables = 400;
  constexpr int kLeast = 3; // as many are expected of a fault that is found with 95 %
  std::map<std::string, int> counts;
  ProgramOptions options;
  options.varied = true;
  for (uint64_t seed = 1; seed <= kExecutables; ++seed) {
    for (const std::string &fault : shownSignFaults(*randomProgram(test::context(), seed, options))) {
      ++counts[fault];
    }
  }
  for (const std::string &fault : signFaults()) {
    CAPTURE(fault);
    CHECK(counts[fault] >= kLeast);
  }
}

TEST_CASE("fuzz: a fault that no result depends on is not shown", "[fuzz]") {
  auto program = [](const char *result) {
    return test::parse(R"(
      func.func @forward(%x: tensor<2xf64> {nn.name = "x"}) -> (tensor<2xf64> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
        %low = nn.constant dense<1> : tensor<2xui64>
        %high = nn.constant dense<-1> : tensor<2xi64>
        %words = nn.cast %high : tensor<2xi64> -> tensor<2xui64>
        %sign = nn.sign %words : tensor<2xui64>
        %larger = nn.max %low, %sign : tensor<2xui64>
        %y = nn.cast %)" +
                       std::string(result) +
                       R"( : tensor<2xui64> -> tensor<2xf64>
        return %y : tensor<2xf64>
      })");
  };
  CHECK(shownSignFaults(*program("sign")) == std::set<std::string>{"nn.sign ui64"});
  CHECK(shownSignFaults(*program("low")).empty());
  CHECK(shownSignFaults(*program("larger")) == std::set<std::string>{"nn.sign ui64"});
}

} // namespace ashlar::fuzz::planted_test
