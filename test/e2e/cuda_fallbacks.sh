# SPDX-License-Identifier: Apache-2.0
#
# The cuda target on the emulator where a library refuses what a program asks for: the losses are those without, a line of warning says what
# was replaced, and what cannot be replaced ends the start with one line.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"

# run LOG ENVIRONMENT... -- COMMAND...: on two devices; warnings go to LOG.err.
run() {
  local log=$1 environment=()
  shift
  while [ "$1" != -- ]; do
    environment+=("$1")
    shift
  done
  shift
  ./on_emulator 2 env "${environment[@]}" "$@" > "$log" 2> "$log.err" || { cat "$log.err" >&2; fail "$* fails with ${environment[*]}"; }
}

# expect_warnings LOG COUNT TEXT...: so many lines, and each text in one of them.
expect_warnings() {
  local log=$1 count=$2
  shift 2
  [ "$(grep -c '^warning: ' "$log.err")" = "$count" ] || { cat "$log.err" >&2; fail "not $count warnings"; }
  for text in "$@"; do
    grep -q "^warning: .*$text" "$log.err" || { cat "$log.err" >&2; fail "no warning says \"$text\""; }
  done
}

"$tools/ashlar-zoo" mlp --width 64 -o mlp.onnx
sed 's/^global_batch:.*/global_batch: 32/' "$jobs/mlp.txtpb" > mlp.txtpb
{ cat mlp.txtpb; echo "precision: BF16_MIXED"; } > bf16.txtpb
sums="the sums of an operand are a product of its own, with ones ([23] products, the first is gemm"
bias="the bias is a product of its own, with ones, and the rest is added to it"
for precision in mlp bf16; do
  "$tools/ashlarc" mlp.onnx --job $precision.txtpb --mesh dp=1 --target cuda --gpu-arch sm_90 -o one
  steps="./one --steps 4 --log-every 1"
  run plain.log -- $steps
  expect_warnings plain.log 0
  run sums.log ASHLAR_EMULATOR_CUBLASLT_BGRAD=0 -- $steps
  expect_warnings sums.log 1 "BGRADB: no algorithm (CUBLAS_STATUS_NOT_SUPPORTED); $sums"
  run forced.log ASHLAR_NO_PRODUCT_SUMS=1 -- $steps
  expect_warnings forced.log 1 "ASHLAR_NO_PRODUCT_SUMS=1; $sums"
  run bias.log ASHLAR_EMULATOR_CUBLASLT_BIAS=0 -- $steps
  expect_warnings bias.log 4 ": RELU_BIAS: no algorithm (CUBLAS_STATUS_NOT_SUPPORTED); $bias" ": BIAS: no algorithm" ", the first is" \
    "RELU_AUX_BIAS: no algorithm (CUBLAS_STATUS_NOT_SUPPORTED); a kernel of its own" "another product's mask has to be written or read by a kernel"
  run later.log ASHLAR_EMULATOR_CUBLASLT_FAILING=2 -- $steps
  expect_warnings later.log 0
  for log in sums forced bias later; do
    expect_same_losses plain.log $log.log "$precision computes other numbers ($log)"
  done
  run eager.log ASHLAR_EMULATOR_CUBLASLT_BGRAD=0 ASHLAR_EMULATOR_CUBLASLT_BIAS=0 -- $steps --no-graph
  expect_same_losses plain.log eager.log "$precision computes other numbers without a graph"
done
expect_error "RELU on the old out: RELU: no algorithm (CUBLAS_STATUS_NOT_SUPPORTED)" \
  ./on_emulator 1 env ASHLAR_EMULATOR_CUBLASLT_ACTIVATION=0 ./one --steps 2

# Of two ranks the first one speaks.
"$tools/ashlarc" mlp.onnx --job mlp.txtpb --mesh dp=2 --target cuda --gpu-arch sm_90 -o two
run two.log -- mpirun -n 2 ./two --steps 4 --log-every 1
run two_sums.log ASHLAR_EMULATOR_CUBLASLT_BGRAD=0 -- mpirun -n 2 ./two --steps 4 --log-every 1
expect_warnings two_sums.log 1 "$sums"
expect_same_losses two.log two_sums.log "two ranks compute other numbers"

# In a pipeline, too, whose stages start with a rehearsal.
sed 's/^global_batch:.*/global_batch: 32/' "$jobs/mlp_pipeline_1f1b.txtpb" > stages.txtpb
"$tools/ashlarc" mlp.onnx --job stages.txtpb --mesh dp=1 --target cuda --gpu-arch sm_90 -o stages
run stages.log -- mpirun -n 2 ./stages --steps 4 --log-every 1
run stages_sums.log ASHLAR_NO_PRODUCT_SUMS=1 -- mpirun -n 2 ./stages --steps 4 --log-every 1
expect_same_losses stages.log stages_sums.log "stages compute other numbers"

# Convolutions: without an exact engine only what the user lets go.
python3 "$(dirname "$0")/conv_model.py" spatial conv.onnx
sed 's/^global_batch:.*/global_batch: 6/' "$jobs/mlp.txtpb" > conv.txtpb
"$tools/ashlarc" conv.onnx --job conv.txtpb --mesh dp=1 --target cuda --gpu-arch sm_90 -o conv
run conv.log -- ./conv --steps 3 --log-every 1
withoutPlain=ASHLAR_EMULATOR_CUDNN_ENGINES=31
expect_error "has no engine for the convolution of batch 6, 1 groups, channels 1 to 4 of f32" ./on_emulator 1 env $withoutPlain ./conv --steps 2
grep -q '(engine 4: no notes; CUDNN_STATUS_SUCCESS, 201326592 bytes of workspace; needs workspace); .*; ASHLAR_CUDNN_RELAX=workspace takes' error.log ||
  { cat error.log >&2; fail "the refusal does not list the engines"; }
expect_error '"fast" is not one of workspace,tf32,winograd,nondeterministic' ./on_emulator 1 env ASHLAR_CUDNN_RELAX=fast ./conv --steps 2
run room.log $withoutPlain ASHLAR_CUDNN_RELAX=workspace -- ./conv --steps 3 --log-every 1
expect_warnings room.log 5 "ASHLAR_CUDNN_RELAX takes engine 4: no notes; CUDNN_STATUS_SUCCESS, 201326592 bytes of workspace; needs workspace"
expect_same_losses conv.log room.log "an engine with more workspace computes other numbers"
run rounded.log $withoutPlain ASHLAR_CUDNN_RELAX=tf32 -- ./conv --steps 3 --log-every 1
expect_warnings rounded.log 5 "ASHLAR_CUDNN_RELAX takes engine 1: TENSOR_CORE"
expect_close conv.log rounded.log 1e-2
cmp -s conv.log rounded.log && fail "tf32 changes nothing"

# What was compiled for a memory does not take more of it.
"$tools/ashlarc" conv.onnx --job conv.txtpb --mesh dp=1 --target cuda --gpu-arch sm_90 --memory 200MB -o bounded
expect_error "workspace of convolutions beyond it 201326592" ./on_emulator 1 env $withoutPlain ASHLAR_CUDNN_RELAX=workspace ./bounded --steps 2
