// SPDX-License-Identifier: Apache-2.0
//
// Enums of the search for layouts.

#ifndef ASHLAR_PASSES_SEARCH_SEARCH_ENUMS_TD
#define ASHLAR_PASSES_SEARCH_SEARCH_ENUMS_TD

include "mlir/IR/EnumAttr.td"

def Search_Method : I32EnumAttr<"Method", "how the decision graph is solved", [
  I32EnumAttrCase<"DynamicProgramming", 0, "dp">, I32EnumAttrCase<"IntegerProgram", 1, "ilp">]> {
  let cppNamespace = "::ashlar::search";
  let genSpecializedAttr = 0;
}

#endif // ASHLAR_PASSES_SEARCH_SEARCH_ENUMS_TD
