#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Strips the programs below PREFIX/bin. Their symbols go to SYMBOLS/NAME.debug, which gdb finds by a link in the program
# (set debug-file-directory SYMBOLS): tools/package/split_symbols.sh PREFIX SYMBOLS
set -euo pipefail

prefix=$1 symbols=$2
mkdir -p "$symbols"
for program in "$prefix"/bin/ashlar*; do
  file=$symbols/$(basename "$program").debug
  llvm-objcopy-22 --only-keep-debug "$program" "$file"
  llvm-objcopy-22 --strip-all --add-gnu-debuglink="$file" "$program"
done
