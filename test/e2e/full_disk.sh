# SPDX-License-Identifier: Apache-2.0
#
# A disk that fills up while the executable is written: one line, nothing half-written. Needs a small file system of its own.

. "$(dirname "$0")/common.sh"

mkdir -p small
if ! mount -t tmpfs -o size=1m none small 2> /dev/null; then
  echo "skipped: cannot mount a small file system here"
  exit 77
fi
trap 'umount -l small' EXIT # a linker that was killed may hold its file a moment longer
"$tools/ashlar-zoo" mlp -o mlp.onnx
expect_error "no space left on device" "$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" -o small/mlp
[ "$(wc -l < error.log)" = 1 ] || { cat error.log >&2; fail "the error is not one line"; }
[ -z "$(ls -A small)" ] || fail "left behind: $(ls -A small)"
expect_error "no space left on device" "$tools/ashlar-zoo" mlp -o small/mlp.onnx
[ -z "$(ls -A small)" ] || fail "left behind: $(ls -A small)"

# What a run writes: the line names the file.
"$tools/ashlar-zoo" linear -o linear.onnx
"$tools/ashlarc" linear.onnx --job "$jobs/linear.txtpb" -o linear
"$tools/ashlarc" linear.onnx --job <(echo 'global_batch: 400000') -o forward
python3 -c 'from npy_writer import write_npy; write_npy("x.npy", "f", (400000, 2), [0] * 800000)'
expect_error "error: cannot write small/y.npy: No space left on device" ./forward --input input=x.npy --output output=small/y.npy
[ "$(wc -l < error.log)" = 1 ] || { cat error.log >&2; fail "the error is not one line"; }
[ -z "$(ls -A small)" ] || fail "left behind: $(ls -A small)"
for option in "--metrics small/metrics.jsonl" "--log-dir small"; do
  expect_error "error: cannot write small/" ./linear --epochs 1000 --log-every 1 $option
  grep -qF "No space left on device" error.log || { cat error.log >&2; fail "$option gives no reason"; }
  [ "$(wc -l < error.log)" = 1 ] || { cat error.log >&2; fail "the error is not one line"; }
  rm small/*
done
