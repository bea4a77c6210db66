// SPDX-License-Identifier: Apache-2.0
//
// Verifiers of the dist ops and attributes; labels as in dist_ops.td and dist_transfers.td.

#include "dialects/dist/dist.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace ashlar::dist {

namespace {

// Returns a number from 0 to n - 1 that `numbers` lacks or has twice, n being how many there are; nothing when each is there once.
std::optional<int64_t> findUnpermuted(ArrayRef<int64_t> numbers) {
  SmallVector<int64_t> count(numbers.size());
  for (int64_t number : numbers) {
    if (number < 0 || number >= static_cast<int64_t>(numbers.size()) || ++count[number] > 1) {
      return number;
    }
  }
  return std::nullopt;
}

LogicalResult verifyPeer(Operation *op, PeerAttr peer) { // C1
  if (peer.getStage() < 0 || peer.getChannel() < 0) {
    return op->emitOpError("has the peer ") << peer << ", but stages and channels are numbered from 0";
  }
  return success();
}

} // namespace

LogicalResult MeshOp::verify() {
  if (auto module = dyn_cast_or_null<ModuleOp>((*this)->getParentOp())) {
    MeshOp first = findMesh(module);
    if (first != *this) { // C1
      InFlightDiagnostic diagnostic = emitOpError("is the second mesh of the module");
      diagnostic.attachNote(first.getLoc()) << "the first one is here";
      return diagnostic;
    }
  }
  if (std::optional<ArrayRef<int64_t>> ids = getDeviceIds()) {
    int64_t devices = getMesh().numDevices();
    if (static_cast<int64_t>(ids->size()) != devices) { // C2
      return emitOpError("has ") << ids->size() << " device_ids for " << devices << " devices";
    }
    if (std::optional<int64_t> wrong = findUnpermuted(*ids)) { // C2
      return emitOpError("has device_ids in which ") << *wrong << " is there twice or is not from 0 to " << devices - 1;
    }
  }
  if (getCosts() && getCosts()->getLatencyNs().size() != getMesh().getAxes().size()) { // C3
    return emitOpError("has ") << getMesh().getAxes().size() << " axes but costs of " << getCosts()->getLatencyNs().size();
  }
  return success();
}

