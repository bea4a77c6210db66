// SPDX-License-Identifier: Apache-2.0
//
// The common interfaces of collectives, of ops on shards, and of what crosses the programs of a pipeline, for later passes, the report and
// the runtime.

#ifndef ASHLAR_DIALECTS_DIST_DIST_INTERFACES_TD
#define ASHLAR_DIALECTS_DIST_DIST_INTERFACES_TD

include "mlir/IR/OpBase.td"

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::ashlar::dist";
  let description = [{
    An op that moves data between the devices of a group: operands, one result for each, and the mesh axes that make the group. The group of
    a device is the set of devices that differ from it only along these axes, ordered by their coordinate along them (first axis major).
    There is one operand until collectives are fused; kinds that can be fused have a list.
  }];
  let methods = [
    InterfaceMethod<"Returns the kind of the collective.", "::ashlar::CollectiveKind", "getCollectiveKind", (ins)>,
    InterfaceMethod<"Returns the mesh axes of the group, major to minor, as strings.", "::mlir::ArrayAttr", "getAxes", (ins)>,
    InterfaceMethod<"Returns how elements combine; nothing for a collective that combines none.",
                    "std::optional<::ashlar::Reduction>", "getReductionKind", (ins), "",
                    [{ return std::nullopt; }]>,
    InterfaceMethod<"Returns the fusion that made this collective; null if it is not fused.", "::ashlar::dist::FusionAttr",
                    "getFusionAttr", (ins), "", [{ return {}; }]>,
    InterfaceMethod<"Returns its cause, as EndAttrs; null when not known.", "::mlir::ArrayAttr", "getCauseAttr", (ins)>,
    InterfaceMethod<"Sets its cause; null: not known.", "void", "setCauseAttr", (ins "::mlir::ArrayAttr":$cause)>
  ];
}

def ShardOpInterface : OpInterface<"ShardOpInterface"> {
  let cppNamespace = "::ashlar::dist";
  let description = [{
    An op on shards that gives parts of its results for parts of its operands, where all devices cut their shards alike. Its dims are written
    as factors, as in a sharding rule, which it is not: a layout shards global tensors.
  }];
  let methods = [
    InterfaceMethod<"Returns the factors of the shards; a dim along which elements change places has none.", "::ashlar::ShardingRule",
                    "getShardRule", (ins)>
  ];
}

def SlotOpInterface : OpInterface<"SlotOpInterface"> {
  let cppNamespace = "::ashlar::dist";
  let description = [{
    An op on one place of the slot of a micro-batch, which has a name: it gives the program the value there, or puts one there.
  }];
  let methods = [
    InterfaceMethod<"Returns the name of the place.", "::llvm::StringRef", "getSlot", (ins)>,
    InterfaceMethod<"Returns the value that it gives the program, or that it puts there.",
                    "::mlir::TypedValue<::mlir::RankedTensorType>", "getSlotValue", (ins)>,
    InterfaceMethod<"Whether it gives the program a value.", "bool", "isSource", (ins), "", [{ return $_op->getNumResults() > 0; }]>,
  ];
}

def TransferOpInterface : OpInterface<"TransferOpInterface", [SlotOpInterface]> {
  let cppNamespace = "::ashlar::dist";
  let description = [{
    One end of messages between stages: a source receives one, the other sends one to each peer. It is no collective: only two stages take
    part.
  }];
  let methods = [
    InterfaceMethod<"Returns the stage and channel of each message.", "::llvm::SmallVector<::ashlar::dist::PeerAttr>", "getPeers", (ins)>,
    InterfaceMethod<"Returns its cause, as EndAttrs: what makes the value, then what takes it; null when not known.", "::mlir::ArrayAttr",
                    "getCauseAttr", (ins)>,
    InterfaceMethod<"Returns the bytes of a message.", "int64_t", "getBytes", (ins)>,
  ];
}

#endif // ASHLAR_DIALECTS_DIST_DIST_INTERFACES_TD
