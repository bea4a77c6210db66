#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# How test entries are counted: count_cases_test.sh FOLDER_OF_THE_SCRIPTS. Each way an entry of CTest can end, in a project of its own.
set -euo pipefail
scripts=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# counts EXPECTED ENTRY...: an entry is a shell command; the last line and the exit status must say this.
counts() {
  local expected=$1 number=0 status=0 last
  shift
  : > CTestTestfile.cmake
  for entry in "$@"; do
    number=$((number + 1))
    # A program that is not there cannot be a shell's command.
    if [ "$entry" = missing ]; then
      echo "add_test(t$number \"$work/no_such_program\")" >> CTestTestfile.cmake
    else
      printf '#!/bin/bash\n%s\n' "$entry" > t$number.sh
      echo "add_test(t$number bash $work/t$number.sh)" >> CTestTestfile.cmake
    fi
    echo "set_tests_properties(t$number PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 2)" >> CTestTestfile.cmake
  done
  rm -f results.xml
  ctest --output-junit "$work/results.xml" --test-output-size-passed 1000000000 --test-output-size-failed 1000000000 > ctest.log 2>&1 || true
  last=$(python3 "$scripts/count_cases.py" results.xml | tail -1) || status=$?
  [ "$last" = "$expected" ] || { echo "FAILED: \"$last\" instead of \"$expected\" for: $*" >&2; exit 1; }
  case $expected in
    *" 0 failed"*) [ $status -eq 0 ] || { echo "FAILED: exit status $status for \"$expected\"" >&2; exit 1; } ;;
    *) [ $status -ne 0 ] || { echo "FAILED: exit status 0 for \"$expected\"" >&2; exit 1; } ;;
  esac
}

line='cases: 3 passed, 0 failed, 0 skipped'
counts "1 passed, 0 failed" "true"
counts "3 passed, 0 failed" "echo $line"
counts "7 passed, 0 failed" "echo $line" "echo $line" "true"
counts "1 passed, 0 failed, 1 skipped" "true" "exit 77"
counts "1 passed, 0 failed, 4 skipped" "true" "bash $scripts/skipped.sh reason 4"
counts "3 passed, 0 failed, 2 skipped" "echo cases: 3 passed, 0 failed, 2 skipped"
counts "0 passed, 1 failed" "false"
counts "3 passed, 2 failed" "echo cases: 3 passed, 2 failed, 0 skipped; exit 1"
# A crash behind the count, and ahead of it; a program that hangs, and one that is not there.
counts "3 passed, 1 failed" "echo $line; kill -SEGV \$\$"
counts "0 passed, 1 failed" "kill -SEGV \$\$"
counts "1 passed, 1 failed" "true" "sleep 30"
counts "1 passed, 1 failed" "true" "missing"
# Failures that a program tells but forgets in its exit status, no cases at all, and an output that is long.
counts "3 passed, 2 failed" "echo cases: 3 passed, 2 failed, 0 skipped"
counts "0 passed, 1 failed" "echo cases: 0 passed, 0 failed, 0 skipped"
counts "3 passed, 0 failed" "seq 100000; echo $line; seq 100000"
counts "0 passed, 1 failed"
echo "all ways to end are counted"
