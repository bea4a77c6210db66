#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Copies what a build generates into docs: the reference, from the td files, and the columns of the table in docs/onnx.md, from what its
# tests import. tools/update_docs.sh [--check] [BUILD]
# --check: changes nothing; exit status 1, naming the files, when one is stale.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
check=false
if [ "${1:-}" = --check ]; then
  check=true
  shift
fi
build=${1:-$root/build}

page=$(mktemp)
trap 'rm -f "$page"' EXIT
if ! log=$(ASHLAR_ONNX_PAGE=$page "$build/bin/test_frontend" 2>&1); then
  tail -n 40 <<< "$log" >&2
  echo "error: test_frontend fails, which fills the table of docs/onnx.md" >&2
  exit 1
fi

stale=()
copy() {
  if $check; then
    cmp -s "$1" "$root/docs/$2" || stale+=("docs/$2")
  else
    cp "$1" "$root/docs/$2"
  fi
}
copy "$page" onnx.md
for dialect in nn dist exec; do
  copy "$build/dialects/$dialect/$dialect.md" "reference/dialect_$dialect.md"
done
for room in train layout search partition format stage lower; do
  copy "$build/passes/$room/passes.md" "reference/passes_$room.md"
done
copy "$build/compiler/strategy/passes.md" reference/passes_strategy.md
if [ ${#stale[@]} -gt 0 ]; then
  echo "error: ${stale[*]} differ from what the code says; run tools/update_docs.sh" >&2
  exit 1
fi
