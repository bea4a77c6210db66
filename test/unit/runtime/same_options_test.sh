#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every option of a compiled program: ranks that are given it differently are told so, or it is listed here as one that may differ. Options are
# those that --help lists, so a new one fails here until it is put into one of the tables. same_options_test.sh TOY_PROGRAM

. "$(dirname "$0")/checks.sh"
count=0

# Of each option: what rank 0 and rank 1 are given ("-": nothing), and what the error says; "may differ": there is none.
declare -A training=(
  [--check-numerics]="--check-numerics|-|rank 1: started without --check-numerics but rank 0 with --check-numerics"
  [--checkpoint-dir]="-|--checkpoint-dir c|rank 1: started with --checkpoint-dir but rank 0 without --checkpoint-dir"
  [--export]="--export a.onnx|-|rank 1: started without --export but rank 0 with --export"
  [--resume]="--resume c|--resume latest|rank 1: started with --resume latest but rank 0 without --resume latest"
  [--resume-partial]="--resume c|--resume c --resume-partial|rank 1: started with --resume-partial but rank 0 without --resume-partial"
  [--init-from]="--init-from w|-|rank 1: started without --init-from but rank 0 with --init-from"
  [--init-partial]="--init-from w|--init-from w --init-partial|rank 1: started with --init-partial but rank 0 without --init-partial"
  [--rename]="--init-from w --rename a=b|--init-from w --rename a=c|rank 1: started with --rename for tensors of its own but rank 0 with --rename for tensors of its own"
  [--save-every]="--save-every 3|--save-every 4|rank 1: started with --save-every 4 but rank 0 with --save-every 3"
  [--checkpoint-local]="--checkpoint-dir c|--checkpoint-dir c --checkpoint-local|rank 1: started with --checkpoint-local 1 but rank 0 without --checkpoint-local"
  [--sync-checkpoint]="--checkpoint-dir c|--checkpoint-dir c --sync-checkpoint|rank 1: started with --sync-checkpoint but rank 0 without --sync-checkpoint"
  [--deterministic]="-|--deterministic|rank 1 runs the deterministic variant of the program but rank 0 the default one"
  [--epochs]="--epochs 1|--epochs 2|rank 1: started with --epochs 2 but rank 0 with --epochs 1"
  [--eval]="-|--eval|rank 1: started with --eval but rank 0 without --eval"
  [--save-parameters]="-|--save-parameters p|rank 1: started with --save-parameters but rank 0 without --save-parameters"
  [--seed]="--seed 5|-|rank 1: started with --seed 1 but rank 0 with --seed 5"
  [--steps]="-|--steps 4294967296|rank 1: started with --steps 4294967296 but rank 0 without --steps"
  [--trace]="-|--trace t.json|rank 1: started with --trace but rank 0 without --trace"
  [--trace-steps]="--trace t.json --trace-steps 2-3|--trace u.json --trace-steps 2|rank 1: started with --trace-steps 2-2 but rank 0 with --trace-steps 2-3"
  [--log-dir]="-|--log-dir logs|may differ"
  [--log-every]="--log-every 1|--log-every 3|may differ"
  [--metrics]="-|--metrics m.jsonl|may differ"
  [--tensorboard]="-|--tensorboard events|may differ"
  [--profile]="--profile|-|may differ"
  [--threads]="--threads 1|--threads 2|may differ"
  [--data-threads]="--data-threads 1|--data-threads 2|may differ"
  [--data]="what the files hold is compared: e2e_data_errors"
  [--help]="--help|-|rank 1 waited 2 s for rank 0, the first of this host, to come up"
  [--plan]="-|--plan|rank 1 of this host did not come up within 2 s"
)
declare -A forward=(
  [--benchmark]="--benchmark 3|--benchmark 4|rank 1: started with --benchmark 4 but rank 0 with --benchmark 3"
  [--check-numerics]="-|--check-numerics|rank 1: started with --check-numerics but rank 0 without --check-numerics"
  [--input]="--input x=x.npy|--input x=y.npy|rank 1: the input x of f32 (8, 3) holds other numbers"
  [--init-from]="--init-from w|-|rank 1: started without --init-from but rank 0 with --init-from"
  [--init-partial]="--init-from w|--init-from w --init-partial|rank 1: started with --init-partial but rank 0 without --init-partial"
  [--rename]="--init-from w --rename a=b|--init-from w|rank 1: started without --rename but rank 0 with --rename for tensors of its own"
  [--output]="--output product=p.npy|-|rank 1: started without --output but rank 0 with --output"
  [--seed]="-|--seed 5|rank 1: started with --seed 5 but rank 0 with --seed 0"
  [--trace]="--trace t.json|-|rank 1: started without --trace but rank 0 with --trace"
  [--trace-steps]="--trace t.json|--trace t.json --trace-steps 1|rank 1: started with --trace-steps 1-1 but rank 0 without --trace-steps"
  [--profile]="--profile|-|may differ"
  [--threads]="--threads 1|--threads 2|may differ"
  [--deterministic]="a forward program has none"
  [--help]="-|--help|rank 1 of this host did not come up within 2 s"
  [--plan]="--plan|-|rank 1 waited 2 s for rank 0, the first of this host, to come up"
)

