# SPDX-License-Identifier: Apache-2.0
#
# What tools/gpu-check.sh packs passes its own checks, here on the emulator; and it says what is wrong when something is.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"
root=$(dirname "$0")/../..

"$root/tools/gpu-check.sh" -o pack --gpu-arch sm_90 || fail "gpu-check.sh failed"
LD_LIBRARY_PATH=$emulator pack/run.sh --quick --out good >good.log 2>&1 || { cat good.log; fail "a check of the pack failed"; }
[[ $(tail -1 good.log) =~ ^[1-9][0-9]+\ passed,\ 0\ failed,\ 0\ skipped ]] || fail "not all checks ran: $(tail -1 good.log)"
grep -q '"name": "train mlp, 2 ranks", "outcome": "passed"' good/results.json || fail "results.json lacks a check"
grep -q '"name": "train mlp_pipeline_1f1b, 2 stages", "outcome": "passed"' good/results.json || fail "results.json lacks a pipeline"
python3 -m json.tool good/results.json >/dev/null || fail "results.json is not JSON"
grep -q '^| check | conformance, 2 ranks | passed |' good/table.md || fail "table.md lacks a check"

# A wrong expectation is found.
sed -i '3s/"loss": [0-9.]*/"loss": 9/' pack/expected/linear.jsonl
rm -rf pack/forward/*
sed -i 1q pack/trains
: > pack/pipelines
LD_LIBRARY_PATH=$emulator pack/run.sh --quick --out bad >bad.log 2>&1 && fail "a wrong loss went unnoticed"
grep -qE '^check +train linear, 1 rank +FAILED' bad.log || fail "the wrong loss is not told"

# So are losses that are no numbers, also where they were expected: NaN is written as null.
sed -i 's/"loss": [0-9.e-]*/"loss": null/' pack/expected/linear.jsonl
LD_LIBRARY_PATH=$emulator pack/run.sh --quick --out null >null.log 2>&1 && fail "losses of null went unnoticed"
grep -qE '^check +train linear, 1 rank +FAILED' null.log || fail "losses of null are not told"
