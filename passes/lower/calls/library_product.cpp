// SPDX-License-Identifier: Apache-2.0
//
// The grammar of a library product: each op is one part of it, and parts come in the order of their enum.

#include "passes/lower/calls/library_product.h"

#include "passes/lower/calls/epilogue.h"

#include "dialects/dist/dist.h"
#include "dialects/exec/target_traits.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"
#include "runtime/abi/memory_sizes.h"

#include "llvm/ADT/TypeSwitch.h"

#include <optional>

using namespace mlir;

namespace ashlar::lower {

namespace {

enum class ProductPart { None, Product, Conversion, Addend, Activation };

// Returns which part the op can be where a target has `traits`; null: where any target has it.
ProductPart partOf(Operation *op, const exec::TargetTraits *traits) {
  if (isa<nn::MatMulOp>(op)) {
    return ProductPart::Product;
  }
  if (auto cast = dyn_cast<nn::CastOp>(op)) {
    return cast.getType().getElementType().isF32() && (!traits || traits->takesNarrow) ? ProductPart::Conversion : ProductPart::None;
  }
  if (op->getNumResults() != 1 || !isa<FloatType>(typeOf(op->getResult(0)).getElementType())) {
    return ProductPart::None; // sums of integers stand alone
  }
  if (isa<nn::AddOp>(op)) {
    return ProductPart::Addend;
  }
  exec::Epilogue epilogue = epilogueOf(op);
  bool isKnown = epilogue != exec::Epilogue::None && (!traits || llvm::is_contained(traits->activations, epilogue));
  return isKnown ? ProductPart::Activation : ProductPart::None;
}

// What a fusion of kind gemm computes, with its operands as numbers of the fusion's operands.
struct LibraryProduct {
  Value product;
  unsigned lhs = 0, rhs = 0;
  bool transposeA = false, transposeB = false;
  exec::OperandSum sumOf = exec::OperandSum::None;
  exec::Auxiliary auxiliary = exec::Auxiliary::None;
  std::optional<unsigned> bias, accumulator, auxiliaryRead;
  exec::Epilogue epilogue = exec::Epilogue::None;

