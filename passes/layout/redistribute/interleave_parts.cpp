// SPDX-License-Identifier: Apache-2.0
//
// ashlar-interleave-parts: decides on the layout problem which dims get another order (interleaved_dims.h), and writes it into the
// programs.

#include "dialects/nn/nn.h"
#include "dialects/support/tensor_values.h"
#include "passes/layout/inference/given_layout.h"
#include "passes/layout/passes.h"
#include "passes/layout/redistribute/estimate.h"
#include "passes/layout/redistribute/interleaved_dims.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_INTERLEAVEPARTSPASS
#include "passes/layout/passes.h.inc"

namespace {

using Sizes = SmallVector<int64_t>;

// Returns as many of the axes, from the major one on, as split a size evenly.
AxisList fitting(MeshAttr mesh, ArrayRef<StringAttr> axes, int64_t size) {
  while (size % mesh.groupSize(axes) != 0) {
    axes = axes.drop_back();
  }
  return AxisList(axes);
}

// Returns a list with three elements for element `dim`.
template <typename List, typename Element> List spread(const List &list, unsigned dim, Element first, Element second, Element third) {
  List result(list);
  result[dim] = first;
  result.insert(result.begin() + dim + 1, {second, third});
  return result;
}

// Writes the orders of dims into the programs of their problem. An ordered dim of parts, each of `shards` shares, is (shards, parts,
// share); that of the model is (parts, shards, share).
class Interleaver {
public:
  Interleaver(const LayoutProblem &problem, const InterleavedDims &dims) : problem(problem), dims(dims) {}

  void run() {
    for (unsigned op = 0; op < problem.ops.size(); ++op) {
      for (auto [operand, value] : llvm::enumerate(problem.ops[op].operands)) {
        takeInOrder(op, operand, value);
      }
    }
    for (const PartCut &cut : dims.getCuts()) {
      rewrite(problem.ops[cut.op].op, cut);
    }
    for (const PartCut &cut : dims.getCuts()) { // all at once: values are keys
      problem.ops[cut.op].op->erase();
    }
  }

private:
  // Lets an op take a value in the order in which it computes.
  void takeInOrder(unsigned op, unsigned operand, unsigned value) {
    const ProblemOp &row = problem.ops[op];
    const unsigned rank = problem.typeOf(value).getRank();
    SmallVector<const PartOrder *> taken;
    bool differs = false;
    for (unsigned dim = 0; dim < rank; ++dim) {
      taken.push_back(dims.findTaken(op, operand, dim));
      differs |= taken.back() != dims.findMade(value, dim);
    }
    DenseElementsAttr known;
    if (!differs || (matchPattern(problem.values[value].value, m_Constant(&known)) && known.isSplat())) {
      return;
    }
    auto [found, isNew] = ordered.try_emplace({value, taken});
    if (isNew) {
      Value changed = problem.values[value].value;
      ImplicitLocOpBuilder builder(row.rule ? row.op->getLoc() : changed.getLoc(), row.op->getContext());
      builder.setInsertionPointAfterValue(changed);
      Layout layout = problem.tensors[problem.values[value].tensor].given->layout;
      for (unsigned dim = 0; dim < rank; ++dim) {
        const PartOrder *made = dims.findMade(value, dim);
        changed = made && made != taken[dim] ? reorder(builder, changed, dim, *made, layout, /*toModel=*/true) : changed;
        changed = taken[dim] && made != taken[dim] ? reorder(builder, changed, dim, *taken[dim], layout, /*toModel=*/false) : changed;
      }
      found->second = changed;
    }
    row.op->setOperand(operand, found->second);
  }

