# SPDX-License-Identifier: Apache-2.0
#
# Folders of checkpoints of several hosts. One that hosts do not share is named before the first step. With --checkpoint-local each host keeps its
# part: a run goes on with the bits of one that nobody stopped, on any strategy, and what a host lost is named. With copies of the part of another
# host one host is enough. Hosts are pretended, each with a folder of its own as the current one.

. "$(dirname "$0")/common.sh"

rm -rf work && mkdir -p work/host_0 work/host_1
cd work
"$tools/ashlar-zoo" mlp --width 64 -o mlp.onnx

# job NAME MESH LINES: four ranks, whatever the mesh.
job() {
  sed '/^mode/d; /^mesh/d; /^rules/d; /^optimizer_parallel/d; /^deterministic/d; /^epochs/d; /^log_every/d; s/momentum { momentum: 0.9 }/adamw {}/' \
    "$jobs/mlp_zero3.txtpb" > "$1.txtpb"
  printf 'mode: SEMI_AUTO mesh { %s }\nrules { match: "input" layout: "[{dp}, {}]" }\n%s\nlog_every: 1\n' "$2" "$3" >> "$1.txtpb"
  "$tools/ashlarc" mlp.onnx --job "$1.txtpb" -o "$1"
}
dp='axes { name: "dp" size: 2 }' tp='axes { name: "tp" size: 2 }'
job replicas 'axes { name: "dp" size: 4 }' ''
job zero3 'axes { name: "dp" size: 4 }' 'optimizer_parallel { level: 3 }'
job stages "$dp" 'pipeline { stages: 2 micro_batches: 4 }'
job parts "$dp $tp" 'rules { match: "fc1.weight" layout: "[{tp}, {}]" }'
job across "$tp $dp" 'rules { match: "fc1.weight" layout: "[{tp}, {}]" }'
"$tools/ashlarc" mlp.onnx --job replicas.txtpb --mesh dp=2 -o pair
"$tools/ashlarc" mlp.onnx --job zero3.txtpb --mesh dp=2 -o pair_zero3

"$tools/ashlarc" mlp.onnx --job zero3.txtpb --mesh dp=6 -o six

printf '#!/bin/sh\ncd "host_$((OMPI_COMM_WORLD_RANK / 2))" && exec "../$@"\n' > on_host
# on_hosts PROGRAM OPTIONS...: four ranks on two hosts.
printf '#!/bin/bash\nexec mpirun --quiet -n 4 ./on_host "$1" --threads 1 "${@:2}"\n' > on_hosts
chmod +x on_host on_hosts
export ASHLAR_FORCE_HOSTS=2

