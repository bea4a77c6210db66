// SPDX-License-Identifier: Apache-2.0
//
// Passes that give every value a layout and put a redistribution where two layouts disagree.

#ifndef ASHLAR_PASSES_LAYOUT_PASSES_TD
#define ASHLAR_PASSES_LAYOUT_PASSES_TD

include "mlir/Pass/PassBase.td"

def FlattenRepeatsPass : Pass<"ashlar-flatten-repeats", "::mlir::func::FuncOp"> {
  let summary = "Writes the bodies of repeats into the program around them.";
  let description = [{
    Passes on layouts see one program: a body has layouts as any other ops have. A carried value has one layout in all iterations, before
    the first and behind the last; the rows of sliced and stacked tensors are not sharded. Repeats in bodies are flattened, too.

        %last, %rows = nn.repeat 2 carried(%h = %first) sliced(%x = %xs) : (tensor<4xf32>, tensor<2x4xf32>) -> (tensor<4xf32>, tensor<2x4xf32>) {
          %next = nn.mul %h, %x : tensor<4xf32>
          nn.yield %next, %next : tensor<4xf32>, tensor<4xf32>
        }
    ==>
        %h = nn.repeat_carry %first loop 0 number 0 count 2 : tensor<4xf32>
        %x = nn.repeat_row %xs loop 0 count 2 : tensor<2x4xf32> -> tensor<4xf32>
        %next = nn.mul %h, %x : tensor<4xf32>
        %last = nn.repeat_next %next of %h : tensor<4xf32>
        %rows = nn.repeat_stack %next loop 0 count 2 : tensor<4xf32> -> tensor<2x4xf32>

    Leaves no `nn.repeat`; ashlar-nest-repeats makes them again.
  }];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

def SeedLayoutsPass : Pass<"ashlar-seed-layouts", "::mlir::ModuleOp"> {
  let summary = "Creates the mesh and shards the batch over some of its axes.";
  let description = [{
    The start of data parallelism: everything else follows from the layouts of the inputs. An argument whose dim 0 has the size of the
    global batch is sharded on it; existing layouts are kept.

        func.func @train_step(%x: tensor<256x784xf32>, ...)
    ==>
        dist.mesh @mesh <["dp" = 4]>
        func.func @train_step(%x: tensor<256x784xf32> {dist.layout = #dist.layout<[{"dp"}, {} ]>}, ...)

    Leaves: a dist.mesh, dist.layout on the arguments with the batch.
  }];
  let options = [
    ListOption<"mesh", "mesh", "std::string", "axes of the mesh, major to minor, as name=size; none when the module has a mesh">,
    ListOption<"batchAxes", "batch-axes", "std::string", "axes that shard the batch, major to minor; none: replicated">,
    Option<"globalBatch", "global-batch", "int64_t", /*default=*/"0", "size of the batch; 0 takes dim 0 of a function's first argument">,
  ];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

def MoveReshapedRowsPass : Pass<"ashlar-move-reshaped-rows", "::mlir::ModuleOp"> {
  let summary = "Lets reshapes move rows that no axis of the mesh divides.";
  let description = [{
    A reshape that joins or cuts dims follows even splits of the first of these. Where no axis of the mesh divides that dim, there are none,
    and the reshape gets `moves_rows` (nn.reshape): its sharding rule then has blocks of elements instead of factors of a dim.

        // axes of 4
        %y = nn.reshape %x : tensor<6x5x8xf32> -> tensor<30x8xf32>
    ==>
        %y = nn.reshape %x {moves_rows} : tensor<6x5x8xf32> -> tensor<30x8xf32>

    Needs: a dist.mesh. Before anything asks for sharding rules.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

def ApplyRulesPass : Pass<"ashlar-apply-rules", "::mlir::ModuleOp"> {
  let summary = "Gives tensors and ops the layouts of the user's rules.";
  let description = [{
    A rule matches tensors and ops by a glob over the names of parameters, inputs, outputs and intermediate tensors and the module paths of
    ops, and specifies their sharding. Its layout applies to every matching tensor, and to the result of a matching op. Counts of slices
    (`in`, `out`) become layouts of the operands and results of an op: each dim takes the first free axis of exactly that size, else, in the
    order of the mesh, axes or parts of axes that multiply to its count; dims of one factor of the op's sharding rule take the same axes.

    A mesh axis with a part named in a rule is replaced by its parts, everywhere. Where two rules give a tensor different layouts, the lower
    priority wins; equal priorities are an error, and so is a rule without a match.

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
  let summary = "Infers the layout of every value from the given layouts.";
  let description = [{
    The sharding rule of an op maps the dims of its operands and results to factors. The pass projects the layouts around an op onto
    factors, extends each to the longest compatible sharding, and writes them back, forward and backward, until nothing changes. It starts
    with factors that are in every tensor of an op without reductions (element-wise ops, transposes, reshapes), then takes all.

    Given layouts are closed: they keep their axes, and only dims in `dist.open(s)` may get more. Layouts of a lower `dist.priority(/ies)`
    go to the fixpoint first; layouts of a higher one neither give nor take axes until then. A variable has one layout in all functions,
    replicated unless one is given or `split-variables` leaves it to inference; inputs and outputs of one name share a layout too. An op
    with `dist.operand_layouts` takes its operands in them. Constants, nn.index and broadcasts of scalars are copied for each use, so that
    each takes the layout of its user.

        func.func @f(%x: tensor<8x4xf32> {dist.layout = #dist.layout<[{"dp"}, {} ]>}) -> tensor<8x4xf32> {
          %y = nn.relu %x : tensor<8x4xf32>
    ==>
          %y = nn.relu %x {dist.layouts = [#dist.layout<[{"dp"}, {} ]>]} : tensor<8x4xf32>

    An op whose layouts shard a factor for which it has an expansion (softmax, on its last dim) is replaced by the expansion, whose ops get
    their layouts in another round.

    Needs: a dist.mesh; each op with tensors has a sharding rule. Leaves: dist.layouts on every op with results, dist.layout on variables,
    arguments and results, partial only on ops of a model that combines the terms itself; dist.origin(s) with the given layout that the axes
    came from and the op along which they came.
  }];
  let options = [Option<"splitVariables", "split-variables", "bool", /*default=*/"false",
                        "let inference shard variables that have no layout">];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

def SplitOptimizerPass : Pass<"ashlar-split-optimizer", "::mlir::ModuleOp"> {
  let summary = "Shards optimizer state, gradients and parameters over the devices that would replicate them.";
  let description = [{
    Optimizer parallelism, or ZeRO, as layouts. A trained parameter is replicated over the mesh axes that its layout does not use. Its state
    and its gradient get its layout, further sharded over these axes, along the dim that leaves a device the least; the layouts of the
    update follow by inference, while forward and backward keep theirs. The collectives follow: the gradient is a sum over devices that each
    want their shard, a reduce-scatter; the parameter is updated in shards and stored replicated, an all-gather.

        nn.variable @w.momentum : tensor<8x4xf32> {dist.layout = #dist.layout<[{}, {} ]>}
    ==>
        nn.variable @w.momentum : tensor<8x4xf32> {dist.layout = #dist.layout<[{"dp"}, {} ]>}

    `level` 1 shards the state, 2 also the accumulated gradients, 3 also the parameter: forward and backward each gather it where they use
    it. A parameter that is used in a narrower type only is stored sharded at every level, and gathered in that type.

    A parameter with fewer bytes on a device than `threshold` stays replicated, unless its `dist.optimizer_parallel` overrides this. A
    `shard-size` shards it over groups of that many neighbours, for which mesh axes may be cut, and replicates it over the groups: then the
    shards of its gradient are summed over the groups.

    Needs: ashlar-propagate-layouts. Leaves: layouts everywhere; `dist.replicated`, with the reason, on each trained parameter that is not sharded.
  }];
  let options = [
    Option<"level", "level", "int64_t", /*default=*/"1", "1: optimizer state, 2: and accumulated gradients, 3: and parameters">,
    Option<"threshold", "threshold", "int64_t", /*default=*/"65536", "bytes of a parameter on a device, from which on it is sharded">,
    Option<"shardSize", "shard-size", "int64_t", /*default=*/"-1", "devices over which a parameter is sharded; -1: all that replicate it">,
  ];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

def LiftHybridPass : Pass<"ashlar-lift-hybrid", "::mlir::ModuleOp"> {
  let summary = "Turns a model with its own collectives, one device's program, into the global model.";
  let description = [{
    In mode HYBRID a model is the program of one device: it has local shapes and its own collectives. The layouts of variables and arguments
    are given (replicated by default); the pass infers the layouts of all other values, checks that ops and collectives match them, and writes the
    program on global shapes. A collective becomes the dist.redistribute between the layouts before and after it. Ops are marked
    `dist.explicit`: they compute in these layouts, and no later pass changes their layouts or adds collectives to them. Loss, gradients and
    updates are then made as for any other model.

        %p = nn.matmul %x, %w : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>        // 8 rows of @w a device
        %y = dist.all_reduce sum %p over ["tp"] : tensor<4x16xf32>
    ==>
        %p = nn.matmul %x, %w {dist.explicit, dist.layouts = [#dist.layout<[{}, {} ], partial = sum {"tp"}>], ...}
               : tensor<4x16xf32>, tensor<16x16xf32> -> tensor<4x16xf32>
        %y = dist.redistribute %p from <[{}, {} ], partial = sum {"tp"}> to <[{}, {} ]> {dist.explicit, ...} : tensor<4x16xf32>

    Needs: a dist.mesh; collectives of the kinds in ONNX's domain ai.ashlar.dist. Leaves: global shapes, layouts on variables, arguments,
    results and ops; nothing partial is returned.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

def InterleavePartsPass : Pass<"ashlar-interleave-parts", "::mlir::ModuleOp"> {
  let summary = "Orders the parts of a sharded dim so that each device holds its share of every part.";
  let description = [{
    A loop may compute several tensors as parts of one, as an LSTM its four gates by one product, and slice the parts out of it. Where the
    parts are sharded, a shard of the tensor holds whole parts, not its share of every part: each slice would send elements, in each
    iteration. The pass reorders the elements of the dim. Of the parts a b c d and A B C D over two devices:

        a b c d | A B C D   ==>   a b A B | c d C D

    All ops through which the order passes (by their sharding rules: elementwise ops, products, sums) compute on the elements in the new
    order, with the same results. A slice or pad of a part is one of a dim of parts. Weights are put in order in front of the loop, and
    gradients in the order of the model behind it: each is redistributed once in a run of the program.

        %g = nn.slice %x [0, 4] to [2, 8] by [1, 1] : tensor<2x8xf32> -> tensor<2x4xf32>
    ==>
        %s = nn.reshape %x {dist.layouts = [#dist.layout<[{}, {"tp"}, {}, {} ]>]} : tensor<2x8xf32> -> tensor<2x2x2x2xf32>
        %p = nn.slice %s [0, 0, 1, 0] to [2, 2, 2, 2] by [1, 1, 1, 1] {...} : tensor<2x2x2x2xf32> -> tensor<2x2x1x2xf32>
        %g = nn.reshape %p {...} : tensor<2x2x1x2xf32> -> tensor<2x4xf32>

    A dim keeps its order where a loop would have to put elements in order, where its parts have several sizes, and where the devices do not
    divide the size of a part. All keep theirs where less time is spent sending so: where slices need no elements of other devices, or few
    in few iterations.

    Needs: ashlar-flatten-repeats, ashlar-propagate-layouts. Leaves: layouts on all ops.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect", "::ashlar::nn::NnDialect"];
}

def InsertRedistributionsPass : Pass<"ashlar-insert-redistributions", "::mlir::ModuleOp"> {
  let summary = "Chooses one sharding of each op's factors, and redistributes values with another layout.";
  let description = [{
    Where the tensors of an op agree on a factor the op computes with that sharding; where they disagree, with the cheapest one. Operands in
    another layout are redistributed once, right after their producer. A result over whose reduction factor the op is sharded is partial,
    and redistributed to the layout of the value: with a sharded batch and replicated parameters, this turns each gradient into a sum over
    the batch axes. This is all of data parallelism.

    Then, on each function: a value reaches all layouts of its users by the fastest tree of redistributions; linear ops compute on the terms
    of a sum where that takes less time; constants are rematerialized in the other layout. The location of each redistribution has the ops
    and the given layouts that caused it. A variable in which a program adds up a sum, and which only programs read, holds the terms, if they
    are no larger on a device than its part of the sum: other programs combine them where they read it.

        %g = nn.matmul %d, %x transpose_a {dist.layouts = [#dist.layout<[{}, {} ]>]} : ...
    ==>
        %p = nn.matmul %d, %x transpose_a {dist.layouts = [#dist.layout<[{}, {} ], partial = sum {"dp"}>]} : ...
        %g = dist.redistribute %p from <[{}, {} ], partial = sum {"dp"}> to <[{}, {} ]>
            {cause = [#dist.end<kind = gradient, name = "fc1.weight">], ...} : ...

    Then, once a module: mesh axes that change places with axes of another size are cut into parts, in all layouts, if all redistributions
    together take less time with the parts. Every device keeps its shards. The mesh of a model with its own collectives is not cut.

        dist.mesh @mesh <["dp" = 2, "tp" = 4]>
        %y = dist.redistribute %x from <[{"dp"}, {"tp"} ]> to <[{"tp"}, {"dp"} ]>
    ==>
        dist.mesh @mesh <["dp" = 2, "tp:(1)2" = 2, "tp:(2)2" = 2]>
        %y = dist.redistribute %x from <[{"dp"}, {"tp:(1)2", "tp:(2)2"} ]> to <[{"tp:(1)2", "tp:(2)2"}, {"dp"} ]>

    Needs: ashlar-propagate-layouts. Leaves: dist.layouts with the sharding in which each op computes; ops agree with all their operands; a
    mesh whose axes may be parts.
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
    The border between passes/layout and passes/partition: every value and variable has a layout on axes of the mesh; the layouts around
    each op are one sharding of its factors, partial exactly over the reduction factors; nothing partial is written, returned, or read by an
    op other than a dist.redistribute, a linear op on terms of a sum (add, neg, reduce sum, ...), or an op of a model that combines the
    terms itself (ashlar-lift-hybrid) and may compute on them.

    Needs: ashlar-insert-redistributions. Leaves the module as it is.
  }];
}

#endif // ASHLAR_PASSES_LAYOUT_PASSES_TD
