// SPDX-License-Identifier: Apache-2.0
//
// The cpu nests over whole domains and over rows.

#include "passes/lower/kernels/cpu/cpu_kernel.h"
#include "passes/lower/kernels/cpu/cpu_shape.h"

#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

// Rows from which on reading one element of them pays: LLVM unrolls loops along shorter ones once nothing else is in them, which takes
// longer than it saves.
constexpr int64_t kLeastRowToIndex = 32;

// Copies of expensive values of a row live on the stack; all of a kernel together take at most this.
constexpr int64_t kScratchBytes = 256 * 1024;

bool isExpensive(Operation *op) {
  auto compute = dyn_cast<ComputeOpInterface>(op);
  return compute && compute.getCost() != Cost::Free && compute.getCost() != Cost::Simple;
}

} // namespace

CpuKernel::CpuKernel(exec::FusionOp fusion, func::FuncOp function, ArrayRef<int64_t> alias) : KernelNest(fusion, function, alias) {
  begin = function.getArguments().end()[-2];
  end = function.getArguments().end()[-1];
}

void CpuKernel::emit() {
  switch (fusion.getKind()) {
  case exec::FusionKind::Loop:
    emitLoop();
    break;
  case exec::FusionKind::Rows:
    emitRows();
    break;
  case exec::FusionKind::Scatter:
    emitScatter();
    break;
  default:
    emitColumns();
    break;
  }
  func::ReturnOp::create(b);
  setExtent(extent, grain);
}

void CpuKernel::setParallel(int64_t size, int64_t unitElements) {
  extent = size;
  grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, unitElements));
  if (unitElements == 1) {
    alignGrain();
  }
}

void CpuKernel::alignGrain() {
  grain = llvm::alignTo(grain, kCutElements);
}

void CpuKernel::nest(ArrayRef<LoopDim> dims, bool parallel, llvm::function_ref<void()> emitBody) {
  if (dims.empty()) {
    if (!parallel) {
      emitBody();
      return;
    }
    auto unit = scf::ForOp::create(b, begin, end, constant(1));
    OpBuilder::InsertionGuard guard(b);
    ScalarEmitter::Memo saved = scalars.save();
    b.setInsertionPointToStart(unit.getBody());
    emitBody();
    scalars.restore(std::move(saved));
    return;
  }
  const LoopDim &dim = dims.front();
  auto loop = scf::ForOp::create(b, parallel ? begin : zero, parallel ? end : constant(dim.size), constant(1));
  OpBuilder::InsertionGuard guard(b);
  ScalarEmitter::Memo saved = scalars.save();
  b.setInsertionPointToStart(loop.getBody());
  index[dim.last] = loop.getInductionVar();
  nest(dims.drop_front(), /*parallel=*/false, emitBody);
  index[dim.last] = zero;
  scalars.restore(std::move(saved));
}

