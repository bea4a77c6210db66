#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Names each C++ file that .clang-format would change. format.sh ROOT
set -uo pipefail

cd "$1" || exit 1
bad=()
while read -r file; do
  clang-format-22 --dry-run --Werror "$file" >/dev/null 2>&1 || bad+=("$file")
done < <(find compiler dialects passes runtime test tools -name '*.cpp' -o -name '*.h')
if [ ${#bad[@]} -gt 0 ]; then
  echo "error: not formatted; run clang-format-22 -i ${bad[*]}" >&2
  exit 1
fi
echo "all files are formatted"
