# SPDX-License-Identifier: Apache-2.0
#
# What the end-to-end scripts share. Source it with the script's arguments: the folder of the tools and that of the jobs.

set -euo pipefail
tools=$1
jobs=$2
# Tests run as root too, and with more ranks than cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

# Ends the test with a reason.
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# Prints the losses of a log, one a line.
losses() {
  sed -n 's/^epoch: [0-9]* step: [0-9]*, loss is //p' "$1"
}

# Fails unless the losses of two logs are as many and agree within the given relative tolerance.
expect_close() {
  losses "$1" > a.losses
  losses "$2" > b.losses
  [ -s a.losses ] || fail "$1 has no losses"
  [ "$(wc -l < a.losses)" = "$(wc -l < b.losses)" ] || fail "$1 has $(wc -l < a.losses) losses, $2 has $(wc -l < b.losses)"
  paste a.losses b.losses | awk -v tolerance="$3" '
    { difference = $1 - $2; if (difference < 0) difference = -difference; scale = $1 < 0 ? -$1 : $1 }
    !(difference <= tolerance * scale) { print "line " NR ": " $1 " and " $2; bad = 1 }
    END { exit bad }' || fail "the losses of $1 and $2 differ by more than $3"
}

# Fails unless a number is less than another.
expect_less() {
  awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }' || fail "$3: $1 is not less than $2"
}

# Prints the zoo's model that a job of docs/jobs is for. model_of JOBNAME
model_of() {
  case $1 in
    linear) echo linear ;;
    mlp_hybrid) echo mlp-hybrid ;;
    mlp*) echo mlp ;;
    transformer*) echo transformer ;;
    *) fail "no model is known for docs/jobs/$1.txtpb" ;;
  esac
}

# Prints how many ranks the plan of a program names. ranks_of PROGRAM
ranks_of() {
  sed -n 's/^mesh .*; \([0-9]*\) ranks\?$/\1/p' <("./$1" --plan)
}

# Fails unless the command fails, within 10 s, and says what is expected on stderr. expect_error TEXT COMMAND...
expect_error() {
  local text=$1 status=0
  shift
  timeout 10 "$@" > error.out 2> error.log || status=$?
  [ $status -ne 0 ] || fail "$* succeeded"
  [ $status -ne 124 ] || fail "$* hung"
  grep -qF -- "$text" error.log || { cat error.log >&2; fail "$* did not say: $text"; }
}
