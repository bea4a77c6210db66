// SPDX-License-Identifier: Apache-2.0
//
// Who waits for whom.

#include "runtime/comm/tcp/wait_reports.h"

#include <catch2/catch.hpp>

namespace ashlar::test::wait_reports_test {

using namespace ashlar::rt;

TEST_CASE("wait reports: the rank at the end of the chain is named", "[runtime][comm][waits]") {
  WaitReports reports(/*rank=*/3, /*ranks=*/4); // 3 waits for 2, 2 for 1, 1 for 0, which was stopped
  CHECK(reports.culprit(/*now=*/1) == 3);
  reports.note(3, 2, /*speaks=*/true, /*now=*/1);
  CHECK(reports.culprit(1) == 2);
  reports.note(2, 1, true, 1);
  reports.note(1, 0, true, 1);
  CHECK(reports.culprit(1) == 0);
  reports.note(2, WaitReports::kNobody, true, 2); // it got on
  CHECK(reports.culprit(2) == 2);
}

TEST_CASE("wait reports: ranks that wait for each other end the search", "[runtime][comm][waits]") {
  WaitReports reports(/*rank=*/0, /*ranks=*/2);
  reports.note(0, 1, true, 1);
  reports.note(1, 0, true, 1);
  const int culprit = reports.culprit(1);
  CHECK((culprit == 0 || culprit == 1));
}

TEST_CASE("wait reports: the lowest rank that waits speaks", "[runtime][comm][waits]") {
  WaitReports first(/*rank=*/1, /*ranks=*/3), second(/*rank=*/2, /*ranks=*/3);
  CHECK(!first.isFirst(1)); // nobody waits
  for (WaitReports *reports : {&first, &second}) {
    reports->note(1, 0, /*speaks=*/true, 1);
    reports->note(2, 0, true, 1);
  }
  CHECK(first.isFirst(1));
  CHECK(!second.isFirst(1));
}

TEST_CASE("wait reports: a rank that leaves it to others does not speak", "[runtime][comm][waits]") {
  WaitReports reports(/*rank=*/1, /*ranks=*/3); // rank 0 waits in the memory of its host, where another one speaks
  reports.note(0, 2, /*speaks=*/false, 1);
  reports.note(1, 0, /*speaks=*/true, 1);
  CHECK(reports.isFirst(1));
  CHECK(reports.culprit(1) == 2);
}

TEST_CASE("wait reports: a rank that was stopped while it waited is the one that all wait for", "[runtime][comm][waits]") {
  WaitReports reports(/*rank=*/2, /*ranks=*/3);
  reports.note(0, 1, /*speaks=*/true, /*now=*/1); // and repeats it no more
  reports.note(2, 0, true, 2 + WaitReports::kHoldsSeconds);
  CHECK(reports.culprit(2 + WaitReports::kHoldsSeconds) == 0);
  CHECK(reports.isFirst(2 + WaitReports::kHoldsSeconds));
}

TEST_CASE("wait reports: of the ranks that found a host lost the first speaks, before all others", "[runtime][comm][waits]") {
  WaitReports first(/*rank=*/1, /*ranks=*/5), second(/*rank=*/2, /*ranks=*/5); // 4 is lost
  for (WaitReports *reports : {&first, &second}) {
    reports->note(0, 1, WaitReports::kSpeaksBefore, 1);
    reports->note(1, 4, WaitReports::kFoundLost, 1);
    reports->note(2, 4, WaitReports::kFoundLost, 1);
    reports->note(3, 2, /*speaks=*/1, 1);
  }
  CHECK(first.isFirst(1));
  CHECK(!second.isFirst(1));
}

TEST_CASE("wait reports: a rank that waits for one of its own host speaks before those of other hosts", "[runtime][comm][waits]") {
  WaitReports first(/*rank=*/0, /*ranks=*/4), near(/*rank=*/3, /*ranks=*/4); // 2 is stopped
  for (WaitReports *reports : {&first, &near}) {
    reports->note(0, 2, /*speaks=*/1, 1);
    reports->note(1, 0, /*speaks=*/1, 1);
    reports->note(3, 2, WaitReports::kSpeaksBefore, 1);
  }
  CHECK_FALSE(first.isFirst(2));
  CHECK(near.isFirst(2));
}

} // namespace ashlar::test::wait_reports_test