  // Builds a value with a dim in the order of the model, or in another one, and its layout, in place of that of the value. What is split in
  // the dim splits the parts meanwhile, or another dim: an exchange moves less than a gather.
  Value reorder(ImplicitLocOpBuilder &builder, Value value, unsigned dim, const PartOrder &order, Layout &layout, bool toModel) {
    const int64_t share = shapeOf(value)[dim] / (order.parts * order.shards), rank = shapeOf(value).size();
    const AxisList none, axes = layout.dims[dim];
    Layout ofModel = layout;
    AxisList ofParts = fitting(problem.mesh, axes, order.parts);
    if (const unsigned other = findOther(shapeOf(value), layout, dim); ofParts != axes && other != dim) {
      ofModel.dims[other] = axes;
      ofParts.clear();
    }
    ofModel.dims = spread(ofModel.dims, dim, ofParts, none, none);
    if (!toModel && axes.empty() && llvm::none_of(order.axes, [&](StringAttr axis) { return layout.uses(axis); })) {
      layout.dims[dim] = order.axes; // each device has its shard
    }
    Layout ofShards = layout;
    ofShards.dims = spread(layout.dims, dim, fitting(problem.mesh, layout.dims[dim], order.shards), none, none);
    Sizes parts = spread(Sizes(shapeOf(value)), dim, order.parts, order.shards, share);
    Sizes shards = spread(Sizes(shapeOf(value)), dim, order.shards, order.parts, share);
    Sizes permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank + 2));
    std::swap(permutation[dim], permutation[dim + 1]);
    const RankedTensorType type = typeOf(value);
    Value apart = reshape(builder, value, toModel ? shards : parts, toModel ? ofShards : ofModel, order.origins);
    auto turned = nn::TransposeOp::create(builder, apart, permutation);
    describe(turned, toModel ? ofModel : ofShards, order.origins);
    return reshape(builder, turned, type.getShape(), layout, order.origins);
  }

  // Returns the largest other dim that the axes of a dim may split instead; the dim itself if there is none.
  unsigned findOther(ArrayRef<int64_t> shape, const Layout &layout, unsigned dim) const {
    unsigned best = dim;
    for (unsigned other = 0; other < shape.size(); ++other) {
      const bool fits = other != dim && layout.dims[other].empty() && dist::isEven(problem.mesh, shape[other], layout.dims[dim]);
      best = fits && (best == dim || shape[other] > shape[best]) ? other : best;
    }
    return best;
  }

  // Lets an op cut a dim in its order: it takes or makes the part of each shard.
  void rewrite(Operation *op, const PartCut &cut) {
    const unsigned dim = cut.dim;
    const PartOrder &order = cut.order;
    ImplicitLocOpBuilder builder(op->getLoc(), op);
    const Value result = op->getResult(0);
    const int64_t share = cut.unit / order.shards;
    auto layoutOf = [&](Value value) {
      Layout layout = dist::findLayout(value).getLayout();
      layout.dims = spread(layout.dims, dim, fitting(problem.mesh, layout.dims[dim], order.shards), AxisList(), AxisList());
      return layout;
    };
    auto apart = [&](Value value) {
      Value &known = spreadValues[{value.getAsOpaquePointer(), dim, cut.unit}];
      if (!known) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointAfterValue(value);
        const int64_t parts = shapeOf(value)[dim] / cut.unit;
        known = reshape(builder, value, spread(Sizes(shapeOf(value)), dim, order.shards, parts, share), layoutOf(value), order.origins);
      }
      return known;
    };
    auto sizes = [&](ArrayRef<int64_t> list, int64_t first, int64_t second, int64_t third) {
      return spread(Sizes(list), dim, first, second, third);
    };
    Value made = llvm::TypeSwitch<Operation *, Value>(op)
                     .Case([&](nn::SliceOp slice) {
                       const int64_t begin = slice.getStarts()[dim] / cut.unit, end = slice.getLimits()[dim] / cut.unit;
                       return nn::SliceOp::create(builder, apart(slice.getInput()), sizes(slice.getStarts(), 0, begin, 0),
                                                  sizes(slice.getLimits(), order.shards, end, share), sizes(slice.getSteps(), 1, 1, 1));
                     })
                     .Case([&](nn::PadOp pad) {
                       const Sizes shape = sizes(shapeOf(result), order.shards, shapeOf(result)[dim] / cut.unit, share);
                       return nn::PadOp::create(builder, typeOf(result).clone(shape), apart(pad.getInput()),
                                                sizes(pad.getLow(), 0, pad.getLow()[dim] / cut.unit, 0), sizes(pad.getInterior(), 0, 0, 0));
                     })
                     .Case([&](nn::ConcatOp concat) {
                       return nn::ConcatOp::create(builder, llvm::map_to_vector(concat.getInputs(), apart), dim + 1);
                     });
    describe(made.getDefiningOp(), layoutOf(result), order.origins);
    auto joined = nn::ReshapeOp::create(builder, result.getType(), made);
    joined->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    Value(result).replaceAllUsesWith(joined);
  }

  static Value reshape(ImplicitLocOpBuilder &builder, Value value, ArrayRef<int64_t> shape, const Layout &layout, ArrayAttr origins) {
    auto op = nn::ReshapeOp::create(builder, typeOf(value).clone(shape), value);
    describe(op, layout, origins);
    return op;
  }

  static void describe(Operation *op, const Layout &layout, ArrayAttr origins) {
    op->setAttr(dist::kLayoutsAttr, ArrayAttr::get(op->getContext(), {dist::LayoutAttr::get(op->getContext(), layout)}));
    if (origins && layout.isSplit()) {
      op->setAttr(dist::kOriginsAttr, origins);
    }
  }

  const LayoutProblem &problem;
  const InterleavedDims &dims;
  std::map<std::pair<unsigned, SmallVector<const PartOrder *>>, Value> ordered; // by value and orders
  std::map<std::tuple<void *, unsigned, int64_t>, Value> spreadValues;          // by value, dim and unit
};

// Returns the time of the collectives of a module, one after the other.
FailureOr<int64_t> sendPsOf(ModuleOp module) {
  FailureOr<Estimate> estimate = estimateLayouts(module);
  if (failed(estimate)) {
    return failure();
  }
  int64_t sum = 0;
  llvm::for_each(estimate->programs, [&](const ProgramEstimate &program) { sum += program.sendPs; });
  return sum;
}

struct InterleaveParts : impl::InterleavePartsPassBase<InterleaveParts> {
  using InterleavePartsPassBase::InterleavePartsPassBase;

  void runOnOperation() override {
    MeshAttr mesh = requirePrograms(getOperation());
    if (!mesh) {
      return signalPassFailure();
    }
    if (llvm::none_of(getOperation().getOps<func::FuncOp>(), [](func::FuncOp program) { return nn::hasFlatRepeats(program.front()); })) {
      return;
    }
    FailureOr<LayoutProblem> problem = LayoutProblem::create(getOperation(), mesh);
    if (failed(problem)) {
      return signalPassFailure();
    }
    const InterleavedDims dims(*problem);
    if (dims.getCuts().empty()) {
      return;
    }
    OwningOpRef<ModuleOp> ordered = getOperation().clone();
    FailureOr<LayoutProblem> copy = LayoutProblem::create(*ordered, mesh);
    if (failed(copy)) {
      return signalPassFailure();
    }
    Interleaver(*copy, InterleavedDims(*copy)).run();
    FailureOr<int64_t> now = sendPsOf(getOperation()), then = sendPsOf(*ordered);
    if (failed(now) || failed(then)) {
      return signalPassFailure();
    }
    if (*then < *now) {
      getOperation().getBodyRegion().takeBody(ordered->getBodyRegion());
    }
  }
};

} // namespace

} // namespace ashlar::layout
