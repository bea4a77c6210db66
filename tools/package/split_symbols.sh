#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Strips the programs below PREFIX/bin. Their symbols go to SYMBOLS/.build-id, where gdb finds them by the build id of the program
# (set debug-file-directory SYMBOLS): tools/package/split_symbols.sh PREFIX SYMBOLS
set -euo pipefail

prefix=$1 symbols=$2
rm -rf "$symbols"
for program in "$prefix"/bin/ashlar*; do
  id=$(readelf -n "$program" | sed -n 's/^ *Build ID: //p')
  [ -n "$id" ] || { echo "error: $program has no build id; link it with --build-id" >&2; exit 1; }
  file=$symbols/.build-id/${id:0:2}/${id:2}.debug
  mkdir -p "$(dirname "$file")"
  llvm-objcopy-22 --only-keep-debug "$program" "$file"
  llvm-objcopy-22 --strip-all "$program"
done
