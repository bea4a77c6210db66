// SPDX-License-Identifier: Apache-2.0
//
// Passes that give every value a layout and put a redistribution where two layouts disagree.

#ifndef ASHLAR_PASSES_LAYOUT_PASSES_TD
#define ASHLAR_PASSES_LAYOUT_PASSES_TD

include "mlir/Pass/PassBase.td"

def SeedLayoutsPass : Pass<"ashlar-seed-layouts", "::mlir::ModuleOp"> {
  let summary = "Creates the mesh and splits the batch over some of its axes.";
  let description = [{
    The start of data parallelism: everything else follows from the layouts of the inputs. An argument is split on dim 0 when its dim 0 is
    the global batch; layouts that stand there already are kept.

        func.func @train_step(%x: tensor<256x784xf32>, ...)
    ==>
        dist.mesh @mesh <["dp" = 4]>
        func.func @train_step(%x: tensor<256x784xf32> {dist.layout = #dist.layout<[{"dp"}, {} ]>}, ...)

    Leaves: a dist.mesh, dist.layout on the arguments that hold the batch.
  }];
  let options = [
    ListOption<"mesh", "mesh", "std::string", "axes of the mesh, major to minor, as name=size; none when the module has a mesh">,
    ListOption<"batchAxes", "batch-axes", "std::string", "axes that split the batch, major to minor; none leaves it whole">,
    Option<"globalBatch", "global-batch", "int64_t", /*default=*/"0", "size of the batch; 0 takes dim 0 of a function's first argument">,
  ];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

def ApplyRulesPass : Pass<"ashlar-apply-rules", "::mlir::ModuleOp"> {
  let summary = "Gives tensors and ops the layouts that the user's rules ask for.";
  let description = [{
    A rule names tensors and ops by a glob over the names of parameters, inputs, outputs and intermediate tensors and the module paths of
    ops, and says how they are split. Its layout goes to every tensor that it names; of an op it is the layout of the result. Counts of
    slices (`in`, `out`) become layouts of the operands and results of an op: each dim takes the first free axis of just that size, else, in
    the order of the mesh, axes or parts of axes that multiply to its count; dims that the op's sharding rule holds to be the same take the
    same.

    A mesh axis of which a rule names a part is replaced by its parts, everywhere. Where two rules say different things of one tensor, the
    lower priority wins; with equal priorities it is an error, as are names that match nothing.

        module attributes {dist.rules = [#dist.rule<match = "fc1.weight", layout = "[{tp}, {?} ]", origin = "job.txtpb:14">]} {
          nn.variable @fc1.weight trainable : tensor<8x4xf32>
    ==>
        module {
          nn.variable @fc1.weight trainable : tensor<8x4xf32> {dist.layout = #dist.layout<[{"tp"}, {} ]>, dist.open = array<i64: 1>,
                                                               dist.origin = [#dist.origin<source = "rule \"fc1.weight\" (job.txtpb:14)">]}

    Needs: a dist.mesh. Leaves: given layouts with dist.open(s), dist.priority(/ies) and dist.origin(s), and no dist.rules.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

def PropagateLayoutsPass : Pass<"ashlar-propagate-layouts", "::mlir::ModuleOp"> {
  let summary = "Infers the layout of every value from those that are given.";
  let description = [{
    Each op says by its sharding rule which dims of its operands and results are the same factor. The pass writes the layouts around an op
    as splits of factors, extends each to the longest one that all agree with, and writes them back, forward and backward, until nothing
    changes. First only factors that are in every tensor of an op without reductions (element-wise ops, transposes, reshapes), then all.

    Given layouts are closed: they stay as they are, but for dims that stand in `dist.open(s)`, to which axes may be added. Those of a
    lower `dist.priority(/ies)` go to the fixpoint first, those of a higher one neither give nor take axes until then. A variable has one
    layout in all functions, replicated unless one is given or `split-variables` leaves it to inference; inputs and outputs of one name have
    one layout too. An op with `dist.operand_layouts` takes its operands so. Constants, nn.index and broadcasts of scalars are copied for
    each use, so that each takes the layout its user wants.

        func.func @f(%x: tensor<8x4xf32> {dist.layout = #dist.layout<[{"dp"}, {} ]>}) -> tensor<8x4xf32> {
          %y = nn.relu %x : tensor<8x4xf32>
    ==>
          %y = nn.relu %x {dist.layouts = [#dist.layout<[{"dp"}, {} ]>]} : tensor<8x4xf32>

    An op with layouts split on a factor for which it has an expansion (softmax, on its last dim) is replaced by it, and the ops of the
    expansion get their layouts in another round.

    Needs: a dist.mesh; each op with tensors has a sharding rule. Leaves: dist.layouts on every op with results, dist.layout on variables,
    arguments and results, partial only on ops of a model that combines the parts itself; dist.origin(s) that say from which given layout the
    axes came and along which op.
  }];
  let options = [Option<"splitVariables", "split-variables", "bool", /*default=*/"false",
                        "let inference split variables that have no layout">];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

def SplitOptimizerPass : Pass<"ashlar-split-optimizer", "::mlir::ModuleOp"> {
  let summary = "Splits optimizer state, gradients and parameters over the devices that would repeat them.";
  let description = [{
    Optimizer parallelism, or ZeRO, as layouts. A trained parameter is repeated over the mesh axes that its layout does not use. Its state and
    its gradient get its layout, further split over these axes, along the dim that leaves a device least; the layouts of the update follow by
    inference, with those of forward and backward as they were. What then has to be sent falls out: the gradient is a sum over devices of
    which each wants its piece, a reduce-scatter; the parameter is updated in pieces and stored whole, an all-gather.

        nn.variable @w.momentum : tensor<8x4xf32> {dist.layout = #dist.layout<[{}, {} ]>}
    ==>
        nn.variable @w.momentum : tensor<8x4xf32> {dist.layout = #dist.layout<[{"dp"}, {} ]>}

    `level` 1 splits the state, 2 also what gradients are accumulated in, 3 also the parameter: forward and backward each gather it where they
    use it. A parameter that is used in a narrower type only is stored split at every level, and gathered in that type.

    A parameter of which a device holds fewer bytes than `threshold` stays whole, unless its `dist.optimizer_parallel` says otherwise. With a
    `shard-size` it is split over groups of that many neighbours, for which mesh axes may be cut, and repeated over the groups: then the
    pieces of its gradient are summed over the groups.

    Needs: ashlar-propagate-layouts. Leaves: layouts everywhere; `dist.whole` on each trained parameter that is not split, with the reason.
  }];
  let options = [
    Option<"level", "level", "int64_t", /*default=*/"1", "1: optimizer state, 2: and accumulated gradients, 3: and parameters">,
    Option<"threshold", "threshold", "int64_t", /*default=*/"65536", "bytes a device holds of a parameter, from which on it is split">,
    Option<"shardSize", "shard-size", "int64_t", /*default=*/"-1", "devices over which a parameter is split; -1: all that repeat it">,
  ];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

def LiftHybridPass : Pass<"ashlar-lift-hybrid", "::mlir::ModuleOp"> {
  let summary = "Turns a model that places its collectives itself into the global one that it is a device's part of.";
  let description = [{
    In mode HYBRID a model is the program of one device: its shapes are local, and it names its collectives. The layouts of variables and
    arguments are given (replicated where nothing is said); the pass finds those of all other values, checks that ops and collectives fit
    them, and writes the program on global shapes. A collective becomes the dist.redistribute between the layouts before and after it. Ops
    are marked `dist.explicit`: they compute in these layouts, and no later pass places a collective at them or takes theirs. Loss, gradients
    and updates are then made as for any other model.

        %p = nn.matmul %x, %w : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>        // 8 rows of @w a device
        %y = dist.all_reduce sum %p over ["tp"] : tensor<4x16xf32>
    ==>
        %p = nn.matmul %x, %w {dist.explicit, dist.layouts = [#dist.layout<[{}, {} ], partial = sum {"tp"}>], ...}
               : tensor<4x16xf32>, tensor<16x16xf32> -> tensor<4x16xf32>
        %y = dist.redistribute %p from <[{}, {} ], partial = sum {"tp"}> to <[{}, {} ]> {dist.explicit, ...} : tensor<4x16xf32>

    Needs: a dist.mesh; collectives of the kinds that ONNX's domain ai.ashlar.dist has. Leaves: global shapes, layouts on variables,
    arguments, results and ops; nothing partial is returned.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

def InsertRedistributionsPass : Pass<"ashlar-insert-redistributions", "::mlir::ModuleOp"> {
  let summary = "Makes every op compute with one split of its factors, and redistributes where a value is held otherwise.";
  let description = [{
    Where the tensors of an op agree on a factor the op computes with that split; where they disagree, with the one that takes the least
    time. Operands that are held otherwise are redistributed once, right where they are made. A result over whose reduction factor the op is
    split is partial, and redistributed to the layout of the value: with a batch that is split and parameters that are not, this turns each
    gradient into a sum over the batch axes. That is all there is to data parallelism.

    Then, on each function: a value reaches all layouts that are wanted of it by the fastest tree of redistributions; linear ops compute on
    the terms of a sum where that takes less time; constants are made again in the other layout. Each redistribution says in its location
    which ops and which given layouts it is for.

        %g = nn.matmul %d, %x transpose_a {dist.layouts = [#dist.layout<[{}, {} ]>]} : ...
    ==>
        %p = nn.matmul %d, %x transpose_a {dist.layouts = [#dist.layout<[{}, {} ], partial = sum {"dp"}>]} : ...
        %g = dist.redistribute %p from <[{}, {} ], partial = sum {"dp"}> to <[{}, {} ]>
            {cause = [#dist.end<kind = gradient, name = "fc1.weight">], ...} : ...

    Then, once a module: the mesh axes that change places with axes of another size are cut into parts, in all layouts, if all
    redistributions together take less time with the parts. Every device keeps its shards. The mesh of a model with collectives of its own
    is not cut.

        dist.mesh @mesh <["dp" = 2, "tp" = 4]>
        %y = dist.redistribute %x from <[{"dp"}, {"tp"} ]> to <[{"tp"}, {"dp"} ]>
    ==>
        dist.mesh @mesh <["dp" = 2, "tp:(1)2" = 2, "tp:(2)2" = 2]>
        %y = dist.redistribute %x from <[{"dp"}, {"tp:(1)2", "tp:(2)2"} ]> to <[{"tp:(1)2", "tp:(2)2"}, {"dp"} ]>

    Needs: ashlar-propagate-layouts. Leaves: dist.layouts that say how each op computes; ops agree with all their operands; a mesh whose
    axes may be parts.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

def PrintShardingRulesPass : Pass<"ashlar-print-sharding-rules", "::mlir::ModuleOp"> {
  let summary = "Prints the sharding rule of each op as a remark.";
  let description = [{
    For a reader, and for the test that mirrors the table of rules.

        %y = nn.matmul %x, %w : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
      ==> remark: ([i, k], [k, j]) -> ([i, j]) {i=4, j=16, k=8} sum={k}

    Needs nothing; leaves the module as it is.
  }];
}

def VerifyLayoutsPass : Pass<"ashlar-verify-layouts", "::mlir::ModuleOp"> {
  let summary = "Checks that layouts are complete and that each op agrees with its operands.";
  let description = [{
    The border between passes/layout and passes/partition: every value and variable has a layout on axes of the mesh;
    the layouts around each op are one split of its factors, partial exactly over the reduction factors; nothing partial is written,
    returned, or read by an op other than a dist.redistribute, a linear op on terms of a sum (add, neg, reduce sum, ...), or one of a model
    that combines the parts itself (ashlar-lift-hybrid) and may compute on them.

    Needs: ashlar-insert-redistributions. Leaves the module as it is.
  }];
}

#endif // ASHLAR_PASSES_LAYOUT_PASSES_TD