# walk KIND TABLE COMMON...: tries every option of the program; COMMON is given to all ranks.
walk() {
  local kind=$1 option first second expected status common patience
  local -n table=$2
  shift 2
  for option in $("$toy" "$kind" 2 --help | grep -o -- '--[a-z-]*' | sort -u); do
    count=$((count + 1))
    if [ -z "${table[$option]+there}" ]; then
      echo "FAILED: $kind: $option is in no table: do ranks notice when they are given it differently?"
      failed=$((failed + 1))
      continue
    fi
    IFS='|' read -r first second expected <<< "${table[$option]}"
    [ -n "$expected" ] || continue
    [ "$first" != - ] || first=
    [ "$second" != - ] || second=
    common=("$@")
    [ "$option" != "$1" ] || common=()
    patience=20
    [[ $expected != *" 2 s"* ]] || patience=2
    # shellcheck disable=SC2086
    ASHLAR_PATIENCE=$patience timeout 40 mpirun -n 1 "$toy" "$kind" 2 "${common[@]}" $first : \
      -n 1 "$toy" "$kind" 2 "${common[@]}" $second > out 2>&1
    status=$?
    if [ "$expected" = "may differ" ] && [ $status = 0 ]; then
      continue
    fi
    if [ "$expected" = "may differ" ] || [ $status = 0 ] || [ $status = 124 ] || ! grep -qF -- "error: $expected" out ||
      [ "$(grep -c '^error: ' out)" != 1 ]; then
      echo "FAILED: $kind: $option: status $status, expected one line \"$expected\" in:"
      sed 's/^/    /' out
      failed=$((failed + 1))
    fi
  done
}

# Two inputs of 8 x 3 that differ in the last number.
perl -e 'my $h = "{\x27descr\x27: \x27<f4\x27, \x27fortran_order\x27: False, \x27shape\x27: (8, 3), }"; $h .= " " x (117 - length $h) . "\n";
  for my $f (["x", 23], ["y", 24]) { open F, ">$f->[0].npy"; print F "\x93NUMPY\x01\x00", pack("v", length $h), $h, pack("f<*", 0 .. 22, $f->[1]); }'
walk train training --log-every 100
walk forward forward --input x=x.npy
for option in "${!forward[@]}" "${!training[@]}"; do
  grep -q -- "$option" <("$toy" train 1 --help; "$toy" forward 1 --help) || { echo "FAILED: no program has $option"; failed=1; }
done
echo "$count options, $failed failed"
[ $failed = 0 ] && [ $count -gt 20 ]
