// SPDX-License-Identifier: Apache-2.0
//
// Passes from global shapes to one device's program.

#ifndef ASHLAR_PASSES_PARTITION_PASSES_TD
#define ASHLAR_PASSES_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

def PartitionPass : Pass<"ashlar-partition", "::mlir::ModuleOp"> {
  let summary = "Cuts the program to the shapes of one device and turns redistributions into collectives.";
  let description = [{
    Every value takes the shape of the piece that one device holds; all devices run the same program. A redistribution becomes the steps of
    its plan (dialects/dist/redistribution.h). Elements keep their global numbers: nn.index adds the offset of the device's piece, so
    random numbers and one-hot comparisons are those of the whole tensor; an op that finds rows by number counts from the first row of the
    piece. Constants with equal elements shrink, others are sliced. Sizes that
    do not divide are rounded up, and the padding is masked where an op reduces it (docs/layouts.md).

        %g = dist.redistribute %p from <[{}, {} ], partial = sum {"dp"}> to <[{}, {} ]>
            {cause = [#dist.end<kind = gradient, name = "w">]} : tensor<512x784xf32>
        %y = nn.relu %x {dist.layouts = [#dist.layout<[{"dp"}, {} ]>]} : tensor<256x784xf32>
    ==>
        %g = dist.all_reduce sum %p over ["dp"] {cause = [#dist.end<kind = gradient, name = "w">]} : tensor<512x784xf32>
        %y = nn.relu %x : tensor<64x784xf32>

    Needs: ashlar-verify-layouts to pass; variables without `init` unless they are whole on every device. Leaves: local types; arguments,
    results and variables keep dist.layout and get dist.global_type; no dist.redistribute.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect", "::ashlar::nn::NnDialect"];
}

def SimplifyCollectivesPass : Pass<"ashlar-simplify-collectives", "::mlir::ModuleOp"> {
  let summary = "Removes collectives that say nothing new.";
  let description = [{
    A gather whose piece is taken again, and a piece that is gathered again of a tensor that is equal on the devices of the group, are what
    they began with; equal collectives become one, with the causes and reasons of all. No collective is made here: the planner has.

        %s = dist.slice %x dim = 0 over ["dp"] : tensor<8x4xf32> -> tensor<4x4xf32>
        %y = dist.all_gather %s dim = 0 over ["dp"] : tensor<4x4xf32> -> tensor<8x4xf32>
        %z = nn.neg %y : tensor<8x4xf32>
    ==>
        %z = nn.neg %x : tensor<8x4xf32>

    Needs: ashlar-partition. Leaves the values of all other ops as they are.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

def FuseCollectivesPass : Pass<"ashlar-fuse-collectives", "::mlir::ModuleOp"> {
  let summary = "Makes collectives of parameters one.";
  let description = [{
    What costs time in a small collective is that devices meet. All-reduces, all-gathers and reduce-scatters of gradients, of parameters and
    of their next values become one op with a list of operands where kind, axes, reduction, element type, phase (forward, backward, update)
    and the fusion id of the parameters (`dist.comm_fusion`) are equal. Id 0 is never fused. Without ids, the options say for a kind what is
    put together: `auto` fills buckets until latency is a twentieth of their time by the costs of the mesh, at most 64 MB; `size:BYTES`
    fills buckets up to that size; `index:20:35` takes the first 20 in program order, the next 15, and the rest. Without an option either,
    each stays alone (docs/communication.md).

        %a1 = dist.all_reduce sum %a over ["dp"] {cause = [#dist.end<kind = gradient, name = "w">]} : tensor<4x4xf32>
        %b1 = dist.all_reduce sum %b over ["dp"] {cause = [#dist.end<kind = gradient, name = "b">]} : tensor<4xf32>
    ==>
        %ab:2 = dist.all_reduce sum %a, %b over ["dp"] {cause = [#dist.end<kind = gradient, name = "w">,
                  #dist.end<kind = gradient, name = "b">], fusion = #dist.fusion<mode = id, number = 1>} : tensor<4x4xf32>, tensor<4xf32>

    The fused op stands behind the last producer of its operands; what uses its results follows. An id that makes a collective need its own
    result is an error that names two of its members.

    Needs: ashlar-simplify-collectives, so that equal ones are one. Leaves the values of all other ops as they are; no collective that the
    model places is moved.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
  let options = [
    Option<"allReduce", "all-reduce", "std::string", /*default=*/"", "what all-reduces are put together: auto, size:BYTES, index:N:M">,
    Option<"allGather", "all-gather", "std::string", /*default=*/"", "the same of all-gathers">,
    Option<"reduceScatter", "reduce-scatter", "std::string", /*default=*/"", "the same of reduce-scatters">
  ];
}

def VerifyPartitionedPass : Pass<"ashlar-verify-partitioned", "::mlir::ModuleOp"> {
  let summary = "Checks that no global shape is left.";
  let description = [{
    The border after passes/partition: no dist.redistribute and no dist.layouts; arguments, results and variables have a dist.layout and a
    dist.global_type, and their type is the piece of it that the layout gives a device.

    Needs: ashlar-partition. Leaves the module as it is.
  }];
}

#endif // ASHLAR_PASSES_PARTITION_PASSES_TD
