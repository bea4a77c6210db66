// SPDX-License-Identifier: Apache-2.0
//
// From one device's program of the whole model to the programs of the stages of a pipeline.

#ifndef ASHLAR_PASSES_STAGE_PASSES_TD
#define ASHLAR_PASSES_STAGE_PASSES_TD

include "mlir/Pass/PassBase.td"
include "dialects/support/options/enum_option.td"
include "passes/stage/stage_enums.td"

def AssignStagesPass : Pass<"ashlar-assign-stages", "::mlir::ModuleOp"> {
  let summary = "Assigns each forward op to a pipeline stage.";
  let description = [{
    An op joins the stage of the setting in `dist.stage_rules` that matches its module path, else a stage chosen by the costs of ops and the
    sizes of values that cross (docs/pipeline.md). With several chunks a stage the numbers count virtual stages. Ops that every stage
    has, constants and ops on variables alone, get none. Passes before the cut then know the values that go from one stage to another.

        %y = nn.relu %x : tensor<8x4xf32>
    ==>
        %y = nn.relu %x {dist.virtual_stage = 1 : i64} : tensor<8x4xf32>

    Needs: ashlar-simplify-collectives; a program that adds up the gradients of micro-batches (ashlar-accumulate). Leaves all other ops as
    they are.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", /*default=*/"0", "number of stages">,
    Option<"chunks", "chunks", "int64_t", /*default=*/"1", "chunks of each stage">,
  ];
}

def ShardMessagesPass : Pass<"ashlar-shard-messages", "::mlir::ModuleOp"> {
  let summary = "Sends shards of a value to another stage where all devices of a group hold the value.";
  let description = [{
    A value that devices of a group hold alike would go to the next stage once from each of them. Where that takes longer, by the links of the
    machine, than a shard from each and a gather in the other stage, it is sliced at its maker's stage and gathered before its first user.

        %h = dist.all_reduce sum %y over ["tp"] {dist.virtual_stage = 0 : i64} : tensor<8x4xf32>
        %z = nn.relu %h {dist.virtual_stage = 1 : i64} : tensor<8x4xf32>
    ==>
        %h = dist.all_reduce sum %y over ["tp"] {dist.virtual_stage = 0 : i64} : tensor<8x4xf32>
        %s = dist.slice %h dim = 0 over ["tp"] {dist.virtual_stage = 0 : i64} : tensor<8x4xf32> -> tensor<4x4xf32>
        %g = dist.all_gather %s dim = 0 over ["tp"] {dist.virtual_stage = 1 : i64} : tensor<4x4xf32> -> tensor<8x4xf32>
        %z = nn.relu %g {dist.virtual_stage = 1 : i64} : tensor<8x4xf32>

    Needs: ashlar-assign-stages, with the same options, and the hosts of the mesh; without them nothing is changed.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", /*default=*/"0", "number of stages">,
    Option<"chunks", "chunks", "int64_t", /*default=*/"1", "chunks of each stage">,
  ];
}

def CutStagesPass : Pass<"ashlar-cut-stages", "::mlir::ModuleOp"> {
  let summary = "Cuts the program of one device into the programs of pipeline stages.";
  let description = [{
    Forward ops go to the stages of ashlar-assign-stages; gradients and updates join them. @train_step becomes `forward`, `backward` and,
    with the schedule ZERO_BUBBLE or an order that has them, `weights` of each stage; @update becomes a program a round of communication;
    @eval_step and @init have a part in each stage. With `chunks` of more than 1 the model is cut into stages * chunks virtual stages, where
    number chunk * stages + s is a chunk of stage s, and there is a program for each chunk: `forward_0`, `forward_1`, ..., `eval_step_0`,
    ... What one program leaves for another crosses by ops (docs/pipeline.md): dist.send and dist.receive between stages, dist.keep and
    dist.take within one. The order of each stage is on its module; an order that would deadlock is refused.

        module {
          func.func @train_step(%x: tensor<8x4xf32>) -> tensor<f32> ...
        }
    ==>
        module {
          module @stage_0 attributes {dist.stage = #dist.stage<index = 0, count = 2, slots = 2>, dist.order = [...]} {
            func.func @forward(%x: tensor<8x4xf32> {dist.slot, nn.name = "x"}) ... {
              ...
              dist.send %h "passed:fc1" to [#dist.peer<stage = 1, channel = 0>] {cause = ...} : tensor<8x4xf32>
            }
          }
          module @stage_1 ...
        }

    Needs: ashlar-simplify-collectives; a program that adds up the gradients of micro-batches (ashlar-accumulate). Leaves: nothing but the
    modules of the stages, each a program of its own.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", /*default=*/"0", "number of stages">,
    Option<"microBatches", "micro-batches", "int64_t", /*default=*/"0", "micro-batches of a step">,
    Option<"chunks", "chunks", "int64_t", /*default=*/"1", "virtual stages that each stage runs, with INTERLEAVED or an order">,
    EnumOption<"schedule", "schedule", Stage_Schedule, /*default=*/"OneFOneB", "GPIPE, ONE_F_ONE_B, INTERLEAVED or ZERO_BUBBLE">,
    Option<"orderFile", "order-file", "std::string", /*default=*/"\"\"", "file of a user's own order, instead of a schedule">,
  ];
  let dependentDialects = ["::ashlar::dist::DistDialect", "::ashlar::nn::NnDialect"];
}

def VerifyStagesPass : Pass<"ashlar-verify-stages", "::mlir::ModuleOp"> {
  let summary = "Checks what crosses the programs of a pipeline.";
  let description = [{
    A message, by sender, receiver and channel, has one dist.send and one dist.receive, of one type. A place of the slot gets its value in one
    program of its stage, by dist.receive, dist.send or dist.keep, and dist.take has its type. ashlar-cut-stages checks this, too; the pass
    stands behind those that change the programs.

    Needs: ashlar-cut-stages; a module without stages is left alone.
  }];
}

def JoinRunsPass : Pass<"ashlar-join-runs", "::mlir::ModuleOp"> {
  let summary = "Joins the ends of a step with what is done once, so that communication overlaps computation.";
  let description = [{
    Communication overlaps the computation of its own program only. So the first run of a step becomes one program with the preparation ahead
    of it, and the last one with the update behind it: parameters are gathered beside the first forward pass, each before its first use, and
    gradients are reduced beside the rest of the last backward pass. A value that one leaves for the other in a variable is taken as it is.

        dist.order = [prepare, 4 times train_step, update]
    ==>
        dist.order = [prepare+train_step, 2 times train_step, train_step+update]

    Programs that send to other stages of a pipeline or receive from them stay as they are, since the messages would wait. So does the order
    where the preparation or the update has no communication over links that move data while the device computes.

    Needs: `dist.order`, of ashlar-accumulate or ashlar-cut-stages. Leaves: no function that the order had and has no more.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect", "::mlir::func::FuncDialect"];
}

#endif // ASHLAR_PASSES_STAGE_PASSES_TD
