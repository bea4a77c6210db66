// SPDX-License-Identifier: Apache-2.0
//
// C++ side of the exec dialect. The ops are defined in exec.td.

#ifndef ASHLAR_DIALECTS_EXEC_EXEC_H
#define ASHLAR_DIALECTS_EXEC_EXEC_H

#include "dialects/support/enums.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/exec/exec_dialect.h.inc"
#include "dialects/exec/exec_enums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/exec/exec_attrs.h.inc"

namespace ashlar::exec {

// A buffer of an instruction. Only read: the bytes stay as they are. Only written: what the bytes were before does not matter.
struct BufferUse {
  BufferAttr buffer;
  bool isRead, isWritten;
};

} // namespace ashlar::exec

#include "dialects/exec/exec_interfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/exec/exec_ops.h.inc"

namespace ashlar::exec {

// Attributes of a kernel function: the length of its parallel loop, and the least part of it worth a thread.
inline constexpr llvm::StringLiteral kExtentAttr = "exec.extent";
inline constexpr llvm::StringLiteral kGrainAttr = "exec.grain";

} // namespace ashlar::exec

#endif // ASHLAR_DIALECTS_EXEC_EXEC_H
