// SPDX-License-Identifier: Apache-2.0
//
// The common interface of collectives, for later passes, the report and the runtime.

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

#endif // ASHLAR_DIALECTS_DIST_DIST_INTERFACES_TD
