# SPDX-License-Identifier: Apache-2.0
#
# The probes of library calls on the emulator: what a library takes, refuses and computes wrong, each told as such.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"

# probe STATUS LAST_LINE ENVIRONMENT... -- COMMAND...: runs it, and looks at how it ends.
probe() {
  local wanted=$1 last=$2 environment=() status=0
  shift 2
  while [ "$1" != -- ]; do
    environment+=("$1")
    shift
  done
  shift
  ./on_emulator 1 env "${environment[@]}" "$@" > probe.log 2> probe.err || status=$?
  [ $status -eq "$wanted" ] || { tail -3 probe.log probe.err >&2; fail "$* ends with $status, not $wanted (${environment[*]})"; }
  [ "$(tail -1 probe.log)" = "$last" ] || fail "$* ends with \"$(tail -1 probe.log)\", not \"$last\" (${environment[*]})"
}

# expect_lines COUNT PATTERN: so many lines of the last probe match.
expect_lines() {
  [ "$(grep -cE "$2" probe.log)" = "$1" ] || { head -5 probe.log >&2; fail "$(grep -cE "$2" probe.log) lines match $2, not $1"; }
}

# expect_first COUNT: so many lines of refusals come ahead of all others.
expect_first() {
  [ "$(head -"$1" probe.log | grep -c '^refused')" = "$1" ] || fail "the refusals do not come first"
}

# 6 types, 4 layouts, 8 epilogues and 6 sizes, one of a batch, which has no sums; with auxiliary tensors 4 types, 6 epilogues and 3 sizes.
matmul="$tools/bench_cuda_matmul --probe --small"
probe 0 "1392 right, 0 refused, 0 wrong" -- $matmul
expect_lines 1 '.' # nothing to tell

probe 0 "1104 right, 288 refused, 0 wrong" ASHLAR_EMULATOR_CUBLASLT_AUXILIARY=0 -- $matmul
expect_lines 96 '^refused .* (relu|gelu) slope .*D(RELU|GELU): no algorithm .*; what replaces it is right$'
expect_lines 192 '^refused .* (relu|gelu)(\+bias)? aux .*(RELU|GELU)_AUX(_BIAS)?: no algorithm .*; what replaces it is right$'
# Of masks both sides are replaced; the library's order of bits is another.
probe 0 "1296 right, 96 refused, 0 wrong" ASHLAR_EMULATOR_CUBLASLT_AUXILIARY=1 -- $matmul
probe 0 "1152 right, 240 refused, 0 wrong" ASHLAR_EMULATOR_CUBLASLT_AUXILIARY=2 -- $matmul
expect_lines 48 '^refused .* relu slope .*another product.s mask .*; what replaces it is right$'

probe 0 "288 right, 1104 refused, 0 wrong" ASHLAR_EMULATOR_CUBLASLT_BGRAD=0 ASHLAR_EMULATOR_CUBLASLT_ACTIVATION=0 -- $matmul
expect_lines 240 '^refused .*(NN|NT|TN|TT) sums [AB] .*BGRAD[AB]: no algorithm .*; what replaces it is right$'
expect_lines 720 '^refused .* (relu|gelu).*  nothing replaces it: .* (RELU|GELU)(_BIAS)?: (RELU|GELU)(_BIAS)?: no algorithm'
expect_first 1104

# The sums are right in exact numbers, of which 1 more is seen in every type; a bias that is put into the result first makes two products.
probe 1 "0 right, 528 refused, 1392 wrong" ASHLAR_EMULATOR_CUBLASLT_WRONG=1 ASHLAR_EMULATOR_CUBLASLT_BIAS=0 \
  ASHLAR_EMULATOR_CUBLASLT_FAILING=1 -- $matmul
expect_lines 1 '^wrong   bf16->f32  TN none            3 x 16 x 4 x 16  out\[0, 0, 0\] is .*, not [-0-9.]+$'
expect_lines 1392 '^later  .* runs algorithm 1 of the heuristic'

# 14 convolutions in 4 types.
conv="$tools/bench_cuda_conv --probe"
probe 0 "56 right, 0 refused, 0 wrong" -- $conv
expect_lines 1 '^right   conv2, 2 groups, dilated +weights +f32 +: engine 5: no notes; CUDNN_STATUS_SUCCESS, 1048576 bytes of workspace; passed over: \(engine 0: .*\); \(engine 4: no notes; CUDNN_STATUS_SUCCESS, 201326592 bytes of workspace; needs workspace\)$'
# Graphs with other operations: the emulator has the convolution alone.
expect_lines 4 '^fusion  (1x1|3x3).* b?f16 +convolution: engine 5: TENSOR_CORE; CUDNN_STATUS_SUCCESS'
expect_lines 12 '^fusion  .* b?f16 +.*convolution, (bias, relu|statistics): none: cannot describe a graph of cuDNN: CUDNN_STATUS_NOT_SUPPORTED'
probe 0 "14 right, 42 refused, 0 wrong" ASHLAR_EMULATOR_CUDNN_ENGINES=3 -- $conv
expect_lines 42 '^refused conv[1-5], .*has no engine for the .*; 3 proposed: \(engine 0|^refused conv[1-5], .*; 2 proposed: \(engine 0'
expect_lines 14 '^right .* f32 tf32: engine 1'
expect_first 42
# tf32 where the numbers need f32.
probe 1 "14 right, 28 refused, 14 wrong" ASHLAR_EMULATOR_CUDNN_ENGINES=3 ASHLAR_CUDNN_RELAX=tf32 -- $conv
expect_lines 14 '^wrong   .* f32     : number .*; engine 1: TENSOR_CORE'

# Attention of four shapes in two types, forward and backward; the engine that is left for gradients adds up in any order.
attention="$tools/bench_cuda_attention --probe --small"
probe 0 "16 right, 0 refused, 0 wrong" -- $attention
expect_lines 16 '^right   .*: [0-9.]+ us, [0-9.]+ TFLOP/s, error 0\.[0-9]+ of its bound; engine 5: TENSOR_CORE( DOWN_CONVERT_INPUTS)?; CUDNN_STATUS_SUCCESS, 1048576 bytes of workspace$'
expect_lines 8 'DOWN_CONVERT_INPUTS'
probe 0 "0 right, 8 refused, 0 wrong" ASHLAR_EMULATOR_CUDNN_ENGINES=3 -- $attention
expect_lines 8 '^refused .* has no engine for an attention of .*; 2 proposed: \(engine 0'
expect_first 8

LD_LIBRARY_PATH=$emulator ASHLAR_EMULATOR_DEVICES=0 $matmul > probe.log && fail "a probe without a device succeeds"
grep -q '^not run: ' probe.log || fail "a probe does not say that there is no device"
