// SPDX-License-Identifier: Apache-2.0
//
// Rewrites one fusion at a time. State: which dims are split into how many segments, and for each value of the old body its counterpart in
// the new one, where each full value has two dims in the place of these. A fusion with a view that cannot be seen in the new shape stays as
// it is.

#include "passes/lower/fusion/split_reductions.h"

#include "passes/lower/kernels/cpu/cpu_shape.h"
#include "passes/lower/kernels/fusible.h"
#include "passes/lower/kernels/gpu/gpu_fusion.h"
#include "passes/lower/kernels/kernel_nest.h"
#include "passes/lower/kernels/row_passes.h"

#include "dialects/exec/target_traits.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

class Splitter {
public:
  Splitter(exec::FusionOp fusion, exec::Target target)
      : fusion(fusion), traits(exec::traitsOf(target)), body(fusion.getBody().front()), shape(KernelShape::get(fusion)),
        passes(body, shape.domain), b(fusion.getLoc(), fusion) {}

  void run() {
    chooseSegments();
    if (segments > 1 && canSplit()) {
      exec::FusionOp first = emitFirst();
      emitSecond(first);
      fusion.erase();
    }
  }

private:
  exec::FusionOp fusion;
  const exec::TargetTraits &traits;
  Block &body;
  KernelShape shape;
  RowPasses passes;
  ImplicitLocOpBuilder b;
  int64_t splitDim = 0, splitDims = 1; // the first dim that is split, and how many run as one loop and are split as one
  int64_t segments = 1;
  int64_t segmentDim = 0; // of the partial results: where the segments are
  IRMapping mapping;
  SmallVector<Value> firstResults; // of the old body: full ones and reductions

  bool isFull(Value value) const { return shapeOf(value) == ArrayRef<int64_t>(shape.domain); }
  Operation *yield() { return body.getTerminator(); }

  void chooseSegments() {
    SplitLoops loops(shape);
    int64_t kept = countIterations(loops.kept), reduced = countIterations(loops.reduced);
    if (kept * reduced == 0 || loops.reduced.empty()) {
      return;
    }
    ArrayRef<int64_t> dims = (*body.getOps<nn::ReduceOp>().begin()).getDims();
    const auto *first = llvm::find_if(dims, [&](int64_t dim) { return shape.domain[dim] > 1; });
    splitDim = first == dims.end() ? dims.front() : *first;
    segmentDim = splitDim - llvm::count_if(dims, [&](int64_t dim) { return dim < splitDim; });
    if (traits.hasBlocks) { // threads need the samples alone, blocks the pixels too
      splitDims = llvm::find_if(shape.loops, [&](const LoopDim &loop) { return loop.last >= splitDim; })->last + 1 - splitDim;
    }
    int64_t size = ShapedType::getNumElements(ArrayRef<int64_t>(shape.domain).slice(splitDim, splitDims));
    segments = traits.hasBlocks ? countSegments(size, kept * reduced / size, countBlocks(loops, kept, reduced))
                                : countCpuSegments(size, reduced / size, shape.loops.back().reduced ? 1 : loops.kept.back().size);
  }

  int64_t countBlocks(const SplitLoops &loops, int64_t kept, int64_t reduced) const {
    if (shape.loops.back().reduced) {
      return llvm::divideCeil(kept, shareOutRows(kept, reduced, lanesOf(fusion, shape, loops.reduced), /*heldBytes=*/0).rowsABlock);
    }
    return kept / loops.kept.back().size * columnShapeOf(fusion, shape).blocks;
  }

  // Whether all that reads an operand whose shape changes can read it in the new one.
  bool canSplit(BlockArgument argument) {
    std::optional<int64_t> dim = splitDimOf(argument);
    return !dim || llvm::all_of(argument.getUsers(), [&](Operation *user) {
      auto broadcast = dyn_cast<nn::BroadcastOp>(user);
      return broadcast ? positionIn(broadcast.getDims()) == dim && !isFull(argument)
                       : isFull(argument) && (isElementwise(user) || isa<nn::ReduceOp>(user));
    });
  }

  // Whether nothing along the row depends on a reduction, and every op has a counterpart.
  bool canSplit() {
    bool readsFit = llvm::all_of(body.getArguments(), [&](BlockArgument argument) { return canSplit(argument); });
    return readsFit && passes.lastLevel() == 1 && llvm::all_of(body.without_terminator(), [&](Operation &op) {
             Value result = op.getResult(0);
             if (!isFull(result) || isa<nn::ReduceOp>(op)) {
               return isElementwise(&op) || isa<nn::ReduceOp, nn::ConstantOp>(op);
             }
             if (auto broadcast = dyn_cast<nn::BroadcastOp>(op)) {
               bool isSplit = llvm::is_contained(broadcast.getDims(), splitDim);
               return passes.levelOf(result) == 0 && (!isSplit || isa<BlockArgument>(broadcast.getInput()));
             }
             return passes.levelOf(result) == 0 && (isElementwise(&op) || isa<nn::ConstantOp, nn::IndexOp>(op));
           });
  }

