// SPDX-License-Identifier: Apache-2.0
//
// Registration and verifiers of the exec dialect.

#include "dialects/exec/exec.h"

#include "dialects/support/element_type.h"
#include "dialects/support/number_list.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

#include "dialects/exec/exec_dialect.cpp.inc"
#include "dialects/exec/exec_enums.cpp.inc"
#include "dialects/exec/exec_interfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/exec/exec_attrs.cpp.inc"

namespace ashlar::exec {

// Buffers without brackets, so that one reads as one.
static ParseResult parseBuffers(OpAsmParser &parser, ArrayAttr &buffers) {
  SmallVector<Attribute> list;
  auto parseBuffer = [&]() -> ParseResult {
    BufferAttr buffer;
    ParseResult parsed = parser.parseCustomAttributeWithFallback(buffer);
    list.push_back(buffer);
    return parsed;
  };
  if (parser.parseCommaSeparatedList(parseBuffer)) {
    return failure();
  }
  buffers = parser.getBuilder().getArrayAttr(list);
  return success();
}

static void printBuffers(OpAsmPrinter &printer, Operation *, ArrayAttr buffers) {
  llvm::interleaveComma(buffers.getAsRange<BufferAttr>(), printer, [&](BufferAttr buffer) { printer.printStrippedAttrOrType(buffer); });
}

} // namespace ashlar::exec

#define GET_OP_CLASSES
#include "dialects/exec/exec_ops.cpp.inc"

namespace ashlar::exec {

void ExecDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/exec/exec_attrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/exec/exec_ops.cpp.inc"
      >();
}

BufferAttr BufferAttr::getSwept(ArrayRef<int64_t> counts) const {
  int64_t low = 0, high = 0;
  for (auto [stride, count] : llvm::zip(getStrides(), counts)) {
    low += std::min<int64_t>(stride * (count - 1), 0);
    high += std::max<int64_t>(stride * (count - 1), 0);
  }
  if (low == high) {
    return get(getContext(), getSpace(), getOffset(), getType());
  }
  constexpr int64_t kBits = 8;
  const int64_t bytes = static_cast<int64_t>(byteSize(getType())) + high - low;
  return get(getContext(), getSpace(), getOffset() + low, MemRefType::get({bytes}, IntegerType::get(getContext(), kBits)));
}

SmallVector<int64_t> repeatsAround(Operation *instr) {
  SmallVector<int64_t> counts;
  for (auto repeat = instr->getParentOfType<RepeatOp>(); repeat; repeat = repeat->getParentOfType<RepeatOp>()) {
    counts.push_back(repeat.getCount());
  }
  std::reverse(counts.begin(), counts.end());
  return counts;
}

int64_t timesRun(Operation *instr) {
  int64_t times = 1;
  for (int64_t count : repeatsAround(instr)) {
    times *= count;
  }
  return times;
}

SmallVector<BufferUse> RepeatOp::getUses() {
  SmallVector<BufferUse> uses;
  if (std::optional<BufferAttr> condition = getCondition()) {
    uses.push_back({*condition, /*isRead=*/true, /*isWritten=*/false});
  }
  return uses;
}

LogicalResult RepeatOp::verify() {
  if (const int64_t count = getCount(); count < 0) { // C1
    return emitOpError("runs ") << count << " times";
  }
  const std::optional<BufferAttr> condition = getCondition();
  if (condition && (condition->getType().getRank() != 0 || !condition->getType().getElementType().isInteger(1))) { // C2
    return emitOpError("has a condition of type ") << condition->getType() << ", not one bool";
  }
  return success();
}

std::optional<int64_t> getOwner(Operation *op) {
  auto owner = op->getAttrOfType<IntegerAttr>(kOwnerAttr);
  return owner ? std::optional(owner.getInt()) : std::nullopt;
}

