#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Copies the reference generated from the td files of a build into docs/reference. tools/update_docs.sh [--check] [BUILD]
# --check: changes nothing; exit status 1, naming the files, when docs/reference is stale.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
check=false
if [ "${1:-}" = --check ]; then
  check=true
  shift
fi
build=${1:-$root/build}

stale=()
copy() {
  if $check; then
    cmp -s "$1" "$root/docs/reference/$2" || stale+=("docs/reference/$2")
  else
    cp "$1" "$root/docs/reference/$2"
  fi
}
for dialect in nn dist exec; do
  copy "$build/dialects/$dialect/$dialect.md" "dialect_$dialect.md"
done
for room in train layout partition format stage lower; do
  copy "$build/passes/$room/passes.md" "passes_$room.md"
done
copy "$build/compiler/strategy/passes.md" passes_strategy.md
if [ ${#stale[@]} -gt 0 ]; then
  echo "error: ${stale[*]} differ from what the td files say; run tools/update_docs.sh" >&2
  exit 1
fi
