// Options that say nothing, and a mode beside an id.

// RUN: not ashlar-opt %s -ashlar-fuse-collectives=all-reduce=many 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not ashlar-opt %s -ashlar-fuse-collectives=all-gather=size:0 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not ashlar-opt %s -ashlar-fuse-collectives=all-gather=size:1:2 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: not ashlar-opt %s -ashlar-fuse-collectives=reduce-scatter=index:20:20 2>&1 | FileCheck %s --check-prefix=EQUAL
// RUN: not ashlar-opt %s -ashlar-fuse-collectives=reduce-scatter=index 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not ashlar-opt %s -ashlar-fuse-collectives=all-reduce=auto:1 2>&1 | FileCheck %s --check-prefix=AUTO
// RUN: not ashlar-opt %s -ashlar-fuse-collectives=all-reduce=size:100 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: ashlar-opt %s -ashlar-fuse-collectives=all-gather=size:100 | FileCheck %s --check-prefix=OTHER
// RUN: ashlar-opt %s -ashlar-fuse-collectives="all-gather=index:2:5 reduce-scatter=auto" -dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=PRINTED

// MANY: for the --all-reduce option: is "many"; one of auto, size:BYTES and index:N:M:... with growing numbers above 0
// ZERO: for the --all-gather option: is "size:0"; one of
// TWO: for the --all-gather option: is "size:1:2"; one of
// EQUAL: for the --reduce-scatter option: is "index:20:20"; one of
// EMPTY: for the --reduce-scatter option: is "index"; one of
// AUTO: for the --all-reduce option: is "auto:1"; one of
// BOTH: is fused by the mode "size:100" of all_reduce, but parameter "a" has fusion id 1; leave out one of the two
// OTHER: dist.all_reduce
// PRINTED: ashlar-fuse-collectives{all-gather=index:2:5 all-reduce= reduce-scatter=auto}
dist.mesh @mesh <["dp" = 2]>
nn.variable @a : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">]} : tensor<4xf32>
  return %a : tensor<4xf32>
}
