// SPDX-License-Identifier: Apache-2.0
//
// Finds the domain of a fusion and merges neighbouring dims that every op treats alike.

#include "passes/lower/kernels/kernel_shape.h"

#include "dialects/nn/nn.h"
#include "dialects/support/tensor_values.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

// breaks[d]: dims d and d + 1 of the domain cannot run as one loop.
using Breaks = SmallVector<bool>;

// A repeated dim and a read dim cannot merge; read dims stand side by side in the operand, so they can.
void breakAtBroadcast(nn::BroadcastOp op, Breaks &breaks) {
  for (int64_t d = 0; d + 1 < op.getType().getRank(); ++d) {
    breaks[d] = breaks[d] || llvm::is_contained(op.getDims(), d) != llvm::is_contained(op.getDims(), d + 1);
  }
}

void breakAtIndex(nn::IndexOp op, Breaks &breaks) {
  ArrayRef<int64_t> strides = op.getStrides();
  for (int64_t d = 0; d + 1 < op.getType().getRank(); ++d) {
    breaks[d] = breaks[d] || strides[d] != strides[d + 1] * op.getType().getDimSize(d + 1);
  }
}

void breakAtReduce(nn::ReduceOp op, Breaks &breaks) {
  for (int64_t d = 0; d + 1 < op.getInput().getType().getRank(); ++d) {
    breaks[d] = breaks[d] || llvm::is_contained(op.getDims(), d) != llvm::is_contained(op.getDims(), d + 1);
  }
}

// The batch, the places and the dims of a row.
void breakAtRow(IndexingOpInterface op, Breaks &breaks) {
  const size_t places = shapeOf(op.getIndicesMutable().get()).size();
  for (size_t end : {static_cast<size_t>(op.getIndexedDim()), places}) {
    if (end > 0 && end <= breaks.size()) {
      breaks[end - 1] = true;
    }
  }
}

bool readsMemory(Operation *op) {
  return llvm::all_of(op->getOperands(), [](Value operand) { return isa<BlockArgument>(operand); });
}

// Returns the value whose dims are the loops around an op: what it computes, or what it adds up.
Value valueOfDomain(Operation *op) {
  if (auto scatter = dyn_cast<nn::ScatterAddOp>(op)) {
    return scatter.getUpdates();
  }
  return isa<nn::ReduceOp>(op) ? op->getOperand(0) : op->getResult(0);
}

// Returns the breaks that all ops of the body agree on; all of them when one op moves elements about.
Breaks findBreaks(Block &body, ArrayRef<int64_t> domain) {
  Breaks breaks(domain.empty() ? 0 : domain.size() - 1, false);
  for (Operation &op : body.without_terminator()) {
    if (isa<nn::ConstantOp>(op)) {
      continue;
    }
    ArrayRef<int64_t> shape = shapeOf(valueOfDomain(&op));
    bool known = shape == domain.take_front(shape.size()) && shape.size() <= domain.size();
    if (auto broadcast = dyn_cast<nn::BroadcastOp>(op); broadcast && known) {
      Operation *source = broadcast.getInput().getDefiningOp();
      known = !source || !(source->hasTrait<MovesElements>() || isa<nn::IndexOp>(source));
    }
    bool isIndexing = isa<IndexingOpInterface>(op); // it reads its operands at other indices than those of the domain
    if (isIndexing) {
      known = known && readsMemory(&op);
    }
    if (!known || (op.hasTrait<MovesElements>() && !isIndexing && !isa<nn::BroadcastOp>(op))) {
      breaks.assign(breaks.size(), true);
      return breaks;
    }
    TypeSwitch<Operation *>(&op)
        .Case([&](nn::BroadcastOp broadcast) { breakAtBroadcast(broadcast, breaks); })
        .Case([&](IndexingOpInterface indexing) { breakAtRow(indexing, breaks); })
        .Case([&](nn::IndexOp index) { breakAtIndex(index, breaks); })
        .Case([&](nn::ReduceOp reduce) { breakAtReduce(reduce, breaks); });
  }
  return breaks;
}

} // namespace

KernelShape KernelShape::get(exec::FusionOp fusion) {
  Block &body = fusion.getBody().front();
  KernelShape shape;
  SmallVector<int64_t> reducedDims;
  if (fusion.getKind() == exec::FusionKind::AttentionKernel) { // no nest of loops
    return shape;
  }
  if (fusion.getKind() == exec::FusionKind::Loop) {
    llvm::append_range(shape.domain, shapeOf(fusion.getOutputs().front()));
  } else if (fusion.getKind() == exec::FusionKind::Scatter) {
    auto scatter = *body.getOps<nn::ScatterAddOp>().begin();
    llvm::append_range(shape.domain, shapeOf(scatter.getUpdates()));
    shape.rowRank = shapeOf(scatter.getIndices()).size();
    shape.batchDims = static_cast<int64_t>(scatter.getBatchDims());
    llvm::append_range(reducedDims, llvm::seq<int64_t>(shape.batchDims, shape.rowRank));
  } else {
    auto reduce = *body.getOps<nn::ReduceOp>().begin();
    llvm::append_range(shape.domain, shapeOf(reduce.getInput()));
    llvm::append_range(reducedDims, reduce.getDims());
    shape.rowRank = shape.domain.size() - reducedDims.size();
  }
  Breaks breaks = findBreaks(body, shape.domain);
  for (int64_t d = 0, first = 0, size = 1; d < static_cast<int64_t>(shape.domain.size()); ++d) {
    size *= shape.domain[d];
    if (d + 1 == static_cast<int64_t>(shape.domain.size()) || breaks[d]) {
      shape.loops.push_back({first, d, size, llvm::is_contained(reducedDims, d)});
      first = d + 1;
      size = 1;
    }
  }
  return shape;
}

} // namespace ashlar::lower