namespace {

// Returns the mesh that an op refers to; null, with an error, when there is none.
MeshAttr getMesh(Operation *op) {
  auto module = op->getParentOfType<ModuleOp>();
  MeshOp mesh = module ? findMesh(module) : MeshOp();
  if (!mesh) {
    op->emitOpError("needs a dist.mesh in the module");
    return {};
  }
  return mesh.getMesh();
}

LogicalResult verifyInMesh(Operation *op, MeshAttr mesh, ArrayRef<StringAttr> axes) {
  for (StringAttr axis : axes) {
    if (!mesh.findAxis(axis)) {
      return op->emitOpError("names axis ") << axis << ", which is not in mesh " << mesh;
    }
  }
  return success();
}

// Returns the size of the group over `axes`; fails when they are no axes of the mesh, or twice the same (C1).
FailureOr<int64_t> verifyGroup(Operation *op, ArrayAttr attribute) {
  MeshAttr mesh = getMesh(op);
  AxisList axes = toAxisList(attribute);
  if (!mesh || failed(verifyInMesh(op, mesh, axes))) {
    return failure();
  }
  if (axes.empty()) {
    return op->emitOpError("has no axes");
  }
  llvm::SmallPtrSet<StringAttr, 4> seen;
  for (StringAttr axis : axes) {
    if (!seen.insert(axis).second) {
      return op->emitOpError("names axis ") << axis << " twice";
    }
  }
  return mesh.groupSize(axes);
}

LogicalResult verifyDim(Operation *op, StringRef name, int64_t dim, RankedTensorType type) {
  if (dim < 0 || dim >= type.getRank()) { // C2
    return op->emitOpError() << name << " " << dim << " is not within rank " << type.getRank();
  }
  return success();
}

// Checks that `large` is `factor` times `small` in `dim` and equal to it in the rest (C3).
LogicalResult verifyMultiple(Operation *op, RankedTensorType large, RankedTensorType small, int64_t dim, int64_t factor) {
  SmallVector<int64_t> expected(small.getShape());
  if (small.getRank() == large.getRank()) {
    expected[dim] *= factor;
  }
  if (large != small.clone(expected)) {
    return op->emitOpError("has types ") << large << " and " << small << ", which are not " << factor << " to 1 in dim " << dim
                                         << " and equal in the rest";
  }
  return success();
}

// Checks an op between whole tensors and their n pieces, each along one dim (C1, C2, C3).
LogicalResult verifyPieces(Operation *op, ArrayAttr axes, ArrayRef<int64_t> dims, ValueRange wholes, ValueRange pieces) {
  FailureOr<int64_t> size = verifyGroup(op, axes);
  if (failed(size)) {
    return failure();
  }
  for (auto [dim, whole, piece] : llvm::zip_equal(dims, wholes, pieces)) {
    auto wholeType = cast<RankedTensorType>(whole.getType()), pieceType = cast<RankedTensorType>(piece.getType());
    if (failed(verifyDim(op, "dim", dim, pieceType)) || failed(verifyMultiple(op, wholeType, pieceType, dim, *size))) {
      return failure();
    }
  }
  return success();
}

// Checks that an op has operands, of one element type.
LogicalResult verifyList(Operation *op) {
  if (op->getNumOperands() == 0) {
    return op->emitOpError("has no operand");
  }
  Type first = getElementTypeOrSelf(op->getOperand(0));
  for (Type type : op->getOperandTypes()) {
    if (getElementTypeOrSelf(type) != first) {
      return op->emitOpError("has operands of element types ") << first << " and " << getElementTypeOrSelf(type);
    }
  }
  return success();
}

// Checks the lists of an op with a dim for each operand (C4).
template <typename OpTy> LogicalResult verifyDimList(OpTy op) {
  size_t inputs = op.getInputs().size();
  if (inputs != op.getOutputs().size() || inputs != op.getDims().size()) {
    return op.emitOpError("has ") << inputs << " operands, " << op.getOutputs().size() << " results and " << op.getDims().size() << " dims";
  }
  return verifyList(op);
}

} // namespace

LogicalResult RedistributeOp::verify() {
  int64_t rank = cast<RankedTensorType>(getType()).getRank();
  MeshAttr mesh = getMesh(*this);
  if (!mesh) {
    return failure();
  }
  for (LayoutAttr layout : {getFrom(), getTo()}) {
    if (layout.getRank() != rank) { // C1
      return emitOpError("has a layout of rank ") << layout.getRank() << " for a tensor of rank " << rank;
    }
    Layout value = layout.getLayout();
    for (const AxisList &axes : value.dims) {
      if (failed(verifyInMesh(*this, mesh, axes))) { // C2
        return failure();
      }
    }
    if (failed(verifyInMesh(*this, mesh, value.partial))) { // C2
      return failure();
    }
  }
  Layout from = getFrom().getLayout(), to = getTo().getLayout();
  for (StringAttr axis : to.partial) {
    if (!llvm::is_contained(from.partial, axis) || from.reduction != to.reduction) { // C3
      return emitOpError("makes the value partial (") << stringifyReduction(to.reduction) << ") over " << axis;
    }
  }
  return success();
}

LogicalResult AllReduceOp::verify() {
  return failed(verifyList(*this)) ? failure() : LogicalResult(verifyGroup(*this, getAxes()));
}

LogicalResult AllGatherOp::verify() {
  return failed(verifyDimList(*this)) ? failure() : verifyPieces(*this, getAxes(), getDims(), getOutputs(), getInputs());
}

LogicalResult ReduceScatterOp::verify() {
  return failed(verifyDimList(*this)) ? failure() : verifyPieces(*this, getAxes(), getDims(), getInputs(), getOutputs());
}

