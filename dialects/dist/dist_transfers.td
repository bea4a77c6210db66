// SPDX-License-Identifier: Apache-2.0
//
// The values that cross the borders of a pipeline's programs: between stages by messages, between programs of one stage in the slot.

#ifndef ASHLAR_DIALECTS_DIST_DIST_TRANSFERS_TD
#define ASHLAR_DIALECTS_DIST_DIST_TRANSFERS_TD

include "dialects/dist/dist_base.td"

def Dist_SlotResource : Resource<"::ashlar::dist::SlotResource">;

// An op on a place of the slot of a micro-batch. Its effect keeps it where there is no user, and apart from an equal one.
class Dist_SlotOp<string opMnemonic, list<MemoryEffect> effects, list<Trait> traits = []>
    : Dist_Op<opMnemonic, !listconcat([MemoryEffects<effects>, SlotOpInterface], traits)> {
  code slotDeclaration = [{
    ::mlir::TypedValue<::mlir::RankedTensorType> getSlotValue();
  }];
  let extraClassDeclaration = slotDeclaration;
}

// One end of messages.
class Dist_TransferOp<string opMnemonic>
    : Dist_SlotOp<opMnemonic, [MemRead<Dist_SlotResource>, MemWrite<Dist_SlotResource>], [TransferOpInterface]> {
  let extraClassDeclaration = slotDeclaration # [{
    ::llvm::SmallVector<::ashlar::dist::PeerAttr> getPeers();
    int64_t getBytes();
  }];
  let hasVerifier = 1;
}

def Dist_ReceiveOp : Dist_TransferOp<"receive"> {
  let summary = "The value that another stage sends, which the slot keeps";
  let description = [{
    Programs behind this one take it from the slot by its name. The message is there before the program begins: the runtime receives for a
    program as a whole.

        %h = dist.receive "passed:fc1" from <stage = 0, channel = 1> {cause = [#dist.end<kind = op, name = "fc1">,
                                                                               #dist.end<kind = op, name = "fc2">]} : tensor<8x4xf32>

    **Constraints:** (C1) a stage and a channel of 0 or more. Those on both ends of a message: -ashlar-verify-stages.
  }];
  let arguments = (ins StrAttr:$slot, Dist_PeerAttr:$from, OptionalAttr<Dist_CauseAttr>:$cause);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$slot `from` $from attr-dict `:` type($result)";
}

def Dist_SendOp : Dist_TransferOp<"send"> {
  let summary = "Sends a value to other stages from the slot, which keeps it";
  let description = [{
    Programs behind this one take it from the slot by its name. The runtime sends when the program has run.

        dist.send %h "passed:fc1" to [#dist.peer<stage = 1, channel = 1>] {cause = [...]} : tensor<8x4xf32>

    **Constraints:** (C1) stages and channels of 0 or more; (C2) at least one stage, none twice. Those on both ends of a message:
    -ashlar-verify-stages.
  }];
  let arguments = (ins AnyStaticShapeTensor:$value, StrAttr:$slot, TypedArrayAttrBase<Dist_PeerAttr, "peers">:$to,
                       OptionalAttr<Dist_CauseAttr>:$cause);
  let assemblyFormat = "$value $slot `to` $to attr-dict `:` type($value)";
}

def Dist_TakeOp : Dist_SlotOp<"take", [MemRead<Dist_SlotResource>]> {
  let summary = "The value that a program before this one left in the slot";
  let description = [{
    What it received, sent or kept for the same micro-batch.

        %h = dist.take "passed:fc1" : tensor<8x4xf32>
  }];
  let arguments = (ins StrAttr:$slot);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$slot attr-dict `:` type($result)";
}

def Dist_KeepOp : Dist_SlotOp<"keep", [MemRead<Dist_SlotResource>, MemWrite<Dist_SlotResource>]> {
  let summary = "Leaves a value in the slot for programs behind this one";
  let description = [{
        dist.keep %mask "passed:relu" : tensor<8x4xi1>
  }];
  let arguments = (ins AnyStaticShapeTensor:$value, StrAttr:$slot);
  let assemblyFormat = "$value $slot attr-dict `:` type($value)";
}

#endif // ASHLAR_DIALECTS_DIST_DIST_TRANSFERS_TD
