#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds everything and runs all tests. The last line is "N passed, N failed[, N skipped]"; exit status 0 when none failed.
# ASHLAR_DATA=DIR (holding mnist/) adds the tests on real data.
set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
tools/setup.sh || exit 1
cmake --preset dev >build-configure.log 2>&1 || { cat build-configure.log; rm -f build-configure.log; exit 1; }
mv build-configure.log build/configure.log
ninja -C build || exit 1

log=build/check.log
ctest --test-dir build --output-on-failure --timeout 900 2>&1 | tee "$log"

total=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#' "$log")
failed=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#.*(\*\*\*Failed|\*\*\*Exception|\*\*\*Timeout|\*\*\*Not Run)' "$log")
skipped=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#.*\*\*\*Skipped' "$log")
passed=$((total - failed - skipped))
if [ "$total" -eq 0 ]; then
  echo "error: no test ran"
  failed=1
fi
line="$passed passed, $failed failed"
[ "$skipped" -gt 0 ] && line="$line, $skipped skipped"
echo "$line"
[ "$failed" -eq 0 ]
