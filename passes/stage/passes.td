// SPDX-License-Identifier: Apache-2.0
//
// From one device's program of the whole model to the programs of the stages of a pipeline.

#ifndef ASHLAR_PASSES_STAGE_PASSES_TD
#define ASHLAR_PASSES_STAGE_PASSES_TD

include "mlir/Pass/PassBase.td"
include "dialects/support/enum_option.td"
include "passes/stage/stage_enums.td"

def AssignStagesPass : Pass<"ashlar-assign-stages", "::mlir::ModuleOp"> {
  let summary = "Says of each op of the forward pass which stage of a pipeline it is of.";
  let description = [{
    An op joins the stage of the setting in `dist.stage_rules` that names its module path, else one that the prices of ops and the sizes of what crosses
    suggest (docs/pipeline.md). With several chunks a stage the numbers are those of virtual stages. What every stage has for itself, constants and what is made of
    variables alone, gets none. Passes ahead of the cut then know what goes from one stage to another.

        %y = nn.relu %x : tensor<8x4xf32>
    ==>
        %y = nn.relu %x {dist.virtual_stage = 1 : i64} : tensor<8x4xf32>

    Needs: ashlar-simplify-collectives; a program that adds up the gradients of micro-batches (ashlar-accumulate). Leaves all else as it is.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", /*default=*/"0", "number of stages">,
    Option<"chunks", "chunks", "int64_t", /*default=*/"1", "chunks of each stage">,
  ];
}

def CutStagesPass : Pass<"ashlar-cut-stages", "::mlir::ModuleOp"> {
  let summary = "Cuts the program of one device into those of the stages of a pipeline.";
  let description = [{
    Ops of the forward pass are cut as ashlar-assign-stages says; gradients and updates join them. @train_step becomes `forward`, `backward` and, with the schedule ZERO_BUBBLE or an order that says so, `weights` of each
    stage; @update becomes a program a round of communication; @eval_step and @init have a part in each stage. With `chunks` of more than 1
    the model is cut into stages * chunks virtual stages, of which number chunk * stages + s is a chunk of stage s, and there is a program for
    each chunk: `forward_0`, `forward_1`, ..., `eval_step_0`, ... What one program leaves for another is a
    result of the one and an argument of the other with one name (docs/pipeline.md). The order of each stage is on its module; it is
    refused when it would deadlock.

        module {
          func.func @train_step(%x: tensor<8x4xf32>) -> tensor<f32> ...
        }
    ==>
        module {
          module @stage_0 attributes {dist.stage = #dist.stage<index = 0, count = 2, slots = 2>, dist.order = [...]} {
            func.func @forward(%x: tensor<8x4xf32> {dist.passed}) -> (tensor<8x4xf32> {nn.name = "passed:fc1", dist.passed,
                                                                     dist.to = [#dist.peer<stage = 1, channel = 0>]}) ...
          }
          module @stage_1 ...
        }

    Needs: ashlar-simplify-collectives; a program that adds up the gradients of micro-batches (ashlar-accumulate). Leaves: nothing but the modules of
    the stages, each a program of its own.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", /*default=*/"0", "number of stages">,
    Option<"microBatches", "micro-batches", "int64_t", /*default=*/"0", "micro-batches of a step">,
    Option<"chunks", "chunks", "int64_t", /*default=*/"1", "virtual stages that each stage runs, with INTERLEAVED or an order">,
    EnumOption<"schedule", "schedule", Stage_Schedule, /*default=*/"OneFOneB", "GPIPE, ONE_F_ONE_B, INTERLEAVED or ZERO_BUBBLE">,
    Option<"orderFile", "order-file", "std::string", /*default=*/"\"\"", "file of a user's own order, in the place of a schedule">,
  ];
  let dependentDialects = ["::ashlar::dist::DistDialect", "::ashlar::nn::NnDialect"];
}

#endif // ASHLAR_PASSES_STAGE_PASSES_TD
