#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Names each C++ file that .clang-format would change. format.sh ROOT
set -uo pipefail

cd "$1" || exit 1
# Many files a process: starting one takes longer than a file.
log=$(find compiler dialects examples passes runtime test tools \( -name '*.cpp' -o -name '*.h' \) -print0 |
      xargs -0 -n 32 -P 2 clang-format-22 --dry-run --Werror 2>&1) && { echo "all files are formatted"; exit 0; }
mapfile -t bad < <(sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: error: code should be clang-formatted.*/\1/p' <<< "$log" | sort -u)
if [ ${#bad[@]} -eq 0 ]; then
  printf '%s\n' "$log" >&2
else
  echo "error: not formatted; run clang-format-22 -i ${bad[*]}" >&2
fi
exit 1
