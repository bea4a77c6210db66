#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a training, and starts it again from its newest checkpoint when it fails (docs/checkpoints.md).
#   tools/supervise.sh [-n RETRIES] [--fallback "COMMAND"]... -- mpirun -n 4 ./model ... --checkpoint-dir DIR
# The n-th --fallback is what the n-th restart runs, and those behind it until the next one: a program compiled for fewer ranks. Ends with the
# status of the last run. SIGTERM, SIGINT and SIGUSR1 are passed on; the run that got one is the last. So is one that ends with status 3, since
# its numbers are not finite and would be so again (docs/faults.md).
set -uo pipefail

export OMPI_MCA_orte_execute_quiet=1 # the ranks tell what happened
# mpirun finds a lost host after 5 + 3 x 2 s, not after a default of minutes: its own connections may stay silent so long. What the user sets holds.
export OMPI_MCA_oob_tcp_keepalive_time=${OMPI_MCA_oob_tcp_keepalive_time-5}
export OMPI_MCA_oob_tcp_keepalive_intvl=${OMPI_MCA_oob_tcp_keepalive_intvl-2}
export OMPI_MCA_oob_tcp_keepalive_probes=${OMPI_MCA_oob_tcp_keepalive_probes-3}
nonfinite=3

usage='usage: tools/supervise.sh [-n RETRIES] [--fallback "COMMAND"]... -- COMMAND...'

refuse() {
  echo "error: $1; $usage" >&2
  exit 2
}

retries=3 fallbacks=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case $1 in
    -n)
      [[ ${2-} =~ ^[0-9]{1,6}$ ]] || refuse "-n needs a number of restarts, not \"${2-}\""
      retries=$((10#$2))
      shift 2
      ;;
    --fallback)
      [[ ${2-} =~ [^[:space:]] ]] || refuse "--fallback needs a command"
      fallbacks+=("$2")
      shift 2
      ;;
    *) refuse "\"$1\" is neither an option nor --" ;;
  esac
done
[ $# -gt 1 ] || refuse "there is no command behind --"
shift
[ ${#fallbacks[@]} -le "$retries" ] || refuse "${#fallbacks[@]} fallbacks but $retries restarts"

# One text for the shell, as a fallback is.
command=$(printf '%q ' "$@")
command=${command% }

# Job control gives each run a process group of its own: a Ctrl-C reaches it once, from here, and is not ignored by it.
set -m
child="" signal="" signals=0
pass_on() {
  signal=$1
  signals=$((signals + 1))
  [ -z "$child" ] || kill -s "$1" "$child" 2> /dev/null
}
for name in TERM INT USR1; do
  # shellcheck disable=SC2064 # the name is that of now
  trap "pass_on $name" "$name"
done

restarts=0
while true; do
  [[ $command =~ (^|[[:space:]])--resume([[:space:]=]|$) ]] || command+=" --resume latest"
  began=$SECONDS
  bash -c "exec $command" < /dev/null &
  child=$!
  [ -z "$signal" ] || kill -s "$signal" "$child" 2> /dev/null # it came before there was one to pass it on to
  # A signal interrupts `wait`; the run it was passed on to is waited for again.
  while true; do
    before=$signals status=0
    wait "$child" || status=$?
    [ "$signals" != "$before" ] || break
  done
  child=""
  [ "$status" -ne 0 ] && [ "$status" -ne $nonfinite ] && [ -z "$signal" ] && [ $restarts -lt "$retries" ] || exit "$status"
  command=${fallbacks[restarts]-$command}
  restarts=$((restarts + 1))
  echo "supervise: ended with status $status after $((SECONDS - began)) s; restart $restarts of $retries: $command" >&2
done
