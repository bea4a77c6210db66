// SPDX-License-Identifier: Apache-2.0
//
// Enums of the cut into stages.

#ifndef ASHLAR_PASSES_STAGE_STAGE_ENUMS_TD
#define ASHLAR_PASSES_STAGE_STAGE_ENUMS_TD

include "mlir/IR/EnumAttr.td"

def Stage_Schedule : I32EnumAttr<"Schedule", "order in which stages run their phases; names as in job.proto", [
  I32EnumAttrCase<"GPipe", 0, "GPIPE">, I32EnumAttrCase<"OneFOneB", 1, "ONE_F_ONE_B">, I32EnumAttrCase<"Interleaved", 2, "INTERLEAVED">,
  I32EnumAttrCase<"ZeroBubble", 3, "ZERO_BUBBLE">]> {
  let cppNamespace = "::ashlar::stage";
  let genSpecializedAttr = 0;
}

#endif // ASHLAR_PASSES_STAGE_STAGE_ENUMS_TD
