// SPDX-License-Identifier: Apache-2.0
//
// Enums that several dialects share. Each dialect wraps them in an attribute of its own.

#ifndef ASHLAR_DIALECTS_SUPPORT_ENUMS_TD
#define ASHLAR_DIALECTS_SUPPORT_ENUMS_TD

include "mlir/IR/EnumAttr.td"

class Ashlar_Enum<string name, string enumSummary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, enumSummary, cases> {
  let cppNamespace = "::ashlar";
  let genSpecializedAttr = 0;
}

def Ashlar_Reduction : Ashlar_Enum<"Reduction", "how values combine: elements of one tensor, or of several devices",
                                   [I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">, I32EnumAttrCase<"Min", 2, "min">]>;

def Ashlar_CollectiveKind : Ashlar_Enum<"CollectiveKind", "kind of a step between two layouts; a slice needs no communication",
                                        [I32EnumAttrCase<"Slice", 0, "slice">, I32EnumAttrCase<"AllReduce", 1, "all_reduce">,
                                         I32EnumAttrCase<"ReduceScatter", 2, "reduce_scatter">,
                                         I32EnumAttrCase<"AllToAll", 3, "all_to_all">, I32EnumAttrCase<"AllGather", 4, "all_gather">,
                                         I32EnumAttrCase<"Permute", 5, "permute">, I32EnumAttrCase<"Broadcast", 6, "broadcast">,
                                         I32EnumAttrCase<"Halo", 7, "halo">]>;

#endif // ASHLAR_DIALECTS_SUPPORT_ENUMS_TD
