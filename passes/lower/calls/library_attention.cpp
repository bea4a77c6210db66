// SPDX-License-Identifier: Apache-2.0
//
// Fusions -> calls -> descriptors.

#include "passes/lower/calls/library_attention.h"

#include "passes/lower/calls/join_attention.h"

#include "dialects/exec/target_traits.h"
#include "dialects/support/tensor_values.h"
#include "runtime/abi/memory_sizes.h"

#include <array>

using namespace mlir;

namespace ashlar::lower {

namespace {

// How the library sees the dims of an attention: batch dims but the last are one, and the last is heads.
struct Sizes {
  int64_t batch, heads, rows, keys, width, columns;
};

Sizes sizesOf(RankedTensorType query, RankedTensorType key, RankedTensorType value) {
  ArrayRef<int64_t> shape = query.getShape(), batch = shape.drop_back(2);
  return {batch.empty() ? 1 : ShapedType::getNumElements(batch.drop_back()),
          batch.empty() ? 1 : batch.back(),
          shape.end()[-2],
          key.getShape().end()[-2],
          shape.back(),
          value.getShape().back()};
}

uint32_t dtypeOf(exec::BufferAttr buffer) {
  Type element = buffer.getType().getElementType();
  return element.isF32() ? ASHLAR_RT_F32 : element.isBF16() ? ASHLAR_RT_BF16 : element.isF16() ? ASHLAR_RT_F16 : ASHLAR_RT_BOOL;
}

} // namespace

std::optional<std::array<int64_t, 4>> maskStrides(RankedTensorType mask, RankedTensorType query) {
  ArrayRef<int64_t> shape = mask.getShape();
  auto stride = [&](int64_t fromEnd) { // of the dim with so many behind it
    bool isThere = static_cast<int64_t>(shape.size()) > fromEnd && shape[shape.size() - 1 - fromEnd] != 1;
    return isThere ? ShapedType::getNumElements(shape.take_back(fromEnd)) : 0;
  };
  ArrayRef<int64_t> outer = shape.drop_back(std::min<size_t>(shape.size(), 3));
  ArrayRef<int64_t> whole = query.getShape().drop_back(std::min<size_t>(shape.size(), 3));
  if (ShapedType::getNumElements(outer) != 1 && outer != whole) {
    return std::nullopt;
  }
  const int64_t ofBatch = ShapedType::getNumElements(outer) == 1 ? 0 : ShapedType::getNumElements(shape.take_back(3));
  return std::array<int64_t, 4>{ofBatch, stride(2), stride(1), stride(0)};
}

uint64_t attentionWorkspace(const ashlar_rt_attention_desc &desc, exec::Target target) {
  return exec::traitsOf(target).fixedWorkspace ? rt::deviceAttentionMemory(desc).bytes : rt::attentionWorkspaceBytes(desc);
}

uint64_t attentionWorkspace(Operation *op, exec::Target target) {
  auto bytesOf = [&](auto typed, uint32_t kind) {
    if (attentionKind(typed, target) != exec::FusionKind::Attention) {
      return uint64_t(0);
    }
    const Sizes sizes = sizesOf(typeOf(typed.getQuery()), typeOf(typed.getKey()), typeOf(typed.getValue()));
    ashlar_rt_attention_desc desc = {};
    desc.kind = kind;
    desc.batch = sizes.batch;
    desc.heads = desc.key_heads = sizes.heads;
    desc.rows = sizes.rows;
    desc.keys = sizes.keys;
    desc.width = sizes.width;
    desc.value_width = sizes.columns;
    desc.softcap = static_cast<float>(typed.getSoftcap().convertToDouble());
    return attentionWorkspace(desc, target);
  };
  if (auto forward = dyn_cast<nn::AttentionOp>(op)) {
    return bytesOf(forward, ASHLAR_RT_ATTENTION_FORWARD);
  }
  auto gradient = dyn_cast<nn::AttentionGradientOp>(op);
  return gradient ? bytesOf(gradient, ASHLAR_RT_ATTENTION_BACKWARD) : 0;
}

// The buffers come in the order of the descriptor: operands, results.
LogicalResult buildAttentionCall(const CallSite &site) {
  exec::FusionOp fusion = site.fusion;
  Block &body = fusion.getBody().front();
  SmallVector<Attribute> buffers;
  auto inside = exec::AttentionTensors::None;
  auto take = [&](Value operand, exec::AttentionTensors tensor) {
    Value read = withHeadsInside(operand);
    inside = inside | (read == operand ? exec::AttentionTensors::None : tensor);
    buffers.push_back(site.operands[cast<BlockArgument>(read).getArgNumber()]);
  };
  auto give = [&](Value result, exec::AttentionTensors tensor) {
    for (OpOperand &yielded : body.getTerminator()->getOpOperands()) {
      if (withHeadsInside(yielded.get()) == result) {
        inside = inside | (yielded.get() == result ? exec::AttentionTensors::None : tensor);
        buffers.push_back(site.results[yielded.getOperandNumber()]);
      }
    }
  };
  auto takeScores = [&](auto op) {
    take(op.getQuery(), exec::AttentionTensors::Q);
    take(op.getKey(), exec::AttentionTensors::K);
    take(op.getValue(), exec::AttentionTensors::V);
    if (Value mask = op.getMask()) {
      take(mask, exec::AttentionTensors::None);
    }
    llvm::for_each(op.getPositions(), [&](Value value) { take(value, exec::AttentionTensors::None); });
    llvm::for_each(op.getDraw(), [&](Value value) { take(value, exec::AttentionTensors::None); });
  };
  auto build = [&](auto op, bool backward) {
    RankedTensorType query = typeOf(op.getQuery());
    const Sizes sizes = sizesOf(query, typeOf(op.getKey()), typeOf(op.getValue()));
    DenseI64ArrayAttr strides = op.getMask() ? site.builder.getDenseI64ArrayAttr(*maskStrides(typeOf(op.getMask()), query)) : nullptr;
    exec::AttentionOp::create(site.builder, site.loc, backward, site.builder.getArrayAttr(buffers), sizes.batch, sizes.heads, sizes.rows,
                              sizes.keys, sizes.width, sizes.columns, op.getScale(), op.getCausal(), op.getDiagonal(), op.getWindow(),
                              op.getSoftcap(), strides, inside, op.getDropout(), !op.getPositions().empty());
    return success();
  };
  auto gradients = llvm::to_vector(body.getOps<nn::AttentionGradientOp>());
  auto attentions = llvm::to_vector(body.getOps<nn::AttentionOp>());
  if (gradients.size() == 3) {
    takeScores(gradients[0]);
    take(gradients[0].getOut(), exec::AttentionTensors::Out);
    take(gradients[0].getLogSum(), exec::AttentionTensors::None);
    take(gradients[0].getGradient(), exec::AttentionTensors::DOut);
    const exec::AttentionTensors given[] = {exec::AttentionTensors::DQ, exec::AttentionTensors::DK, exec::AttentionTensors::DV};
    for (auto [gradient, tensor] : llvm::zip_equal(gradients, given)) {
      give(gradient.getResult(), tensor);
    }
    return build(gradients[0], /*backward=*/true);
  }
  if (attentions.size() != 1) {
    return fusion.emitOpError("has no single attention");
  }
  takeScores(attentions[0]);
  give(attentions[0].getResult(), exec::AttentionTensors::Out);
  give(attentions[0].getLogSum(), exec::AttentionTensors::None);
  return build(attentions[0], /*backward=*/false);
}

ashlar_rt_attention_desc describeAttention(exec::AttentionOp call) {
  auto bufferAt = [&](unsigned i) { return cast<exec::BufferAttr>(call.getBuffers()[i]); };
  ashlar_rt_attention_desc desc = {};
  desc.kind = call.getBackward() ? ASHLAR_RT_ATTENTION_BACKWARD : ASHLAR_RT_ATTENTION_FORWARD;
  desc.dtype = dtypeOf(bufferAt(0));
  desc.batch = call.getBatch();
  desc.heads = desc.key_heads = call.getHeads();
  desc.rows = call.getRows();
  desc.keys = call.getKeys();
  desc.width = call.getWidth();
  desc.value_width = call.getColumns();
  desc.diagonal = static_cast<int64_t>(call.getDiagonal());
  desc.window = static_cast<int64_t>(call.getWindow());
  desc.softcap = static_cast<float>(call.getSoftcap().convertToDouble());
  desc.causal = call.getCausal();
  desc.heads_inside = static_cast<uint64_t>(call.getHeadsInside()); // the same bits
  if (std::optional<ArrayRef<int64_t>> strides = call.getMaskStrides()) {
    desc.mask = dtypeOf(bufferAt(3));
    llvm::copy(*strides, desc.mask_strides);
  }
  desc.scale = static_cast<float>(call.getScale().convertToDouble());
  desc.positions = call.getPositions();
  if (const double dropout = call.getDropout().convertToDouble(); dropout != 0) {
    desc.dropout = static_cast<float>(dropout);
    desc.kept = static_cast<float>(1 / (1 - dropout));
  }
  return desc;
}

} // namespace ashlar::lower
