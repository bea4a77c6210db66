// SPDX-License-Identifier: Apache-2.0
//
// One dist.halo a split dim, the dims one after the other: what lies across a corner goes there in two steps.

#include "passes/partition/exchange_windows.h"

#include "dialects/nn/nn.h"
#include "dialects/nn/repeated_dims.h"
#include "dialects/support/tensor_values.h"
#include "passes/partition/padding.h"

using namespace mlir;

namespace ashlar::partition {

namespace {

// Returns the op as the cause of a collective: by its module path, or its kind when it has none.
ArrayAttr causeOf(Operation *op) {
  StringRef path = nn::getPath(op->getLoc());
  StringRef kind = path.empty() ? op->getName().getStringRef() : StringRef();
  return ArrayAttr::get(op->getContext(), dist::EndAttr::get(op->getContext(), dist::EndKind::Op, path, kind));
}

dist::SegmentsAttr toAttr(MLIRContext *context, const dist::Segments &segments) {
  return dist::SegmentsAttr::get(context, segments.positions, segments.access.step, segments.access.first, segments.access.last);
}

Value emitHalo(ImplicitLocOpBuilder &b, dist::MeshAttr mesh, Value value, const dist::SplitWindow &window, ArrayAttr cause) {
  const SmallVector<int64_t> sizes = dist::axisSizes(mesh, window.axes);
  int64_t length = dist::segmentLength(sizes, window.halo->to);
  if (std::optional<int64_t> offset = dist::offsetInPieces(sizes, *window.halo)) {
    SmallVector<int64_t> starts(typeOf(value).getRank(), 0), limits(typeOf(value).getShape()), steps(starts.size(), 1);
    starts[window.dim] = *offset;
    limits[window.dim] = *offset + length;
    return nn::SliceOp::create(b, value, starts, limits, steps);
  }
  MLIRContext *context = b.getContext();
  return dist::HaloOp::create(b, dist::withLength(typeOf(value), window.dim, length), value, b.getI64IntegerAttr(window.dim),
                              b.getI64IntegerAttr(window.halo->size), toAttr(context, window.halo->from), toAttr(context, window.halo->to),
                              dist::toAttr(context, window.axes), cause);
}

// Returns the constant whose elements are all equal; null for another value.
DenseElementsAttr findSplat(Value value) {
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  return dense && dense.isSplat() ? dense : DenseElementsAttr();
}

// Returns the run that an op reads in the place of a piece. What is repeated along other dims is exchanged before that, and what is
// repeated along this one is on every device.
Value emitRun(ImplicitLocOpBuilder &b, dist::MeshAttr mesh, Value piece, const dist::SplitWindow &window, ArrayAttr cause) {
  auto repeated = piece.getDefiningOp<nn::BroadcastOp>();
  if (!repeated) {
    return emitHalo(b, mesh, piece, window, cause);
  }
  RankedTensorType type = dist::withLength(typeOf(piece), window.dim, window.length(mesh));
  std::optional<unsigned> dim = nn::findDimBeforeBroadcast(repeated, window.dim);
  if (!dim) {
    return maskRun(b, mesh, nn::BroadcastOp::create(b, type, repeated.getInput(), repeated.getDims()), window);
  }
  dist::SplitWindow before = window;
  before.dim = *dim;
  Value run = emitRun(b, mesh, repeated.getInput(), before, cause);
  return nn::BroadcastOp::create(b, type, run, repeated.getDims());
}

} // namespace

SmallVector<dist::SplitWindow> findWindows(dist::MeshAttr mesh, ShardingRuleOpInterface op) {
  ShardingRule rule = op.getShardingRule();
  if (rule.windows.empty()) {
    return {};
  }
  SmallVector<RankedTensorType> types;
  SmallVector<dist::Layout> layouts;
  auto add = [&](Value value) {
    dist::LayoutAttr layout = dist::findLayout(value);
    types.push_back(typeOf(value));
    layouts.push_back(layout ? layout.getLayout() : dist::Layout::replicated(types.back().getRank()));
  };
  llvm::for_each(op->getOperands(), add);
  llvm::for_each(op->getResults(), add);
  return dist::splitWindows(mesh, rule, types, layouts);
}

void exchangeOperands(dist::MeshAttr mesh, Operation *op, ArrayRef<dist::SplitWindow> windows) {
  ImplicitLocOpBuilder b(op->getLoc(), op);
  for (unsigned operand = 0; operand < op->getNumOperands(); ++operand) {
    SmallVector<dist::SplitWindow> own;
    llvm::copy_if(windows, std::back_inserter(own), [&](const dist::SplitWindow &w) { return w.tensor == operand && w.halo; });
    if (own.empty()) {
      continue;
    }
    Value run = op->getOperand(operand);
    if (DenseElementsAttr splat = findSplat(run)) { // every device knows it
      op->setOperand(operand, emitRunOf(b, mesh, splat, own));
      continue;
    }
    for (const dist::SplitWindow &window : own) {
      run = emitRun(b, mesh, run, window, causeOf(op));
    }
    op->setOperand(operand, run);
  }
}

void exchangeResults(dist::MeshAttr mesh, Operation *op, ArrayRef<dist::SplitWindow> windows) {
  auto windowed = dyn_cast<WindowedOpInterface>(op);
  if (!windowed) {
    return;
  }
  llvm::SmallBitVector dims(typeOf(op->getOperand(0)).getRank());
  ImplicitLocOpBuilder b(op->getLoc(), op);
  b.setInsertionPointAfter(op);
  for (const dist::SplitWindow &window : windows) {
    dims.set(window.dim);
    if (window.tensor < op->getNumOperands()) {
      continue;
    }
    OpResult result = op->getResult(window.tensor - op->getNumOperands());
    result.setType(dist::withLength(typeOf(result), window.dim, window.length(mesh)));
  }
  DenseMap<Value, Value> pieces; // of results, as far as they are exchanged
  for (const dist::SplitWindow &window : windows) {
    if (!window.halo || window.tensor < op->getNumOperands()) {
      continue;
    }
    OpResult result = op->getResult(window.tensor - op->getNumOperands());
    Value before = pieces.lookup_or(result, result);
    Value piece = emitHalo(b, mesh, before, window, causeOf(op));
    before.replaceAllUsesExcept(piece, piece.getDefiningOp());
    pieces[result] = piece;
  }
  b.setInsertionPoint(op);
  windowed.computeOnRuns(dims, [&](unsigned operand, unsigned dim) {
    const auto *window = llvm::find_if(windows, [&](const dist::SplitWindow &w) { return w.tensor == operand && w.dim == dim; });
    return emitRunStart(b, mesh, *window);
  });
}

} // namespace ashlar::partition
