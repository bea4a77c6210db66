# SPDX-License-Identifier: Apache-2.0
#
# What the scripts about hand-written images share. Source it with the script's argument, a toy program: it goes to an empty folder and counts
# checks. What a check ran is in the file out.

set -u
toy=$(readlink -f "$1")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
passed=0
failed=0
limit=20 # of a check, in seconds

# verdict NAME COMMAND...: counts a check, which passes where the command succeeds, and shows out when it failed.
verdict() {
  local name=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $name in:"
    sed 's/^/    /' out
  fi
}

# check NAME EXPECTED_STATUS PATTERN COMMAND...: the output (both streams) must match the extended regular expression, the status be equal
# ("error" stands for any but 0), and nothing take longer than the limit.
check() {
  local name=$1 expected=$2 pattern=$3 status
  shift 3
  timeout "$limit" "$@" > out 2>&1
  status=$?
  if [ "$expected" = error ] && [ $status -ne 0 ] && [ $status -ne 124 ]; then
    expected=$status
  fi
  verdict "$name: status $status, expected $expected and /$pattern/" \
    eval '[ $status = "$expected" ] && { [ -z "$pattern" ] || grep -Eq -- "$pattern" out; }'
}
