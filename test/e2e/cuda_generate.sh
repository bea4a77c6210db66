# SPDX-License-Identifier: Apache-2.0
#
# Text generation on the emulator, on one rank and with the heads on two, captured and step by step: logits are those of the whole model on the
# cpu.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"

texts=$(dirname "$0")/generated_texts.py
{ cat "$jobs/transformer_tensor_parallel.txtpb"; echo 'generate { chunk: 4 }'; } > job.txtpb
"$tools/ashlar-zoo" transformer --seed 2 -o transformer.onnx
printf '7 10 13\n1 2 3 4 5 6 7 8 9 10 11\n' > prompts.txt
"$tools/ashlarc" transformer.onnx --batch 2 -o forward

# check PROGRAM RANKS OPTIONS...: its logits against those of the cpu.
check() {
  local program=$1 ranks=$2
  shift 2
  ./on_emulator "$ranks" mpirun -n "$ranks" ./$program --prompt prompts.txt --output new.txt --logits logits.npy "$@"
  python3 "$texts" whole 16 prompts.txt new.txt
  ./forward --input tokens=tokens.npy --output logits=whole.npy
  python3 "$texts" compare prompts.txt new.txt logits.npy whole.npy
}
for ranks in 1 2; do
  "$tools/ashlarc" transformer.onnx --job job.txtpb --mesh dp=1,tp=$ranks --batch 2 --generate --target cuda --gpu-arch sm_90 -o on$ranks
  check on$ranks $ranks
done
check on1 1 --no-graph
check on1 1 --check-numerics
