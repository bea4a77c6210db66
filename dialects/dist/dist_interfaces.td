// SPDX-License-Identifier: Apache-2.0
//
// What all collectives have in common, so that later passes, the report and the runtime treat them alike.

#ifndef ASHLAR_DIALECTS_DIST_DIST_INTERFACES_TD
#define ASHLAR_DIALECTS_DIST_DIST_INTERFACES_TD

include "mlir/IR/OpBase.td"

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::ashlar::dist";
  let description = [{
    An op that moves data between the devices of a group: operands, one result for each, and the mesh axes that make the group. A device's
    group are the devices that differ from it only along these axes, ordered by their coordinate along them (first axis major). There is one
    operand until collectives are fused; the kinds that are have a list.
  }];
  let methods = [
    InterfaceMethod<"Returns which collective it is.", "::ashlar::CollectiveKind", "getCollectiveKind", (ins)>,
    InterfaceMethod<"Returns the mesh axes of the group, major to minor, as strings.", "::mlir::ArrayAttr", "getAxes", (ins)>,
    InterfaceMethod<"Returns how elements combine; nothing for a collective that combines none.",
                    "std::optional<::ashlar::Reduction>", "getReductionKind", (ins), "",
                    [{ return std::nullopt; }]>,
    InterfaceMethod<"Returns which collectives were made this one; null for one that is alone.", "::ashlar::dist::FusionAttr",
                    "getFusionAttr", (ins), "", [{ return {}; }]>,
    InterfaceMethod<"Returns what made it necessary, as EndAttrs; null when not known.", "::mlir::ArrayAttr", "getCauseAttr", (ins)>,
    InterfaceMethod<"Says what made it necessary; null: not known.", "void", "setCauseAttr", (ins "::mlir::ArrayAttr":$cause)>
  ];
}

#endif // ASHLAR_DIALECTS_DIST_DIST_INTERFACES_TD