LogicalResult FusionOp::verify() {
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes()) { // C1
    return emitOpError("has operands of types ") << getInputs().getTypes() << " but block arguments of types " << block.getArgumentTypes();
  }
  TypeRange yielded = block.getTerminator()->getOperandTypes();
  if (yielded != getOutputs().getTypes()) { // C2
    return emitOpError("yields types ") << yielded << " but has results of types " << getOutputs().getTypes();
  }
  return success();
}

LogicalResult ProductWithSumsOp::verify() {
  if (getSumOf() == OperandSum::None) { // C1
    return emitOpError("sums none of its operands; specify lhs or rhs");
  }
  auto shapeOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getShape(); };
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), rhs = shapeOf(getRhs());
  if (lhs.size() != 2 || rhs.size() != 2 || lhs[getTransposeA() ? 0 : 1] != rhs[getTransposeB() ? 1 : 0]) { // C2
    return emitOpError("cannot multiply [") << lhs << "] and [" << rhs << "]";
  }
  int64_t m = lhs[getTransposeA() ? 1 : 0], n = rhs[getTransposeB() ? 0 : 1];
  int64_t count = getSumOf() == OperandSum::Lhs ? m : n;
  if (shapeOf(getProduct()) != ArrayRef<int64_t>{m, n} || shapeOf(getSums()) != ArrayRef<int64_t>{count}) { // C2
    return emitOpError("has results of shapes [")
           << shapeOf(getProduct()) << "] and [" << shapeOf(getSums()) << "], needs [" << m << ", " << n << "] and [" << count << "]";
  }
  return success();
}

RankedTensorType getAuxiliaryType(Epilogue activation, RankedTensorType product) {
  constexpr int64_t kMaskColumns = 128, kBits = 8;
  if (activation != Epilogue::Relu) {
    return product;
  }
  const int64_t bytes = llvm::alignTo(product.getDimSize(1), kMaskColumns) / kBits;
  return RankedTensorType::get({product.getDimSize(0), bytes}, IntegerType::get(product.getContext(), kBits));
}

// Verifies what the products of an activation and of its slope have in common; `bias` may be null.
template <typename Op> static LogicalResult verifyActivated(Op op, Value bias) {
  Epilogue activation = op.getActivation();
  if (activation != Epilogue::Relu && activation != Epilogue::GeluTanh) { // C1
    return op.emitOpError("has the activation ") << stringifyEpilogue(activation) << ", needs relu or gelu_tanh";
  }
  auto typeOf = [](Value value) { return cast<RankedTensorType>(value.getType()); };
  ArrayRef<int64_t> lhs = typeOf(op.getLhs()).getShape(), rhs = typeOf(op.getRhs()).getShape();
  if (lhs.size() != 2 || rhs.size() != 2 || lhs[op.getTransposeA() ? 0 : 1] != rhs[op.getTransposeB() ? 1 : 0]) { // C2
    return op.emitOpError("cannot multiply [") << lhs << "] and [" << rhs << "]";
  }
  int64_t m = lhs[op.getTransposeA() ? 1 : 0], n = rhs[op.getTransposeB() ? 0 : 1];
  RankedTensorType product = typeOf(op.getProduct());
  if (product.getShape() != ArrayRef<int64_t>{m, n}) { // C2
    return op.emitOpError("has a product of shape [") << product.getShape() << "], needs [" << m << ", " << n << "]";
  }
  if (bias && typeOf(bias) != RankedTensorType::get({n}, product.getElementType())) { // C2
    return op.emitOpError("has a bias of type ") << bias.getType() << " for a product of type " << product;
  }
  if (RankedTensorType type = getAuxiliaryType(activation, product); typeOf(op.getAuxiliary()) != type) { // C3
    return op.emitOpError("has an auxiliary tensor of type ") << op.getAuxiliary().getType() << ", needs " << type;
  }
  return success();
}

LogicalResult ProductWithAuxiliaryOp::verify() {
  return verifyActivated(*this, getBias());
}

LogicalResult ProductWithSlopeOp::verify() {
  return verifyActivated(*this, /*bias=*/Value());
}

