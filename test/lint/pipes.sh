#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Names each line of a script that ends a pipe with `grep -q`. grep leaves at the first match, what writes into the pipe may then end by
# SIGPIPE, and `pipefail` makes a failure of it, now and then. pipes.sh ROOT
set -uo pipefail

cd "$1" || exit 1
found=$(grep -rnE '(^|[^|])[|] *grep +-[a-zA-Z]*q' --include='*.sh' test tools)
if [ -n "$found" ]; then
  echo "$found" >&2
  echo "error: grep -q at the end of a pipe; let it read a file or a variable" >&2
  exit 1
fi
echo "no pipe ends with grep -q"
