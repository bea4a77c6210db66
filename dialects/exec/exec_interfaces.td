// SPDX-License-Identifier: Apache-2.0
//
// The common interface of instructions: image, verifier and runtime read from it the buffers that each one uses.

#ifndef ASHLAR_DIALECTS_EXEC_EXEC_INTERFACES_TD
#define ASHLAR_DIALECTS_EXEC_EXEC_INTERFACES_TD

include "mlir/IR/OpBase.td"

def InstrOpInterface : OpInterface<"InstrOpInterface"> {
  let cppNamespace = "::ashlar::exec";
  let description = [{An op of a program. It touches nothing but its buffers.}];
  let methods = [
    InterfaceMethod<"Returns the buffers in the order of the ABI, and how the instruction uses each.",
                    "::llvm::SmallVector<::ashlar::exec::BufferUse>", "getUses", (ins)>
  ];
}

def FixedWeightsOpInterface : OpInterface<"FixedWeightsOpInterface"> {
  let cppNamespace = "::ashlar::exec";
  let description = [{
    A call that reads weights in an order of its own. Fixed weights are a variable or constants that no program of the variant but @init
    writes, so that the runtime orders them once and not in every run. Kept weights are the same in all iterations of the innermost repeat
    around the call, so that it orders them when the repeat begins.
  }];
  let methods = [
    InterfaceMethod<"Returns the weights; null where the call has none that can be fixed.", "::ashlar::exec::BufferAttr", "getWeights",
                    (ins)>,
    InterfaceMethod<"Returns whether they are fixed.", "bool", "getFixedWeights", (ins)>,
    InterfaceMethod<"Sets whether they are fixed.", "void", "setFixedWeights", (ins "bool":$fixed)>,
    InterfaceMethod<"Returns whether they are kept.", "bool", "getKeptWeights", (ins)>,
    InterfaceMethod<"Sets whether they are kept.", "void", "setKeptWeights", (ins "bool":$kept)>
  ];
}

#endif // ASHLAR_DIALECTS_EXEC_EXEC_INTERFACES_TD
