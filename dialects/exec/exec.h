// SPDX-License-Identifier: Apache-2.0
//
// C++ side of the exec dialect. The ops are defined in exec.td.

#ifndef ASHLAR_DIALECTS_EXEC_EXEC_H
#define ASHLAR_DIALECTS_EXEC_EXEC_H

#include "dialects/support/enums.h"
#include "dialects/support/op_interfaces.h"

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

// Returns whether a fusion of this kind is one call of a library or of the runtime, not a generated kernel.
inline bool isLibraryCall(FusionKind kind) {
  return kind == FusionKind::Gemm || kind == FusionKind::Conv || kind == FusionKind::Attention || kind == FusionKind::Insert;
}

// Whether a fusion of a kind is a generated nest of loops over the shape of its values, element by element.
inline bool isLoopNest(FusionKind kind) {
  return kind == FusionKind::Loop || kind == FusionKind::Rows || kind == FusionKind::Columns;
}

// Returns the type of the auxiliary tensor of a product of matrices (m, n): of relu a mask, a bit for each element in rows padded to 128
// bits, as bytes; of other activations the type of the product.
mlir::RankedTensorType getAuxiliaryType(Epilogue activation, mlir::RankedTensorType product);

// A buffer of an instruction. Only read: the bytes stay as they are. Only written: the old bytes do not matter.
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

// Attribute of a dist collective that an exec.await waits for: an OverlapAttr.
inline constexpr llvm::StringLiteral kOverlapAttr = "exec.overlap";

// Attributes of functions that become programs: the predicted time of one run on one device, and what it would be without collectives, in
// nanoseconds (i64).
inline constexpr llvm::StringLiteral kPredictedAttr = "exec.predicted_ns", kComputingAttr = "exec.computing_ns";

// Attribute of fusions and slices, and of their instructions: the predicted time of one run, in picoseconds (i64). Of functions that become
// programs, and of these: the rest of the predicted time, which is at their end.
inline constexpr llvm::StringLiteral kTimeAttr = "exec.time_ps";
inline constexpr llvm::StringLiteral kOtherTimeAttr = "exec.other_ps";

// Attributes of exec.collective: the messages that follow one another, and the bytes that a device sends (i64).
inline constexpr llvm::StringLiteral kMessagesAttr = "exec.messages";
inline constexpr llvm::StringLiteral kSentAttr = "exec.bytes_sent";

// Attributes of exec.variant: the costs along each axis of its mesh (#dist.costs), its hosts (#dist.hosts), the costs of messages from each
// stage to this one (#dist.costs), and the time of handing a collective over, in picoseconds (i64).
inline constexpr llvm::StringLiteral kLinksAttr = "exec.links";
inline constexpr llvm::StringLiteral kHostsAttr = "exec.hosts";
inline constexpr llvm::StringLiteral kStageLinksAttr = "exec.stage_links";
inline constexpr llvm::StringLiteral kHandOverAttr = "exec.hand_over_ps";

// Attribute of kernels' calls, products and copies that one device runs, and of tensors that one device holds: its number, row-major on the
// mesh (i64). Tensors of different owners may lie at the same place.
inline constexpr llvm::StringLiteral kOwnerAttr = "exec.owner";

// Returns the counts of the repeats around an instruction, outermost first.
llvm::SmallVector<int64_t> repeatsAround(mlir::Operation *instr);

// Returns how often it runs in a run of its program.
int64_t timesRun(mlir::Operation *instr);

// Returns the device that alone runs an instruction, or holds a tensor; nothing when all do.
std::optional<int64_t> getOwner(mlir::Operation *op);

} // namespace ashlar::exec

#endif // ASHLAR_DIALECTS_EXEC_EXEC_H
