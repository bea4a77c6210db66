// SPDX-License-Identifier: Apache-2.0
//
// The grammar of a library convolution: each op is one part of it, and parts come in the order of their enum.

#include "passes/lower/calls/library_convolution.h"

#include "passes/lower/calls/epilogue.h"

#include "dialects/exec/target_traits.h"
#include "dialects/nn/windows/convolution.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include <optional>

using namespace mlir;

namespace ashlar::lower {

namespace {

enum class ConvolutionPart { None, Convolution, Scale, Bias, Residual, Activation };

// Returns which part the op can be.
ConvolutionPart partOf(Operation *op) {
  if (std::optional<nn::Convolution> conv = nn::Convolution::find(op)) {
    return ConvolutionPart::Convolution;
  }
  if (isa<nn::MulOp>(op)) {
    return llvm::any_of(op->getOperands(), [](Value operand) { return getBias(operand) != nullptr; }) ? ConvolutionPart::Scale
                                                                                                      : ConvolutionPart::None;
  }
  if (isa<nn::AddOp>(op)) {
    return llvm::any_of(op->getOperands(), [](Value operand) { return getBias(operand) != nullptr; }) ? ConvolutionPart::Bias
                                                                                                      : ConvolutionPart::Residual;
  }
  return epilogueOf(op) != exec::Epilogue::None ? ConvolutionPart::Activation : ConvolutionPart::None;
}

// What a fusion of kind conv computes, with its operands as numbers of the fusion's operands.
struct LibraryConvolution {
  std::optional<nn::Convolution> conv;
  SmallVector<unsigned, 5> operands; // of the convolution, then scale, bias and residual
  bool hasScale = false, hasBias = false, hasResidual = false;
  exec::Epilogue epilogue = exec::Epilogue::None;
};

// Notes an operand of the fusion; false when the value is none.
bool addOperand(LibraryConvolution &call, Value value) {
  auto argument = dyn_cast_if_present<BlockArgument>(value);
  if (argument) {
    call.operands.push_back(argument.getArgNumber());
  }
  return argument != nullptr;
}

// Notes one op of the body, behind `last`.
bool addPart(LibraryConvolution &call, Operation &op, Operation *last) {
  switch (partOf(&op)) {
  case ConvolutionPart::None:
    return false;
  case ConvolutionPart::Convolution:
    call.conv = nn::Convolution::find(&op);
    return addOperand(call, op.getOperand(0)) && addOperand(call, op.getOperand(1));
  case ConvolutionPart::Scale:
    call.hasScale = true;
    return addOperand(call, getBias(getFactor(&op, last)));
  case ConvolutionPart::Bias:
    call.hasBias = true;
    return addOperand(call, getBias(getAddend(&op, last)));
  case ConvolutionPart::Residual:
    call.hasResidual = true;
    return addOperand(call, getAddend(&op, last));
  case ConvolutionPart::Activation:
    call.epilogue = epilogueOf(&op);
    return true;
  }
  llvm_unreachable("unknown part");
}

// Reads the body of a fusion of kind conv.
FailureOr<LibraryConvolution> readConvolution(exec::FusionOp fusion) {
  LibraryConvolution call;
  Operation *last = nullptr;
  for (Operation &op : fusion.getBody().front().without_terminator()) {
    if (isa<nn::BroadcastOp>(op)) { // of a scale or bias
      continue;
    }
    bool isNext = last ? partOf(&op) > partOf(last) : partOf(&op) == ConvolutionPart::Convolution;
    if (!isNext || !addPart(call, op, last)) {
      return op.emitOpError("is not part of a convolution with scale, bias, residual and activation");
    }
    last = &op;
  }
  if (!call.conv || fusion.getNumResults() != 1) {
    return fusion.emitOpError("has no single convolution");
  }
  return call;
}

exec::ConvKind kindOf(nn::ConvolutionKind kind) {
  switch (kind) {
  case nn::ConvolutionKind::Forward:
    return exec::ConvKind::Forward;
  case nn::ConvolutionKind::Data:
    return exec::ConvKind::Data;
  case nn::ConvolutionKind::Weights:
    return exec::ConvKind::Weights;
  }
  llvm_unreachable("unknown convolution");
}

uint32_t numberOf(exec::ConvKind kind) {
  switch (kind) {
  case exec::ConvKind::Forward:
    return ASHLAR_RT_CONV_FORWARD;
  case exec::ConvKind::Data:
    return ASHLAR_RT_CONV_DATA;
  case exec::ConvKind::Weights:
    return ASHLAR_RT_CONV_WEIGHTS;
  }
  llvm_unreachable("unknown convolution");
}

ArrayAttr dimsOf(const nn::Convolution &conv) {
  SmallVector<Attribute> dims;
  for (int64_t i = 0; i < conv.spatialRank(); ++i) {
    nn::WindowAttr window = conv.window(i);
    int64_t in = shapeOf(conv.x)[conv.dimOf(i)], out = shapeOf(conv.y)[conv.dimOf(i)];
    dims.push_back(
        exec::ConvDimAttr::get(window.getContext(), in, out, window.getSize(), window.getStride(), window.getDilation(), window.getLow()));
  }
  return ArrayAttr::get(conv.windows.getContext(), dims);
}

} // namespace

bool isLibraryConvolution(Operation *op, exec::Target target) {
  std::optional<nn::Convolution> conv = nn::Convolution::find(op);
  if (!conv || !conv->format.channelsLast || conv->format.weightsLast != exec::traitsOf(target).weightsLast) {
    return false;
  }
  Type element = typeOf(op->getOperand(0)).getElementType();
  auto isEmpty = [](Type type) { return cast<RankedTensorType>(type).getNumElements() == 0; };
  return (element.isF32() || isNarrowFloat(element)) && llvm::none_of(op->getOperandTypes(), isEmpty) &&
         llvm::none_of(op->getResultTypes(), isEmpty);
}

bool takesOperands(const nn::Convolution &conv, exec::Target target) {
  const exec::TargetTraits &traits = exec::traitsOf(target);
  Type types[] = {typeOf(conv.x).getElementType(), typeOf(conv.weights).getElementType(), typeOf(conv.y).getElementType()};
  bool isOne = llvm::all_equal(types); // else the result, which is one of them, is f32
  return (isOne && types[0].isF32()) || (traits.convolvesNarrow && (isOne || traits.givesConvolvedSums));
}

bool beginsConvolution(Operation *op) {
  return nn::Convolution::find(op).has_value();
}

bool followsInConvolution(Operation *op, Operation *last, exec::Target target) {
  std::optional<nn::Convolution> conv = nn::Convolution::find(last);
  if (!exec::traitsOf(target).joinsConvolutions || (conv && conv->kind == nn::ConvolutionKind::Weights)) {
    return false;
  }
  ConvolutionPart part = partOf(op);
  bool isKnown = part != ConvolutionPart::Activation || llvm::is_contained(exec::traitsOf(target).activations, epilogueOf(op));
  return isKnown && part > ConvolutionPart::Convolution && part > partOf(last);
}

LogicalResult buildConvolutionCall(const CallSite &site) {
  FailureOr<LibraryConvolution> call = readConvolution(site.fusion);
  if (failed(call)) {
    return failure();
  }
  const nn::Convolution &conv = *call->conv;
  SmallVector<Attribute> buffers;
  for (unsigned operand : call->operands) {
    buffers.push_back(site.operands[operand]);
  }
  buffers.push_back(site.results.front());
  int64_t groups = conv.groups();
  exec::ConvOp::create(site.builder, site.loc, kindOf(conv.kind), site.builder.getArrayAttr(buffers), shapeOf(conv.x).front(), groups,
                       shapeOf(conv.x).back() / groups, shapeOf(conv.y).back() / groups, dimsOf(conv), call->hasScale, call->hasBias,
                       call->hasResidual, call->epilogue, site.allowTf32, /*fixed_weights=*/false, /*kept_weights=*/false);
  return success();
}

ashlar_rt_conv_desc describeConvolution(exec::ConvOp call) {
  ashlar_rt_conv_desc desc{numberOf(call.getKind()),
                           call.getHasScale(),
                           call.getHasBias(),
                           call.getHasResidual(),
                           numberOf(call.getEpilogue()),
                           call.getAllowTf32(),
                           numberOfWeights(call.getFixedWeights(), call.getKeptWeights()),
                           static_cast<uint32_t>(call.getDims().size()),
                           static_cast<int64_t>(call.getBatch()),
                           static_cast<int64_t>(call.getGroups()),
                           static_cast<int64_t>(call.getChannelsIn()),
                           static_cast<int64_t>(call.getChannelsOut()),
                           {},
                           narrowOf(cast<exec::BufferAttr>(call.getBuffers()[0])),
                           narrowOf(cast<exec::BufferAttr>(call.getBuffers()[call.getBuffers().size() - 1])) != 0};
  ashlar_rt_conv_dim *dim = desc.dims;
  for (size_t unused = call.getDims().size(); unused < std::size(desc.dims); ++unused) {
    *dim++ = {1, 1, 1, 1, 1, 0};
  }
  for (auto attr : call.getDims().getAsRange<exec::ConvDimAttr>()) {
    *dim++ = {attr.getIn(), attr.getOut(), attr.getKernel(), attr.getStride(), attr.getDilation(), attr.getLow()};
  }
  return desc;
}

} // namespace ashlar::lower
