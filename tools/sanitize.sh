#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the runtime and its tests with sanitizers, and runs them: once for addresses and undefined behaviour, once for data races.
#   tools/sanitize.sh [asan] [tsan]
# Without a name both. Not part of tools/check.sh. Exit status 0 when no test failed.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
[ $# -gt 0 ] || set -- asan tsan
for preset in "$@"; do
  case $preset in
  asan | tsan) ;;
  *) echo "error: \"$preset\" is no sanitizer build; there are asan and tsan" >&2; exit 1 ;;
  esac
done
# A report is a failure of the test it comes from, not a line that scrolls by.
export ASAN_OPTIONS=detect_leaks=0:halt_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
status=0
for preset in "$@"; do
  echo "$preset:"
  cmake --preset "$preset" -DASHLAR_RUNTIME_ONLY=ON >/dev/null
  ninja -C "build-$preset" --quiet
  ctest --test-dir "build-$preset" --output-on-failure --timeout 900 || status=1
done
exit $status