LogicalResult BroadcastOp::verify() {
  FailureOr<int64_t> size = verifyGroup(*this, getAxes());
  if (failed(size)) {
    return failure();
  }
  int64_t root = getRoot();
  if (root < 0 || root >= *size) { // C2
    return emitOpError("has root ") << root << " in groups of " << *size << " devices";
  }
  return success();
}

LogicalResult SliceOp::verify() {
  int64_t dim = getDim();
  return verifyPieces(*this, getAxes(), dim, getInput(), getResult());
}

LogicalResult AxisIndexOp::verify() {
  return verifyGroup(*this, getAxes());
}

LogicalResult HaloOp::verify() {
  auto from = cast<RankedTensorType>(getInput().getType()), to = cast<RankedTensorType>(getType());
  int64_t dim = getDim(), size = getSize();
  if (failed(verifyGroup(*this, getAxes())) || failed(verifyDim(*this, "dim", dim, from))) {
    return failure();
  }
  Segments held = getFrom().getSegments(), needed = getTo().getSegments();
  if (!holdsAll(haloOf(*this))) { // C3
    return emitOpError("has a dim of size ") << size << " in segments " << getFrom() << ", which are no blocks that hold all of it";
  }
  SmallVector<int64_t> sizes = axisSizes(*this), expected(from.getShape());
  expected[dim] = segmentLength(sizes, needed);
  if (from.getDimSize(dim) != segmentLength(sizes, held) || to != from.clone(expected)) { // C4
    return emitOpError("takes ") << from << " to " << to << " but the segments of dim " << dim << " are " << segmentLength(sizes, held)
                                 << " and " << expected[dim] << " elements long";
  }
  return success();
}

LogicalResult AllToAllOp::verify() {
  FailureOr<int64_t> size = verifyGroup(*this, getAxes());
  auto from = cast<RankedTensorType>(getInput().getType()), to = cast<RankedTensorType>(getType());
  if (failed(size) || failed(verifyDim(*this, "split_dim", getSplitDim(), from)) ||
      failed(verifyDim(*this, "concat_dim", getConcatDim(), from))) {
    return failure();
  }
  if (getSplitDim() == getConcatDim()) { // C2
    return emitOpError("splits and concatenates the same dim ") << getSplitDim();
  }
  SmallVector<int64_t> expected(from.getShape());
  expected[getConcatDim()] *= *size;
  if (expected[getSplitDim()] % *size != 0 || (expected[getSplitDim()] /= *size, to != from.clone(expected))) { // C3
    return emitOpError("takes ") << from << " to " << to << ", which is not 1 to " << *size << " in dim " << getSplitDim() << " and "
                                 << *size << " to 1 in dim " << getConcatDim();
  }
  return success();
}

LogicalResult PermuteOp::verify() {
  FailureOr<int64_t> size = verifyGroup(*this, getAxes());
  if (failed(size)) {
    return failure();
  }
  if (static_cast<int64_t>(getSources().size()) != *size) { // C2
    return emitOpError("has ") << getSources().size() << " sources for a group of " << *size;
  }
  if (std::optional<int64_t> wrong = findUnpermuted(getSources())) { // C2
    return emitOpError("has sources in which ") << *wrong << " is there twice or is not from 0 to " << *size - 1;
  }
  return success();
}

// Checks dist.layouts: one layout a result, each of the rank of its result.
static LogicalResult verifyLayouts(Operation *op, Attribute attribute) {
  auto layouts = dyn_cast<ArrayAttr>(attribute);
  if (!layouts || layouts.size() != op->getNumResults()) {
    return op->emitOpError("has ") << op->getNumResults() << " results but " << kLayoutsAttr << " is " << attribute;
  }
  for (auto [result, value] : llvm::zip_equal(op->getResults(), layouts)) {
    auto layout = dyn_cast<LayoutAttr>(value);
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!layout || !type || layout.getRank() != type.getRank()) {
      return op->emitOpError("has a result of type ") << result.getType() << " with layout " << value;
    }
  }
  return success();
}

