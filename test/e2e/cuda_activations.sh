# SPDX-License-Identifier: Apache-2.0
#
# Activations whose gradients come with products, on the emulator: the losses are the cpu target's, and those of kernels that take the place
# of refused epilogues; masks of relu are written and read by one side.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"
here=$(dirname "$0")

# expect_calls COUNT KIND FILE: so many products of the training step write, or read, an auxiliary tensor.
expect_calls() {
  local found
  found=$(sed -n '/exec.program @train_step /,/^    }/p' "$3" | grep -c "exec.gemm .* auxiliary $2")
  [ "$found" = "$1" ] || fail "$found products have an auxiliary tensor that is $2, not $1 ($3)"
}

# expect_replaced COUNT LOG TEXT...: so many lines of warning, and each text in one of them.
expect_replaced() {
  local count=$1 log=$2
  shift 2
  [ "$(grep -c '^warning: ' "$log.err")" = "$count" ] || { cat "$log.err" >&2; fail "not $count warnings"; }
  for text in "$@"; do
    grep -q "^warning: .*$text" "$log.err" || { cat "$log.err" >&2; fail "no warning says \"$text\""; }
  done
}

python3 "$here/activation_model.py" tanh tanh.onnx
python3 "$here/activation_model.py" none erf.onnx
sed 's/^global_batch:.*/global_batch: 16/' "$jobs/mlp.txtpb" > F32.txtpb
for precision in BF16_MIXED F16_MIXED; do
  { cat F32.txtpb; echo "precision: $precision"; } > $precision.txtpb
done
for precision in F32 BF16_MIXED F16_MIXED; do
  # One rounding less where the value before a gelu is not rounded, and sums in another order.
  bound=$([ $precision = F32 ] && echo 1e-4 || echo 1e-2)
  compile() { "$tools/ashlarc" tanh.onnx --job $precision.txtpb --mesh dp=1 "$@"; }
  compile --target cuda --gpu-arch sm_90 --emit exec -o tanh.exec
  expect_calls 2 written tanh.exec
  expect_calls 2 read tanh.exec
  compile --target cpu -o cpu
  compile --target cuda --gpu-arch sm_90 -o cuda
  ./cpu --steps 6 --log-every 1 > cpu.log
  ./on_emulator 1 ./cuda --steps 6 --log-every 1 > cuda.log 2> cuda.log.err
  expect_replaced 0 cuda.log
  expect_close cpu.log cuda.log $bound
  for left in 0 1 2; do
    ./on_emulator 1 env ASHLAR_EMULATOR_CUBLASLT_AUXILIARY=$left ./cuda --steps 6 --log-every 1 > left.log 2> left.log.err
    expect_close cuda.log left.log $bound
    case $left in
      0) expect_replaced 4 left.log "RELU_AUX_BIAS: no algorithm .*; a kernel of its own computes the activation or its mask" \
           "DRELU: no algorithm .*; the slope of the activation is applied by a kernel of its own" "GELU_AUX_BIAS: no" "DGELU: no" ;;
      1) expect_replaced 3 left.log "DGELU: no" "DRELU: no" "another product's mask has to be written or read by a kernel; a kernel" ;;
      2) expect_replaced 3 left.log "GELU_AUX_BIAS: no" "RELU_AUX_BIAS: no" "another product's mask has to be written or read by a kernel; the slope" ;;
    esac
  done
  ./on_emulator 1 env ASHLAR_NO_PRODUCT_AUXILIARY=1 ./cuda --steps 6 --log-every 1 > switch.log 2> switch.log.err
  expect_replaced 2 switch.log "ASHLAR_NO_PRODUCT_AUXILIARY=1; a kernel of its own .*(2 products" "ASHLAR_NO_PRODUCT_AUXILIARY=1; the slope"
  ./on_emulator 1 env ASHLAR_EMULATOR_CUBLASLT_AUXILIARY=0 ./cuda --steps 6 --log-every 1 > all.log 2> all.log.err
  expect_same_losses all.log switch.log "the switch computes other numbers"
  ./on_emulator 1 env ASHLAR_EMULATOR_CUBLASLT_AUXILIARY=0 ./cuda --steps 6 --log-every 1 --no-graph > eager.log 2> eager.log.err
  expect_same_losses all.log eager.log "kernels in a graph compute other numbers"
  ./on_emulator 1 ./cuda --steps 6 --log-every 1 --check-numerics > checked.log 2> checked.log.err
  expect_same_losses cuda.log checked.log "checking numerics changes numbers"
done

# cuBLASLt's gelu is the tanh form: the exact one stays a kernel.
"$tools/ashlarc" erf.onnx --job F32.txtpb --mesh dp=1 --target cuda --gpu-arch sm_90 --emit exec -o erf.exec
expect_calls 1 written erf.exec
expect_calls 1 read erf.exec
"$tools/ashlarc" erf.onnx --job F32.txtpb --mesh dp=1 --target cpu -o cpu
"$tools/ashlarc" erf.onnx --job F32.txtpb --mesh dp=1 --target cuda --gpu-arch sm_90 -o cuda
./cpu --steps 4 --log-every 1 > cpu.log
./on_emulator 1 ./cuda --steps 4 --log-every 1 > cuda.log
expect_close cpu.log cuda.log 1e-4

# Over two devices, by samples and by columns.
for mesh in dp=2 dp=1,tp=2; do
  "$tools/ashlarc" tanh.onnx --job F32.txtpb --mesh $mesh --target cpu -o cpu
  "$tools/ashlarc" tanh.onnx --job F32.txtpb --mesh $mesh --target cuda --gpu-arch sm_90 -o cuda
  mpirun -n 2 ./cpu --steps 4 --log-every 1 > cpu.log
  ./on_emulator 2 mpirun -n 2 ./cuda --steps 4 --log-every 1 > cuda.log
  expect_close cpu.log cuda.log 1e-4
done
