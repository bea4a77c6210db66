#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs what tools/gpu-check.sh packed, on a machine with a GPU: conformance, kernels, training on one rank and on two ranks sharing the
# device, benchmarks. Needs a driver and the CUDA libraries; python3 with PyTorch for the peer's times.
#
#     ./run.sh [--quick] [--out DIR]        --quick: checks only, no benchmarks
#
# Writes DIR/results.json and DIR/table.md; exit status 0 when no check failed.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=$here/results
quick=0
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=1 ;;
    --out) shift; out=$1 ;;
    *) echo "error: unknown argument $1; usage: run.sh [--quick] [--out DIR]" >&2; exit 1 ;;
  esac
  shift
done
mkdir -p "$out/logs" || exit 1
out=$(cd "$out" && pwd)
bin=$here/bin
failed=0
passed=0
skipped=0
rows=() # "kind|name|outcome|value|detail"

# record KIND NAME OUTCOME VALUE DETAIL
record() {
  rows+=("$1|$2|$3|$4|$5")
  printf '%-10s %-44s %-8s %s %s\n' "$1" "$2" "$3" "$4" "$5"
}

# check NAME COMMAND...: exit status 0 passes, 77 is skipped with the last line as the reason, anything else fails with it.
check() {
  local name=$1 log status line
  shift
  log=$out/logs/$(tr -c 'a-zA-Z0-9_\n' '_' <<<"$name").log
  timeout 300 "$@" >"$log" 2>&1
  status=$?
  line=$(grep -v '^ *$' "$log" | tail -1 | tr '|"\\' '/  ')
  case $status in
    0) passed=$((passed + 1)); record check "$name" passed "" "" ;;
    77) skipped=$((skipped + 1)); record check "$name" skipped "" "$line" ;;
    *) failed=$((failed + 1)); record check "$name" FAILED "" "status $status: $line" ;;
  esac
}

# on_ranks N COMMAND...: N processes of this host, which are told what mpirun would tell them; they share the device when N > 1.
on_ranks() {
  local ranks=$1 rank pids=() status=0
  shift
  [ "$ranks" -eq 1 ] && { "$@"; return; }
  for ((rank = 0; rank < ranks; ++rank)); do
    ASHLAR_SHARE_DEVICE=1 OMPI_COMM_WORLD_SIZE=$ranks OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_SIZE=$ranks \
      OMPI_COMM_WORLD_LOCAL_RANK=$rank PMIX_NAMESPACE=gpu-check-$$-$RANDOM_SEED "$@" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || status=$?
  done
  RANDOM_SEED=$((RANDOM_SEED + 1))
  return $status
}
RANDOM_SEED=1

# losses A.jsonl B.jsonl TOLERANCE: whether the losses agree, step by step, relative to the larger.
losses() {
  awk -v tolerance="$3" -F'"loss": ' '
    function number(text) { sub(/[,}].*/, "", text); return text + 0 }
    FNR == NR { first[FNR] = number($2); count = FNR; next }
    { a = first[FNR]; b = number($2); d = a > b ? a - b : b - a; m = (a > b ? a : b); share = d / (tolerance * (m > 1e-3 ? m : 1e-3))
      if (share > worst || share != share) { worst = share; where = FNR } }
    END { printf "%d losses, worst at line %d: %.3g of the allowance\n", FNR, where, worst; exit !(FNR == count && count > 0 && worst <= 1) }
  ' "$1" "$2"
}

# trains NAME RANKS TOLERANCE [OPTION...]: trains, and compares the losses with those of the cpu target on one rank.
trains() {
  local name=$1 ranks=$2 tolerance=$3 program=$bin/$1.$2 metrics=$out/logs/$1.$2.jsonl
  shift 3
  on_ranks "$ranks" "$program" --steps 40 --log-every 1 --metrics "$metrics" "$@" || return
  losses "$here/expected/$name.jsonl" "$metrics" "$tolerance"
}

# computes NAME: runs a forward program on its inputs and compares every output with that of the interpreter.
computes() {
  local folder=$here/forward/$1 arguments=() file
  for file in "$folder"/in.*.npy; do
    [ -e "$file" ] && arguments+=(--input "$(basename "$file" .npy | sed 's/^in\.//')=$file")
  done
  mkdir -p "$out/logs/$1" && cd "$out/logs/$1" || return
  on_ranks "$(cat "$folder/ranks")" "$folder/program" "${arguments[@]}" || return
  for file in "$folder"/out.*.npy; do
    "$bin/compare_npy" "$file" "$(basename "$file" | sed 's/^out\.//')" "$(cat "$folder/tolerance")" || return
  done
}