  unsigned numResults() const { return 1 + (sumOf != exec::OperandSum::None) + (auxiliary == exec::Auxiliary::Written); }
};

// Notes the product of a fusion; false when there is one already, or it reads anything but the fusion's operands.
template <typename Op> bool setProduct(LibraryProduct &call, Op op, Value product) {
  auto lhs = dyn_cast<BlockArgument>(op.getLhs()), rhs = dyn_cast<BlockArgument>(op.getRhs());
  if (call.product || !lhs || !rhs) {
    return false;
  }
  call.product = product;
  call.lhs = lhs.getArgNumber();
  call.rhs = rhs.getArgNumber();
  call.transposeA = op.getTransposeA();
  call.transposeB = op.getTransposeB();
  return true;
}

// Notes an operand of the fusion; false when it is anything else. None is fine.
bool setOperand(std::optional<unsigned> &number, Value value) {
  auto operand = dyn_cast_if_present<BlockArgument>(value);
  number = operand ? std::optional(operand.getArgNumber()) : std::nullopt;
  return operand || !value;
}

// Notes an op that is a call of its own; nothing when it is none.
std::optional<bool> addWhole(LibraryProduct &call, Operation &op) {
  return llvm::TypeSwitch<Operation *, std::optional<bool>>(&op)
      .Case([&](exec::ProductWithSumsOp both) {
        call.sumOf = both.getSumOf();
        return setProduct(call, both, both.getProduct());
      })
      .Case([&](exec::ProductWithAuxiliaryOp both) {
        call.epilogue = both.getActivation();
        call.auxiliary = exec::Auxiliary::Written;
        return setProduct(call, both, both.getProduct()) && setOperand(call.bias, both.getBias());
      })
      .Case([&](exec::ProductWithSlopeOp product) {
        call.epilogue = product.getActivation();
        call.auxiliary = exec::Auxiliary::Read;
        return setProduct(call, product, product.getProduct()) && setOperand(call.auxiliaryRead, product.getAuxiliary());
      })
      .Default([](Operation *) { return std::nullopt; });
}

// Notes one op of the body; `last` is the part before it.
bool addPart(LibraryProduct &call, Operation &op, ProductPart &last) {
  if (std::optional<bool> fits = addWhole(call, op)) {
    return *fits;
  }
  if (auto product = dyn_cast<nn::MatMulOp>(op)) {
    last = ProductPart::Product;
    return setProduct(call, product, product.getResult());
  }
  if (isa<nn::BroadcastOp>(op)) {
    auto bias = dyn_cast_if_present<BlockArgument>(getBias(op.getResult(0)));
    if (call.bias || !bias) {
      return false;
    }
    call.bias = bias.getArgNumber();
    return true;
  }
  ProductPart part = partOf(&op, /*traits=*/nullptr);
  bool isNext = part > last && last != ProductPart::None;
  last = part;
  if (part == ProductPart::Activation) {
    call.epilogue = epilogueOf(&op);
  }
  for (Value operand : part == ProductPart::Addend ? op.getOperands() : ValueRange()) {
    if (auto accumulator = dyn_cast<BlockArgument>(operand)) {
      call.accumulator = accumulator.getArgNumber();
    }
  }
  return isNext;
}

// Reads the body of a fusion of kind gemm.
FailureOr<LibraryProduct> readProduct(exec::FusionOp fusion) {
  LibraryProduct call;
  ProductPart last = ProductPart::None;
  for (Operation &op : fusion.getBody().front().without_terminator()) {
    if (!addPart(call, op, last)) {
      return op.emitOpError("is not part of a matrix product with bias and activation");
    }
  }
  if (!call.product || fusion.getNumResults() != call.numResults()) {
    return fusion.emitOpError("has no single matrix product");
  }
  return call;
}

// Returns which operands of a product of integers are signed; 0 of any other.
uint32_t bytesOf(exec::GemmOp call) {
  auto isByte = [&](unsigned i) { return cast<exec::BufferAttr>(call.getBuffers()[i]).getType().getElementType().isInteger(8); };
  auto isUnsigned = [&](unsigned i) { return cast<exec::BufferAttr>(call.getBuffers()[i]).getType().getElementType().isUnsignedInteger(); };
  if (!isByte(0)) {
    return 0;
  }
  return ASHLAR_RT_BYTES | (isUnsigned(0) ? 0 : ASHLAR_RT_SIGNED_A) | (isUnsigned(1) ? 0 : ASHLAR_RT_SIGNED_B);
}

// Without a default: a new case does not compile until it has a number here.
uint32_t numberOf(exec::OperandSum sum) {
  switch (sum) {
  case exec::OperandSum::None:
    return ASHLAR_RT_SUM_OF_NONE;
  case exec::OperandSum::Lhs:
    return ASHLAR_RT_SUM_OF_A;
  case exec::OperandSum::Rhs:
    return ASHLAR_RT_SUM_OF_B;
  }
  llvm_unreachable("unknown operand");
}

uint32_t numberOf(exec::Auxiliary auxiliary) {
  switch (auxiliary) {
  case exec::Auxiliary::None:
    return ASHLAR_RT_AUXILIARY_NONE;
  case exec::Auxiliary::Written:
    return ASHLAR_RT_AUXILIARY_WRITTEN;
  case exec::Auxiliary::Read:
    return ASHLAR_RT_AUXILIARY_READ;
  }
  llvm_unreachable("unknown use of an auxiliary tensor");
}

// Returns the elements of a row of the auxiliary tensor, of a mask bits; 0 without one.
uint32_t auxiliaryRowOf(exec::GemmOp call) {
  if (call.getAuxiliary() == exec::Auxiliary::None) {
    return 0;
  }
  constexpr uint32_t kBits = 8;
  Attribute buffer =
      call.getBuffers()[call.getAuxiliary() == exec::Auxiliary::Read ? call.getOutIndex() - 1 : call.getBuffers().size() - 1];
  MemRefType type = cast<exec::BufferAttr>(buffer).getType();
  return static_cast<uint32_t>(type.getShape().back()) * (type.getElementType().isInteger(kBits) ? kBits : 1);
}

} // namespace

bool isLibraryProduct(nn::MatMulOp op, int64_t leastFlops, exec::Target target) {
  RankedTensorType type = op.getType();
  Type element = op.getLhs().getType().getElementType();
  int64_t k = op.getLhs().getType().getShape().end()[op.getTransposeA() ? -2 : -1];
  bool isKnown = element.isF32() || isNarrowFloat(element) || (element.isInteger(8) && exec::traitsOf(target).takesBytes);
  return isKnown && type.getNumElements() * k >= leastFlops;
}

bool takesOperands(nn::MatMulOp op, exec::Target target) {
  return !isNarrowFloat(op.getLhs().getType().getElementType()) || exec::traitsOf(target).takesNarrow;
}

bool beginsProduct(Operation *op) {
  return isa<nn::MatMulOp, exec::ProductWithAuxiliaryOp, exec::ProductWithSlopeOp, exec::ProductWithSumsOp>(op);
}

// Returns whether kernels alone read a conversion to f32: they convert for themselves, and half of the bytes are moved.
static bool isReadByKernels(nn::CastOp conversion) {
  return llvm::all_of(conversion->getUsers(), [&](Operation *user) {
    bool isPart = partOf(user, /*traits=*/nullptr) > ProductPart::Conversion;
    Value addend = isPart ? getAddend(user, conversion) : Value();
    bool isInKernel = user->hasTrait<OpTrait::Elementwise>() || isa<nn::ReduceOp>(user);
    return isInKernel && (!isPart || (addend && !getBias(addend) && !accumulatesIn(addend)));
  });
}

bool followsInProduct(Operation *op, Operation *last, exec::Target target) {
  if (auto conversion = dyn_cast<nn::CastOp>(op); conversion && isReadByKernels(conversion)) {
    return false;
  }
  ProductPart before =
      isa<nn::CastOp>(last) ? ProductPart::Conversion : partOf(last, &exec::traitsOf(target)); // of any type: it may be seen reshaped
  return before != ProductPart::None && partOf(op, &exec::traitsOf(target)) > before;
}

bool accumulatesIn(Value tensor) {
  Operation *maker = tensor.getDefiningOp();
  auto readsIt = [](OpOperand &use) { return !isa<dist::AfterOp>(use.getOwner()) || use.getOperandNumber() == 0; };
  return typeOf(tensor).getElementType().isF32() && maker && maker->getNumOperands() > 0 && // it is no constant, and no variable
         llvm::count_if(tensor.getUses(), readsIt) == 1;
}

bool isAccumulator(exec::FusionOp fusion, unsigned operand) {
  FailureOr<LibraryProduct> call = readProduct(fusion);
  return succeeded(call) && call->accumulator == operand;
}

bool isPartOfProduct(Operation *op, exec::Target target) {
  return partOf(op, &exec::traitsOf(target)) > ProductPart::Product;
}

LogicalResult buildProductCall(const CallSite &site) {
  exec::FusionOp fusion = site.fusion;
  FailureOr<LibraryProduct> call = readProduct(fusion);
  if (failed(call)) {
    return failure();
  }
  SmallVector<Attribute> buffers = {site.operands[call->lhs], site.operands[call->rhs]};
  if (call->bias) {
    buffers.push_back(site.operands[*call->bias]);
  }
  if (call->auxiliaryRead) {
    buffers.push_back(site.operands[*call->auxiliaryRead]);
  }
  llvm::append_range(buffers, site.results);
  RankedTensorType lhs = typeOf(fusion.getInputs()[call->lhs]);
  ArrayRef<int64_t> matrix = lhs.getShape().take_back(2), out = shapeOf(call->product);
  int64_t batch = ShapedType::getNumElements(out.drop_back(2));
  if (call->accumulator && site.operands[*call->accumulator] != site.results.front()) {
    exec::CopyOp::create(site.builder, site.loc, site.operands[*call->accumulator], site.results.front());
  }
  exec::GemmOp::create(site.builder, site.loc, site.builder.getArrayAttr(buffers), batch, out[out.size() - 2], out.back(),
                       matrix[call->transposeA ? 0 : 1], call->transposeA, call->transposeB, call->bias.has_value(),
                       call->accumulator.has_value(), call->epilogue, call->sumOf, call->auxiliary,
                       site.allowTf32 && lhs.getElementType().isF32(), /*fixed_weights=*/false, /*kept_weights=*/false);
  return success();
}

ashlar_rt_gemm_desc describeProduct(exec::GemmOp call) {
  auto narrowAt = [&](unsigned i) { return narrowOf(cast<exec::BufferAttr>(call.getBuffers()[i])); };
  return {static_cast<int64_t>(call.getBatch()),
          static_cast<int64_t>(call.getM()),
          static_cast<int64_t>(call.getN()),
          static_cast<int64_t>(call.getK()),
          call.getTransposeA(),
          call.getTransposeB(),
          call.getHasBias()      ? ASHLAR_RT_ADDEND_BIAS
          : call.getAccumulate() ? ASHLAR_RT_ADDEND_OUT
                                 : ASHLAR_RT_ADDEND_NONE,
          numberOf(call.getEpilogue()),
          numberOf(call.getOperandSum()),
          call.getAllowTf32(),
          numberOfWeights(call.getFixedWeights(), call.getKeptWeights()),
          bytesOf(call),
          narrowAt(0),
          narrowAt(call.getOutIndex()) != 0,
          numberOf(call.getAuxiliary()),
          auxiliaryRowOf(call)};
}

uint64_t productWorkspace(nn::MatMulOp op) {
  Type element = op.getLhs().getType().getElementType();
  ArrayRef<int64_t> out = op.getType().getShape();
  ashlar_rt_gemm_desc desc = {};
  desc.m = out.end()[-2];
  desc.n = out.back();
  desc.k = op.getLhs().getType().getShape().end()[op.getTransposeA() ? -2 : -1];
  desc.bytes = element.isInteger(8) ? ASHLAR_RT_BYTES : 0;
  desc.narrow = isNarrowFloat(element) ? ASHLAR_RT_BF16 : 0; // f16 takes as much
  desc.narrow_out = isNarrowFloat(op.getType().getElementType());
  return rt::productWorkspaceBytes(desc);
}

} // namespace ashlar::lower
