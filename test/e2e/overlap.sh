# SPDX-License-Identifier: Apache-2.0
#
# Communication beside computation: the same parameters to the last bit as without, between hosts by TCP and within one by shared memory.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/long_run.sh"

"$tools/ashlar-zoo" dense-layers -o layers.onnx
python3 "$(dirname "$0")/write_rows.py" rows

# train NAME LOG [VARIABLE=VALUE...] -- [OPTION...]: trains on 4 ranks and keeps the parameters in LOG.d.
train() {
  local name=$1 log=$2 settings=()
  shift 2
  while [ "$1" != -- ]; do settings+=("$1") && shift; done
  shift
  env "${settings[@]}" mpirun -n 4 "./$name" --data rows --epochs 3 --log-every 1 --threads 1 --save-parameters "$log.d" "$@" > "$log.log" 2> "$log.err" ||
    { cat "$log.err" >&2; fail "$log does not train"; }
}

same_bits() {
  expect_same_losses "$1.log" "$2.log"
  [ "$(find "$1.d" -name '*.npy' | wc -l)" = 12 ] || fail "there are not 12 parameters of $1"
  for file in "$1.d"/*.npy; do
    cmp -s "$file" "$2.d/$(basename "$file")" || fail "$file of $1 and of $2 differ"
  done
}

# started NAME: how many collectives of a step are started, and waited for later.
started() {
  "$tools/ashlarc" layers.onnx --job "$1.txtpb" --emit exec -o "$1.mlir" "${@:2}" || fail "$1 does not compile"
  awk '/exec.program @train_step/ { inside = 1; programs++ } inside && /exec.wait/ { waits++ } /^    }/ { inside = 0 }
       END { print waits + 0; exit programs == 0 }' "$1.mlir" || fail "$1 has no training step"
}

grep -v comm_fusion "$jobs/dense_layers.txtpb" > level0.txtpb
slow='device { gflop_per_s: 0.01 memory_gb_per_s: 0.1 }' # as if there were much to hide behind
for level in 1 2 3; do
  { sed -e 's/^mode: .*/mode: SEMI_AUTO/' -e 's/^optimizer .*/optimizer { adam {} learning_rate: 0.05 clip_global_norm: 1 }/' level0.txtpb
    echo 'rules { match: "input" layout: "[{dp}, {}]" }'
    echo "optimizer_parallel { level: $level threshold_kb: 0 }"; } > level$level.txtpb
done
for level in 0 1 2 3; do
  name=level$level
  [ "$(started $name)" = 0 ] || fail "$name on one host starts collectives"
  { cat $name.txtpb; echo 'rules { match: "layer1.*" comm_fusion: 0 }' # no buckets
    echo "machine { ranks_per_host: 2 inter_host { latency_us: 100 } $slow }"; } > $name.hosts.txtpb
  { cat $name.txtpb; echo "machine { intra_host { latency_us: 100 moves_beside: true } $slow }"; } > $name.near.txtpb
  for kind in hosts near; do
    [ "$(started $name.$kind)" -ge 4 ] || fail "$name.$kind starts $(started $name.$kind) collectives"
    [ "$(started $name.$kind --no-overlap)" = 0 ] || fail "$name.$kind starts collectives with --no-overlap"
    "$tools/ashlarc" layers.onnx --job $name.$kind.txtpb -o $name.$kind
    "$tools/ashlarc" layers.onnx --job $name.$kind.txtpb --no-overlap -o $name.$kind.alone
  done
  train $name.hosts $name.hosts ASHLAR_FORCE_HOSTS=2 --
  train $name.hosts.alone $name.hosts.alone ASHLAR_FORCE_HOSTS=2 --
  same_bits $name.hosts $name.hosts.alone
  train $name.near $name.near --
  train $name.near.alone $name.near.alone --
  same_bits $name.near $name.near.alone
done

# The deterministic variant, hosts that the job knows nothing of, and looking at every instruction, which starts nothing.
train level0.hosts level0.deterministic ASHLAR_FORCE_HOSTS=2 -- --deterministic
train level0.hosts.alone level0.deterministic.alone -- --deterministic
same_bits level0.deterministic level0.deterministic.alone
train level3.hosts level3.other ASHLAR_FORCE_HOSTS=4 --
train level3.hosts.alone level3.other.alone ASHLAR_FORCE_HOSTS=4 --
same_bits level3.other level3.other.alone
train level3.near level3.checked -- --check-numerics
same_bits level3.near level3.checked

# The profile says what ran beside, and what was expected.
mpirun -n 4 ./level3.near --data rows --epochs 1 --threads 1 --profile > profile.log
grep -q '^  overlapped with computation, in one run:$' profile.log || { cat profile.log >&2; fail "the profile does not say what ran beside"; }
grep -Eq '^ +[0-9]+ collectives: [0-9.]+ us, [0-9]+ % hidden; expected [0-9.]+ us, [0-9]+ % hidden$' profile.log || { cat profile.log >&2; fail "the profile has no sum"; }

# A rank is stopped while others wait for it beside their computation: they say so, and the job ends.
ASHLAR_FORCE_HOSTS=2 ASHLAR_PATIENCE=1 start_long_run mpirun -n 4 ./level3.hosts --data rows --epochs 1000000 --log-every 1 --threads 1
stopped=$(process_of 3)
kill -STOP "$stopped"
start=$SECONDS
wait "$launcher" && fail "the job succeeds although a rank was stopped"
kill -KILL "$stopped" 2> /dev/null || true
[ $((SECONDS - start)) -le 20 ] || fail "the job ends $((SECONDS - start)) s after a rank was stopped"
grep -q '^error: rank 3 did not come within' long.log || { tail -5 long.log >&2; fail "nobody says that rank 3 was stopped"; }