clean() {
  rm -rf host_0/* host_1/*
}

# stored_bytes CHECKPOINT: of the tensors in its rank files.
stored_bytes() {
  python3 - "$1"/rank-*.safetensors <<'END'
import json, sys
total = 0
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    total += sum(b - a for a, b in (one["data_offsets"] for name, one in header.items() if name != "__metadata__"))
print(total)
END
}

# one_line TEXT COMMAND...: the command fails, and its error is this one line.
one_line() {
  expect_error "$@"
  [ "$(grep -c '^error: ' error.log)" = 1 ] || { cat error.log >&2; fail "not one line says: $1"; }
}

# Not shared, and shared.
one_line "error: rank 2: the folder of checkpoints ckpt on $(hostname) is not the one of rank 0; name a --checkpoint-dir that all hosts share, or give --checkpoint-local, " \
  ./on_hosts replicas --steps 2 --checkpoint-dir ckpt
! grep -q 'loss is' error.out || fail "it trains all the same"
one_line "error: rank 0: --checkpoint-local but the folder $PWD/shared on $(hostname) is shared with the host of rank 2; leave --checkpoint-local out" \
  ./on_hosts replicas --steps 2 --checkpoint-dir "$PWD/shared" --checkpoint-local
[ -z "$(find . -name '.ashlar-*-*')" ] || fail "left behind: $(find . -name '.ashlar-*-*' | xargs)"
./on_hosts replicas --steps 2 --checkpoint-dir "$PWD/shared" > shared.log || fail "a shared folder is refused"
one_line "error: --checkpoint-local=3 but the ranks run on 2 hosts; give at most their number" \
  ./on_hosts replicas --checkpoint-dir ckpt --checkpoint-local=3
for hosts in 0 -1 1.5 x false 99999999999999999999; do
  one_line "error: --checkpoint-local=$hosts: not a number of hosts from 1 to 1048576; give --checkpoint-local=2 for a copy on another host" \
    ./on_hosts replicas --checkpoint-dir ckpt --checkpoint-local=$hosts
done
one_line "error: rank 2: started with --checkpoint-local 1 but rank 0 with --checkpoint-local 2; give all ranks the same options" \
  mpirun --quiet -n 2 ./on_host replicas --checkpoint-dir ckpt --checkpoint-local=2 : -n 2 ./on_host replicas --checkpoint-dir ckpt --checkpoint-local
one_line "error: --checkpoint-local but no checkpoint is written or read; add --checkpoint-dir DIR" ./on_hosts replicas --checkpoint-local

# Each strategy goes on with the same bits.
for program in replicas zero3 stages parts across; do
  clean
  ./on_hosts $program --steps 12 --save-parameters "$PWD/expected_$program" > whole.log
  ./on_hosts $program --steps 8 --save-every 4 --checkpoint-dir ckpt --checkpoint-local > first.log
  grep -q '^saved ckpt/ashlar-1_8$' first.log || { cat first.log >&2; fail "$program: nothing is saved"; }
  ./on_hosts $program --steps 12 --checkpoint-dir ckpt --checkpoint-local --resume latest --save-parameters "$PWD/again_$program" > second.log 2>&1 ||
    { cat second.log >&2; fail "$program: does not go on"; }
  grep -q '^resumed from ckpt/ashlar-1_8: 8 steps done' second.log || { cat second.log >&2; fail "$program: does not go on from step 8"; }
  diff -r "expected_$program" "again_$program" > /dev/null || fail "$program: goes on with other numbers"
  for host in 0 1; do
    "$tools/ashlar-ckpt" verify "host_$host/ckpt/ashlar-1_12" > verify.log || { cat verify.log >&2; fail "$program: the part of host $host is damaged"; }
    "$tools/ashlar-ckpt" show "host_$host/ckpt/ashlar-1_12" > show.log
    grep -q "the part of host $host of 2$" show.log || { cat show.log >&2; fail "nothing says that it is a part"; }
  done
done

# With copies of the other host's part one host has all that any run needs, whichever is left, and each byte is there once.
for program in zero3 stages parts across; do
  clean
  ./on_hosts $program --steps 8 --save-every 4 --checkpoint-dir ckpt --checkpoint-local=2 > copies.log || fail "$program: no copies are kept"
  for host in 0 1; do
    "$tools/ashlar-ckpt" verify "host_$host/ckpt/ashlar-1_8" > verify.log || { cat verify.log >&2; fail "$program: the copies on host $host are damaged"; }
    "$tools/ashlar-ckpt" show "host_$host/ckpt/ashlar-1_8" > show.log
    grep -q "the part of host $host and 1 before it of 2$" show.log || { cat show.log >&2; fail "nothing says that copies are there"; }
    ASHLAR_FORCE_HOSTS=1 mpirun -n 2 ./pair --threads 1 --steps 12 --resume host_$host/ckpt/ashlar-1_8 --resume-partial --save-parameters alone > alone.log
    expect_same_parameters expected_$program alone 1e-5
  done
  ./on_hosts $program --steps 8 --checkpoint-dir "$PWD/shared" > shared.log
  whole=$(stored_bytes shared/ashlar-1_8)
  for host in 0 1; do
    kept=$(stored_bytes host_$host/ckpt/ashlar-1_8)
    [ "$kept" = "$whole" ] || fail "$program: host $host keeps $kept bytes of $whole"
  done
  # The copies that the other host keeps go back to one that lost its folder.
  rm -r host_1/ckpt
  cp -r host_0/ckpt host_1/ckpt
  ./on_hosts $program --steps 12 --checkpoint-dir ckpt --checkpoint-local=2 --resume latest --save-parameters "$PWD/again_$program" > back.log 2>&1 ||
    { cat back.log >&2; fail "$program: does not go on from a copy"; }
  diff -r "expected_$program" "again_$program" > /dev/null || fail "$program: goes on from a copy with other numbers"
done

# Of three hosts each keeps the part of the one before it, and no more: host 0 that of host 2.
clean
mkdir -p host_2
ASHLAR_FORCE_HOSTS=3 mpirun --quiet -n 6 ./on_host six --threads 1 --steps 4 --checkpoint-dir ckpt --checkpoint-local=2 > three.log
for host in 0 1 2; do
  "$tools/ashlar-ckpt" verify "host_$host/ckpt/ashlar-1_4" > verify.log || { cat verify.log >&2; fail "the copies on host $host of 3 are damaged"; }
done
one_line "it is the part of host 0 of 3, which --checkpoint-local kept; start the same ranks on the hosts that wrote it" \
  env ASHLAR_FORCE_HOSTS=1 mpirun --quiet -n 2 ./pair_zero3 --threads 1 --steps 12 --resume host_0/ckpt/ashlar-1_4
rm -r host_2

# Replicas: each host has all, so one goes on alone, whichever is left. Shards do not.
clean
./on_hosts replicas --steps 8 --checkpoint-dir ckpt --checkpoint-local > first.log
for host in 0 1; do
  ASHLAR_FORCE_HOSTS=1 mpirun -n 2 ./pair --threads 1 --steps 12 --resume host_$host/ckpt/ashlar-1_8 --save-parameters alone > alone.log
  expect_same_parameters expected_replicas alone 1e-5
done
clean
./on_hosts zero3 --steps 8 --save-every 4 --checkpoint-dir ckpt --checkpoint-local > first.log
one_line "it is the part of host 1 of 2, which --checkpoint-local kept; start the same ranks on the hosts that wrote it" \
  env ASHLAR_FORCE_HOSTS=1 mpirun --quiet -n 2 ./pair_zero3 --threads 1 --steps 12 --resume host_1/ckpt/ashlar-1_8
expect_error "it is the part of host 1 of 2" "$tools/ashlar-ckpt" convert host_1/ckpt/ashlar-1_8 -o one.safetensors

# What a host lost is named; an older one that all have is taken.
cp -r host_0/ckpt ckpt_0
cp -r host_1/ckpt ckpt_1
rm host_1/ckpt/ashlar-1_8/rank-00003.safetensors
lost="rank 2: ckpt/ashlar-1_8/rank-00003.safetensors is not there but index.json names it"
one_line "error: $lost" ./on_hosts zero3 --steps 12 --checkpoint-local --resume ckpt/ashlar-1_8
./on_hosts zero3 --steps 12 --checkpoint-dir ckpt --checkpoint-local --resume latest > older.log || fail "a run does not go on from an older checkpoint"
grep -qF "passed over ashlar-1_8: $lost" older.log && grep -q '^resumed from ckpt/ashlar-1_4: 4 steps done' older.log ||
  { cat older.log >&2; fail "the newest checkpoint that both hosts have is not taken"; }
for host in 0 1; do
  clean
  cp -r ckpt_$host host_$host/ckpt
  one_line "error: rank $((2 * host)): ckpt/ashlar-1_8 is on this host but not on all; copy the lost part back, or move this one away to start from the beginning" \
    ./on_hosts zero3 --steps 12 --checkpoint-dir ckpt --checkpoint-local --resume latest
done
clean
./on_hosts zero3 --steps 2 --checkpoint-dir ckpt --checkpoint-local --resume latest > none.log
grep -q '^no checkpoint in ckpt: the run starts from the beginning$' none.log || { cat none.log >&2; fail "a run without checkpoints does not start"; }

# Parts of two runs, and of two steps.
clean
cp -r ckpt_0 host_0/ckpt
./on_hosts zero3 --steps 8 --checkpoint-dir other --checkpoint-local > other.log
mv host_1/other host_1/ckpt
one_line "error: rank 2: ckpt/ashlar-1_8 has 8 steps done and the number 1, but rank 0's has 8 and 2; resume one checkpoint" \
  ./on_hosts zero3 --steps 12 --checkpoint-local --resume ckpt/ashlar-1_8

# The one before goes once all hosts have the last.
clean
"$tools/ashlarc" mlp.onnx --job <(cat zero3.txtpb; echo 'checkpoint { keep: 1 }') -o keep
./on_hosts keep --steps 8 --save-every 2 --checkpoint-dir ckpt --checkpoint-local > keep.log
for host in 0 1; do
  [ "$(ls host_$host/ckpt | xargs)" = "ashlar-1_8" ] || fail "kept on host $host: $(ls host_$host/ckpt | xargs)"
done
