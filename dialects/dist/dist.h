// SPDX-License-Identifier: Apache-2.0
//
// C++ side of the dist dialect. The ops are defined in dist_ops.td.

#ifndef ASHLAR_DIALECTS_DIST_DIST_H
#define ASHLAR_DIALECTS_DIST_DIST_H

#include "dialects/dist/layout.h"
#include "dialects/dist/segments.h"
#include "dialects/support/enums.h"
#include "dialects/support/op_interfaces.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/dist/dist_dialect.h.inc"
#include "dialects/dist/dist_enums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/dist/dist_attrs.h.inc"

namespace ashlar::dist {

// The resource of ops on the slot of a micro-batch.
struct SlotResource : public mlir::SideEffects::Resource::Base<SlotResource> {
  llvm::StringRef getName() final { return "dist.slot"; }
};

// Attribute of variables, function arguments and results: where the tensor lives (LayoutAttr).
inline constexpr llvm::StringLiteral kLayoutAttr = "dist.layout";

// Attribute of ops on global shapes: the layout of each result (array of LayoutAttr).
inline constexpr llvm::StringLiteral kLayoutsAttr = "dist.layouts";

// Attribute of modules: the user's rules on layouts (array of RuleAttr).
inline constexpr llvm::StringLiteral kRulesAttr = "dist.rules";

// Attribute of modules: the user's rules on other attributes of parameters (array of SettingAttr).
inline constexpr llvm::StringLiteral kSettingsAttr = "dist.settings";

// Attributes of parameters that settings give: the fusion id, since collectives of parameters and gradients with equal ids are fused (i64;
// 0: never, absent: a mode may decide), and whether optimizer parallelism shards it, whatever its size (bool).
inline constexpr llvm::StringLiteral kCommFusionAttr = "dist.comm_fusion";
inline constexpr llvm::StringLiteral kOptimizerParallelAttr = "dist.optimizer_parallel";

// Attribute of modules: the rates of a device of the machine, a microsecond (DeviceAttr).
inline constexpr llvm::StringLiteral kDeviceAttr = "dist.device";

// Attribute of modules: the strategies that a search for layouts considered (SearchAttr).
inline constexpr llvm::StringLiteral kSearchAttr = "dist.search";

// Attributes beside a given layout: the dims to which inference may add axes (array of i64), and its priority (i64, 0 when absent; lower
// ones propagate first). On ops one a result: an array of arrays, and an array.
inline constexpr llvm::StringLiteral kOpenAttr = "dist.open";
inline constexpr llvm::StringLiteral kOpensAttr = "dist.opens";
inline constexpr llvm::StringLiteral kPriorityAttr = "dist.priority";
inline constexpr llvm::StringLiteral kPrioritiesAttr = "dist.priorities";

// Attribute of ops: axes that inference adds to the layout of the first result where they fit, when all that is given has propagated
// (LayoutAttr).
inline constexpr llvm::StringLiteral kSuggestedAttr = "dist.suggested";

// Attribute beside a layout: where it came from (array of OriginAttr; on ops an array of these, one a result, empty for a layout that
// splits nothing).
inline constexpr llvm::StringLiteral kOriginAttr = "dist.origin";
inline constexpr llvm::StringLiteral kOriginsAttr = "dist.origins";

// Attribute of ops on global shapes (unit): the op computes on the terms of a sum although that rounds, as the user asked.
inline constexpr llvm::StringLiteral kOnTermsAttr = "dist.on_terms";

// Attribute of ops on global shapes: the layouts in which the op is to take its operands (array, one an operand, unit for any).
inline constexpr llvm::StringLiteral kOperandLayoutsAttr = "dist.operand_layouts";

// Attribute of ops on global shapes, and of the collectives made from them: the model itself places its communication (hybrid mode), so
// the op computes in the layouts it carries, and no pass moves it or puts others in its place; equal ones are merged (unit).
inline constexpr llvm::StringLiteral kExplicitAttr = "dist.explicit";

// Whether the model gives the op layouts of its own, by one of the two.
bool isPlaced(mlir::Operation *op);

// Attribute of parameters that optimizer parallelism leaves replicated: why (ReplicatedAttr).
inline constexpr llvm::StringLiteral kReplicatedAttr = "dist.replicated";

// Attribute of an nn.read in the backward phase of a parameter that is gathered again there: not merged with the reads of the forward phase
// (unit).
inline constexpr llvm::StringLiteral kReadAgainAttr = "dist.read_again";

// Attribute, after partitioning, of variables that one device keeps and the others have no value of, and of ops whose operands one device
// needs, writes of such variables and broadcasts from it: its number (i64).
inline constexpr llvm::StringLiteral kOwnerAttr = "dist.owner";

// Attribute of variables, function arguments and results after partitioning: their type before it (TypeAttr).
inline constexpr llvm::StringLiteral kGlobalTypeAttr = "dist.global_type";

} // namespace ashlar::dist

#include "dialects/dist/dist_interfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/dist/dist_ops.h.inc"

namespace ashlar::dist {

// Returns the mesh of a module; null when it has none.
MeshOp findMesh(mlir::ModuleOp module);

// Attribute of modules (GradientSyncAttr): when the devices add up their parts of the gradients of micro-batches; absent: automatically.
inline constexpr llvm::StringLiteral kGradientSyncAttr = "dist.gradient_sync";
inline GradientSync gradientSync(mlir::ModuleOp module) {
  auto attribute = module->getAttrOfType<GradientSyncAttr>(kGradientSyncAttr);
  return attribute ? attribute.getValue() : GradientSync::Auto;
}

// Attribute of modules (TypeAttr): the element type in which parts of f32 gradients are added up over devices; absent: f32.
inline constexpr llvm::StringLiteral kGradientTypeAttr = "dist.gradient_type";

// Returns the layout of a value on global shapes: from kLayoutsAttr of the op that makes it or kLayoutAttr of the function argument; null
// when it has none.
LayoutAttr findLayout(mlir::Value value);

// Returns the axes of an `axes` attribute.
AxisList toAxisList(mlir::ArrayAttr axes);

// Returns an attribute of the axes.
mlir::ArrayAttr toAttr(mlir::MLIRContext *context, llvm::ArrayRef<mlir::StringAttr> axes);

// The largest count of bytes, at which counts saturate: a thousand of them can be added.
constexpr int64_t kMostBytes = INT64_MAX / 1024;

// Returns the bytes one rank sends in a collective of n ranks, by the ring (or, for all_to_all, pairwise) algorithm:
//   all_reduce 2 (n-1)/n bytes(x); reduce_scatter and all_to_all (n-1)/n bytes(x); all_gather (n-1) bytes(x); permute and broadcast
//   bytes(x); slice 0, with x the local operand. The traffic of a halo follows from its segments (segments.h) instead. Rounded up, so that
//   two collectives never seem to send less than the one that they replace; at most kMostBytes.
int64_t collectiveBytes(CollectiveKind kind, int64_t operandBytes, int64_t groupSize);

// Returns the bytes of so many elements along a dim of a halo's operand; at most kMostBytes.
int64_t haloBytes(mlir::RankedTensorType operand, int64_t dim, int64_t elements);

// Returns the bytes of all operands of `op`.
int64_t operandBytes(CollectiveOpInterface op);

// Returns the bytes one rank sends in `op`, of a halo the rank that sends most: as many as for each operand alone. Assumes the op lies in a
// module with a mesh.
int64_t collectiveBytes(CollectiveOpInterface op);

} // namespace ashlar::dist

#endif // ASHLAR_DIALECTS_DIST_DIST_H
