// SPDX-License-Identifier: Apache-2.0
//
// The pass that searches layouts.

#ifndef ASHLAR_PASSES_SEARCH_PASSES_TD
#define ASHLAR_PASSES_SEARCH_PASSES_TD

include "dialects/support/options/enum_option.td"
include "passes/search/search_enums.td"

def SearchLayoutsPass : Pass<"ashlar-search-layouts", "::mlir::ModuleOp"> {
  let summary = "Finds the layouts with the least predicted time of a step.";
  let description = [{
    States the layouts of the programs that a step runs as a decision graph (layout_graph.h), solves it, and gives every tensor and every
    op, except in the update, its layout. ashlar-propagate-layouts infers the rest: other programs, expansions. Given layouts are
    constraints.

    Two baselines are estimated besides: the result of inference on the given layouts alone and, where nothing shards the batch yet, the
    batch over all axes (data parallelism). The fastest strategy within the memory limit wins. In ashlarc the strategies are lowered for
    that, at most twice the least estimate, or all under a limit; so by the prediction of its programs the search is not behind either.
    Bytes that the search does not count become a constant of it, once the lowered programs exceed the limit with them.

        func.func @train_step(%x: tensor<256x784xf32>, ...)
    ==>
        func.func @train_step(%x: tensor<256x784xf32> {dist.layout = #dist.layout<[{"dp"}, {} ]>, ...}, ...)

    Programs that will be cut into the stages of a pipeline are searched as one program, on the mesh of one stage; the stages together have
    as many times the limit.

    The search ends when the work that it counts reaches a bound, so that equal modules get equal strategies on any machine, under any load.

    If no strategy keeps the limit, the pass reports an error with the memory of the smallest one, or takes it with `takes-smallest`.

    Needs: a dist.mesh. Leaves: given layouts, and on the module `dist.search`: the candidates and their predicted times, and the work that
    it counted.
  }];
  let options = [
    EnumOption<"method", "method", Search_Method, /*default=*/"DynamicProgramming",
               "dp: elimination, with multipliers on memory; ilp: and an integer program">,
    Option<"memoryLimit", "memory-limit", "int64_t", /*default=*/"0", "bytes of a device; 0: any number">,
    Option<"takesSmallest", "takes-smallest", "bool", /*default=*/"false",
           "if no strategy keeps the limit, take the one that needs the least memory instead of an error">,
    Option<"units", "units", "int64_t", /*default=*/"Effort::kUnits",
           "bound of the counted work, table entries looked at, after which the best strategy found is taken">,
    Option<"seconds", "seconds", "double", /*default=*/"Effort::kSeconds",
           "safety net: the search stops after them, too, and then leaves `stopped_s` in `dist.search`">,
    Option<"stages", "stages", "int64_t", /*default=*/"1", "stages into which the programs will be cut: each takes its share of memory">,
    Option<"batch", "batch", "int64_t", /*default=*/"0", "size of the batch, for data parallelism; 0: dim 0 of a function's first argument">,
    Option<"smallState", "small-state", "int64_t", /*default=*/"65536",
           "bytes of a parameter on a device below which its state is sharded as it is; -1: always">,
  ];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

def ShardSequencesPass : Pass<"ashlar-shard-sequences", "::mlir::ModuleOp"> {
  let summary = "Shards values that tensor parallelism leaves replicated, where that costs no more.";
  let description = [{
    Where products are split over an axis and their results are summed, the ops up to the next such product - a residual, a norm, dropout -
    are computed alike by all devices along the axis. Sharded along the sequence each device computes its part, and holds as much less for
    the backward pass. The all-reduce before these ops becomes a reduce-scatter and the all-gather behind them, which send as many bytes.

    Takes the place of ashlar-propagate-layouts with `split-variables`: infers and writes the layouts in the same way. Before it writes, for
    each axis that shards parameters: collects the results of the forward pass that follow a sum over the axis without being split over it,
    and of these the type of three dims or more that most have; suggests the axis (`dist.suggested`) on a dim of them, the longest that
    nothing shards and that is not the last; infers again; and keeps that if, by prediction, a step takes no longer, a device no more memory,
    and one of both is less. A suggestion is added where it fits, when all that is given has propagated: a dim that a rule closes stays as
    the rule says.

        %y = nn.add %x, %d : tensor<8x512x1024xf32>
    ==>
        %y = nn.add %x, %d {dist.layouts = [#dist.layout<[{"dp"}, {"tp"}, {} ]>]} : tensor<8x512x1024xf32>

    Needs: a dist.mesh. Leaves: as ashlar-propagate-layouts.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

#endif // ASHLAR_PASSES_SEARCH_PASSES_TD
