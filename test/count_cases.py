#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts what CTest ran: count_cases.py JUNIT.xml. Prints what failed and, last, "N passed, N failed[, N skipped]"; exit status 0 when
none failed and some passed.

An entry whose output has lines "cases: N passed, N failed, N skipped" (Catch2 programs, lit, job_options) counts as those cases, any other as
one. An entry that fails counts at least one failure, whatever it printed before: a program that crashes prints too little. One that has no
case at all fails too."""

import re
import sys
import xml.etree.ElementTree

CASES = re.compile(r"^cases: (\d+) passed, (\d+) failed, (\d+) skipped\s*$", re.M)


def count(entry):
    """Returns (passed, failed, skipped) of one entry of CTest."""
    skip = entry.find("skipped")
    # What could not be started is "skipped" to CTest too, with another message.
    skipped = skip is not None and skip.get("message", "").startswith("SKIP_RETURN_CODE")
    succeeded = entry.get("status") == "run"
    lines = CASES.findall(entry.findtext("system-out") or "")
    cases = tuple(sum(int(line[i]) for line in lines) for i in range(3)) if lines else (
        (0, 0, 1) if skipped else (1, 0, 0) if succeeded else (0, 1, 0))
    if (not succeeded and not skipped and cases[1] == 0) or sum(cases) == 0:
        return cases[0], cases[1] + 1, cases[2]
    return cases


def main():
    entries = list(xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testcase"))
    totals = [0, 0, 0]
    for entry in entries:
        counted = count(entry)
        if counted[1] > 0:
            print(f"failed: {entry.get('name')}: {counted[1]} of {sum(counted)}")
        totals = [total + more for total, more in zip(totals, counted)]
    passed, failed, skipped = totals
    if not entries:
        print("error: no test ran")
        failed = 1
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(0 if failed == 0 and passed > 0 else 1)


main()