LogicalResult AwaitOp::verify() {
  Operation *collective = getStarted().empty() ? nullptr : getStarted().front().getDefiningOp();
  if (!collective || ResultRange(collective->getResults()) != getStarted()) { // C1
    return emitOpError("takes ") << getStarted().size() << " values, which are not the results of one collective";
  }
  if (!llvm::all_of(getStarted(), [](Value value) { return value.hasOneUse(); })) { // C1
    return emitOpError("waits for a collective whose results are used before they are there");
  }
  return success();
}

LogicalResult TensorOp::verify() {
  ArrayRef<int64_t> local = getBuffer().getType().getShape();
  if (getGlobalShape().size() != local.size() || getSplits().size() != local.size()) { // C1
    return emitOpError("has rank ") << local.size() << " but " << getGlobalShape().size() << " global sizes and " << getSplits().size()
                                    << " splits";
  }
  ArrayRef<int64_t> axisSizes = (*this)->getParentOfType<VariantOp>().getAxisSizes();
  for (auto [d, split] : llvm::enumerate(getSplits().getAsRange<DenseI64ArrayAttr>())) {
    int64_t expected = getGlobalShape()[d];
    for (int64_t axis : split.asArrayRef()) {
      if (axis < 0 || axis >= static_cast<int64_t>(axisSizes.size())) { // C1
        return emitOpError("dim ") << d << " is split by axis " << axis << " of a mesh with " << axisSizes.size() << " axes";
      }
      expected = llvm::divideCeil(expected, axisSizes[axis]);
    }
    if (local[d] != expected) { // C1
      return emitOpError("dim ") << d << " of global size " << getGlobalShape()[d] << " has pieces of size " << expected
                                 << " but local size " << local[d];
    }
  }
  if (getCounts() && getCounts()->size() != local.size()) { // C2
    return emitOpError("has rank ") << local.size() << " but " << getCounts()->size() << " counts";
  }
  return success();
}

LogicalResult KernelOp::verify() {
  int64_t count = getBuffers().size();
  SmallVector<bool> isUsed(count);
  for (int64_t index : llvm::concat<const int64_t>(getReads(), getWrites())) {
    if (index < 0 || index >= count) { // C1
      return emitOpError("lists a use of buffer ") << index << " but has " << count << " buffers";
    }
    isUsed[index] = true;
  }
  if (auto unused = llvm::find(isUsed, false); unused != isUsed.end()) { // C1
    return emitOpError("does not list its use of buffer ") << unused - isUsed.begin() << "; put it into reads or writes";
  }
  return success();
}

SmallVector<BufferUse> KernelOp::getUses() {
  SmallVector<BufferUse> uses;
  for (auto [i, buffer] : llvm::enumerate(getBuffers().getAsRange<BufferAttr>())) {
    int64_t index = i;
    uses.push_back({buffer, llvm::is_contained(getReads(), index), llvm::is_contained(getWrites(), index)});
  }
  return uses;
}

LogicalResult GemmOp::verify() {
  bool hasSums = getOperandSum() != OperandSum::None;
  size_t expected = getOutIndex() + 1 + hasSums + (getAuxiliary() == Auxiliary::Written);
  if (getBuffers().size() != expected) { // C1
    return emitOpError("has ") << getBuffers().size() << " buffers, needs " << expected;
  }
  if (hasSums && (getBatch() != 1 || getHasBias() || getEpilogue() != Epilogue::None)) { // C2
    return emitOpError("sums an operand, which it can only of one batch, with neither bias nor epilogue");
  }
  if (getAccumulate() && (getHasBias() || hasSums)) { // C3
    return emitOpError("accumulates, which it can only with neither bias nor sums");
  }
  if (getAuxiliary() != Auxiliary::None && (getBatch() != 1 || getEpilogue() == Epilogue::None || getAccumulate())) { // C4
    return emitOpError("has an auxiliary tensor, which it can only of one batch, with an epilogue, and when it does not accumulate");
  }
  if (getAuxiliary() == Auxiliary::Read && getHasBias()) { // C4
    return emitOpError("reads an auxiliary tensor, which it can only without bias");
  }
  return success();
}

