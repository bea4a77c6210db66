#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the Python package from a build of Ashlar: tools/wheel.sh [OUT [BUILD]]   (default: build-release/packages, build-release)
# The platform tag is manylinux_2_N by the newest glibc that a file of it needs, as auditwheel has it. Needs Python's setuptools and wheel.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${2:-$root/build-release}" && pwd)
out=$(mkdir -p "${1:-$build/packages}" && cd "${1:-$build/packages}" && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
cp -r "$root/python/." "$stage"
sed -n 's/^project(ashlar VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt" > "$stage/VERSION"
for component in main libraries; do
  cmake --install "$build" --prefix "$stage/ashlar/prefix" --component $component > /dev/null
done
glibc=$(find "$stage/ashlar/prefix/bin" "$stage/ashlar/prefix/lib/ashlar" -type f -exec readelf -V {} + 2>/dev/null |
        grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -1)
python3 -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$stage/wheel" "$stage"
python3 -m wheel tags --remove --platform-tag "manylinux_2_${glibc#GLIBC_2.}_$(uname -m)" "$stage"/wheel/*.whl > /dev/null
mv "$stage"/wheel/*.whl "$out"
