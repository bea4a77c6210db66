// SPDX-License-Identifier: Apache-2.0
//
// The interpreter as a pass, for ashlar-opt.

#ifndef ASHLAR_COMPILER_REFERENCE_PASSES_TD
#define ASHLAR_COMPILER_REFERENCE_PASSES_TD

include "mlir/Pass/PassBase.td"

def InterpretPass : Pass<"ashlar-interpret", "::mlir::ModuleOp"> {
  let summary = "Runs functions in the reference interpreter and prints their results.";
  let description = [{
    Shows the values that a module computes, before or after any pass. Functions run in the order given and share the variables, so
    `function=init,train_step,train_step` trains for two steps. Inputs without a value given are random: floats uniform in [-1, 1), integers
    in [0, int-limit), the same on every run with the same seed. They are global tensors: where an argument has a `dist.layout` each rank
    gets its shard, and results are joined again. Needs nothing; leaves the module as it is.

        func.func @double(%x: tensor<2xf32>) -> tensor<2xf32>
      ==> with -ashlar-interpret='function=double inputs="[dense<[1.0, 2.5]> : tensor<2xf32>]"'
        @double result 0: tensor<2xf32> [2, 5]
  }];
  let options = [
    ListOption<"functions", "function", "std::string", "names of the functions to run, in order">,
    Option<"ranks", "ranks", "int64_t", /*default=*/"1", "ranks to simulate; more than one needs a dist.mesh of as many devices">,
    Option<"seed", "seed", "int64_t", /*default=*/"1", "seed of the random inputs, and value of @ashlar.seed">,
    Option<"intLimit", "int-limit", "int64_t", /*default=*/"10", "random integers lie below it">,
    Option<"inputs", "inputs", "std::string", /*default=*/"\"\"", "array attribute with the inputs of the first function that takes any">,
  ];
}

#endif // ASHLAR_COMPILER_REFERENCE_PASSES_TD