BufferAttr GemmOp::getWeights() {
  return cast<BufferAttr>(getBuffers()[1]);
}

SmallVector<BufferUse> GemmOp::getUses() {
  SmallVector<BufferUse> uses;
  for (auto buffer : getBuffers().getAsRange<BufferAttr>()) {
    bool isOut = uses.size() >= getOutIndex();
    uses.push_back({buffer, /*isRead=*/!isOut || getAccumulate(), /*isWritten=*/isOut});
  }
  return uses;
}

LogicalResult ConvOp::verify() {
  size_t expected = 3 + getHasScale() + getHasBias() + getHasResidual();
  if (getBuffers().size() != expected) { // C1
    return emitOpError("has ") << getBuffers().size() << " buffers, needs " << expected;
  }
  if (getKind() == ConvKind::Weights && (getHasScale() || getHasBias() || getHasResidual() || getEpilogue() != Epilogue::None)) { // C2
    return emitOpError("computes weights, to which it can add neither scale, bias, residual nor epilogue");
  }
  if (getDims().empty() || getDims().size() > 3) { // C3
    return emitOpError("has ") << getDims().size() << " spatial dims, which are 1 to 3";
  }
  SmallVector<Type> types =
      llvm::map_to_vector(getBuffers().getAsRange<BufferAttr>(), [](BufferAttr buffer) { return Type(buffer.getType().getElementType()); });
  bool areSums = isNarrowFloat(types.front()) && types.back().isF32();
  for (auto [i, type] : llvm::enumerate(types)) {
    if (Type expected = i >= 2 && areSums ? types.back() : types.front(); type != expected) { // C4
      return emitOpError("has buffers of element types ") << expected << " and " << type;
    }
  }
  if (getKind() == ConvKind::Weights && (getFixedWeights() || getKeptWeights())) { // C5
    return emitOpError("computes weights that are marked as ") << (getFixedWeights() ? "fixed" : "kept");
  }
  return success();
}

BufferAttr ConvOp::getWeights() {
  return getKind() == ConvKind::Weights ? BufferAttr() : cast<BufferAttr>(getBuffers()[1]);
}

SmallVector<BufferUse> ConvOp::getUses() {
  SmallVector<BufferUse> uses;
  for (auto buffer : getBuffers().getAsRange<BufferAttr>()) {
    bool isOut = uses.size() + 1 == getBuffers().size();
    uses.push_back({buffer, /*isRead=*/!isOut, /*isWritten=*/isOut});
  }
  return uses;
}

LogicalResult AttentionOp::verify() {
  size_t expected = (getBackward() ? 9 : 5) + (getMaskStrides() ? 1 : 0) + (getDropout().isZero() ? 0 : 5) + (getPositions() ? 2 : 0);
  if (getBuffers().size() != expected) { // C1
    return emitOpError("has ") << getBuffers().size() << " buffers, needs " << expected;
  }
  if (getMaskStrides() && getMaskStrides()->size() != 4) { // C2
    return emitOpError("has ") << getMaskStrides()->size() << " strides of its mask, which are 4";
  }
  const auto ofForward = AttentionTensors::Q | AttentionTensors::K | AttentionTensors::V | AttentionTensors::Out;
  if (!getBackward() && bitEnumContainsAny(getHeadsInside(), ~ofForward)) { // C3
    return emitOpError("has heads inside rows of ")
           << stringifyAttentionTensors(getHeadsInside()) << ", of which it has " << stringifyAttentionTensors(ofForward);
  }
  return success();
}

