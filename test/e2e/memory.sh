# SPDX-License-Identifier: Apache-2.0
#
# What the compiler planned is what the processes have: the memory of all ranks together, at its most, is the planned bytes within 2 %, beyond
# what a program of a small model has and plans, where parameters are most of it and where batches are. And --memory takes the total that is
# told, not a byte less; at run time what the rank really has is compared with it, workspaces of more threads too.

. "$(dirname "$0")/common.sh"

watch() {
  python3 "$(dirname "$0")/watch_memory.py" "$@"
}

# planned REPORT [PART]: bytes of a rank, or of one part of them, without constants, which are pages of the file.
planned() {
  python3 -c "
import json, sys
parts = {part['name']: part['bytes'] for part in json.load(open(sys.argv[1]))['memory']['parts']}
print(parts.get(sys.argv[2], 0) if len(sys.argv) > 2 else sum(parts.values()) - parts.get('constants', 0))" "$@"
}

# compare WHAT RANKS OPTIONS...: runs ./large and ./small, and compares what the one has more with what it plans more. The small one ends so soon
# that a busy machine may miss its most: several runs of it.
compare() {
  local large small
  large=$(watch large mpirun -n "$2" ./large --steps 3 --threads 1 --eval "${@:3}")
  small=$(for _ in 1 2 3 4 5; do watch small mpirun -n "$2" ./small --steps 30 --threads 1 --eval "${@:3}"; done | sort -n | tail -n 1)
  python3 -c "
grown, planned = ($large - $small) / $2, $(planned large.json) - $(planned small.json)
print(f'$1: {grown / 1e6:.1f} MB a rank, {planned / 1e6:.1f} MB planned')
assert abs(grown - planned) <= 0.02 * planned" || fail "$1: what is held is not what was planned"
}

"$tools/ashlar-zoo" mlp --no-data --layers 8 --width 2048 -o mlp.onnx
"$tools/ashlar-zoo" mlp --no-data --layers 1 -o small.onnx
for case in "1 1" "1 2" "3 2" "3 4"; do
  read -r level ranks <<< "$case"
  sed "s/size: 4/size: $ranks/; s/ deterministic .*//; s/^deterministic .*//" "$jobs/mlp_zero$level.txtpb" > job.txtpb
  echo 'init { match: "*" normal { std: 0.02 } }' >> job.txtpb
  "$tools/ashlarc" mlp.onnx --job job.txtpb --report large.json -o large
  "$tools/ashlarc" small.onnx --job job.txtpb --report small.json -o small
  compare "level $level on $ranks ranks" "$ranks"
done

# On two hosts, one rank each: 17 MB that messages are staged in, which all collectives share.
sed "s/size: 4/size: 2/; s/^deterministic .*//" "$jobs/mlp_zero1.txtpb" > hosts.txtpb
echo 'init { match: "*" normal { std: 0.02 } } machine { ranks_per_host: 1 }' >> hosts.txtpb
"$tools/ashlarc" mlp.onnx --job hosts.txtpb --report large.json -o large
"$tools/ashlarc" small.onnx --job hosts.txtpb --report small.json -o small
export ASHLAR_FORCE_HOSTS=2
compare "level 1 on 2 hosts" 2
unset ASHLAR_FORCE_HOSTS
[ $((20 * $(planned large.json 'messages between hosts'))) -gt "$(planned large.json)" ] || fail "messages between hosts are no large part"

# A large batch: 77 MB of staged batches of training, and as much of evaluation.
"$tools/ashlar-zoo" mlp --no-data --layers 2 --width 512 -o wide.onnx
PYTHONPATH=$(dirname "$0") python3 -c "
from npy_writer import write_npy
for split in ('train', 'eval'):
    write_npy(f'x_{split}.npy', 'f', (8192, 784), [])
    with open(f'x_{split}.npy', 'ab') as file:
        file.write(bytes(8192 * 784 * 4))
    write_npy(f'label_{split}.npy', 'q', (8192,), [0] * 8192)"
{
  sed '/^dataset {/,/^}/d' job.txtpb
  echo 'dataset { npy {} features { column: "x" tensor: "input" } features { column: "label" tensor: "labels" } }'
} > narrow.txtpb
sed 's/global_batch: .*/global_batch: 8192/' narrow.txtpb > wide.txtpb
"$tools/ashlarc" wide.onnx --job wide.txtpb --mesh dp=1 --report large.json -o large
"$tools/ashlarc" small.onnx --job narrow.txtpb --mesh dp=1 --report small.json -o small
compare "a large batch" 1 --data .
batches=$(($(planned large.json batches) + $(planned large.json 'batches of --eval')))
[ $((10 * batches)) -gt $(($(planned large.json) * 5)) ] || fail "batches are $batches bytes of $(planned large.json): no large part"

# The limit, to the byte.
total=$(python3 -c "import json; print(json.load(open('small.json'))['memory']['bytes'])")
compile="$tools/ashlarc small.onnx --job narrow.txtpb --mesh dp=1 -o small"
$compile --memory "${total}B"
./small --steps 1 --threads 1 --eval --data . > /dev/null || fail "a program of just the memory it was compiled for does not run"
expect_error "(tensors " ./small --steps 1 --threads 2 --eval --data .
grep -q "but the program was compiled with --memory of $total bytes.*fewer --threads" error.log || fail "the error of the threads is: $(cat error.log)"
expect_error "batches of --eval" $compile --memory "$((total - 1))B"
for text in "matrix products" "synchronization buffers" "; use more devices or a smaller batch"; do
  grep -qF "$text" error.log || fail "the refusal does not name: $text"
done
