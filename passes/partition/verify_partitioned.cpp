// SPDX-License-Identifier: Apache-2.0
//
// ashlar-verify-partitioned: the border after passes/partition.

#include "dialects/dist/owners.h"
#include "dialects/nn/nn.h"
#include "passes/partition/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ashlar::partition {

#define GEN_PASS_DEF_VERIFYPARTITIONEDPASS
#include "passes/partition/passes.h.inc"

namespace {

// Checks that `type` is what a device holds of the global type under the layout.
LogicalResult verifyLocal(Operation *op, const Twine &what, dist::MeshAttr mesh, Type type, Attribute layoutAttribute,
                          Attribute globalAttribute) {
  auto layout = dyn_cast_or_null<dist::LayoutAttr>(layoutAttribute);
  auto typeAttribute = dyn_cast_or_null<TypeAttr>(globalAttribute);
  auto global = typeAttribute ? dyn_cast<RankedTensorType>(typeAttribute.getValue()) : RankedTensorType();
  if (!layout || !global) {
    return op->emitOpError() << what << " has no " << (layout ? dist::kGlobalTypeAttr : dist::kLayoutAttr);
  }
  if (layout.getRank() != global.getRank() || dist::localType(mesh, global, layout.getLayout()) != type) {
    return op->emitOpError() << what << " has type " << type << ", which is not a device's shard of " << global << " under " << layout;
  }
  return success();
}

LogicalResult verifyFunction(func::FuncOp function, dist::MeshAttr mesh) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (failed(verifyLocal(function, "argument " + Twine(i), mesh, function.getArgumentTypes()[i],
                           function.getArgAttr(i, dist::kLayoutAttr), function.getArgAttr(i, dist::kGlobalTypeAttr)))) {
      return failure();
    }
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    if (failed(verifyLocal(function, "result " + Twine(i), mesh, function.getResultTypes()[i], function.getResultAttr(i, dist::kLayoutAttr),
                           function.getResultAttr(i, dist::kGlobalTypeAttr)))) {
      return failure();
    }
  }
  WalkResult result = function.walk([](Operation *op) {
    if (isa<dist::RedistributeOp>(op) || op->hasAttr(dist::kLayoutsAttr)) {
      op->emitOpError("is still on global shapes");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

// Checks that nothing but its owner reads or writes what one device keeps.
LogicalResult verifyOwners(func::FuncOp function, const SymbolTable &symbols) {
  dist::Owners owners(function.front());
  for (Operation &op : function.front()) {
    auto read = dyn_cast<nn::ReadOp>(op);
    auto write = dyn_cast<nn::WriteOp>(op);
    if (!read && !write) {
      continue;
    }
    StringRef name = read ? read.getVariable() : write.getVariable();
    std::optional<int64_t> owner = dist::getOwner(symbols.lookup(name));
    bool isGood = read ? !owner || llvm::all_of(op.getUsers(), [&](Operation *user) { return owners.takerOf(user) == owner; })
                       : dist::getOwner(&op) == owner;
    if (!isGood) {
      return op.emitOpError(read ? "reads @" : "writes @")
             << name << (owner ? ", which one device keeps, for others, too" : ", which all devices keep, for one");
    }
  }
  return success();
}

struct VerifyPartitioned : impl::VerifyPartitionedPassBase<VerifyPartitioned> {
  using VerifyPartitionedPassBase::VerifyPartitionedPassBase;

  void runOnOperation() override {
    dist::MeshOp mesh = dist::findMesh(getOperation());
    if (!mesh) {
      getOperation().emitError("has no dist.mesh; run ashlar-seed-layouts first");
      return signalPassFailure();
    }
    for (auto variable : getOperation().getOps<nn::VariableOp>()) {
      if (failed(verifyLocal(variable, "variable", mesh.getMesh(), variable.getTensorType(), variable->getAttr(dist::kLayoutAttr),
                             variable->getAttr(dist::kGlobalTypeAttr)))) {
        return signalPassFailure();
      }
    }
    SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (failed(verifyFunction(function, mesh.getMesh())) || failed(verifyOwners(function, symbols))) {
        return signalPassFailure();
      }
    }
    markAllAnalysesPreserved();
  }
};

} // namespace

} // namespace ashlar::partition