SmallVector<Value> CpuKernel::reduceNest(ArrayRef<LoopDim> dims, SmallVector<Value> carried,
                                         llvm::function_ref<SmallVector<Value>(ArrayRef<Value>)> step) {
  if (dims.empty()) {
    return step(carried);
  }
  const LoopDim &dim = dims.front();
  auto loop = scf::ForOp::create(b, zero, constant(dim.size), constant(1), carried);
  OpBuilder::InsertionGuard guard(b);
  ScalarEmitter::Memo saved = scalars.save();
  b.setInsertionPointToStart(loop.getBody());
  index[dim.last] = loop.getInductionVar();
  SmallVector<Value> inner(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
  scf::YieldOp::create(b, reduceNest(dims.drop_front(), inner, step));
  index[dim.last] = zero;
  scalars.restore(std::move(saved));
  return SmallVector<Value>(loop.getResults());
}

SmallVector<Value> CpuKernel::addElements(ArrayRef<nn::ReduceOp> reductions, ArrayRef<Value> carried) {
  SmallVector<Value> next;
  for (auto [i, reduce] : llvm::enumerate(reductions)) {
    next.push_back(combine(reduce, carried[i], scalars.emit(nn::ReduceOp(reduce).getInput(), index)));
  }
  return next;
}

void CpuKernel::storeResults(bool full) {
  SmallVector<std::pair<unsigned, Value>> elements;
  for (auto [i, value] : llvm::enumerate(yielded())) {
    if (isFull(value) == full) {
      elements.push_back({i, scalars.emit(value, indexOf(value))});
    }
  }
  for (auto [i, element] : elements) {
    Value value = yielded()[i];
    scalars.store(element, outputs[i], shapeOf(value), indexOf(value));
  }
}

void CpuKernel::emitLoop() {
  if (!shape.loops.empty()) {
    setParallel(shape.loops.front().size, countIterations(ArrayRef<LoopDim>(shape.loops).drop_front()));
  }
  nest(shape.loops, /*parallel=*/true, [&] { storeResults(/*full=*/true); });
}

//===-- Rows --------------------------------------------------------------------------------------------------------------------------===//

// Gives every expensive full value that several passes need a copy on the stack. Returns them by the pass that fills them.
DenseMap<int64_t, SmallVector<Value>> CpuKernel::allocateScratch(const RowPasses &passes, int64_t rowElements) {
  DenseMap<int64_t, SmallVector<Value>> filledBy;
  int64_t left = kScratchBytes;
  for (Operation &op : body.without_terminator()) {
    Value value = op.getResult(0);
    ArrayRef<int64_t> needed = passes.passesOf(value);
    Type element = computedType(typeOf(value).getElementType());
    if (needed.size() < 2 || !isExpensive(&op) || rowElements * elementBytes(element) > left) {
      continue;
    }
    left -= rowElements * elementBytes(element);
    Value scratch = memref::AllocaOp::create(b, MemRefType::get({rowElements}, element));
    scalars.bindScratch(value, scratch);
    filledBy[*llvm::min_element(needed)].push_back(value);
  }
  return filledBy;
}

void CpuKernel::emitRows() {
  SplitLoops loops(shape);
  int64_t rowElements = countIterations(loops.reduced);
  RowPasses passes(body, shape.domain);
  auto filledBy = allocateScratch(passes, rowElements);
  if (!loops.kept.empty()) {
    setParallel(loops.kept.front().size, rowElements * countIterations(ArrayRef<LoopDim>(loops.kept).drop_front()));
  }
  nest(loops.kept, /*parallel=*/true, [&] { emitRow(loops.reduced, passes, filledBy); });
}

void CpuKernel::emitRow(ArrayRef<LoopDim> inner, const RowPasses &passes, DenseMap<int64_t, SmallVector<Value>> &filledBy) {
  for (int64_t level = 1; level <= passes.lastLevel(); ++level) {
    SmallVector<nn::ReduceOp> reductions;
    SmallVector<std::pair<nn::ReduceOp, RowElement>> elements;
    for (nn::ReduceOp reduce : passes.reductionsOf(level)) {
      if (std::optional<RowElement> found = readElement(reduce, inner)) {
        elements.push_back({reduce, *found});
      } else {
        reductions.push_back(reduce);
      }
    }
    SmallVector<Value> neutral = llvm::map_to_vector(reductions, [&](nn::ReduceOp reduce) { return neutralOf(reduce); });
    SmallVector<Value> results;
    if (!reductions.empty()) {
      results = reduceNest(inner, neutral, [&](ArrayRef<Value> carried) {
        setScratchIndex(inner);
        return addElements(reductions, carried);
      });
    }
    for (auto [reduce, result] : llvm::zip_equal(reductions, results)) {
      scalars.bindScalar(reduce, result);
    }
    for (const auto &[reduce, found] : elements) {
      emitElement(reduce, found);
    }
    for (Value copied : filledBy.lookup(level)) {
      scalars.markCopied(copied);
    }
  }
  if (llvm::any_of(yielded(), [&](Value value) { return isFull(value); })) {
    // Row values that the row needs are computed once, before the loop over it.
    emitRowValues();
    nest(inner, /*parallel=*/false, [&] {
      setScratchIndex(inner);
      storeResults(/*full=*/true);
    });
  }
  storeResults(/*full=*/false);
}

// Returns the element that a reduction is, unless it is one of a copy on the stack, which a pass over the row would have to fill.
std::optional<RowElement> CpuKernel::readElement(nn::ReduceOp reduce, ArrayRef<LoopDim> inner) {
  std::optional<RowElement> found = inner.size() == 1 && inner.front().size >= kLeastRowToIndex ? elementOf(reduce) : std::nullopt;
  SmallVector<Value> pending;
  if (found) {
    pending.push_back(found->element);
  }
  while (!pending.empty()) {
    Operation *op = pending.pop_back_val().getDefiningOp();
    if (!op || isa<nn::ReduceOp>(op)) {
      continue;
    }
    if (isExpensive(op)) {
      return std::nullopt;
    }
    llvm::append_range(pending, op->getOperands());
  }
  return found;
}

// The element at a place; 0 where the place is outside of the row.
void CpuKernel::emitElement(nn::ReduceOp reduce, const RowElement &found) {
  const int64_t size = shape.domain.back();
  Value place = scalars.emit(found.place, index), inside = scalars.emitIsRow(place, size);
  Index at = index;
  at.back() = arith::SelectOp::create(b, inside, scalars.emitRowIndex(place), zero);
  scalars.bindScalar(reduce, arith::SelectOp::create(b, inside, scalars.emit(found.element, at), neutralOf(reduce)));
}

void CpuKernel::emitRowValues() {
  for (Operation &op : body.without_terminator()) {
    if (computesRowValue(op)) {
      scalars.emit(op.getResult(0), indexOf(op.getResult(0)));
    }
  }
}

// The position in the row, flat over the inner loops.
void CpuKernel::setScratchIndex(ArrayRef<LoopDim> inner) {
  Value flat;
  int64_t stride = 1;
  for (const LoopDim &dim : llvm::reverse(inner)) {
    Value term = stride == 1 ? index[dim.last] : arith::MulIOp::create(b, index[dim.last], constant(stride));
    flat = flat ? Value(arith::AddIOp::create(b, flat, term)) : term;
    stride *= dim.size;
  }
  scalars.setScratchIndex(flat ? flat : zero);
}

} // namespace ashlar::lower
