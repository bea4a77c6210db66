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
outlived=10 # seconds that a launcher may outlive its ranks

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
child="" signal="" status=0
pass_on() {
  signal=$1
  [ -z "$child" ] || kill -s "$1" "$child" 2> /dev/null
}
for name in TERM INT USR1; do
  # shellcheck disable=SC2064 # the name is that of now
  trap "pass_on $name" "$name"
done

# Whether a rank runs below a process, on this host. An ended one that nobody collected is none.
has_ranks() {
  local each
  # shellcheck disable=SC2013 # words
  for each in $(cat "/proc/$1/task/$1/children" 2> /dev/null); do
    if grep -qsz '^OMPI_COMM_WORLD_RANK=' "/proc/$each/environ" || has_ranks "$each"; then
      return 0
    fi
  done
  return 1
}

# Waits for the run; sets its status. mpirun waits for ever for the daemon of a lost host once it has sent something there, such as the order to
# end when a rank failed; so it is ended here when its ranks have.
await() {
  local ended seen="" alone=0 tick
  while true; do
    sleep 1 > /dev/null 2>&1 &
    tick=$!
    status=0
    wait -n -p ended "$child" "$tick" || status=$? # a signal interrupts it
    [ "${ended-}" != "$child" ] || return
    [ -n "${ended-}" ] || continue
    if has_ranks "$child"; then
      seen=1 alone=0
    elif [ -n "$seen" ]; then
      alone=$((alone + 1))
    fi
    if [ $alone = $outlived ]; then
      echo "supervise: the launcher still runs $outlived s after the ranks of this host ended, and is killed; a host may be lost" >&2
      kill -KILL -- "-$child" 2> /dev/null
    fi
  done
}

restarts=0
while true; do
  [[ $command =~ (^|[[:space:]])--resume([[:space:]=]|$) ]] || command+=" --resume latest"
  began=$SECONDS
  bash -c "exec $command" < /dev/null &
  child=$!
  [ -z "$signal" ] || kill -s "$signal" "$child" 2> /dev/null # it came before there was one to pass it on to
  await
  child=""
  [ "$status" -ne 0 ] && [ "$status" -ne $nonfinite ] && [ -z "$signal" ] && [ $restarts -lt "$retries" ] || exit "$status"
  command=${fallbacks[restarts]-$command}
  restarts=$((restarts + 1))
  echo "supervise: ended with status $status after $((SECONDS - began)) s; restart $restarts of $retries: $command" >&2
done
