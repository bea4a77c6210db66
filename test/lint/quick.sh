#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test/quick.txt names entries of CTest, and has all rules of the tree: quick.sh ROOT BUILD
set -euo pipefail
entries=$(ctest --test-dir "$2" -C Quick -N | sed -n 's/^ *Test *#[0-9]*: //p')
listed=$(grep -v '^#' "$1/test/quick.txt")
# Names in the second list but not in the first.
missing() {
  comm -13 <(sort <<< "$1") <(sort <<< "$2")
}
unknown=$(missing "$entries" "$listed")
[ -z "$unknown" ] || { echo "error: test/quick.txt names no entry of CTest: $(xargs <<< "$unknown")" >&2; exit 1; }
rules=$(missing "$listed" "$(grep '^lint\.' <<< "$entries")")
[ -z "$rules" ] || { echo "error: test/quick.txt lacks $(xargs <<< "$rules")" >&2; exit 1; }
[ "$(sort -u <<< "$listed")" = "$(sort <<< "$listed")" ] || { echo "error: test/quick.txt names an entry twice" >&2; exit 1; }
echo "$(wc -l <<< "$listed") entries"
