#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs what tools/gpu-check.sh packed, on a machine with a GPU: conformance, kernels, training on one rank, on two ranks sharing the device and
# in two stages sharing it, benchmarks. Needs a driver and the CUDA libraries; python3 with PyTorch for the peer's times.
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
  ("$@") >"$log" 2>&1
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
  local ranks=$1 rank pids=() status=0 job=gpu-check-$BASHPID
  shift
  [ "$ranks" -eq 1 ] && { timeout 300 "$@"; return; }
  for ((rank = 0; rank < ranks; ++rank)); do
    ASHLAR_SHARE_DEVICE=1 NCCL_NET=Socket OMPI_COMM_WORLD_SIZE=$ranks OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_SIZE=$ranks \
      OMPI_COMM_WORLD_LOCAL_RANK=$rank PMIX_NAMESPACE=$job timeout 300 "$@" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || status=$?
  done
  return $status
}

# losses A.jsonl B.jsonl TOLERANCE: whether the losses agree, step by step, relative to the larger.
losses() {
  awk -v tolerance="$3" -F'"loss": ' '
    # A loss that is no finite number stands there as null.
    function number(text) { sub(/[,}].*/, "", text); if (text !~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/) bad = 1; return text + 0 }
    FNR == NR { first[FNR] = number($2); count = FNR; next }
    { a = first[FNR]; b = number($2); d = a > b ? a - b : b - a; m = (a > b ? a : b); share = d / (tolerance * (m > 1e-3 ? m : 1e-3))
      if (share > worst || share != share) { worst = share; where = FNR } }
    END { printf "%d losses, worst at line %d: %.3g of the allowance\n", FNR, where, worst; exit !(FNR == count && count > 0 && !bad && worst <= 1) }
  ' "$1" "$2"
}

# trains NAME RANKS TOLERANCE [OPTION...]: trains, and compares the losses with those of the cpu target on one rank.
trains() {
  local name=$1 ranks=$2 tolerance=$3 program=$bin/$1.$2 metrics=$out/logs/$1.$2.jsonl
  shift 3
  [ -d "$here/data/$name" ] && set -- "$@" --data "$here/data/$name"
  on_ranks "$ranks" "$program" --steps 20 --log-every 1 --metrics "$metrics" "$@" || return
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

# us LOG: the step or run time that a program printed last, in microseconds.
us() {
  grep -oE '[0-9.]+ us a (step|run)' "$1" | tail -1 | cut -d' ' -f1
}

# figure NAME AIM VALUE DETAIL: a figure and what it should be; "" when it could not be taken.
figure() {
  record figure "$1" "$([ -n "$3" ] && echo measured || echo 'no value')" "$3" "aim $2${4:+; $4}"
}

# ratio A B: A / B with three digits; "" when one is missing.
ratio() {
  [ -n "$1" ] && [ -n "$2" ] && awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.3f", a / b }'
}

# kernel NAME BYTES: the share of the device's copy bandwidth that a kernel moving BYTES reaches.
kernel() {
  local log=$out/logs/kernel_$1.log time copy
  timeout 300 "$bin/$1" --benchmark 50 >"$log" 2>&1
  time=$(us "$log")
  copy=$(grep -oE '[0-9.]+ GB/s' "$log" | tail -1 | cut -d' ' -f1)
  figure "$1, share of the copy bandwidth" ">= 0.90" \
    "$([ -n "$time" ] && [ -n "$copy" ] && awk -v t="$time" -v b="$2" -v c="$copy" 'BEGIN { printf "%.3f", b / t / 1e3 / c }')" \
    "${time:+$time us, copy $copy GB/s}"
}

# steps NAME PYTORCH_OPTION...: our step time over PyTorch's, in turns, medians of three.
steps() {
  local name=$1 ours=() theirs=() i log
  shift
  for i in 1 2 3; do
    log=$out/logs/$name.$i.log
    timeout 300 "$bin/$name" --steps 200 --log-every 0 >"$log" 2>&1
    ours+=("$(us "$log")")
    [ "$torch" -eq 1 ] || continue
    timeout 300 python3 "$here/mlp_torch.py" --device cuda "$@" >"$out/logs/$name.torch.$i.log" 2>&1
    theirs+=("$(us "$out/logs/$name.torch.$i.log")")
  done
  local mine peer host
  mine=$(printf '%s\n' "${ours[@]}" | sort -g | sed -n 2p)
  peer=$(printf '%s\n' "${theirs[@]}" | sort -g | sed -n 2p)
  host=$(grep -oE '[0-9.]+ us of the host' "$log" | tail -1 | cut -d' ' -f1)
  figure "$name, step over PyTorch's" "<= 0.9" "$(ratio "$mine" "$peer")" "${mine:+ours $mine us}${peer:+, PyTorch $peer us}"
  figure "$name, host time of a step" "< 5 us" "$host" "us"
}

# start NAME: seconds from the start of the process to the end of a first step, and the part before the step that is not a library's.
start() {
  local log=$out/logs/start.log begin end
  begin=$(date +%s.%N)
  timeout 100 "$bin/$1" --steps 1 --profile >"$log" 2>&1
  end=$(date +%s.%N)
  figure "start to the end of the first step" "< 1.5 s" "$(awk -v a="$begin" -v b="$end" 'BEGIN { printf "%.3f", b - a }')" \
    "$(grep -m1 'start' "$log" | tr '|"\\' '/  ')"
}

write_results() {
  local row kind name outcome value detail first=1 device
  device=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1)
  {
    printf '{"version": "%s", "device": "%s", "date": "%s", "results": [' "$(cat "$here/VERSION")" "$device" "$(date -u +%F)"
    for row in "${rows[@]}"; do
      IFS='|' read -r kind name outcome value detail <<<"$row"
      [ $first -eq 1 ] || printf ','
      first=0
      printf '\n  {"kind": "%s", "name": "%s", "outcome": "%s", "value": %s, "detail": "%s"}' "$kind" "$name" "$outcome" "${value:-null}" "$detail"
    done
    printf '\n]}\n'
  } >"$out/results.json"
  {
    printf '%s, %s, Ashlar %s\n\n| | what | outcome | value | |\n|---|---|---|---|---|\n' "${device:-no device}" "$(date -u +%F)" "$(cat "$here/VERSION")"
    for row in "${rows[@]}"; do
      printf '| %s |\n' "${row//|/ | }"
    done
  } >"$out/table.md"
}