  // Returns a type whose split dims, from `dim` on, are (segments, rest).
  RankedTensorType split(RankedTensorType type, int64_t dim) const {
    SmallVector<int64_t> sizes(type.getShape());
    int64_t size = ShapedType::getNumElements(ArrayRef<int64_t>(sizes).slice(dim, splitDims));
    sizes.erase(sizes.begin() + dim, sizes.begin() + dim + splitDims);
    sizes.insert(sizes.begin() + dim, {segments, size / segments});
    return type.clone(sizes);
  }

  // Returns the dims of the new domain for dims of the old one, the segments' left out or not.
  SmallVector<int64_t> splitIn(ArrayRef<int64_t> dims, bool withSegments) const {
    SmallVector<int64_t> found;
    for (int64_t dim : dims) {
      if (dim == splitDim && withSegments) {
        found.push_back(splitDim);
      }
      if (dim <= splitDim || dim >= splitDim + splitDims) {
        found.push_back(dim < splitDim ? dim : dim == splitDim ? splitDim + 1 : dim - splitDims + 2);
      }
    }
    return found;
  }

  // Returns where in `dims` the split dim is, if it is there.
  std::optional<int64_t> positionIn(ArrayRef<int64_t> dims) const {
    auto found = llvm::find(dims, splitDim);
    return found == dims.end() ? std::nullopt : std::optional<int64_t>(found - dims.begin());
  }

  // How the first fusion reads an operand: which of its dims is the split one.
  std::optional<int64_t> splitDimOf(BlockArgument argument) {
    if (isFull(argument)) {
      return splitDim;
    }
    for (Operation *user : argument.getUsers()) {
      if (auto broadcast = dyn_cast<nn::BroadcastOp>(user)) {
        if (auto position = positionIn(broadcast.getDims())) {
          return position;
        }
      }
    }
    return std::nullopt;
  }

  // Emits the counterpart of an op of the old body that needs no segments put together.
  void emitCounterpart(OpBuilder &inner, Operation &op) {
    Operation *copy = inner.clone(op, mapping);
    Value result = copy->getResult(0);
    if (auto reduce = dyn_cast<nn::ReduceOp>(copy)) {
      reduce.setDims(splitIn(reduce.getDims(), /*withSegments=*/false));
      SmallVector<int64_t> sizes(shapeOf(op.getResult(0)));
      sizes.insert(sizes.begin() + segmentDim, segments);
      result.setType(typeOf(result).clone(sizes));
      return;
    }
    if (!isFull(op.getResult(0))) {
      return;
    }
    RankedTensorType type = split(typeOf(op.getResult(0)), splitDim);
    TypeSwitch<Operation *>(copy)
        .Case([&](nn::ConstantOp constant) { constant.setValueAttr(cast<DenseElementsAttr>(constant.getValue()).resizeSplat(type)); })
        .Case([&](nn::BroadcastOp broadcast) { broadcast.setDims(splitIn(broadcast.getDims(), /*withSegments=*/true)); })
        .Case([&](nn::IndexOp index) {
          SmallVector<int64_t> strides(index.getStrides());
          int64_t stride = strides[splitDim + splitDims - 1];
          strides.erase(strides.begin() + splitDim, strides.begin() + splitDim + splitDims);
          strides.insert(strides.begin() + splitDim, {stride * type.getDimSize(splitDim + 1), stride});
          index.setStrides(strides);
        });
    copy->getResult(0).setType(type);
  }

  exec::FusionOp emitFirst() {
    SmallVector<Value> inputs;
    Region region;
    Block &block = region.emplaceBlock();
    for (BlockArgument argument : body.getArguments()) {
      Value input = fusion.getInputs()[argument.getArgNumber()];
      if (std::optional<int64_t> dim = splitDimOf(argument)) {
        input = nn::ReshapeOp::create(b, split(typeOf(input), *dim), input);
      }
      inputs.push_back(input);
      mapping.map(argument, block.addArgument(input.getType(), argument.getLoc()));
    }
    OpBuilder inner(fusion.getContext());
    inner.setInsertionPointToEnd(&block);
    for (Operation &op : body.without_terminator()) {
      if (passes.levelOf(op.getResult(0)) == 0 || isa<nn::ReduceOp>(op)) {
        emitCounterpart(inner, op);
      }
    }
    llvm::SetVector<Value> results;
    for (Operation &op : body.without_terminator()) {
      bool isYielded = llvm::is_contained(yield()->getOperands(), op.getResult(0));
      if (isa<nn::ReduceOp>(op) || (isYielded && passes.levelOf(op.getResult(0)) == 0)) {
        results.insert(op.getResult(0));
      }
    }
    firstResults = llvm::to_vector(results);
    SmallVector<Value> yielded = llvm::map_to_vector(firstResults, [&](Value value) { return mapping.lookup(value); });
    exec::YieldOp::create(inner, fusion.getLoc(), yielded);
    auto first = exec::FusionOp::create(b, TypeRange(ValueRange(yielded)), fusion.getKind(), inputs);
    first.getBody().takeBody(region);
    return first;
  }

