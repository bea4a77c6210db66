// SPDX-License-Identifier: Apache-2.0
//
// Passes from global shapes to one device's program.

#ifndef ASHLAR_PASSES_PARTITION_PASSES_TD
#define ASHLAR_PASSES_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

def PartitionPass : Pass<"ashlar-partition", "::mlir::ModuleOp"> {
  let summary = "Cuts the program to the shapes of one device and turns redistributions into collectives.";
  let description = [{
    Every value takes the shape of one device's shard; all devices run the same program. A redistribution becomes the steps of its plan
    (passes/analysis/planner/redistribution.h). Elements keep their global numbers: nn.index adds the offset of the device's shard, so
    random numbers and one-hot comparisons equal the ones on the whole tensor; an op that finds rows by number counts from the first row of the
    shard. Constants with equal elements shrink, others are sliced. Sizes that do not divide are rounded up, and the padding is masked where
    an op reduces it (docs/layouts.md).

        %g = dist.redistribute %p from <[{}, {} ], partial = sum {"dp"}> to <[{}, {} ]>
            {cause = [#dist.end<kind = gradient, name = "w">]} : tensor<512x784xf32>
        %y = nn.relu %x {dist.layouts = [#dist.layout<[{"dp"}, {} ]>]} : tensor<256x784xf32>
    ==>
        %g = dist.all_reduce sum %p over ["dp"] {cause = [#dist.end<kind = gradient, name = "w">]} : tensor<512x784xf32>
        %y = nn.relu %x : tensor<64x784xf32>

    Needs: ashlar-verify-layouts to pass; variables without `init` unless they are replicated. Leaves: local types; arguments,
    results and variables keep dist.layout and get dist.global_type; no dist.redistribute.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect", "::ashlar::nn::NnDialect"];
}

def NestRepeatsPass : Pass<"ashlar-nest-repeats", "::mlir::func::FuncOp"> {
  let summary = "Makes repeats of flat loops.";
  let description = [{
    The inverse of ashlar-flatten-repeats, in any form of a program. Ops that depend on what the iterations read are the body; all others stand in
    front of the repeat, so the collective of a captured weight runs once. Broadcasts of smaller tensors go into the bodies that read them.

        %h = nn.repeat_carry %first loop 0 number 0 count 2 : tensor<4x8xf32>
        %g = dist.all_gather %w dim = 1 over ["tp"] : tensor<8x4xf32> -> tensor<8x8xf32>
        %next = nn.matmul %h, %g : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
        %last = nn.repeat_next %next of %h : tensor<4x8xf32>
    ==>
        %g = dist.all_gather %w dim = 1 over ["tp"] : tensor<8x4xf32> -> tensor<8x8xf32>
        %last = nn.repeat 2 carried(%h = %first) captured(%v = %g) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
          %next = nn.matmul %h, %v : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
          nn.yield %next : tensor<4x8xf32>
        }

    Leaves no op of a flat loop.
  }];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

def SimplifyCollectivesPass : Pass<"ashlar-simplify-collectives", "::mlir::ModuleOp"> {
  let summary = "Removes redundant collectives.";
  let description = [{
    A gather followed by the slice of the same shard, and a slice followed by its gather where the tensor is equal on all devices of the
    group, are their operand; equal collectives become one, with the causes and reasons of all. The pass makes no collective: that is up to
    the planner.

        %s = dist.slice %x dim = 0 over ["dp"] : tensor<8x4xf32> -> tensor<4x4xf32>
        %y = dist.all_gather %s dim = 0 over ["dp"] : tensor<4x4xf32> -> tensor<8x4xf32>
        %z = nn.neg %y : tensor<8x4xf32>
    ==>
        %z = nn.neg %x : tensor<8x4xf32>

    Needs: ashlar-partition. Leaves the values of all other ops as they are.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

def ComputeInBlocksPass : Pass<"ashlar-compute-in-blocks", "::mlir::func::FuncOp"> {
  let summary = "Computes large values that live shortly a block of rows at a time.";
  let description = [{
    A product of at least `least-bytes`, with all that is made of it, is cut along a dim that the sharding rules of its users pass through,
    so that only a piece of it exists at a time: the logits of a loss, of which losses and gradients are left. Results that have the dim are
    joined; those that add up over it are added up, in f32. Ops between are cut as well, collectives among them. Not where a value that is as
    large goes elsewhere, where a block would need what is complete behind the last one only, or where the blocks would take time by cost:
    for sums, which each block reads and writes, launches, and the latency of messages. Then there are fewer blocks, or none.

        %s = nn.matmul %x, %w                        %x0 = nn.slice %x [0, 0] to [512, 64] by [1, 1]
        %l = nn.reduce max %s dims = [1]             %s0 = nn.matmul %x0, %w
        %d = nn.matmul %x, %s transpose_a     ==>    %l0 = nn.reduce max %s0 dims = [1]
                                                     %d0 = nn.matmul %x0, %s0 transpose_a
                                                     %x1 = nn.slice %x [512, 0] to [1024, 64] by [1, 1]
                                                     ...
                                                     %d = nn.add %d0, %d1
                                                     %l = nn.concat %l0, %l1 dim = 0

    Needs: shapes of one device. Leaves the values of all other ops as they are, but for the rounding of sums.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect", "::ashlar::nn::NnDialect"];
  let options = [
    Option<"leastBytes", "least-bytes", "int64_t", /*default=*/"int64_t{64} << 20", "smaller values are left alone, and pieces are no larger where they can be">,
    Option<"leastRows", "least-rows", "int64_t", /*default=*/"128", "pieces have no fewer rows, or columns where these are cut">,
    Option<"timeShare", "time-share", "int64_t", "2", "percent of the time of what is cut that blocks may take besides">
  ];
}

def RecomputePass : Pass<"ashlar-recompute", "::mlir::ModuleOp"> {
  let summary = "Rematerializes values of the forward pass in the backward pass instead of keeping them.";
  let description = [{
    A module that matches a rule of `dist.recompute_rules` keeps its inputs and its output; the backward pass takes copies of the ops
    between them. Copies come after a gradient (dist.after), so that nothing merges them with the original ops or hoists them. Only ops that
    the backward pass uses are copied; collectives, and gathers of parameters, where the rules ask for it (docs/recompute.md).

        %h = nn.matmul %x, %w                           %h = nn.matmul %x, %w
        %y = nn.gelu %h                                 %y = nn.gelu %h
        %dw = nn.matmul %y transpose_a, %g       ==>    %a = dist.after %x, %g
                                                        %i = nn.matmul %a, %w
                                                        %z = nn.gelu %i
                                                        %dw = nn.matmul %z transpose_a, %g

    With `moves` at least 0 estimated costs decide where rules do not: a module of the model can keep all its values, or fewer for more
    time. The pass applies the given number of moves between such choices, those with the most memory for their time first.
    `dist.recompute_moves` is the number that exist.

    Needs: ashlar-simplify-collectives. Leaves no rules of recompute.
  }];
  let options = [Option<"moves", "moves", "int64_t", "-1", "number of moves by cost to apply; -1: rules alone decide">];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

def FuseCollectivesPass : Pass<"ashlar-fuse-collectives", "::mlir::ModuleOp"> {
  let summary = "Fuses the collectives of parameters.";
  let description = [{
    A small collective costs mostly synchronization. All-reduces, all-gathers and reduce-scatters of gradients, of parameters and of their
    next values become one op with a list of operands where kind, axes, reduction, element type, phase (forward, backward, update) and the
    fusion id of the parameters (`dist.comm_fusion`) are equal. Id 0 is never fused. Without ids, an option for each kind decides: `auto`
    fills buckets until latency is a twentieth of their time by the costs of the mesh, at most 64 MB; `size:BYTES` fills buckets up to that
    size; `index:20:35` takes the first 20 in program order, the next 15, and the rest. Without an option either, each stays alone
    (docs/communication.md).

        %a1 = dist.all_reduce sum %a over ["dp"] {cause = [#dist.end<kind = gradient, name = "w">]} : tensor<4x4xf32>
        %b1 = dist.all_reduce sum %b over ["dp"] {cause = [#dist.end<kind = gradient, name = "b">]} : tensor<4xf32>
    ==>
        %ab:2 = dist.all_reduce sum %a, %b over ["dp"] {cause = [#dist.end<kind = gradient, name = "w">,
                  #dist.end<kind = gradient, name = "b">], fusion = #dist.fusion<mode = id, number = 1>} : tensor<4x4xf32>, tensor<4xf32>

    The fused op stands after the last producer of its operands, before all users of its results. An id that makes a collective need its own
    result is an error that names two of its members.

    Needs: ashlar-simplify-collectives, so that equal ones are one. Leaves the values of all other ops as they are; a model's own
    collectives stay in their places.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
  let options = [
    Option<"allReduce", "all-reduce", "::ashlar::partition::FusionSetting", /*default=*/"",
           "what all-reduces are put together: auto, size:BYTES, index:N:M">,
    Option<"allGather", "all-gather", "::ashlar::partition::FusionSetting", /*default=*/"", "the same of all-gathers">,
    Option<"reduceScatter", "reduce-scatter", "::ashlar::partition::FusionSetting", /*default=*/"", "the same of reduce-scatters">
  ];
}

def GroupWeightsPass : Pass<"ashlar-group-weights", "::mlir::ModuleOp"> {
  let summary = "Gives each trained parameter an owner, the one device that keeps its state and updates it.";
  let description = [{
    Parameter ownership, for parameters that are replicated on all devices: the owner alone keeps the optimizer's state of a parameter, and
    broadcasts the parameter's next value. Owners are balanced by bytes: parameters with the most state first, each to the device that keeps
    least so far; among equal devices to the one with the fewest parameters, then to the first.

        nn.variable @w.m state_of @w : tensor<8x4xf32>
        ...
        nn.write @w.m, %m
        nn.write @w, %n
    ==>
        nn.variable @w.m state_of @w : tensor<8x4xf32> {dist.owner = 2 : i64}
        ...
        nn.write @w.m, %m {dist.owner = 2 : i64}
        %p = dist.broadcast %n root = 2 over ["dp"] {cause = [#dist.end<kind = parameter_update, name = "w">], dist.owner = 2 : i64}
        nn.write @w, %p

    The ops that only the owner computes follow from that (dialects/dist/owners.h). State that other devices read, too, has no owner: for
    example sums of gradients under a common bound on their norm.

    With `devices-per-process` the mesh has as many ranks as processes; each needs a parameter of its own, else it is an error.

    Needs: ashlar-fuse-collectives; replicated parameters. Leaves: `dist.owner` on variables, on their writes, and on broadcasts. A mesh of
    one device stays as it is.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
  let options = [
    Option<"devicesPerProcess", "devices-per-process", "int64_t", /*default=*/"1", "devices of the mesh that a process simulates">
  ];
}

def VerifyPartitionedPass : Pass<"ashlar-verify-partitioned", "::mlir::ModuleOp"> {
  let summary = "Checks that no global shape is left.";
  let description = [{
    The border after passes/partition: no dist.redistribute and no dist.layouts; arguments, results and variables have a dist.layout and a
    dist.global_type, and their type is one device's shard of it. A variable with a `dist.owner` is written with the same one, and read for
    ops that its owner alone computes.

    Needs: ashlar-partition. Leaves the module as it is.
  }];
}

#endif // ASHLAR_PASSES_PARTITION_PASSES_TD
