# SPDX-License-Identifier: Apache-2.0
#
# The power goes behind each operation on files of a run that saves: from the first checkpoint on there is always a whole one.

. "$(dirname "$0")/common.sh"

recorder=$tools/../lib/librecord_files.so
"$tools/ashlar-zoo" mlp --width 32 -o mlp.onnx
(sed '/^epochs/d; /^log_every/d' "$jobs/mlp.txtpb"; echo 'checkpoint { keep: 1 }') > job.txtpb
"$tools/ashlarc" mlp.onnx --job job.txtpb --mesh dp=1 -o mlp
folder=$PWD/saved
rm -rf "$folder" whole
LD_PRELOAD=$recorder RECORD_FOLDER=$folder RECORD_LOG=$PWD/files.log ./mlp --steps 8 --save-every 2 --checkpoint-dir "$folder" > run.log
"$tools/ashlarc" mlp.onnx --job <(sed 's/keep: 1/keep: 9/' job.txtpb) --mesh dp=1 -o all
./all --steps 8 --save-every 2 --checkpoint-dir whole > whole.log
[ "$(ls whole | wc -l)" = 4 ] && [ "$(ls "$folder")" = ashlar-1_8 ] || fail "the runs left $(ls whole "$folder" | xargs)"
python3 "$(dirname "$0")/power_cut.py" files.log "$folder" whole > cuts.log || fail "$(cat cuts.log)"
grep -qE '^[0-9]{2,} cuts, 4 checkpoints$' cuts.log || fail "$(cat cuts.log)"
! python3 "$(dirname "$0")/power_cut.py" files.log "$folder" whole --broken > broken.log 2>&1 || fail "without a sync the check finds nothing"
# A checkpoint in the place of another of the same step.
LD_PRELOAD=$recorder RECORD_FOLDER=$folder RECORD_LOG=$PWD/again.log ./mlp --steps 8 --save-every 8 --checkpoint-dir "$folder" > run.log
grep -q "^exchange " again.log || fail "the older checkpoint of the step is not exchanged"
