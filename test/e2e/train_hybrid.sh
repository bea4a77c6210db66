# SPDX-License-Identifier: Apache-2.0
#
# A model that holds its collectives itself trains as the model that one device runs.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" mlp-hybrid -o hybrid.onnx
"$tools/ashlar-zoo" mlp --no-data -o whole.onnx
job=$jobs/mlp_hybrid.txtpb
# The same job for one device: no mode, no rules, no mesh.
sed '/^mode:/d; /^rules/d; /^mesh {/,/^}/d' "$job" > whole.txtpb
"$tools/ashlarc" hybrid.onnx --job "$job" -o hybrid
"$tools/ashlarc" whole.onnx --job whole.txtpb -o whole
mpirun -n 4 ./hybrid --steps 40 --log-every 5 --threads 1 > hybrid.log
./whole --steps 40 --log-every 5 --threads 1 > whole.log
# Sums over the batch and over fc2's parts in another order: 2^-24 a term, grown by 40 steps with momentum.
expect_close whole.log hybrid.log 1e-4
expect_less "$(losses hybrid.log | tail -1)" "$(losses hybrid.log | sed -n 1p)" "the last loss against the first"
# A collective has no place in a model that the compiler splits itself.
expect_error 'fc2.sum" (AllReduce' "$tools/ashlarc" hybrid.onnx --job "$jobs/mlp.txtpb" -o refused
