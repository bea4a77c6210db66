// SPDX-License-Identifier: Apache-2.0
//
// dist ops on all simulated ranks at once. Sums run in double over the group, in the group's order, and are rounded once.

#include "compiler/reference/collectives.h"

#include "dialects/dist/dist.h"
#include "dialects/support/tensor_values.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::reference {

namespace {

using Ranks = ArrayRef<std::vector<Tensor>>;

dist::MeshAttr meshOf(Operation *op) {
  return dist::findMesh(op->getParentOfType<ModuleOp>()).getMesh();
}

// Returns the combination of all parts, element by element.
Tensor combine(Reduction kind, ArrayRef<const Tensor *> parts) {
  Tensor result(parts.front()->getType());
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    double floatTotal = result.isFloat() ? parts.front()->getFloat(i) : 0;
    int64_t intTotal = result.isFloat() ? 0 : parts.front()->getInt(i);
    auto join = [kind](auto total, auto x) {
      return kind == Reduction::Sum ? total + x : kind == Reduction::Max ? std::max(total, x) : std::min(total, x);
    };
    for (const Tensor *part : parts.drop_front()) {
      if (result.isFloat()) {
        floatTotal = join(floatTotal, part->getFloat(i));
      } else if (result.isWord() || kind == Reduction::Sum) { // sums wrap around
        intTotal = static_cast<int64_t>(join(static_cast<uint64_t>(intTotal), static_cast<uint64_t>(part->getInt(i))));
      } else {
        intTotal = join(intTotal, part->getInt(i));
      }
    }
    if (result.isFloat()) {
      result.setFloat(i, floatTotal);
    } else {
      result.setInt(i, intTotal);
    }
  }
  return result;
}

// Returns piece `number` of `pieces` equal ones along `dim`.
Tensor pieceOf(const Tensor &whole, int64_t dim, int64_t number, int64_t pieces) {
  Index shape(whole.getShape());
  shape[dim] /= pieces;
  Tensor piece(whole.getType().clone(shape));
  forEachIndex(shape, [&](ArrayRef<int64_t> index, int64_t i) {
    Index from(index);
    from[dim] += number * shape[dim];
    piece.copyElement(i, whole, whole.linearize(from));
  });
  return piece;
}

// Puts equal pieces side by side along `dim`.
Tensor join(ArrayRef<Tensor> pieces, int64_t dim) {
  Index shape(pieces.front().getShape());
  int64_t size = shape[dim];
  shape[dim] *= pieces.size();
  Tensor whole(pieces.front().getType().clone(shape));
  for (auto [number, piece] : llvm::enumerate(pieces)) {
    forEachIndex(piece.getShape(), [&, number = number, &piece = piece](ArrayRef<int64_t> index, int64_t i) {
      Index to(index);
      to[dim] += number * size;
      whole.copyElement(whole.linearize(to), piece, i);
    });
  }
  return whole;
}

// Calls `body` with operand `number` of each group of devices over `axes`; its result r belongs to the group's device r.
std::vector<Tensor> forEachGroup(Operation *op, unsigned number, Ranks ranks, ArrayAttr axes,
                                 llvm::function_ref<std::vector<Tensor>(ArrayRef<const Tensor *>)> body) {
  std::vector<Tensor> results(ranks.size());
  for (ArrayRef<int64_t> group : meshOf(op).groups(dist::toAxisList(axes))) {
    SmallVector<const Tensor *> operands;
    for (int64_t device : group) {
      operands.push_back(&ranks[device][number]);
    }
    for (auto [device, result] : llvm::zip_equal(group, body(operands))) {
      results[device] = std::move(result);
    }
  }
  return results;
}

std::vector<Tensor> allReduce(Operation *op, unsigned number, Ranks ranks) {
  auto allReduceOp = cast<dist::AllReduceOp>(op);
  return forEachGroup(op, number, ranks, allReduceOp.getAxes(), [&](ArrayRef<const Tensor *> operands) {
    return std::vector<Tensor>(operands.size(), combine(allReduceOp.getReduction(), operands));
  });
}

std::vector<Tensor> allGather(Operation *op, unsigned number, Ranks ranks) {
  auto gatherOp = cast<dist::AllGatherOp>(op);
  return forEachGroup(op, number, ranks, gatherOp.getAxes(), [&](ArrayRef<const Tensor *> operands) {
    SmallVector<Tensor> pieces = llvm::map_to_vector(operands, [](const Tensor *operand) { return *operand; });
    return std::vector<Tensor>(operands.size(), join(pieces, gatherOp.getDims()[number]));
  });
}

std::vector<Tensor> reduceScatter(Operation *op, unsigned number, Ranks ranks) {
  auto scatterOp = cast<dist::ReduceScatterOp>(op);
  return forEachGroup(op, number, ranks, scatterOp.getAxes(), [&](ArrayRef<const Tensor *> operands) {
    Tensor whole = combine(scatterOp.getReduction(), operands);
    std::vector<Tensor> results;
    for (size_t r = 0; r < operands.size(); ++r) {
      results.push_back(pieceOf(whole, scatterOp.getDims()[number], r, operands.size()));
    }
    return results;
  });
}

