// SPDX-License-Identifier: Apache-2.0
//
// Registration of the dist dialect and the helpers declared in dist.h.

#include "dialects/dist/dist.h"

#include "dialects/support/element_type.h"
#include "dialects/support/number_list.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;

#include "dialects/dist/dist_dialect.cpp.inc"
#include "dialects/dist/dist_interfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/dist/dist_ops.cpp.inc"

namespace ashlar::dist {

void DistDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialects/dist/dist_ops.cpp.inc"
      >();
}

MeshOp findMesh(ModuleOp module) {
  auto meshes = module.getOps<MeshOp>();
  return meshes.empty() ? MeshOp() : *meshes.begin();
}

LayoutAttr findLayout(Value value) {
  if (auto result = dyn_cast<OpResult>(value)) {
    auto layouts = result.getOwner()->getAttrOfType<ArrayAttr>(kLayoutsAttr);
    return layouts ? dyn_cast<LayoutAttr>(layouts[result.getResultNumber()]) : LayoutAttr();
  }
  auto argument = cast<BlockArgument>(value);
  auto function = dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return function ? function.getArgAttrOfType<LayoutAttr>(argument.getArgNumber(), kLayoutAttr) : LayoutAttr();
}

bool isPlaced(Operation *op) {
  return op->hasAttr(kExplicitAttr) || op->hasAttr(kOperandLayoutsAttr);
}

AxisList toAxisList(ArrayAttr axes) {
  return llvm::to_vector<2>(axes.getAsRange<StringAttr>());
}

ArrayAttr toAttr(MLIRContext *context, ArrayRef<StringAttr> axes) {
  return ArrayAttr::get(context, SmallVector<Attribute>(axes.begin(), axes.end()));
}

int64_t collectiveBytes(CollectiveKind kind, int64_t operandBytes, int64_t groupSize) {
  auto share = [&](__int128 bytes) { return (bytes * (groupSize - 1) + groupSize - 1) / groupSize; };
  auto count = [&]() -> __int128 {
    switch (kind) {
    case CollectiveKind::Slice:
      return 0;
    case CollectiveKind::AllReduce:
      return share(__int128(2) * operandBytes);
    case CollectiveKind::AllGather:
      return __int128(operandBytes) * (groupSize - 1);
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllToAll:
      return share(operandBytes);
    case CollectiveKind::Permute:
      return operandBytes;
    case CollectiveKind::Broadcast:
      return groupSize > 1 ? operandBytes : 0;
    case CollectiveKind::Halo:
      llvm_unreachable("the traffic of a halo follows from its segments");
    }
    llvm_unreachable("unknown collective");
  };
  return static_cast<int64_t>(std::min<__int128>(count(), kMostBytes));
}

int64_t operandBytes(CollectiveOpInterface op) {
  int64_t sum = 0;
  for (Type type : op->getOperandTypes()) {
    sum = std::min<__int128>(kMostBytes, __int128(sum) + byteSize(cast<ShapedType>(type)));
  }
  return sum;
}

int64_t haloBytes(RankedTensorType operand, int64_t dim, int64_t elements) {
  int64_t bytes = byteSize(operand), size = operand.getDimSize(dim);
  return static_cast<int64_t>(std::min<__int128>(__int128(elements) * (bytes / size), kMostBytes));
}

int64_t collectiveBytes(CollectiveOpInterface op) {
  if (auto halo = dyn_cast<HaloOp>(op.getOperation())) {
    return haloBytes(halo.getInput().getType(), halo.getDim(), haloTraffic(axisSizes(halo), haloOf(halo)).mostSent);
  }
  MeshAttr mesh = findMesh(op->getParentOfType<ModuleOp>()).getMesh();
  int64_t group = mesh.groupSize(toAxisList(op.getAxes())), sum = 0;
  for (Type type : op->getOperandTypes()) {
    sum = std::min(kMostBytes, sum + collectiveBytes(op.getCollectiveKind(), byteSize(cast<ShapedType>(type)), group));
  }
  return sum;
}

static int64_t bytesOf(TypedValue<RankedTensorType> value) {
  return static_cast<int64_t>(byteSize(value.getType()));
}

TypedValue<RankedTensorType> ReceiveOp::getSlotValue() {
  return cast<TypedValue<RankedTensorType>>(getResult());
}

SmallVector<PeerAttr> ReceiveOp::getPeers() {
  return {getFrom()};
}

int64_t ReceiveOp::getBytes() {
  return bytesOf(getSlotValue());
}

TypedValue<RankedTensorType> SendOp::getSlotValue() {
  return cast<TypedValue<RankedTensorType>>(getValue());
}

SmallVector<PeerAttr> SendOp::getPeers() {
  return llvm::to_vector(getTo().getAsRange<PeerAttr>());
}

int64_t SendOp::getBytes() {
  return bytesOf(getSlotValue());
}

TypedValue<RankedTensorType> TakeOp::getSlotValue() {
  return cast<TypedValue<RankedTensorType>>(getResult());
}

TypedValue<RankedTensorType> KeepOp::getSlotValue() {
  return cast<TypedValue<RankedTensorType>>(getValue());
}

} // namespace ashlar::dist
