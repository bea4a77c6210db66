// SPDX-License-Identifier: Apache-2.0
//
// What all instructions have in common, so that the image, the verifier and the runtime know alike what each of them touches.

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

#endif // ASHLAR_DIALECTS_EXEC_EXEC_INTERFACES_TD
