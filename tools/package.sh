#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the packages of docs/howto/install.md from a release build: tools/package.sh [OUT]   (default: build-release/packages)
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
out=$(mkdir -p "${1:-$root/build-release/packages}" && cd "${1:-$root/build-release/packages}" && pwd)
cd "$root"
for program in patchelf dpkg-shlibdeps zstd; do
  command -v "$program" > /dev/null || { echo "error: $program is not on the PATH; install patchelf, dpkg-dev and zstd" >&2; exit 1; }
done
python3 -c "import setuptools, wheel" || { echo "error: python3 has no setuptools or wheel; install python3-setuptools and python3-wheel" >&2; exit 1; }
tools/setup.sh
cmake --preset release > /dev/null
ninja -C build-release
(cd build-release && cpack -G "DEB;TZST" -B "$out")
rm -rf "$out/_CPack_Packages"
version=$(sed -n 's/^project(ashlar VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
tar -C build-release --zstd -cf "$out/ashlar-$version-symbols.tar.zst" symbols
tools/wheel.sh "$out"
ls -l "$out"