// Checks dist.owner: the number of a device of the mesh.
static LogicalResult verifyOwner(Operation *op, Attribute attribute) {
  MeshAttr mesh = getMesh(op);
  auto owner = dyn_cast<IntegerAttr>(attribute);
  if (!mesh) {
    return failure();
  }
  if (!owner || !owner.getType().isInteger(64) || owner.getInt() < 0 || owner.getInt() >= mesh.numDevices()) {
    return op->emitOpError("has ") << kOwnerAttr << " " << attribute << ", not an i64 from 0 to " << mesh.numDevices() - 1;
  }
  return success();
}

// Returns true for an array of `count` attributes of the given kinds.
template <typename... Kinds> static bool isArrayOf(Attribute attribute, size_t count) {
  auto array = dyn_cast<ArrayAttr>(attribute);
  return array && array.size() == count && llvm::all_of(array, [](Attribute element) { return isa<Kinds...>(element); });
}

// Checks the attributes that ops on global shapes carry, one element a result or operand.
LogicalResult DistDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  Attribute value = attribute.getValue();
  if (name == kLayoutsAttr) {
    return verifyLayouts(op, value);
  }
  if (name == kCommFusionAttr) {
    auto id = dyn_cast<IntegerAttr>(value);
    return id && id.getType().isInteger(64) && id.getInt() >= 0 ? success()
                                                                : op->emitOpError("has ") << name << " " << value << ", not an i64 >= 0";
  }
  if (name == kSearchAttr) {
    return isa<SearchAttr>(value) ? success() : op->emitOpError("has ") << name << " " << value << ", not a #dist.search";
  }
  if (name == kSuggestedAttr) {
    auto layout = dyn_cast<LayoutAttr>(value);
    auto type = op->getNumResults() > 0 ? dyn_cast<RankedTensorType>(op->getResult(0).getType()) : RankedTensorType();
    const bool fits = layout && type && static_cast<int64_t>(layout.getLayout().dims.size()) == type.getRank();
    return fits ? success() : op->emitOpError("has ") << name << " " << value << ", not a #dist.layout of its first result";
  }
  if (name == kGradientTypeAttr) {
    auto type = dyn_cast<TypeAttr>(value);
    return type && isa<FloatType>(type.getValue()) ? success()
                                                   : op->emitOpError("has ") << name << " " << value << ", not a type of floats";
  }
  if (name == kOwnerAttr) {
    return verifyOwner(op, value);
  }
  auto numbers = dyn_cast<DenseI64ArrayAttr>(value);
  size_t results = op->getNumResults(), operands = op->getNumOperands();
  bool isGood = name == kOpensAttr            ? isArrayOf<DenseI64ArrayAttr>(value, results)
                : name == kOriginsAttr        ? isArrayOf<ArrayAttr>(value, results)
                : name == kPrioritiesAttr     ? numbers && static_cast<size_t>(numbers.size()) == results
                : name == kOperandLayoutsAttr ? isArrayOf<LayoutAttr, UnitAttr>(value, operands)
                                              : true;
  return isGood ? success()
                : op->emitOpError("has ") << operands << " operands and " << results << " results but " << name << " is " << value;
}

LogicalResult ReceiveOp::verify() {
  return verifyPeer(*this, getFrom());
}

LogicalResult SendOp::verify() {
  SmallVector<int64_t> stages;
  for (PeerAttr peer : getPeers()) {
    if (failed(verifyPeer(*this, peer))) {
      return failure();
    }
    if (llvm::is_contained(stages, peer.getStage())) { // C2
      return emitOpError("sends \"") << getSlot() << "\" to stage " << peer.getStage() << " twice";
    }
    stages.push_back(peer.getStage());
  }
  if (stages.empty()) { // C2
    return emitOpError("sends \"") << getSlot() << "\" to no stage; use dist.keep for what stays in its stage";
  }
  return success();
}

} // namespace ashlar::dist
