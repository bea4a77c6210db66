// SPDX-License-Identifier: Apache-2.0
//
// Pairs of ops -> calls -> descriptors.

#include "passes/lower/calls/library_attention.h"

#include "dialects/exec/target_traits.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"
#include "runtime/abi/memory_sizes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

#include <array>
#include <map>
#include <vector>

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

// Returns the elements from one batch, head, row and key of a mask to the next, 0 along dims of size 1; nothing where batch dims but the
// last are not one: some of them are repeated.
std::optional<std::array<int64_t, 4>> stridesOf(RankedTensorType mask, RankedTensorType query) {
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

// Whether an index has one row, for all of the batch.
bool isOfAll(Value index) {
  return ShapedType::getNumElements(shapeOf(index).drop_back()) == 1;
}

// Whether the library takes the numbers of rows and keys: positions for all of the batch, and of a dropout for each row and for all keys.
template <typename Op> bool numbersAsTaken(Op op) {
  const bool draws = op.getDraw().empty() || (isOfAll(op.getDraw()[1]) && shapeOf(op.getDraw()[0]) == shapeOf(op.getLogSum()));
  return draws && llvm::all_of(op.getPositions(), isOfAll);
}

// Whether positions are those of all rows and keys, which a causal op counts by itself.
bool countFrom0(OperandRange positions) {
  return !positions.empty() && llvm::all_of(positions, [](Value position) {
    auto index = position.getDefiningOp<nn::IndexOp>();
    return index && index.getStrides().back() == 1 &&
           llvm::all_of(index.getStrides().drop_back(), [](int64_t stride) { return stride == 0; });
  });
}

// Whether the library takes an op; `others`: tensors besides query, key and value that have to be of their type.
template <typename Op> bool takesOp(Op op, TypeRange others, exec::Target target) {
  RankedTensorType query = typeOf(op.getQuery());
  exec::AttentionForm form;
  form.mask = op.getMask() ? typeOf(op.getMask()) : RankedTensorType();
  form.diagonal = op.getCausal() ? std::optional(static_cast<int64_t>(op.getDiagonal())) : std::nullopt;
  form.window = static_cast<int64_t>(op.getWindow());
  form.softcap = op.getSoftcap().convertToDouble();
  form.drops = !op.getDraw().empty();
  form.shifts = !op.getPositions().empty();
  const bool areAlike =
      llvm::all_of(others, [&](Type type) { return cast<RankedTensorType>(type).getElementType() == query.getElementType(); });
  return areAlike && typeOf(op.getLogSum()).getElementType().isF32() && (!form.mask || stridesOf(form.mask, query)) && numbersAsTaken(op) &&
         exec::takesAttention(target, query, typeOf(op.getKey()), typeOf(op.getValue()), form);
}

// Whether two ops have the same scores.
bool haveSameScores(nn::AttentionLogSumOp a, nn::AttentionOp b) {
  return a.getQuery() == b.getQuery() && a.getKey() == b.getKey() && a.getMask() == b.getMask() && a.getScale() == b.getScale() &&
         a.getCausal() == b.getCausal() && a.getDiagonal() == b.getDiagonal() && a.getWindow() == b.getWindow() &&
         a.getSoftcap() == b.getSoftcap() && llvm::equal(a.getPositions(), b.getPositions());
}

bool takes(nn::AttentionOp op, exec::Target target) {
  return takesOp(op, TypeRange(op->getResultTypes()), target);
}

bool takes(nn::AttentionGradientOp op, exec::Target target) {
  Type others[] = {op.getOut().getType(), op.getGradient().getType(), op.getType()};
  return takesOp(op, others, target);
}

// The permutation from (..., rows, heads, columns) to (..., heads, rows, columns), and back; none of fewer dims.
SmallVector<int64_t> headsSwapped(RankedTensorType type) {
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  if (order.size() >= 3) {
    std::swap(order.end()[-3], order.end()[-2]);
  }
  return order;
}

// Returns the transpose that swaps heads and rows; null: the op is none.
nn::TransposeOp asSwap(Operation *op) {
  auto transpose = dyn_cast_if_present<nn::TransposeOp>(op);
  const bool swaps = transpose && typeOf(transpose.getInput()).getRank() >= 3 &&
                     transpose.getPermutation() == ArrayRef<int64_t>(headsSwapped(typeOf(transpose.getInput())));
  return swaps ? transpose : nn::TransposeOp();
}

// Returns the tensor of the call's operands, or of its body, that has a tensor's values with their heads inside their rows; the tensor
// itself where there is none.
Value withHeadsInside(Value tensor) {
  nn::TransposeOp swap = asSwap(tensor.getDefiningOp());
  return swap ? swap.getInput() : tensor;
}

// Whether the library reads an operand with its heads inside its rows, too: masks, log-sum-exps and indices have no columns.
bool mayHaveHeadsInside(OpOperand &operand) {
  const unsigned number = operand.getOperandNumber();
  auto isMask = [&](auto op) { return op.getMask() && op.getMaskMutable().begin()->getOperandNumber() == number; };
  auto isNumber = [&](auto op) {
    const unsigned count = op.getPositions().size();
    return count != 0 && number - op.getPositionsMutable().begin()->getOperandNumber() < count;
  };
  auto isDrawn = [&](auto op) { return !op.getDraw().empty() && op.getDrawMutable().begin()->getOperandNumber() <= number; };
  return llvm::TypeSwitch<Operation *, bool>(operand.getOwner())
      .Case<nn::AttentionOp, nn::AttentionGradientOp>(
          [&](auto op) { return !isMask(op) && !isNumber(op) && !isDrawn(op) && op.getLogSumMutable().getOperandNumber() != number; })
      .Case<nn::AttentionLogSumOp>([&](auto op) { return !isMask(op) && !isNumber(op); })
      .Default(false);
}

// Moves the transposes of an operand's heads into the call.
void moveSwapInside(exec::FusionOp call, OpOperand &operand) {
  nn::TransposeOp swap = asSwap(operand.get().getDefiningOp());
  BlockArgument inside = call.getBody().getArgument(operand.getOperandNumber());
  if (!swap || !llvm::all_of(inside.getUses(), mayHaveHeadsInside)) {
    return;
  }
  OpBuilder builder = OpBuilder::atBlockBegin(&call.getBody().front());
  auto again = nn::TransposeOp::create(builder, swap.getLoc(), inside.getType(), inside, swap.getPermutation());
  inside.replaceAllUsesExcept(again, again);
  inside.setType(swap.getInput().getType());
  operand.set(swap.getInput());
  if (swap.use_empty()) {
    swap.erase();
  }
}

// Moves the transposes of a result's heads into the call; who reads it as it was gets it by a transpose back.
void moveSwapInside(exec::FusionOp call, OpResult result) {
  if (!llvm::any_of(result.getUsers(), asSwap)) {
    return;
  }
  auto yield = cast<exec::YieldOp>(call.getBody().front().getTerminator());
  OpOperand &inside = yield->getOpOperand(result.getResultNumber());
  const SmallVector<int64_t> order = headsSwapped(typeOf(result));
  OpBuilder builder(yield);
  inside.set(nn::TransposeOp::create(builder, call.getLoc(), inside.get(), order));
  RankedTensorType before = typeOf(result);
  result.setType(inside.get().getType());
  Value back;
  for (OpOperand &use : llvm::make_early_inc_range(result.getUses())) {
    if (nn::TransposeOp swap = asSwap(use.getOwner())) {
      swap.replaceAllUsesWith(Value(result));
      swap.erase();
      continue;
    }
    if (!back) {
      builder.setInsertionPointAfter(call);
      back = nn::TransposeOp::create(builder, call.getLoc(), before, result, order);
    }
    use.set(back);
  }
}

// Makes a call of ops that read nothing but what is outside, where the last one stands; all their results are the call's.
void joinOps(ArrayRef<Operation *> ops) {
  SetVector<Value> operands;
  SmallVector<Value> results;
  for (Operation *op : ops) {
    llvm::for_each(op->getOperands(), [&](Value operand) {
      if (!llvm::is_contained(results, operand)) {
        operands.insert(operand);
      }
    });
    llvm::append_range(results, op->getResults());
  }
  OpBuilder builder(ops.back());
  auto call = exec::FusionOp::create(builder, ops.back()->getLoc(), TypeRange(ValueRange(results)), exec::FusionKind::Attention,
                                     operands.getArrayRef());
  Block &body = call.getBody().emplaceBlock();
  IRMapping inside;
  for (Value operand : operands) {
    inside.map(operand, body.addArgument(operand.getType(), operand.getLoc()));
  }
  builder.setInsertionPointToEnd(&body);
  llvm::for_each(ops, [&](Operation *op) { builder.clone(*op, inside); });
  exec::YieldOp::create(builder, call.getLoc(), llvm::map_to_vector(results, [&](Value result) { return inside.lookup(result); }));
  for (auto [result, output] : llvm::zip_equal(results, call.getOutputs())) {
    result.replaceAllUsesWith(output);
  }
  llvm::for_each(llvm::reverse(ops), [](Operation *op) { op->erase(); });
  llvm::for_each(call->getOpOperands(), [&](OpOperand &operand) { moveSwapInside(call, operand); });
  for (OpResult output : call.getOutputs()) {
    if (isa<nn::AttentionOp, nn::AttentionGradientOp>(
            call.getBody().front().getTerminator()->getOperand(output.getResultNumber()).getDefiningOp())) {
      moveSwapInside(call, output);
    }
  }
}

// Moves what depends on a log-sum-exp before an attention of it behind that, as the reductions of an attention over parts of its keys do.
// Fails, with nothing moved, where the attention needs some of it, or it has effects.
bool moveReadersBehind(nn::AttentionLogSumOp logSum, nn::AttentionOp op) {
  llvm::SetVector<Operation *> readers;
  for (Operation *next = logSum->getNextNode(); next != op; next = next->getNextNode()) {
    const bool reads = llvm::any_of(
        next->getOperands(), [&](Value operand) { return operand == logSum.getResult() || readers.contains(operand.getDefiningOp()); });
    if (reads && (next->getNumRegions() != 0 || !isMemoryEffectFree(next))) {
      return false;
    }
    if (reads) {
      readers.insert(next);
    }
  }
  auto isReader = [&](Value operand) { return readers.contains(operand.getDefiningOp()); };
  if (llvm::any_of(op->getOperands(), isReader)) {
    return false;
  }
  for (Operation *reader : llvm::reverse(readers)) {
    reader->moveAfter(op);
  }
  return true;
}

void joinLogSum(nn::AttentionOp op, exec::Target target) {
  auto logSum = op.getLogSum().getDefiningOp<nn::AttentionLogSumOp>();
  const bool isPair = logSum && logSum->getBlock() == op->getBlock() && haveSameScores(logSum, op) && takes(op, target);
  if (isPair && moveReadersBehind(logSum, op)) {
    joinOps({logSum, op});
  }
}

// Makes a call of the gradients with the same operands and attributes, where the first of them stands.
void joinGradients(ArrayRef<nn::AttentionGradientOp> parts, exec::Target target) {
  nn::AttentionGradientOp first = parts.front();
  if (!llvm::all_of(parts, [&](nn::AttentionGradientOp part) { return takes(part, target); })) {
    return;
  }
  OpBuilder builder(first);
  SmallVector<Operation *> all;
  for (auto [of, operand] : {std::pair(nn::AttentionOperand::Query, first.getQuery()), std::pair(nn::AttentionOperand::Key, first.getKey()),
                             std::pair(nn::AttentionOperand::Value, first.getValue())}) {
    auto gradient = cast<nn::AttentionGradientOp>(builder.clone(*first));
    gradient.setOf(of);
    gradient.getResult().setType(cast<RankedTensorType>(operand.getType()));
    for (nn::AttentionGradientOp part : parts) {
      if (part.getOf() == of) {
        part.replaceAllUsesWith(gradient.getResult());
      }
    }
    all.push_back(gradient);
  }
  llvm::for_each(parts, [](nn::AttentionGradientOp part) { part.erase(); });
  joinOps(all);
}

// Repeats masks along the rows for a library that reads all of them, once for all ops of a mask.
void repeatMasks(func::FuncOp function, exec::Target target) {
  if (exec::traitsOf(target).attention.masks == exec::AttentionMasks::All) {
    return;
  }
  llvm::DenseMap<std::pair<Value, int64_t>, Value> repeated;
  auto repeat = [&](auto op) {
    Value mask = op.getMask();
    const int64_t rows = shapeOf(op.getQuery()).end()[-2];
    if (!mask || rows == 1 || shapeOf(mask).end()[-2] != 1) {
      return;
    }
    Value &whole = repeated[{mask, rows}];
    if (!whole) {
      OpBuilder builder(function.getContext());
      builder.setInsertionPointAfterValue(mask);
      SmallVector<int64_t> shape(shapeOf(mask)), dense(shape), dims;
      for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
        if (d != static_cast<int64_t>(shape.size()) - 2) {
          dims.push_back(d);
        }
      }
      dense.erase(dense.end() - 2);
      shape.end()[-2] = rows;
      Value flat = nn::ReshapeOp::create(builder, op.getLoc(), typeOf(mask).clone(dense), mask);
      whole = nn::BroadcastOp::create(builder, op.getLoc(), typeOf(mask).clone(shape), flat, dims);
    }
    op.getMaskMutable().assign(whole);
  };
  function.walk([&](nn::AttentionOp op) {
    auto logSum = op.getLogSum().getDefiningOp<nn::AttentionLogSumOp>();
    if (takes(op, target) && logSum && haveSameScores(logSum, op)) {
      repeat(logSum);
      repeat(op);
    }
  });
  function.walk([&](nn::AttentionGradientOp op) {
    if (takes(op, target)) {
      repeat(op);
    }
  });
}

