# SPDX-License-Identifier: Apache-2.0
#
# Which rank plays which point of the mesh makes no difference to the numbers: 4 ranks in two orders, within a host and between hosts, where
# hosts add up what they have first, unless the bits are to be kept.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" mlp -o mlp.onnx
mesh='mesh { axes { name: "a" size: 2 } axes { name: "b" size: 2 }'
grep -v '^mesh\|^mode' "$jobs/mlp.txtpb" > rest.txtpb
for order in plain moved; do
  ids=""
  [ $order = moved ] && ids="device_ids: [2, 0, 3, 1]"
  { echo "mode: DATA_PARALLEL"; echo "$mesh $ids }"; cat rest.txtpb; } > $order.txtpb
  "$tools/ashlarc" mlp.onnx --job $order.txtpb -o $order
  mpirun -n 4 ./$order --steps 20 --log-every 1 --threads 1 > $order.log
done
[ "$(losses plain.log | wc -l)" = 20 ] || fail "no losses"
expect_same_losses plain.log moved.log "ranks in another order compute other bits"
ASHLAR_FORCE_HOSTS=2 mpirun -n 4 ./moved --steps 20 --log-every 1 --threads 1 > hosts.log
expect_close plain.log hosts.log 1e-5
mpirun -n 4 ./plain --steps 20 --log-every 1 --threads 1 --deterministic > plain.log
ASHLAR_FORCE_HOSTS=2 mpirun -n 4 ./moved --steps 20 --log-every 1 --threads 1 --deterministic > hosts.log
expect_same_losses plain.log hosts.log "ranks in another order on two hosts compute other bits"

# The links of the machine follow the ranks: with 2 ranks a host, axis a stays within hosts when its ranks do.
echo 'machine { ranks_per_host: 2 }' | tee -a plain.txtpb >> moved.txtpb
"$tools/ashlarc" mlp.onnx --job plain.txtpb --emit dist -o plain.mlir
"$tools/ashlarc" mlp.onnx --job moved.txtpb --emit dist -o moved.mlir
grep -q 'latency_ns = \[2600, 60\]' plain.mlir || fail "axis a of the plain mesh does not go over the network"
grep -q 'latency_ns = \[60, 2600\]' moved.mlir || fail "axis b of the moved mesh does not go over the network"

expect_error "mesh.device_ids has rank 1 at positions 0 and 3; a rank plays one device" \
  "$tools/ashlarc" mlp.onnx --job <(sed 's/\[2, 0, 3, 1\]/[1, 0, 3, 1]/' moved.txtpb) -o wrong
