// SPDX-License-Identifier: Apache-2.0
//
// Enums of the dist dialect.

#ifndef ASHLAR_DIALECTS_DIST_DIST_ENUMS_TD
#define ASHLAR_DIALECTS_DIST_DIST_ENUMS_TD

include "mlir/IR/EnumAttr.td"

def Dist_EndKind : I32EnumAttr<"EndKind", "producer or consumer of a tensor", [
  I32EnumAttrCase<"Op", 0, "op">, I32EnumAttrCase<"Parameter", 1, "parameter">, I32EnumAttrCase<"State", 2, "state">,
  I32EnumAttrCase<"ParameterUpdate", 3, "parameter_update">, I32EnumAttrCase<"StateUpdate", 4, "state_update">,
  I32EnumAttrCase<"Gradient", 5, "gradient">, I32EnumAttrCase<"Input", 6, "input">, I32EnumAttrCase<"Output", 7, "output">]> {
  let cppNamespace = "::ashlar::dist";
  let genSpecializedAttr = 0;
}

def Dist_ReplicatedReason : I32EnumAttr<"ReplicatedReason", "why optimizer parallelism leaves a parameter replicated", [
  I32EnumAttrCase<"BelowThreshold", 0, "below_threshold">, I32EnumAttrCase<"OptedOut", 1, "opted_out">,
  I32EnumAttrCase<"NothingReplicated", 2, "nothing_replicated">, I32EnumAttrCase<"TooFewElements", 3, "too_few_elements">]> {
  let cppNamespace = "::ashlar::dist";
  let genSpecializedAttr = 0;
}

def Dist_FusionMode : I32EnumAttr<"FusionMode", "how collectives were fused", [
  I32EnumAttrCase<"Id", 0, "id">, I32EnumAttrCase<"Auto", 1, "auto">, I32EnumAttrCase<"Size", 2, "size">,
  I32EnumAttrCase<"Index", 3, "index">]> {
  let cppNamespace = "::ashlar::dist";
  let genSpecializedAttr = 0;
}

def Dist_StrategyKind : I32EnumAttr<"StrategyKind", "how a strategy was found", [
  I32EnumAttrCase<"Propagation", 0, "propagation">, I32EnumAttrCase<"DataParallel", 1, "data_parallel">,
  I32EnumAttrCase<"Search", 2, "search">, I32EnumAttrCase<"SearchWithoutLimit", 3, "search_without_limit">]> {
  let cppNamespace = "::ashlar::dist";
  let genSpecializedAttr = 0;
}

def Dist_RuleListKind : I32EnumAttr<"RuleListKind", "whether a list of rules can be shorter: no, none can be left out, not all was tried", [
  I32EnumAttrCase<"Shortest", 0, "shortest">, I32EnumAttrCase<"Minimal", 1, "minimal">, I32EnumAttrCase<"Enough", 2, "enough">]> {
  let cppNamespace = "::ashlar::dist";
  let genSpecializedAttr = 0;
}

def Dist_GradientSync : I32EnumAttr<"GradientSync", "when the devices add up their parts of the gradients of micro-batches", [
  I32EnumAttrCase<"Auto", 0, "auto">, I32EnumAttrCase<"Step", 1, "step">, I32EnumAttrCase<"MicroBatch", 2, "micro_batch">]> {
  let cppNamespace = "::ashlar::dist";
  let genSpecializedAttr = 0;
}

#endif // ASHLAR_DIALECTS_DIST_DIST_ENUMS_TD