std::vector<Tensor> allToAll(Operation *op, unsigned number, Ranks ranks) {
  auto exchange = cast<dist::AllToAllOp>(op);
  return forEachGroup(op, number, ranks, exchange.getAxes(), [&](ArrayRef<const Tensor *> operands) {
    std::vector<Tensor> results;
    for (size_t r = 0; r < operands.size(); ++r) {
      SmallVector<Tensor> pieces;
      for (const Tensor *operand : operands) {
        pieces.push_back(pieceOf(*operand, exchange.getSplitDim(), r, operands.size()));
      }
      results.push_back(join(pieces, exchange.getConcatDim()));
    }
    return results;
  });
}

std::vector<Tensor> permute(Operation *op, unsigned number, Ranks ranks) {
  auto permuteOp = cast<dist::PermuteOp>(op);
  return forEachGroup(op, number, ranks, permuteOp.getAxes(), [&](ArrayRef<const Tensor *> operands) {
    std::vector<Tensor> results;
    for (int64_t source : permuteOp.getSources()) {
      results.push_back(*operands[source]);
    }
    return results;
  });
}

std::vector<Tensor> broadcast(Operation *op, unsigned number, Ranks ranks) {
  auto broadcastOp = cast<dist::BroadcastOp>(op);
  return forEachGroup(op, number, ranks, broadcastOp.getAxes(), [&](ArrayRef<const Tensor *> operands) {
    return std::vector<Tensor>(operands.size(), *operands[broadcastOp.getRoot()]);
  });
}

// Looks up each element that a device needs at the device that has it.
std::vector<Tensor> halo(Operation *op, unsigned number, Ranks ranks) {
  auto haloOp = cast<dist::HaloOp>(op);
  const dist::Halo segments = dist::haloOf(haloOp);
  const SmallVector<int64_t> sizes = dist::axisSizes(haloOp);
  const int64_t dim = haloOp.getDim();
  return forEachGroup(op, number, ranks, haloOp.getAxes(), [&](ArrayRef<const Tensor *> operands) {
    std::vector<Tensor> results;
    for (size_t r = 0; r < operands.size(); ++r) {
      Tensor &result = results.emplace_back(typeOf(op->getResult(0))); // zeros
      dist::Segment needed = dist::segmentAt(sizes, segments.size, segments.to, r);
      for (size_t s = 0; s < operands.size(); ++s) {
        dist::Segment held = dist::segmentAt(sizes, segments.size, segments.from, s);
        forEachIndex(result.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
          int64_t element = needed.start + index[dim];
          if (element >= std::max(needed.begin, held.begin) && element < std::min(needed.end, held.end)) {
            Index from(index);
            from[dim] = element - held.start;
            result.copyElement(i, *operands[s], operands[s]->linearize(from));
          }
        });
      }
    }
    return results;
  });
}

std::vector<Tensor> slice(Operation *op, unsigned number, Ranks ranks) {
  auto sliceOp = cast<dist::SliceOp>(op);
  return forEachGroup(op, number, ranks, sliceOp.getAxes(), [&](ArrayRef<const Tensor *> operands) {
    std::vector<Tensor> results;
    for (auto [r, operand] : llvm::enumerate(operands)) {
      results.push_back(pieceOf(*operand, sliceOp.getDim(), r, operands.size()));
    }
    return results;
  });
}

std::vector<Tensor> axisIndex(Operation *op, unsigned, Ranks ranks) {
  dist::AxisList axes = dist::toAxisList(cast<dist::AxisIndexOp>(op).getAxes());
  dist::MeshAttr mesh = meshOf(op);
  std::vector<Tensor> results(ranks.size(), Tensor(typeOf(op->getResult(0))));
  for (auto [device, result] : llvm::enumerate(results)) {
    result.setInt(0, mesh.axisIndex(device, axes));
  }
  return results;
}

} // namespace

CollectiveSemantics findCollective(Operation *op) {
  return llvm::TypeSwitch<Operation *, CollectiveSemantics>(op)
      .Case([](dist::AllReduceOp) { return allReduce; })
      .Case([](dist::AllGatherOp) { return allGather; })
      .Case([](dist::ReduceScatterOp) { return reduceScatter; })
      .Case([](dist::AllToAllOp) { return allToAll; })
      .Case([](dist::PermuteOp) { return permute; })
      .Case([](dist::BroadcastOp) { return broadcast; })
      .Case([](dist::HaloOp) { return halo; })
      .Case([](dist::SliceOp) { return slice; })
      .Case([](dist::AxisIndexOp) { return axisIndex; })
      .Default([](Operation *) { return nullptr; });
}

} // namespace ashlar::reference