  // Returns the value in the second fusion for one of the old body: what it does not find it computes or takes as an operand.
  Value import(Value value, OpBuilder &inner, Block &block, SmallVectorImpl<Value> &inputs, IRMapping &second) {
    if (Value known = second.lookupOrNull(value)) {
      return known;
    }
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      inputs.push_back(fusion.getInputs()[argument.getArgNumber()]);
      second.map(value, block.addArgument(value.getType(), value.getLoc()));
      return second.lookup(value);
    }
    for (Value operand : value.getDefiningOp()->getOperands()) {
      import(operand, inner, block, inputs, second);
    }
    return inner.clone(*value.getDefiningOp(), second)->getResult(0);
  }

  // Returns the partial results, and the dim of their segments. Where threads share rows, each row of segments has threads of its own, and
  // what is computed from its sum joins them: the segments are seen as the innermost dim.
  std::pair<Value, int64_t> inRows(OpBuilder &inner, Value partial) const {
    int64_t rank = typeOf(partial).getRank();
    if (!traits.sharesRows || segmentDim + 1 == rank) {
      return {partial, segmentDim};
    }
    auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    order.erase(order.begin() + segmentDim);
    order.push_back(segmentDim);
    return {nn::TransposeOp::create(inner, partial.getLoc(), partial, order).getResult(), rank - 1};
  }

  void emitSecond(exec::FusionOp first) {
    SmallVector<Value> inputs;
    IRMapping second;
    Region region;
    Block &block = region.emplaceBlock();
    OpBuilder inner(fusion.getContext());
    inner.setInsertionPointToEnd(&block);
    for (auto [value, result] : llvm::zip_equal(firstResults, first.getOutputs())) {
      if (auto reduce = value.getDefiningOp<nn::ReduceOp>()) {
        inputs.push_back(result);
        Value partial = block.addArgument(result.getType(), reduce.getLoc());
        auto [segments, dim] = inRows(inner, partial);
        second.map(value, nn::ReduceOp::create(inner, reduce.getLoc(), reduce.getKind(), segments, ArrayRef<int64_t>{dim}).getResult());
      }
    }
    SmallVector<unsigned> numbers;
    SmallVector<Value> yielded;
    for (auto [i, value] : llvm::enumerate(yield()->getOperands())) {
      auto found = llvm::find(firstResults, value);
      if (found != firstResults.end() && !value.getDefiningOp<nn::ReduceOp>()) {
        Value result = first.getOutputs()[found - firstResults.begin()];
        bool isSplit = result.getType() != value.getType();
        fusion.getResult(i).replaceAllUsesWith(isSplit ? nn::ReshapeOp::create(b, value.getType(), result).getResult() : result);
      } else {
        numbers.push_back(i);
        yielded.push_back(import(value, inner, block, inputs, second));
      }
    }
    exec::YieldOp::create(inner, fusion.getLoc(), yielded);
    auto partial = cast<RankedTensorType>(block.getArgument(0).getType());
    bool isOfRows = traits.sharesRows || segmentDim + 1 == partial.getRank();
    exec::FusionKind kind = isOfRows ? exec::FusionKind::Rows : exec::FusionKind::Columns;
    auto fused = exec::FusionOp::create(b, TypeRange(ValueRange(yielded)), kind, inputs);
    fused.getBody().takeBody(region);
    for (auto [number, result] : llvm::zip_equal(numbers, fused.getOutputs())) {
      fusion.getResult(number).replaceAllUsesWith(result);
    }
  }
};

} // namespace

void splitReductions(Block &block, exec::Target target) {
  for (auto fusion : llvm::make_early_inc_range(block.getOps<exec::FusionOp>())) {
    if (fusion.getKind() == exec::FusionKind::Rows || fusion.getKind() == exec::FusionKind::Columns) {
      Splitter(fusion, target).run();
    }
  }
}

} // namespace ashlar::lower
