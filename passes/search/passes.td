// SPDX-License-Identifier: Apache-2.0
//
// The pass that searches layouts.

#ifndef ASHLAR_PASSES_SEARCH_PASSES_TD
#define ASHLAR_PASSES_SEARCH_PASSES_TD

include "mlir/Pass/PassBase.td"

def SearchLayoutsPass : Pass<"ashlar-search-layouts", "::mlir::ModuleOp"> {
  let summary = "Finds the layouts with which a step is predicted to take the least time.";
  let description = [{
    States the layouts of the programs that a step runs as a decision graph (layout_graph.h), solves it, and gives every tensor, and every
    op, but those of the update, what was decided; ashlar-propagate-layouts does the rest: other programs, expansions. Layouts that are given
    already are constraints.

    Two strategies that anyone would try are priced beside it, by what price() says of their whole programs: what inference makes of the
    given layouts alone, and, where nothing splits the batch yet, the batch over all axes (data parallelism). The fastest of those that keep
    the limit is taken, so the search is never behind them by prediction.

        func.func @train_step(%x: tensor<256x784xf32>, ...)
    ==>
        func.func @train_step(%x: tensor<256x784xf32> {dist.layout = #dist.layout<[{"dp"}, {} ]>, ...}, ...)

    Programs that will be cut into the stages of a pipeline are looked at as a whole, on the mesh of one stage; together the stages keep
    as many times the limit.

    Where no strategy is found that keeps the limit, it is an error that says what the smallest one takes, unless that is asked for.

    Needs: a dist.mesh. Leaves: given layouts, and on the module `dist.search`: what was looked at and what it is predicted to take.
  }];
  let options = [
    Option<"method", "method", "::ashlar::search::Method", /*default=*/"::ashlar::search::Method::DynamicProgramming",
           "dp: elimination, with prices on memory; ilp: and an integer program",
           [{::llvm::cl::values(clEnumValN(::ashlar::search::Method::DynamicProgramming, "dp", "elimination, with prices on memory"),
                                clEnumValN(::ashlar::search::Method::IntegerProgram, "ilp", "and an integer program"))}]>,
    Option<"memoryLimit", "memory-limit", "int64_t", /*default=*/"0", "bytes of a device; 0: any number">,
    Option<"takesSmallest", "takes-smallest", "bool", /*default=*/"false",
           "take the strategy that needs least memory where none keeps the limit, in the place of an error">,
    Option<"prefersBatch", "prefers-batch", "bool", /*default=*/"false",
           "search nothing and take data parallelism, where it is possible: programs that a step does not run may need less memory so">,
    Option<"seconds", "seconds", "double", /*default=*/"60", "after which the best that was found has to do">,
    Option<"stages", "stages", "int64_t", /*default=*/"1", "of a pipeline that the programs will be cut into: each takes its share of memory">,
    Option<"runs", "runs", "int64_t", /*default=*/"1", "how often a step runs @train_step, where @update is another program">,
    Option<"batch", "batch", "int64_t", /*default=*/"0", "size of the batch, for data parallelism; 0: dim 0 of a function's first argument">,
    Option<"smallState", "small-state", "int64_t", /*default=*/"65536",
           "bytes of a parameter on a device below which its state is split as it is; -1: always">,
  ];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

#endif // ASHLAR_PASSES_SEARCH_PASSES_TD
