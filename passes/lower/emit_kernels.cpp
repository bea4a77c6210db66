// SPDX-License-Identifier: Apache-2.0
//
// Loop nests of the four kinds of generated kernels; docs/kernels.md draws them. The outermost loop of a kernel runs over [begin, end) of
// its extent, so the runtime can cut it; everything inside is sequential. Element code comes from ScalarEmitter.

#include "passes/lower/kernel_emitter.h"

#include "passes/lower/fusible.h"
#include "passes/lower/kernel_shape.h"
#include "passes/lower/scalar_emitter.h"

#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

// A part of the parallel loop smaller than this many elements is not worth a thread.
constexpr int64_t kGrainElements = 16384;
// Cuts of a flat loop fall on multiples of this, so that each element runs in the same vector lane whatever the number of threads.
constexpr int64_t kCutElements = 64;
// Copies of expensive values of a row live on the stack; all of a kernel together take at most this.
constexpr int64_t kScratchBytes = 256 * 1024;
// Streams that a column reduction reads and writes side by side: rows a pass over its accumulators, times full operands and results. Rows
// are often a power of two apart, so more streams would fall into the same few sets of the first cache.
constexpr int64_t kColumnStreams = 8;

using Index = ScalarEmitter::Index;

// The memref of a tensor in a kernel: flat, a bool is a byte.
MemRefType flatType(RankedTensorType type) {
  Type element = type.getElementType();
  return MemRefType::get({type.getNumElements()}, element.isInteger(1) ? IntegerType::get(type.getContext(), 8) : element);
}

class KernelEmitter {
public:
  KernelEmitter(exec::FusionOp fusion, func::FuncOp function)
      : fusion(fusion), function(function), b(fusion.getLoc(), fusion.getContext()), scalars(b), shape(KernelShape::get(fusion)),
        body(fusion.getBody().front()) {}

  void emit(ArrayRef<int64_t> alias) {
    b.setInsertionPointToStart(function.addEntryBlock());
    unsigned next = fusion.getInputs().size();
    for (auto [i, argument] : llvm::enumerate(body.getArguments())) {
      scalars.bind(argument, function.getArgument(i));
    }
    for (int64_t operand : alias) {
      outputs.push_back(function.getArgument(operand >= 0 ? operand : next++));
    }
    begin = function.getArgument(next);
    end = function.getArgument(next + 1);
    zero = constant(0);
    index.assign(shape.domain.size(), zero);
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
    function->setAttr(exec::kExtentAttr, b.getI64IntegerAttr(extent));
    function->setAttr(exec::kGrainAttr, b.getI64IntegerAttr(grain));
  }

private:
  exec::FusionOp fusion;
  func::FuncOp function;
  ImplicitLocOpBuilder b;
  ScalarEmitter scalars;
  KernelShape shape;
  Block &body;
  SmallVector<Value> outputs;
  Value begin, end, zero;
  Index index; // of the domain, at the insertion point
  int64_t extent = 1, grain = 1;

  Value constant(int64_t value) { return arith::ConstantIndexOp::create(b, value); }

  OperandRange yielded() { return cast<exec::YieldOp>(body.getTerminator()).getValues(); }

  bool isFull(Value value) { return typeOf(value).getShape() == ArrayRef<int64_t>(shape.domain); }

