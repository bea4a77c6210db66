// SPDX-License-Identifier: Apache-2.0
//
// Pairs of ops -> fusions.

#include "passes/lower/calls/join_attention.h"

#include "passes/lower/calls/library_attention.h"

#include "dialects/exec/target_traits.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>
#include <vector>

using namespace mlir;

namespace ashlar::lower {

namespace {

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

// What an op becomes: a call of the library or a generated kernel; nothing where it is expanded. `others`: tensors besides query, key and
// value that have to be of their type for the library.
template <typename Op> std::optional<exec::FusionKind> kindOf(Op op, TypeRange others, exec::Target target) {
  RankedTensorType query = typeOf(op.getQuery());
  exec::AttentionForm form;
  form.mask = op.getMask() ? typeOf(op.getMask()) : RankedTensorType();
  form.diagonal = op.getCausal() ? std::optional(static_cast<int64_t>(op.getDiagonal())) : std::nullopt;
  form.window = static_cast<int64_t>(op.getWindow());
  form.softcap = op.getSoftcap().convertToDouble();
  form.drops = !op.getDraw().empty();
  form.shifts = !op.getPositions().empty() && !countFrom0(op.getPositions());
  const bool areAlike =
      llvm::all_of(others, [&](Type type) { return cast<RankedTensorType>(type).getElementType() == query.getElementType(); });
  if (areAlike && typeOf(op.getLogSum()).getElementType().isF32() && (!form.mask || maskStrides(form.mask, query)) && numbersAsTaken(op) &&
      exec::takesAttention(target, query, typeOf(op.getKey()), typeOf(op.getValue()), form)) {
    return exec::FusionKind::Attention;
  }
  const bool generates = exec::generatesAttention(target, query, typeOf(op.getKey()), typeOf(op.getValue()), form);
  return generates ? std::optional(exec::FusionKind::AttentionKernel) : std::nullopt;
}

// Whether two ops have the same scores.
bool haveSameScores(nn::AttentionLogSumOp a, nn::AttentionOp b) {
  return a.getQuery() == b.getQuery() && a.getKey() == b.getKey() && a.getMask() == b.getMask() && a.getScale() == b.getScale() &&
         a.getCausal() == b.getCausal() && a.getDiagonal() == b.getDiagonal() && a.getWindow() == b.getWindow() &&
         a.getSoftcap() == b.getSoftcap() && llvm::equal(a.getPositions(), b.getPositions());
}

template <typename Op> bool takes(Op op, exec::Target target) {
  return attentionKind(op, target) == exec::FusionKind::Attention;
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

} // namespace

std::optional<exec::FusionKind> attentionKind(nn::AttentionOp op, exec::Target target) {
  return kindOf(op, TypeRange(op->getResultTypes()), target);
}

std::optional<exec::FusionKind> attentionKind(nn::AttentionGradientOp op, exec::Target target) {
  Type others[] = {op.getOut().getType(), op.getGradient().getType(), op.getType()};
  return kindOf(op, others, target);
}

Value withHeadsInside(Value tensor) {
  nn::TransposeOp swap = asSwap(tensor.getDefiningOp());
  return swap ? swap.getInput() : tensor;
}

namespace {

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

// Makes a call or a kernel of ops that read nothing but what is outside, where the last one stands; all their results are its own. A kernel
// computes numbers of rows and keys itself.
exec::FusionOp joinOps(ArrayRef<Operation *> ops, exec::FusionKind kind) {
  const bool isKernel = kind == exec::FusionKind::AttentionKernel;
  SetVector<Value> operands, numbers;
  SmallVector<Value> results;
  auto isJoined = [&](Operation *op) { return llvm::is_contained(ops, op); };
  for (Operation *op : ops) {
    llvm::for_each(op->getOperands(), [&](Value operand) {
      const bool isComputed = isKernel && operand.getDefiningOp<nn::IndexOp>();
      if (!isJoined(operand.getDefiningOp())) {
        (isComputed ? numbers : operands).insert(operand);
      }
    });
    if (!isKernel || op->use_empty() || !llvm::all_of(op->getUsers(), isJoined)) {
      llvm::append_range(results, op->getResults());
    }
  }
  OpBuilder builder(ops.back());
  auto call = exec::FusionOp::create(builder, ops.back()->getLoc(), TypeRange(ValueRange(results)), kind, operands.getArrayRef());
  Block &body = call.getBody().emplaceBlock();
  IRMapping inside;
  for (Value operand : operands) {
    inside.map(operand, body.addArgument(operand.getType(), operand.getLoc()));
  }
  builder.setInsertionPointToEnd(&body);
  llvm::for_each(numbers, [&](Value number) { builder.clone(*number.getDefiningOp(), inside); });
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
  return call;
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
  const std::optional<exec::FusionKind> kind = attentionKind(op, target);
  const bool isPair = logSum && logSum->getBlock() == op->getBlock() && haveSameScores(logSum, op) && kind;
  if (isPair && moveReadersBehind(logSum, op)) {
    joinOps({logSum, op}, *kind);
  }
}

// Makes kernels of gradients with the same operands and attributes: one goes through the keys, for the gradient of the query, and one
// through the rows, as far as its results have not too many columns. Weights are exp(score - log_sum), where the rounding of a large
// log_sum counts: those of a row whose keys are all hidden by -1e9 would be 1 each. So a kernel before these computes what it lost.
//   %c = exec.fusion attention_kernel(%q, %k, %l) { %a = nn.attention_log_sum %q, %k; exec.yield %a - %l }
//   %dq = exec.fusion attention_kernel(%q, %k, %v, %y, %g, %l, %c) { %b = %l + %c; exec.yield nn.attention_gradient query ... %b }
void joinGradientsInKernels(ArrayRef<nn::AttentionGradientOp> gradients, exec::Target target) {
  nn::AttentionGradientOp first = gradients.front();
  ImplicitLocOpBuilder b(first.getLoc(), first);
  Value logSum = first.getLogSum();
  auto again = nn::AttentionLogSumOp::create(b, first.getQuery(), first.getKey(), first.getMask(), first.getScale(), first.getCausal(),
                                             first.getDiagonal(), first.getWindow(), first.getSoftcap(), first.getPositions());
  auto lost = nn::SubOp::create(b, again, logSum);
  Value correction = joinOps({again, lost}, exec::FusionKind::AttentionKernel).getOutputs().front();
  std::vector<SmallVector<nn::AttentionGradientOp, 2>> kernels;
  int64_t columns = 0; // of the last kernel, where it goes through the rows
  for (nn::AttentionGradientOp gradient : gradients) {
    const int64_t own = shapeOf(gradient).back();
    const bool begins = columns == 0 || columns + own > exec::traitsOf(target).attentionColumns;
    if (begins) {
      kernels.emplace_back();
    }
    kernels.back().push_back(gradient);
    columns = gradient.getOf() == nn::AttentionOperand::Query ? 0 : begins ? own : columns + own;
  }
  for (ArrayRef<nn::AttentionGradientOp> kernel : kernels) {
    b.setInsertionPoint(kernel.front());
    auto whole = nn::AddOp::create(b, logSum, correction);
    SmallVector<Operation *> ops = {whole};
    for (nn::AttentionGradientOp gradient : kernel) {
      gradient.getLogSumMutable().assign(whole);
      ops.push_back(gradient);
    }
    joinOps(ops, exec::FusionKind::AttentionKernel);
  }
}

// Makes a call of the gradients with the same operands and attributes, where the first of them stands; or kernels, where the library does
// not take all of them.
void joinGradients(ArrayRef<nn::AttentionGradientOp> parts, exec::Target target) {
  nn::AttentionGradientOp first = parts.front();
  auto kinds = llvm::map_to_vector(parts, [&](nn::AttentionGradientOp part) { return attentionKind(part, target); });
  if (llvm::is_contained(kinds, std::nullopt)) {
    return;
  }
  const bool isCall = llvm::all_of(kinds, [](auto kind) { return kind == exec::FusionKind::Attention; });
  OpBuilder builder(first);
  SmallVector<nn::AttentionGradientOp> all;
  const Value operands[] = {first.getQuery(), first.getKey(), first.getValue()};
  for (nn::AttentionOperand of : {nn::AttentionOperand::Query, nn::AttentionOperand::Key, nn::AttentionOperand::Value}) {
    if (!isCall && llvm::none_of(parts, [&](nn::AttentionGradientOp part) { return part.getOf() == of; })) {
      continue;
    }
    auto gradient = cast<nn::AttentionGradientOp>(builder.clone(*first));
    gradient.setOf(of);
    gradient.getResult().setType(typeOf(operands[static_cast<size_t>(of)]));
    for (nn::AttentionGradientOp part : parts) {
      if (part.getOf() == of) {
        gradient.getResult().setType(part.getType());
        part.replaceAllUsesWith(gradient.getResult());
      }
    }
    all.push_back(gradient);
  }
  llvm::for_each(parts, [](nn::AttentionGradientOp part) { part.erase(); });
  if (!isCall) {
    return joinGradientsInKernels(all, target);
  }
  joinOps(llvm::map_to_vector(all, [](nn::AttentionGradientOp op) { return op.getOperation(); }), exec::FusionKind::Attention);
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

} // namespace ashlar::lower
