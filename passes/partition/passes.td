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
    its plan (passes/analysis/planner/redistribution.h). Elements keep their global numbers: nn.index adds the offset of the device's piece, so
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

def RecomputePass : Pass<"ashlar-recompute", "::mlir::ModuleOp"> {
  let summary = "Computes values of the forward pass again in the backward pass instead of keeping them.";
  let description = [{
    Of the module that a rule of `dist.recompute_rules` names, its inputs and its output are kept; the ops of the backward pass take copies of what lies
    between. Copies come after a gradient (dist.after), so that nothing merges them with the ops that they repeat or moves them ahead. Only
    what the backward pass takes is repeated; collectives, and gathers of parameters, where the rules say so (docs/recompute.md).

        %h = nn.matmul %x, %w                           %h = nn.matmul %x, %w
        %y = nn.gelu %h                                 %y = nn.gelu %h
        %dw = nn.matmul %y transpose_a, %g       ==>    %a = dist.after %x, %g
                                                        %i = nn.matmul %a, %w
                                                        %z = nn.gelu %i
                                                        %dw = nn.matmul %z transpose_a, %g

    With `moves` at least 0 what rules leave open is decided by price: a module of the model can keep all its values, or fewer for more time, and
    the moves between such choices that save most for their time are made, so many of them. `dist.recompute_moves` says how many there are.

    Needs: ashlar-simplify-collectives. Leaves no rules of recompute.
  }];
  let options = [Option<"moves", "moves", "int64_t", "-1", "how many moves by price are made; -1: rules alone decide">];
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
    Option<"allReduce", "all-reduce", "::ashlar::partition::FusionSetting", /*default=*/"",
           "what all-reduces are put together: auto, size:BYTES, index:N:M">,
    Option<"allGather", "all-gather", "::ashlar::partition::FusionSetting", /*default=*/"", "the same of all-gathers">,
    Option<"reduceScatter", "reduce-scatter", "::ashlar::partition::FusionSetting", /*default=*/"", "the same of reduce-scatters">
  ];
}

def GroupWeightsPass : Pass<"ashlar-group-weights", "::mlir::ModuleOp"> {
  let summary = "Gives each trained parameter an owner, the one device that keeps its state and updates it.";
  let description = [{
    Weights grouping, for parameters that all devices hold whole: what the optimizer keeps of a parameter is kept by its owner alone, and the
    next value of the parameter is broadcast from there. Owners are balanced by bytes: parameters with the most state first, each to the device
    that keeps least so far; among equal devices to the one with the fewest parameters, then to the first.

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

    Which ops the owner alone computes follows from that (dialects/dist/owners.h). State that other devices read, too, keeps no owner: sums of
    gradients whose common norm is bounded, for one.

    With `devices-per-process` the mesh has as many ranks as processes; each needs a parameter of its own, else it is an error.

    Needs: ashlar-fuse-collectives; parameters whole on every device. Leaves: `dist.owner` on variables, on what writes them, and on
    broadcasts. A mesh of one device stays as it is.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
  let options = [
    Option<"devicesPerProcess", "devices-per-process", "int64_t", /*default=*/"1", "devices of the mesh that a process plays">
  ];
}

def VerifyPartitionedPass : Pass<"ashlar-verify-partitioned", "::mlir::ModuleOp"> {
  let summary = "Checks that no global shape is left.";
  let description = [{
    The border after passes/partition: no dist.redistribute and no dist.layouts; arguments, results and variables have a dist.layout and a
    dist.global_type, and their type is the piece of it that the layout gives a device. A variable with a `dist.owner` is written with the
    same one, and read for ops that its owner alone computes.

    Needs: ashlar-partition. Leaves the module as it is.
  }];
}

#endif // ASHLAR_PASSES_PARTITION_PASSES_TD
