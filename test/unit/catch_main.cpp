// SPDX-License-Identifier: Apache-2.0
//
// The main function of every Catch2 program, compiled once. Each run ends with a line "cases: N passed, N failed, N skipped", which
// tools/check.sh adds up; what was not compiled here is skipped, as ASHLAR_SKIPPED_CASES says (tools/cmake/ashlar.cmake).
// With ASHLAR_QUICK a run without a filter leaves out the cases tagged [slow] (tools/check.sh --quick).

#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <cstdlib>
#include <iostream>

namespace {

// Prints how many cases there were. A crash ends the run with a smaller number and the exit status of a failure.
class CountingListener : public Catch::TestEventListenerBase {
public:
  using TestEventListenerBase::TestEventListenerBase;

  void testRunEnded(const Catch::TestRunStats &stats) override {
    const Catch::Counts &cases = stats.totals.testCases;
    const char *skipped = std::getenv("ASHLAR_SKIPPED_CASES");
    std::cout << "cases: " << cases.passed << " passed, " << cases.failed + cases.failedButOk << " failed, "
              << (skipped != nullptr ? skipped : "0") << " skipped" << std::endl;
  }
};

} // namespace

CATCH_REGISTER_LISTENER(CountingListener)

int main(int argc, char **argv) {
  Catch::Session session;
  if (int status = session.applyCommandLine(argc, argv)) {
    return status;
  }
  if (std::getenv("ASHLAR_QUICK") != nullptr && session.configData().testsOrTags.empty()) {
    session.configData().testsOrTags.push_back("~[slow]~[.]"); // a filter with the first alone runs hidden cases too
  }
  return session.run();
}
