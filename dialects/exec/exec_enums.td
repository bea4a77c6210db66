// SPDX-License-Identifier: Apache-2.0
//
// Enums of the exec dialect.

#ifndef ASHLAR_DIALECTS_EXEC_EXEC_ENUMS_TD
#define ASHLAR_DIALECTS_EXEC_EXEC_ENUMS_TD

include "mlir/IR/EnumAttr.td"

class Exec_Enum<string name, string enumSummary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, enumSummary, cases> {
  let cppNamespace = "::ashlar::exec";
  let genSpecializedAttr = 0;
}

def Exec_FusionKind : Exec_Enum<"FusionKind", "code of a fusion", [
  I32EnumAttrCase<"Loop", 0, "loop">,       // one loop nest over the common shape of all results
  I32EnumAttrCase<"Rows", 1, "rows">,       // for each row: reductions over the row, then values that use them
  I32EnumAttrCase<"Columns", 2, "columns">, // reductions over dims that are not the innermost
  I32EnumAttrCase<"Gemm", 3, "gemm">,       // a library matrix product with its bias and activation
  I32EnumAttrCase<"Scatter", 4, "scatter">, // zeros, then rows of updates added up by number
  I32EnumAttrCase<"Conv", 5, "conv">,       // a library convolution, or a gradient of one, with its bias, residual and activation
  I32EnumAttrCase<"Attention", 6, "attention">, // a library attention, or the gradients of one
  I32EnumAttrCase<"AttentionKernel", 7, "attention_kernel">, // an attention, or gradients of one, whose scores are in registers
  I32EnumAttrCase<"Insert", 8, "insert"> // rows written into a tensor
]>;

def Exec_Space : Exec_Enum<"Space", "memory of a buffer", [
  I32EnumAttrCase<"Arena", 0, "arena">, I32EnumAttrCase<"Constant", 1, "constant">, I32EnumAttrCase<"Slot", 2, "slot">]>;

def Exec_Target : Exec_Enum<"Target", "target of the code", [I32EnumAttrCase<"Cpu", 0, "cpu">, I32EnumAttrCase<"Cuda", 1, "cuda">]>;

def Exec_Role : Exec_Enum<"Role", "role of a named tensor for the outside", [
  I32EnumAttrCase<"Variable", 0, "variable">, I32EnumAttrCase<"State", 1, "state">,
  I32EnumAttrCase<"Input", 2, "input">, I32EnumAttrCase<"Output", 3, "output">, I32EnumAttrCase<"Passed", 4, "passed">]>;

def Exec_Epilogue : Exec_Enum<"Epilogue", "activation applied by a library call", [
  I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Relu", 1, "relu">, I32EnumAttrCase<"GeluErf", 2, "gelu_erf">,
  I32EnumAttrCase<"GeluTanh", 3, "gelu_tanh">, I32EnumAttrCase<"Sigmoid", 4, "sigmoid">, I32EnumAttrCase<"Tanh", 5, "tanh">]>;

def Exec_AttentionTensors : I32BitEnumAttr<"AttentionTensors", "tensors of an attention", [
  I32BitEnumAttrCaseNone<"None", "none">, I32BitEnumAttrCaseBit<"Q", 0, "q">, I32BitEnumAttrCaseBit<"K", 1, "k">,
  I32BitEnumAttrCaseBit<"V", 2, "v">, I32BitEnumAttrCaseBit<"Out", 3, "out">, I32BitEnumAttrCaseBit<"DOut", 4, "d_out">,
  I32BitEnumAttrCaseBit<"DQ", 5, "d_q">, I32BitEnumAttrCaseBit<"DK", 6, "d_k">, I32BitEnumAttrCaseBit<"DV", 7, "d_v">]> {
  let cppNamespace = "::ashlar::exec";
  let genSpecializedAttr = 0;
  let separator = ", ";
}

def Exec_ConvKind : Exec_Enum<"ConvKind", "which of its tensors a convolution computes", [
  I32EnumAttrCase<"Forward", 0, "forward">, I32EnumAttrCase<"Data", 1, "data">, I32EnumAttrCase<"Weights", 2, "weights">]>;

def Exec_OperandSum : Exec_Enum<"OperandSum", "which operand of a matrix product is summed too, along the contraction", [
  I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Lhs", 1, "lhs">, I32EnumAttrCase<"Rhs", 2, "rhs">]>;

def Exec_Auxiliary : Exec_Enum<"Auxiliary", "use of the tensor from which an activation's gradient is computed, by a matrix product", [
  I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Written", 1, "written">, I32EnumAttrCase<"Read", 2, "read">]>;

#endif // ASHLAR_DIALECTS_EXEC_EXEC_ENUMS_TD
