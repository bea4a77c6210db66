#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what Ashlar needs from Debian's packages (as root, or with sudo). Does nothing when all of it is there.
set -euo pipefail

packages=(
  ccache clang-22 clang-format-22 cmake lld-22 ninja-build                  # build
  libmlir-22-dev llvm-22-dev llvm-22-tools mlir-22-tools libzstd-dev zlib1g-dev # compiler
  libcli11-dev libfmt-dev libonnx-dev libprotobuf-dev protobuf-compiler
  libopenmpi-dev openmpi-bin                                                # runtime
  catch2 libbenchmark-dev python3                                           # tests
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then
  exit 0
fi

sudo=""
if [ "$(id -u)" -ne 0 ]; then
  sudo=$(command -v sudo) || { echo "error: ${#missing[@]} packages are missing (${missing[*]}) and this is neither root nor is there sudo" >&2; exit 1; }
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
