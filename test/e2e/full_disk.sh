# SPDX-License-Identifier: Apache-2.0
#
# A disk that fills up while the executable is written: one line, nothing half-written. Needs a small file system of its own.

. "$(dirname "$0")/common.sh"

mkdir -p small
if ! mount -t tmpfs -o size=1m none small 2> /dev/null; then
  echo "skipped: cannot mount a small file system here"
  exit 77
fi
trap 'umount small' EXIT
"$tools/ashlar-zoo" mlp -o mlp.onnx
expect_error "no space left on device" "$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" -o small/mlp
[ "$(wc -l < error.log)" = 1 ] || { cat error.log >&2; fail "the error is not one line"; }
[ -z "$(ls -A small)" ] || fail "left behind: $(ls -A small)"
expect_error "no space left on device" "$tools/ashlar-zoo" mlp -o small/mlp.onnx
[ -z "$(ls -A small)" ] || fail "left behind: $(ls -A small)"