  // Takes the outermost loop as the parallel one. A unit is one iteration, of `unitElements`.
  void setParallel(int64_t size, int64_t unitElements) {
    extent = size;
    grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, unitElements));
    if (unitElements == 1) {
      grain = llvm::alignTo(grain, kCutElements);
    }
  }

  // Emits nested loops over `dims` around `emitBody`; the first of them runs over [begin, end) when `parallel`. Without dims a parallel
  // nest is one unit, still done only when the range holds it.
  void nest(ArrayRef<LoopDim> dims, bool parallel, llvm::function_ref<void()> emitBody) {
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

  // Emits nested loops over `dims` that carry `carried`; returns what they end with. `step` maps the carried values to the next ones.
  SmallVector<Value> reduceNest(ArrayRef<LoopDim> dims, SmallVector<Value> carried,
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

  // Stores the full results, or the others, at the current index: all are computed before the first is stored, since one may overwrite an
  // operand.
  void storeResults(llvm::function_ref<bool(Value)> wanted) {
    SmallVector<std::pair<unsigned, Value>> elements;
    for (auto [i, value] : llvm::enumerate(yielded())) {
      if (wanted(value)) {
        elements.push_back({i, scalars.emit(value, indexOf(value))});
      }
    }
    for (auto [i, element] : elements) {
      Value value = yielded()[i];
      scalars.store(element, outputs[i], typeOf(value).getShape(), indexOf(value));
    }
  }

  // The current index of a value whose dims are the leading dims of the domain.
  Index indexOf(Value value) { return Index(ArrayRef<Value>(index).take_front(typeOf(value).getRank())); }

  void emitLoop() {
    if (!shape.loops.empty()) {
      int64_t unit = 1;
      for (const LoopDim &dim : ArrayRef<LoopDim>(shape.loops).drop_front()) {
        unit *= dim.size;
      }
      setParallel(shape.loops.front().size, unit);
    }
    nest(shape.loops, /*parallel=*/true, [&] { storeResults([](Value) { return true; }); });
  }

  //===-- Rows ------------------------------------------------------------------------------------------------------------------------===//

  // The number of reductions that must be done before `value` can be: a reduction of level n runs in pass n over the row.
  DenseMap<Value, int64_t> levels;
  // The passes over the row that evaluate a full value; what is expensive and needed by several is copied.
  DenseMap<Value, SmallVector<int64_t>> passesOf;

  int64_t computeLevels() {
    int64_t last = 0;
    for (Operation &op : body.without_terminator()) {
      int64_t level = 0;
      for (Value operand : op.getOperands()) {
        level = std::max(level, levels.lookup(operand));
      }
      level += isa<nn::ReduceOp>(op) ? 1 : 0;
      levels[op.getResult(0)] = level;
      last = std::max(last, level);
    }
    return last;
  }

  void markPass(Value value, int64_t pass) {
    Operation *op = value.getDefiningOp();
    if (!op || isa<nn::ReduceOp>(op) || !isFull(value) || llvm::is_contained(passesOf[value], pass)) {
      return;
    }
    passesOf[value].push_back(pass);
    for (Value operand : op->getOperands()) {
      markPass(operand, pass);
    }
  }

  static bool isExpensive(Operation *op) {
    return isa<nn::ExpOp, nn::LogOp, nn::TanhOp, nn::ErfOp, nn::PowOp, nn::SigmoidOp, nn::GeluOp, nn::DivOp, nn::SqrtOp, nn::RandomOp>(op);
  }

  // Gives every expensive full value that several passes need a copy on the stack. Returns them by the pass that fills them.
  DenseMap<int64_t, SmallVector<Value>> allocateScratch(int64_t rowElements) {
    DenseMap<int64_t, SmallVector<Value>> filledBy;
    int64_t left = kScratchBytes;
    for (Operation &op : body.without_terminator()) {
      Value value = op.getResult(0);
      auto passes = passesOf.find(value);
      Type element = typeOf(value).getElementType();
      if (passes == passesOf.end() || passes->second.size() < 2 || !isExpensive(&op) || rowElements * elementBytes(element) > left) {
        continue;
      }
      left -= rowElements * elementBytes(element);
      Value scratch = memref::AllocaOp::create(b, MemRefType::get({rowElements}, element));
      scalars.bindScratch(value, scratch);
      filledBy[*llvm::min_element(passes->second)].push_back(value);
    }
    return filledBy;
  }

  SmallVector<nn::ReduceOp> reductionsOfLevel(int64_t level) {
    SmallVector<nn::ReduceOp> found;
    for (auto reduce : body.getOps<nn::ReduceOp>()) {
      if (levels.lookup(reduce) == level) {
        found.push_back(reduce);
      }
    }
    return found;
  }

  void emitRows() {
    SmallVector<LoopDim> rows, inner;
    int64_t rowElements = 1;
    for (const LoopDim &dim : shape.loops) {
      (dim.reduced ? inner : rows).push_back(dim);
      rowElements *= dim.reduced ? dim.size : 1;
    }
    int64_t lastLevel = computeLevels();
    for (auto reduce : body.getOps<nn::ReduceOp>()) {
      markPass(reduce.getInput(), levels.lookup(reduce));
    }
    for (Value value : yielded()) {
      markPass(value, lastLevel + 1);
    }
    auto filledBy = allocateScratch(rowElements);
    if (!rows.empty()) {
      int64_t unit = rowElements;
      for (const LoopDim &dim : ArrayRef<LoopDim>(rows).drop_front()) {
        unit *= dim.size;
      }
      setParallel(rows.front().size, unit);
    }
    nest(rows, /*parallel=*/true, [&] { emitRow(inner, lastLevel, filledBy); });
  }

  void emitRow(ArrayRef<LoopDim> inner, int64_t lastLevel, DenseMap<int64_t, SmallVector<Value>> &filledBy) {
    for (int64_t level = 1; level <= lastLevel; ++level) {
      SmallVector<nn::ReduceOp> reductions = reductionsOfLevel(level);
      SmallVector<Value> neutral;
      for (nn::ReduceOp reduce : reductions) {
        neutral.push_back(emitNeutral(b, static_cast<int>(reduce.getKind()), reduce.getType().getElementType()));
      }
      SmallVector<Value> results = reduceNest(inner, neutral, [&](ArrayRef<Value> carried) {
        setScratchIndex(inner);
        SmallVector<Value> next;
        for (auto [reduce, accumulator] : llvm::zip_equal(reductions, carried)) {
          Value element = scalars.emit(reduce.getInput(), index);
          next.push_back(emitCombine(b, static_cast<int>(reduce.getKind()), accumulator, element));
        }
        return next;
      });
      for (auto [reduce, result] : llvm::zip_equal(reductions, results)) {
        scalars.bindScalar(reduce, result);
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
        storeResults([&](Value value) { return isFull(value); });
      });
    }
    storeResults([&](Value value) { return !isFull(value); });
  }

  void emitRowValues() {
    for (Operation &op : body.without_terminator()) {
      if (isElementwise(&op) && !isFull(op.getResult(0))) {
        scalars.emit(op.getResult(0), indexOf(op.getResult(0)));
      }
    }
  }

  // The position in the row, flat over the inner loops.
  void setScratchIndex(ArrayRef<LoopDim> inner) {
    Value flat;
    int64_t stride = 1;
    for (const LoopDim &dim : llvm::reverse(inner)) {
      Value term = stride == 1 ? index[dim.last] : arith::MulIOp::create(b, index[dim.last], constant(stride));
      flat = flat ? Value(arith::AddIOp::create(b, flat, term)) : term;
      stride *= dim.size;
    }
    scalars.setScratchIndex(flat ? flat : zero);
  }

  //===-- Columns ---------------------------------------------------------------------------------------------------------------------===//

  SmallVector<nn::ReduceOp> reductions;

  // The current index of a reduction's result: that of the dims it keeps.
  Index keptIndex() {
    Index kept;
    for (int64_t d = 0; d < static_cast<int64_t>(shape.domain.size()); ++d) {
      if (!llvm::is_contained(reductions.front().getDims(), d)) {
        kept.push_back(index[d]);
      }
    }
    return kept;
  }

  Value outputOf(nn::ReduceOp reduce) {
    auto found = llvm::find(yielded(), reduce.getResult());
    return outputs[std::distance(yielded().begin(), found)];
  }

  void storeFull() {
    storeResults([&](Value value) { return isFull(value); });
  }

  void emitColumns() {
    reductions.assign(body.getOps<nn::ReduceOp>().begin(), body.getOps<nn::ReduceOp>().end());
    SmallVector<LoopDim> kept, reduced;
    bool hasSuffix = !shape.loops.back().reduced;
    for (const LoopDim &dim : shape.loops) {
      (dim.reduced ? reduced : kept).push_back(dim);
    }
    int64_t reducedElements = 1;
    for (const LoopDim &dim : reduced) {
      reducedElements *= dim.size;
    }
    LoopDim suffix = kept.back();
    if (hasSuffix) {
      kept.pop_back();
    }
    bool suffixIsParallel = kept.empty();
    int64_t unit = reducedElements;
    for (const LoopDim &dim : ArrayRef<LoopDim>(kept).drop_front(kept.empty() ? 0 : 1)) {
      unit *= dim.size;
    }
    setParallel(suffixIsParallel ? suffix.size : kept.front().size, suffixIsParallel || !hasSuffix ? unit : unit * suffix.size);
    if (suffixIsParallel) {
      grain = llvm::alignTo(grain, kCutElements);
    }
    nest(kept, /*parallel=*/!suffixIsParallel, [&] {
      if (hasSuffix) {
        accumulateInMemory(reduced, suffix, suffixIsParallel);
      } else {
        accumulateInRegisters(reduced);
      }
    });
  }

  // No dim is kept inside the reduced ones: one scalar a reduction.
  void accumulateInRegisters(ArrayRef<LoopDim> reduced) {
    SmallVector<Value> neutral;
    for (nn::ReduceOp reduce : reductions) {
      neutral.push_back(emitNeutral(b, static_cast<int>(reduce.getKind()), reduce.getType().getElementType()));
    }
    SmallVector<Value> results = reduceNest(reduced, neutral, [&](ArrayRef<Value> carried) {
      SmallVector<Value> next;
      for (auto [reduce, accumulator] : llvm::zip_equal(reductions, carried)) {
        next.push_back(emitCombine(b, static_cast<int>(reduce.getKind()), accumulator, scalars.emit(reduce.getInput(), index)));
      }
      storeFull();
      return next;
    });
    for (auto [reduce, result] : llvm::zip_equal(reductions, results)) {
      scalars.store(result, outputOf(reduce), reduce.getType().getShape(), keptIndex());
    }
  }

  // The number of rows added in one pass over the accumulators.
  int64_t rowsAPass() {
    auto full = [&](Value value) { return isFull(value); };
    int64_t streams = llvm::count_if(body.getArguments(), full) + llvm::count_if(yielded(), full);
    return std::max<int64_t>(1, kColumnStreams / std::max<int64_t>(1, streams));
  }

  // The suffix is innermost: the results hold a row of accumulators, and each pass over it adds some rows.
  void accumulateInMemory(ArrayRef<LoopDim> reduced, const LoopDim &suffix, bool parallel) {
    nest({suffix}, parallel, [&] {
      for (nn::ReduceOp reduce : reductions) {
        Value neutral = emitNeutral(b, static_cast<int>(reduce.getKind()), reduce.getType().getElementType());
        scalars.store(neutral, outputOf(reduce), reduce.getType().getShape(), keptIndex());
      }
    });
    LoopDim innermost = reduced.back();
    nest(reduced.drop_back(), /*parallel=*/false, [&] {
      int64_t unroll = rowsAPass();
      int64_t whole = innermost.size - innermost.size % unroll;
      if (whole > 0) {
        auto loop = scf::ForOp::create(b, zero, constant(whole), constant(unroll));
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(loop.getBody());
        addRows(innermost, suffix, parallel, loop.getInductionVar(), unroll);
      }
      if (whole < innermost.size) {
        addRows(innermost, suffix, parallel, constant(whole), innermost.size - whole);
      }
    });
  }

  void addRows(const LoopDim &innermost, const LoopDim &suffix, bool parallel, Value first, int64_t count) {
    SmallVector<Value> rows;
    for (int64_t i = 0; i < count; ++i) {
      rows.push_back(i == 0 ? first : Value(arith::AddIOp::create(b, first, constant(i))));
    }
    nest({suffix}, parallel, [&] {
      SmallVector<Value> sums;
      for (nn::ReduceOp reduce : reductions) {
        sums.push_back(scalars.load(outputOf(reduce), reduce.getType().getShape(), keptIndex()));
      }
      for (Value row : rows) {
        index[innermost.last] = row;
        for (auto [i, reduce] : llvm::enumerate(reductions)) {
          sums[i] = emitCombine(b, static_cast<int>(reduce.getKind()), sums[i], scalars.emit(reduce.getInput(), index));
        }
        storeFull();
      }
      index[innermost.last] = zero;
      for (auto [i, reduce] : llvm::enumerate(reductions)) {
        scalars.store(sums[i], outputOf(reduce), reduce.getType().getShape(), keptIndex());
      }
    });
  }

  //===-- Scatter ---------------------------------------------------------------------------------------------------------------------===//

  // The current index of the result in the given row.
  Index indexInRow(Value row) {
    Index result{row};
    llvm::append_range(result, ArrayRef<Value>(index).drop_front(shape.rowRank));
    return result;
  }

  // Zeros, then the updates in the order of their places. Parallel over the columns, so one thread sums all of an element.
  void emitScatter() {
    auto scatter = *body.getOps<nn::ScatterAddOp>().begin();
    ArrayRef<int64_t> result = scatter.getType().getShape();
    SmallVector<LoopDim> places, columns;
    int64_t unit = result.front() + scatter.getIndices().getType().getNumElements();
    for (const LoopDim &dim : shape.loops) {
      (dim.reduced ? places : columns).push_back(dim);
    }
    if (!columns.empty()) {
      for (const LoopDim &dim : ArrayRef<LoopDim>(columns).drop_front()) {
        unit *= dim.size;
      }
      setParallel(columns.front().size, unit);
      grain = columns.size() == 1 ? llvm::alignTo(grain, kCutElements) : grain;
    }
    fillRows(columns, result, emitNeutral(b, static_cast<int>(nn::Reduction::Sum), scatter.getType().getElementType()));
    nest(places, /*parallel=*/false, [&] {
      Value row = scalars.emitRow(scatter.getIndices(), Index(ArrayRef<Value>(index).take_front(shape.rowRank)));
      auto branch = scf::IfOp::create(b, scalars.emitIsRow(row, result.front()), /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(b);
      ScalarEmitter::Memo saved = scalars.save();
      b.setInsertionPointToStart(branch.thenBlock());
      nest(columns, /*parallel=*/true, [&] {
        Value sum = scalars.load(outputs.front(), result, indexInRow(row));
        sum = emitCombine(b, static_cast<int>(nn::Reduction::Sum), sum, scalars.emit(scatter.getUpdates(), index));
        scalars.store(sum, outputs.front(), result, indexInRow(row));
      });
      scalars.restore(std::move(saved));
    });
  }

  void fillRows(ArrayRef<LoopDim> columns, ArrayRef<int64_t> result, Value element) {
    auto rows = scf::ForOp::create(b, zero, constant(result.front()), constant(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(rows.getBody());
    nest(columns, /*parallel=*/true, [&] { scalars.store(element, outputs.front(), result, indexInRow(rows.getInductionVar())); });
  }
};

} // namespace

FailureOr<func::FuncOp> emitKernel(exec::FusionOp fusion, ArrayRef<int64_t> alias, SymbolTable &symbols, StringRef name) {
  if (fusion.getKind() == exec::FusionKind::Gemm) {
    return fusion.emitOpError("of kind gemm has no generated kernel");
  }
  for (Operation &op : fusion.getBody().front().without_terminator()) {
    Type element = typeOf(op.getResult(0)).getElementType();
    if (element.isF16() || element.isBF16()) {
      return fusion.emitOpError("computes in ") << element << ", which the cpu target does not implement yet; use f32";
    }
  }
  SmallVector<Type> arguments;
  for (Value input : fusion.getInputs()) {
    arguments.push_back(flatType(typeOf(input)));
  }
  for (auto [output, operand] : llvm::zip_equal(fusion.getOutputs(), alias)) {
    if (operand < 0) {
      arguments.push_back(flatType(typeOf(output)));
    }
  }
  OpBuilder builder(fusion.getContext());
  arguments.append(2, builder.getIndexType());
  auto function = func::FuncOp::create(fusion.getLoc(), name, builder.getFunctionType(arguments, {}));
  symbols.insert(function);
  KernelEmitter(fusion, function).emit(alias);
  return function;
}

bool mayAlias(exec::FusionOp fusion, unsigned operand, unsigned result) {
  if (fusion.getKind() == exec::FusionKind::Gemm || fusion.getKind() == exec::FusionKind::Scatter ||
      fusion.getInputs()[operand].getType() != fusion.getOutputs()[result].getType()) {
    return false;
  }
  // Every element-wise op reads the operand where it writes; a view may read it elsewhere, a reduction's own result is accumulated before
  // all is read.
  Value argument = fusion.getBody().getArgument(operand);
  Value yielded = fusion.getBody().front().getTerminator()->getOperand(result);
  if (auto reduce = yielded.getDefiningOp<nn::ReduceOp>(); reduce && fusion.getKind() == exec::FusionKind::Columns) {
    return false;
  }
  KernelShape shape = KernelShape::get(fusion);
  bool isFull = typeOf(yielded).getShape() == ArrayRef<int64_t>(shape.domain);
  return llvm::all_of(argument.getUsers(), [&](Operation *user) {
    return isElementwise(user) || (isFull && isa<nn::ReduceOp>(user)) || isa<exec::YieldOp>(user);
  });
}

} // namespace ashlar::lower
