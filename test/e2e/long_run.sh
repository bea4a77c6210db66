# SPDX-License-Identifier: Apache-2.0
#
# Long runs of several ranks, to which something happens. Source it behind common.sh.

# Starts a command that launches ranks, and waits until they train, half a minute at most: sets launcher and ranks, the processes; their log is
# long.log. start_long_run COMMAND...
start_long_run() {
  : > long.log # the launcher may begin later than this shell reads on: an earlier run's lines are not this one's
  "$@" > long.log 2>&1 &
  launcher=$!
  trap 'kill "$launcher" 2> /dev/null || true' EXIT
  for _ in $(seq 300); do
    grep -q 'loss is' long.log && break
    sleep 0.1
  done
  grep -q 'loss is' long.log || fail "the long run does not start"
  read -ra ranks < "/proc/$launcher/task/$launcher/children" || true # the file has no line end
}

# Prints the process of a rank of the long run. process_of RANK
process_of() {
  local process
  for process in "${ranks[@]}"; do
    if grep -qzx "OMPI_COMM_WORLD_RANK=$1" "/proc/$process/environ"; then
      echo "$process"
      return
    fi
  done
  fail "the long run has no rank $1"
}