SmallVector<BufferUse> AttentionOp::getUses() {
  SmallVector<BufferUse> uses;
  for (auto buffer : getBuffers().getAsRange<BufferAttr>()) {
    bool isOut = uses.size() + countResults() >= getBuffers().size();
    uses.push_back({buffer, /*isRead=*/!isOut, /*isWritten=*/isOut});
  }
  return uses;
}

LogicalResult InsertOp::verify() {
  if (getBuffers().size() != 3) { // C1
    return emitOpError("has ") << getBuffers().size() << " buffers, needs 3";
  }
  auto typeAt = [&](unsigned i) { return cast<BufferAttr>(getBuffers()[i]).getType(); };
  for (auto [buffer, rows] : {std::pair<unsigned, int64_t>(0, getRows()), {2, getPlaces()}}) {
    const int64_t expected = static_cast<int64_t>(getOuter() * getRowBytes()) * rows, bytes = byteSize(typeAt(buffer));
    if (bytes != expected) { // C2
      return emitOpError("has ") << bytes << " bytes in buffer " << buffer << ", needs " << expected;
    }
  }
  if (Type index = typeAt(1).getElementType(); typeAt(1).getRank() != 0 || !(index.isInteger(32) || index.isInteger(64))) { // C3
    return emitOpError("has an index of type ") << typeAt(1) << ", needs one i32 or i64";
  }
  return success();
}

SmallVector<BufferUse> InsertOp::getUses() {
  auto at = [&](unsigned i) { return cast<BufferAttr>(getBuffers()[i]); };
  return {{at(0), /*isRead=*/true, /*isWritten=*/false},
          {at(1), /*isRead=*/true, /*isWritten=*/false},
          {at(2), /*isRead=*/true, /*isWritten=*/true}};
}

LogicalResult CollectiveOp::verify() {
  size_t sources = getSources().size();
  if (sources == 0 || sources != getTargets().size() || sources != getSplitDims().size() || sources != getConcatDims().size()) { // C1
    return emitOpError("has ") << sources << " sources, " << getTargets().size() << " targets, " << getSplitDims().size() << " split and "
                               << getConcatDims().size() << " concat dims; one of each is needed for each source";
  }
  Type first = cast<BufferAttr>(getSources()[0]).getType().getElementType();
  for (Attribute buffer : llvm::concat<const Attribute>(getSources(), getTargets())) {
    if (Type type = cast<BufferAttr>(buffer).getType().getElementType(); type != first) { // C2
      return emitOpError("has buffers of element types ") << first << " and " << type;
    }
  }
  if (getToken().value_or(1) < 1 || (getOverlap() && !getToken())) { // C3
    return emitOpError("is asynchronous and needs a positive token");
  }
  size_t segments = getSegments().value_or(ArrayRef<int64_t>()).size(), expected = getKind() == CollectiveKind::Halo ? 9 : 0;
  if (segments != expected) { // C4
    return emitOpError("has ") << segments << " segments; " << stringifyCollectiveKind(getKind()) << " has " << expected;
  }
  for (auto buffer : llvm::concat<const Attribute>(getSources(), getTargets())) {
    if (!cast<BufferAttr>(buffer).getStrides().empty()) { // C5
      return emitOpError("has a buffer that moves, at offset ") << cast<BufferAttr>(buffer).getOffset();
    }
  }
  return success();
}

SmallVector<BufferUse> CollectiveOp::getUses() {
  SmallVector<BufferUse> uses;
  for (auto source : getSources().getAsRange<BufferAttr>()) {
    uses.push_back({source, /*isRead=*/true, /*isWritten=*/false});
  }
  for (auto target : getTargets().getAsRange<BufferAttr>()) {
    uses.push_back({target, /*isRead=*/false, /*isWritten=*/true});
  }
  return uses;
}

SmallVector<BufferUse> WaitOp::getUses() {
  return {};
}

SmallVector<BufferUse> CopyOp::getUses() {
  return {{getSource(), /*isRead=*/true, /*isWritten=*/false}, {getTarget(), /*isRead=*/false, /*isWritten=*/true}};
}

} // namespace ashlar::exec