torch=0
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' >/dev/null 2>&1 && torch=1

check "conformance, 1 rank" on_ranks 1 "$bin/ashlar_conformance" cuda
check "conformance, 2 ranks" on_ranks 2 "$bin/ashlar_conformance" cuda
for folder in "$here"/forward/*/; do
  [ -d "$folder" ] && check "forward $(basename "$folder")" computes "$(basename "$folder")"
done
while read -r name tolerance; do
  check "train $name, 1 rank" trains "$name" 1 "$tolerance"
  check "train $name, 1 rank, no graph" trains "$name" 1 "$tolerance" --no-graph
  check "train $name, 2 ranks" trains "$name" 2 "$tolerance"
done <"$here/trains"
while read -r name tolerance; do
  check "train $name, 2 stages" trains "$name" 2 "$tolerance"
  check "train $name, 2 stages, no graph" trains "$name" 2 "$tolerance" --no-graph
done <"$here/pipelines"
if [ "$quick" -eq 0 ]; then
  while read -r name bytes; do
    kernel "$name" "$bytes"
  done <"$here/kernels"
  log=$out/logs/products.log
  timeout 300 "$bin/bench_cuda_matmul" >"$log" 2>&1
  figure "products, share of cuBLASLt by hand, worst" ">= 0.99" "$(awk 'NR > 2 && $NF + 0 > 0 { if (!w || $NF < w) w = $NF } END { print w }' "$log")"
  steps mlp_256 --batch 256
  steps mlp_8192 --batch 8192
  steps mlp_large --batch 8192 --layers 12 --width 4096 --precision bf16
  start mlp_256
  [ "$torch" -eq 1 ] || echo "PyTorch was not measured: python3 cannot import it, or it sees no GPU"
fi
write_results
echo "$passed passed, $failed failed, $skipped skipped; $out/table.md"
[ "$failed" -eq 0 ]
