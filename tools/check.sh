#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds everything and runs tests: tools/check.sh [--quick | --long]
#   --quick: before each commit, in less than three minutes on a built tree: the entries of test/quick.txt, without Catch2 cases tagged [slow]
#   default: all tests
#   --long:  all tests, and those that build a tree of their own (CTest's configuration Long)
# The last line is "N passed, N failed[, N skipped]", which counts every case of a Catch2 program, every lit file, every case of a job option
# and every script, the same number on every machine; exit status 0 when none failed. ASHLAR_DATA=DIR (holding mnist/) adds the tests on real
# data.
set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
selection=()
case $*: in
  :) ;;
  --quick:)
    selection=(-C Quick -R "^($(grep -v '^#' test/quick.txt | sed 's/\./\\./g' | paste -sd '|'))\$")
    export ASHLAR_QUICK=1
    ;;
  --long:) selection=(-C Long) ;;
  *) echo "error: unknown options $*; usage: tools/check.sh [--quick | --long]" >&2; exit 2 ;;
esac
tools/setup.sh || exit 1
cmake --preset dev >build-configure.log 2>&1 || { cat build-configure.log; rm -f build-configure.log; exit 1; }
mv build-configure.log build/configure.log
ninja -C build || exit 1

# Three at a time, on two cores, as many wait now and then: what takes more than one core, or is bounded in time, says so to CTest (PROCESSORS, RUN_SERIAL). The whole output goes to the
# file, for the cases that programs count.
results=$PWD/build/check.xml
rm -f "$results"
ctest --test-dir build ${selection[@]+"${selection[@]}"} -j3 --output-on-failure --timeout 900 --output-junit "$results" \
      --test-output-size-passed 1000000000 --test-output-size-failed 1000000000 2>&1 | tee build/check.log
[ -e "$results" ] || { echo "error: ctest wrote no results"; echo "0 passed, 1 failed"; exit 1; }
python3 test/count_cases.py "$results"
