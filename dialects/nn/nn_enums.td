// SPDX-License-Identifier: Apache-2.0
//
// Enums of the nn dialect.

#ifndef ASHLAR_DIALECTS_NN_NN_ENUMS_TD
#define ASHLAR_DIALECTS_NN_NN_ENUMS_TD

include "mlir/IR/EnumAttr.td"

class Nn_Enum<string name, string enumSummary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, enumSummary, cases> {
  let cppNamespace = "::ashlar::nn";
  let genSpecializedAttr = 0;
}

def Nn_Predicate : Nn_Enum<"Predicate", "comparison; with a NaN only `ne` holds", [
  I32EnumAttrCase<"Eq", 0, "eq">, I32EnumAttrCase<"Ne", 1, "ne">, I32EnumAttrCase<"Lt", 2, "lt">,
  I32EnumAttrCase<"Le", 3, "le">, I32EnumAttrCase<"Gt", 4, "gt">, I32EnumAttrCase<"Ge", 5, "ge">]>;

def Nn_Distribution : Nn_Enum<"Distribution", "distribution of random numbers", [
  I32EnumAttrCase<"Uniform", 0, "uniform">, I32EnumAttrCase<"Normal", 1, "normal">]>;

def Nn_AttentionOperand : Nn_Enum<"AttentionOperand", "operand of an attention that has a gradient", [
  I32EnumAttrCase<"Query", 0, "query">, I32EnumAttrCase<"Key", 1, "key">, I32EnumAttrCase<"Value", 2, "value">]>;

def Nn_ProgramRole : Nn_Enum<"ProgramRole", "task of a program in a model", [
  I32EnumAttrCase<"Init", 1, "init">, I32EnumAttrCase<"Run", 2, "run">, I32EnumAttrCase<"LargerRun", 3, "larger_run">,
  I32EnumAttrCase<"Prepare", 4, "prepare">, I32EnumAttrCase<"TrainStep", 5, "train_step">, I32EnumAttrCase<"Forward", 6, "forward">,
  I32EnumAttrCase<"Backward", 7, "backward">, I32EnumAttrCase<"Weights", 8, "weights">, I32EnumAttrCase<"Update", 9, "update">,
  I32EnumAttrCase<"EvalStep", 10, "eval_step">, I32EnumAttrCase<"Prefill", 11, "prefill">, I32EnumAttrCase<"Decode", 12, "decode">]>;

#endif // ASHLAR_DIALECTS_NN_NN_ENUMS_TD
