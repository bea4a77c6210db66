# SPDX-License-Identifier: Apache-2.0
#
# Checkpoints that are damaged, of another program, or cannot be written: one line, and what was there before stays. A signal saves and ends.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/long_run.sh"

rm -rf good none seven
"$tools/ashlar-zoo" mlp -o mlp.onnx
sed '/^epochs/d; /^log_every/d' "$jobs/mlp_adamw.txtpb" > adamw.txtpb
"$tools/ashlarc" mlp.onnx --job adamw.txtpb --mesh dp=2 -o adamw
mpirun -n 2 ./adamw --threads 1 --steps 6 --save-every 3 --checkpoint-dir good --save-parameters expected > good.log
printf '#!/bin/sh\nexec mpirun -n 2 ./adamw --threads 1 "$@"\n' > run
chmod +x run

# one_line TEXT COMMAND...: the command fails, and its error is this one line.
one_line() {
  expect_error "$@"
  [ "$(grep -c '^error: ' error.log)" = 1 ] || { cat error.log >&2; fail "not one line says: $1"; }
}

# damaged: a copy of the good checkpoints.
damaged() {
  rm -rf bad
  cp -r good bad
}

# Damage of the newest one is named; the newest whole one is found, and the other one told.
# damage TEXT: it was done to bad/ashlar-1_6.
damage() {
  one_line "$1" ./run --steps 8 --resume bad/ashlar-1_6
  ./run --steps 8 --checkpoint-dir bad --resume latest > latest.log
  grep -qF "passed over bad/ashlar-1_6" latest.log || { cat latest.log >&2; fail "nothing says that the newest was passed over"; }
  grep -qF "resumed from bad/ashlar-1_3: 3 steps done" latest.log || fail "the run does not go on from the newest whole one"
}
damaged
truncate -s -1 bad/ashlar-1_6/rank-00001.safetensors
damage "bad/ashlar-1_6/rank-00001.safetensors has $(stat -c %s bad/ashlar-1_6/rank-00001.safetensors) bytes but index.json records $(stat -c %s good/ashlar-1_6/rank-00001.safetensors)"
damaged
rm bad/ashlar-1_6/rank-00000.safetensors
damage "bad/ashlar-1_6/rank-00000.safetensors is not there but index.json names it"
damaged
truncate -s -20 bad/ashlar-1_6/index.json
damage "bad/ashlar-1_6/index.json is no JSON object; the checkpoint is damaged"
damaged
sed -i 's/"seed": 1/"seed": 2/' bad/ashlar-1_6/index.json
damage "bad/ashlar-1_6/index.json has the checksum "
damaged
sed -i 's/"format": 1/"format": 2/' bad/ashlar-1_6/index.json
damage "bad/ashlar-1_6/index.json has format 2 but this program reads format 1"
damaged
rm bad/ashlar-1_6/index.json
damage 'cannot open "bad/ashlar-1_6/index.json": No such file or directory'

# A flipped bit is found when it is read, and the line says where; so is one of a file that another rank reads.
rm -rf kept && mkdir kept
echo '{"global_step": 7}' > kept.jsonl
echo earlier > kept/worker_0.log
for rank in 0 1; do
  damaged
  python3 - bad/ashlar-1_6/rank-0000$rank.safetensors << 'PYTHON'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(-100000, 2)
    byte = file.read(1)[0]
    file.seek(-1, 1)
    file.write(bytes([byte ^ 4]))
PYTHON
  one_line "bad/ashlar-1_6/rank-0000$rank.safetensors is damaged: bytes " ./run --steps 8 --resume bad/ashlar-1_6 --metrics kept.jsonl --log-dir kept
  # The logs of the earlier run stay.
  [ "$(cat kept.jsonl kept/worker_0.log)" = $'{"global_step": 7}\nearlier' ] && [ ! -e kept/worker_1.log ] || fail "a failed resume changes logs"
  ! grep -q "^resumed from" error.out || fail "a failed resume says that it resumed"
done

# What is not of this program, with both values.
"$tools/ashlar-zoo" mlp --width 96 -o narrow.onnx
"$tools/ashlarc" narrow.onnx --job adamw.txtpb --mesh dp=2 -o narrow
one_line "variable fc1.weight is [512x784] there but [96x784] in the program" mpirun -n 2 ./narrow --resume good/ashlar-1_6
"$tools/ashlarc" mlp.onnx --job <(sed 's/adamw {[^}]*}/momentum { momentum: 0.9 }/; /weight_decay/d' adamw.txtpb) --mesh dp=2 -o momentum
one_line "state fc1.weight.momentum of the program is not in it, and " mpirun -n 2 ./momentum --resume good/ashlar-1_6
mpirun -n 2 ./momentum --threads 1 --steps 8 --resume good/ashlar-1_6 --resume-partial > partial.log
grep -qF "left out: state fc1.weight.momentum of the program is not in it" partial.log || fail "--resume-partial does not say what it leaves out"
grep -qF "left out: state fc1.weight.moment1 in it is not in the program" partial.log || fail "--resume-partial does not say what it does not take"
grep -qF "trained 2 steps" partial.log || fail "--resume-partial does not go on behind step 6"
# Fewer and more than it was written with: neither goes on.
for batch in 128 512; do
  sed "s/global_batch: 256/global_batch: $batch/" adamw.txtpb > batch.txtpb
  "$tools/ashlarc" mlp.onnx --job batch.txtpb --mesh dp=2 -o batch
  one_line "good/ashlar-1_6 was written with 256 samples a step but the program has $batch" mpirun -n 2 ./batch --resume good/ashlar-1_6
