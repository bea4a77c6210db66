// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-segment-repeats; see passes.td.

#include "passes/train/passes.h"

#include "dialects/dist/recompute_rules.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/repeat/repeats.h"
#include "dialects/nn/result_names.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <cmath>
#include <map>

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_SEGMENTREPEATSPASS
#include "passes/train/passes.h.inc"

namespace {

// Fewer iterations than these have no segments that would save anything.
constexpr int64_t kLeastCount = 4;

// Returns the length of segments: about the square root of the count, and a divisor of it where one is near.
int64_t segmentLength(int64_t count) {
  const auto root = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  for (int64_t length = root; 3 * length >= 2 * root; --length) {
    if (count % length == 0) {
      return length;
    }
  }
  return root;
}

// Returns the bytes of the values of all iterations, of which a gradient needs about the same part in all repeats.
int64_t bytesOfIterations(nn::RepeatOp op) {
  int64_t bytes = 0;
  op.getBody().walk([&](Operation *each) { bytes += nn::countRuns(each) * static_cast<int64_t>(totalByteSize(each->getResultTypes())); });
  return bytes;
}

// Makes of a repeat one of segments, and one of the iterations that are left.
class Segmentation {
public:
  explicit Segmentation(nn::RepeatOp op)
      : op(op), b(op.getLoc(), op), count(op.getCount()), length(segmentLength(count)), segments(count / length), left(count % length) {}

  void run() {
    nn::RepeatOp outer = repeatSegments();
    SmallVector<Value> results(outer.getCarriedResults());
    for (auto [stack, whole] : llvm::zip_equal(outer.getStackedResults(), op.getStackedResults())) {
      results.push_back(reshape(stack, typeOf(whole).clone(withRows(shapeOf(whole), segments * length))));
    }
    if (left > 0) {
      results = repeatRest(results);
    }
    for (auto [result, value] : llvm::zip_equal(op->getResults(), results)) {
      nn::moveNames(result, cast<OpResult>(value));
      result.replaceAllUsesWith(value);
    }
    op.erase();
  }

private:
  static SmallVector<int64_t> withRows(ArrayRef<int64_t> shape, int64_t rows) {
    SmallVector<int64_t> other(shape);
    other[0] = rows;
    return other;
  }

  Value reshape(Value value, RankedTensorType type) { return nn::ReshapeOp::create(b, type, value); }

  // Returns rows of a sliced tensor: those of all segments, or those that are left, which come last.
  Value rowsOf(Value stack, bool isOfSegments) {
    const int64_t rows = isOfSegments ? segments * length : left;
    const bool areFirst = isOfSegments != op.getReversed();
    SmallVector<int64_t> begins(typeOf(stack).getRank(), 0), ends(shapeOf(stack)), steps(begins.size(), 1);
    begins[0] = areFirst ? 0 : count - rows;
    ends[0] = begins[0] + rows;
    return left == 0 ? stack : nn::SliceOp::create(b, stack, begins, ends, steps).getResult();
  }

  // Builds the repeat over `iterations` of the body, whose gradient computes it again.
  nn::RepeatOp repeatBody(OpBuilder &builder, int64_t iterations, ValueRange carried, ValueRange sliced) {
    SmallVector<Type> types(op.getCarriedResults().getTypes());
    for (Value whole : op.getStackedResults()) {
      types.push_back(typeOf(whole).clone(withRows(shapeOf(whole), iterations)));
    }
    auto made = nn::RepeatOp::create(builder, op.getLoc(), types, builder.getI64IntegerAttr(iterations), op.getReversedAttr(), carried,
                                     sliced, op.getCaptured(), /*condition=*/Value());
    IRMapping mapping;
    op.getBody().cloneInto(&made.getBody(), mapping);
    made->setAttr(nn::kComputedAgainAttr, builder.getUnitAttr());
    return made;
  }

  nn::RepeatOp repeatSegments() {
    auto block = std::make_unique<Block>();
    SmallVector<Value> carried, sliced, stacks;
    for (Value first : op.getCarried()) {
      carried.push_back(block->addArgument(first.getType(), first.getLoc()));
    }
    for (Value stack : op.getSliced()) {
      SmallVector<int64_t> shape = withRows(shapeOf(stack), length);
      sliced.push_back(block->addArgument(typeOf(stack).clone(shape), stack.getLoc()));
      shape.insert(shape.begin(), segments);
      stacks.push_back(reshape(rowsOf(stack, /*isOfSegments=*/true), typeOf(stack).clone(shape)));
    }
    OpBuilder inside(op.getContext());
    inside.setInsertionPointToEnd(block.get());
    nn::RepeatOp segment = repeatBody(inside, length, carried, sliced);
    return nn::createRepeat(b, op.getLoc(), segments, op.getReversed(), op.getCarried(), stacks, std::move(block), segment->getResults());
  }

  // Goes on with the iterations that are left. Returns the results of all, with `before` those of the segments.
  SmallVector<Value> repeatRest(ArrayRef<Value> before) {
    const size_t carried = op.getCarried().size();
    auto rows = llvm::map_to_vector(op.getSliced(), [&](Value stack) { return rowsOf(stack, /*isOfSegments=*/false); });
    nn::RepeatOp rest = repeatBody(b, left, before.take_front(carried), rows);
    SmallVector<Value> results(rest.getCarriedResults());
    for (auto [segment, last] : llvm::zip_equal(before.drop_front(carried), rest.getStackedResults())) {
      results.push_back(nn::ConcatOp::create(b, op.getReversed() ? ValueRange{last, segment} : ValueRange{segment, last}, /*dim=*/0));
    }
    return results;
  }

  nn::RepeatOp op;
  ImplicitLocOpBuilder b;
  const int64_t count, length, segments, left;
};

struct SegmentRepeatsPass : public impl::SegmentRepeatsPassBase<SegmentRepeatsPass> {
  void runOnOperation() override {
    const dist::RecomputeRules rules(getOperation());
    func::FuncOp step = nn::findProgram(getOperation(), nn::ProgramRole::TrainStep);
    const auto asked = getOperation()->getAttrOfType<IntegerAttr>(dist::kSegmentedLoopsAttr);
    if (!step || (rules.empty() && !asked)) {
      return;
    }
    SmallVector<nn::RepeatOp> repeats, others;
    step.walk([&](nn::RepeatOp op) {
      if (static_cast<int64_t>(op.getCount()) >= kLeastCount && nn::countRuns(op) == 1) { // in branches, too
        const std::optional<bool> recompute = rules.of(nn::getPath(op.getLoc())).recompute;
        (recompute == true ? repeats : others).append(recompute == false ? 0 : 1, op);
      }
    });
    if (asked) {
      std::multimap<int64_t, nn::RepeatOp, std::greater<>> largest; // by bytes; equal ones in the order of the program
      for (nn::RepeatOp op : others) {
        largest.emplace(bytesOfIterations(op), op);
      }
      for (auto [bytes, op] :
           llvm::make_range(largest.begin(), std::next(largest.begin(), std::min<int64_t>(asked.getInt(), largest.size())))) {
        repeats.push_back(op);
      }
      getOperation()->setAttr(dist::kSegmentedLoopsAttr, IntegerAttr::get(asked.getType(), static_cast<int64_t>(others.size())));
    }
    for (nn::RepeatOp op : repeats) {
      Segmentation(op).run();
    }
  }
};

} // namespace

} // namespace ashlar::train