uint32_t dtypeOf(exec::BufferAttr buffer) {
  Type element = buffer.getType().getElementType();
  return element.isF32() ? ASHLAR_RT_F32 : element.isBF16() ? ASHLAR_RT_BF16 : element.isF16() ? ASHLAR_RT_F16 : ASHLAR_RT_BOOL;
}

} // namespace

void joinAttention(func::FuncOp function, exec::Target target) {
  function.walk([](Operation *op) {
    llvm::TypeSwitch<Operation *>(op).Case<nn::AttentionLogSumOp, nn::AttentionOp, nn::AttentionGradientOp>([](auto typed) {
      if (countFrom0(typed.getPositions())) {
        typed.getPositionsMutable().clear();
      }
    });
  });
  repeatMasks(function, target);
  SmallVector<nn::AttentionOp> attentions;
  function.walk([&](nn::AttentionOp op) { attentions.push_back(op); });
  llvm::for_each(attentions, [&](nn::AttentionOp op) { joinLogSum(op, target); });
  std::map<std::vector<const void *>, unsigned> numbers; // of gradients, by what they are of
  std::vector<SmallVector<nn::AttentionGradientOp, 3>> gradients;
  function.walk([&](nn::AttentionGradientOp op) {
    std::vector<const void *> key = {op.getScaleAttr().getAsOpaquePointer(),    op.getCausalAttr().getAsOpaquePointer(),
                                     op.getDiagonalAttr().getAsOpaquePointer(), op.getWindowAttr().getAsOpaquePointer(),
                                     op.getSoftcapAttr().getAsOpaquePointer(),  op.getDropoutAttr().getAsOpaquePointer()};
    llvm::for_each(op->getOperands(), [&](Value operand) { key.push_back(operand.getAsOpaquePointer()); });
    auto [number, isNew] = numbers.try_emplace(std::move(key), gradients.size());
    if (isNew) {
      gradients.emplace_back();
    }
    gradients[number->second].push_back(op);
  });
  llvm::for_each(gradients, [&](const auto &parts) { joinGradients(parts, target); });
}

uint64_t attentionWorkspace(const ashlar_rt_attention_desc &desc, exec::Target target) {
  return exec::traitsOf(target).fixedWorkspace ? rt::deviceAttentionMemory(desc).bytes : rt::attentionWorkspaceBytes(desc);
}

uint64_t attentionWorkspace(Operation *op, exec::Target target) {
  auto bytesOf = [&](auto typed, uint32_t kind) {
    if (!takes(typed, target)) {
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
    DenseI64ArrayAttr strides = op.getMask() ? site.builder.getDenseI64ArrayAttr(*stridesOf(typeOf(op.getMask()), query)) : nullptr;
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
