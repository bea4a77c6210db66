#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks random programs on random meshes with random layouts: n ranks against one (docs/howto/fuzz.md).
#   tools/fuzz.sh --seeds N --start S [--jobs J] [--executable-every K] [--job-every K]
# The last line counts every seed by its verdict; exit status 0 when all passed. Reduced programs go to build/fuzz.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
if [ ! -f "$root/build/build.ninja" ]; then
  echo "error: $root/build is not configured; run cmake --preset dev" >&2
  exit 1
fi
ninja -C "$root/build" --quiet ashlar-fuzz
mkdir -p "$root/build/fuzz"
exec "$root/build/bin/ashlar-fuzz" --output "$root/build/fuzz" "$@"