done
for samples in 5120 25600; do
  sed "s/digits {}/digits { train_samples: $samples }/" adamw.txtpb > data.txtpb
  "$tools/ashlarc" mlp.onnx --job data.txtpb --mesh dp=2 -o data
  one_line "good/ashlar-1_6 was written with 12800 samples in the train split but the data have $samples" mpirun -n 2 ./data --resume good/ashlar-1_6
done
for seed in 0 7; do
  one_line "--seed $seed but good/ashlar-1_6 was written with seed 1; leave --seed out" ./run --seed $seed --resume good/ashlar-1_6
done
./run --seed 1 --steps 7 --resume good/ashlar-1_6/ > same_seed.log
./run --seed 7 --steps 2 --checkpoint-dir seven > seven.log
./run --steps 3 --resume seven/ashlar-1_2 --checkpoint-dir seven > seven.log
grep -q '"seed": 7' seven/ashlar-1_3/index.json || fail "a resumed run forgets the seed"

# The command line.
one_line 'cannot open "nothing/index.json": No such file or directory; a checkpoint is a folder with an index.json' ./run --resume nothing
one_line "--resume-partial without --resume; add --resume DIR" ./run --resume-partial
one_line "--sync-checkpoint but no checkpoint is written; add --checkpoint-dir DIR" ./run --sync-checkpoint
expect_error "rank 1: started without --resume latest but rank 0 with --resume latest" \
  mpirun -n 1 ./adamw --resume latest : -n 1 ./adamw --resume good/ashlar-1_6
./run --steps 1 --checkpoint-dir none --resume latest > none.log
grep -qF "no checkpoint in none: the run starts from the beginning" none.log || fail "nothing says that there is no checkpoint"
touch file
one_line "cannot write checkpoints into file: it is there and no folder; name another --checkpoint-dir" ./run --checkpoint-dir file
for prefix in "a/b" "" ".hidden"; do
  expect_error "checkpoint.prefix \"$prefix\"" "$tools/ashlarc" mlp.onnx --job <(cat adamw.txtpb; echo "checkpoint { prefix: \"$prefix\" }") -o prefix
done
expect_error "checkpoint" "$tools/ashlarc" mlp.onnx --job <(echo 'global_batch: 4 checkpoint { keep: 1 }') -o prefix

# A folder that goes while the run is on: a line for each save that fails, training goes on, and the run ends with status 1.
rm -rf gone went
mkdir gone
status=0
# It is renamed, not removed: a save may be writing into it.
(while [ ! -e gone/ashlar-1_2 ]; do sleep 0.01; done; mv gone went; touch gone) &
./run --steps 60 --save-every 2 --sync-checkpoint --checkpoint-dir gone > gone.log 2> gone.err || status=$?
wait
[ "$status" != 0 ] || fail "a run whose last checkpoint could not be written ends with status 0"
grep -q "^warning: gone/ashlar-1_.* was not saved: .*; older checkpoints are as they were" gone.err || { cat gone.err >&2; fail "no warning names the checkpoint"; }
grep -q "^error: the last checkpoint was not saved: " gone.err || fail "the error does not say what was not saved"
grep -q "^trained 60 steps" gone.log || fail "training does not go on"

# SIGUSR1 or SIGTERM to one rank: the run saves, ends with status 0, and goes on as if nothing had been. So it does with SIGTERM to mpirun, which
# passes it on but has a status of its own.
./run --steps 400 --save-parameters whole > whole.log
for signal in USR1 TERM mpirun; do
  rm -rf signalled resumed
  start_long_run ./run --steps 400 --checkpoint-dir signalled --log-every 1
  if [ $signal = mpirun ]; then
    kill -TERM "$launcher"
  else
    kill -$signal "$(process_of 1)"
  fi
  status=0
  wait "$launcher" || status=$?
  trap - EXIT
  [ $status = 0 ] || [ $signal = mpirun ] || { cat long.log >&2; fail "$signal: the run ends with status $status"; }
  grep -q "^signal .*: the run ends after [0-9]* steps" long.log || { cat long.log >&2; fail "$signal: no line says that the run ends"; }
  ./run --steps 400 --checkpoint-dir signalled --resume latest --save-parameters resumed > resumed.log
  diff -r whole resumed > /dev/null || fail "$signal: the resumed run ends with other parameters"
done

# A disk that has room for one.
mkdir -p small
if mount -t tmpfs -o size=12m none small 2> /dev/null; then
  trap 'umount -l small' EXIT
  status=0
  ./run --steps 9 --save-every 3 --sync-checkpoint --checkpoint-dir small > small.log 2> small.err || status=$?
  [ "$status" != 0 ] || fail "a run whose last checkpoint found no room ends with status 0"
  ./run --steps 4 --resume small/ashlar-1_3 > resumed.log || fail "the checkpoint that found room is not whole"
  grep -q "^warning: small/ashlar-1_6 was not saved: .*No space left on device; older checkpoints are as they were" small.err || { cat small.err >&2; fail "no warning says that the disk is full"; }
  [ "$(ls -A small)" = "ashlar-1_3" ] || fail "a full disk holds $(ls -A small | xargs)"
fi
