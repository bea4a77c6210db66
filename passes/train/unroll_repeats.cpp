// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-unroll-repeats; see passes.td.

#include "passes/train/passes.h"

#include "dialects/nn/repeat/repeats.h"
#include "dialects/nn/result_names.h"
#include "dialects/support/reference_tensor.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_UNROLLREPEATSPASS
#include "passes/train/passes.h.inc"

namespace {

using Values = SmallVector<Value>;

constexpr int64_t kMostOps = 1 << 20; // of all iterations

// Returns `value` under another shape; the value of that shape itself where it was reshaped before.
Value reshape(ImplicitLocOpBuilder &b, Value value, RankedTensorType type) {
  auto before = value.getDefiningOp<nn::ReshapeOp>();
  if (before && before.getInput().getType() == type) {
    return before.getInput();
  }
  return value.getType() == type ? value : nn::ReshapeOp::create(b, type, value).getResult();
}

// Returns the rows of a constant as constants; none for another value.
Values constantRows(ImplicitLocOpBuilder &b, Value value) {
  ElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements))) {
    return {};
  }
  RankedTensorType row = nn::rowType(typeOf(value));
  FailureOr<reference::Tensor> all = reference::Tensor::fromAttribute(elements);
  Values rows;
  for (int64_t place = 0; succeeded(all) && place < shapeOf(value)[0]; ++place) {
    reference::Tensor each(row);
    for (int64_t i = 0; i < row.getNumElements(); ++i) {
      each.copyElement(i, *all, place * row.getNumElements() + i);
    }
    rows.push_back(nn::ConstantOp::create(b, each.toAttribute()));
  }
  return rows;
}

// Returns the rows that a tensor was joined of; none where it was not.
Values joinedRows(ImplicitLocOpBuilder &b, Value value) {
  auto concat = value.getDefiningOp<nn::ConcatOp>();
  const bool isOfRows =
      concat && concat.getDim() == 0 && llvm::all_of(concat.getInputs(), [](Value part) { return shapeOf(part)[0] == 1; });
  Values rows;
  for (Value part : isOfRows ? concat.getInputs() : ValueRange()) {
    rows.push_back(reshape(b, part, nn::rowType(typeOf(value))));
  }
  return rows;
}

// Returns the rows of a tensor along dim 0. Tensors are halved until one row is left: the gradient of a slice is as large as the tensor
// that it is taken from, so slices of the whole would take the square of the number of rows.
Values splitRows(ImplicitLocOpBuilder &b, Value value) {
  if (Values known = constantRows(b, value); !known.empty()) {
    return known;
  }
  if (Values known = joinedRows(b, value); !known.empty()) {
    return known;
  }
  auto slice = [&](Value part, int64_t begin, int64_t end) -> Value {
    SmallVector<int64_t> starts(typeOf(part).getRank(), 0), limits(shapeOf(part)), steps(starts.size(), 1);
    starts[0] = begin;
    limits[0] = end;
    return nn::SliceOp::create(b, part, starts, limits, steps);
  };
  Values parts;
  if (shapeOf(value)[0] > 0) {
    parts.push_back(value);
  }
  while (!parts.empty() && shapeOf(parts.front())[0] > 1) { // the first part is never smaller than another one
    Values halves;
    for (Value part : parts) {
      const int64_t size = shapeOf(part)[0], half = (size + 1) / 2;
      halves.push_back(half < size ? slice(part, 0, half) : part);
      if (half < size) {
        halves.push_back(slice(part, half, size));
      }
    }
    parts = std::move(halves);
  }
  for (Value &part : parts) {
    part = reshape(b, part, nn::rowType(typeOf(value)));
  }
  return parts;
}

// Returns the rows as one tensor of this type.
Value joinRows(ImplicitLocOpBuilder &b, Values rows, RankedTensorType type) {
  if (rows.empty()) {
    return nn::ConstantOp::create(b, nn::splat(type, 0));
  }
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = 1;
  for (Value &row : rows) {
    row = nn::ReshapeOp::create(b, type.clone(shape), row);
  }
  return rows.size() == 1 ? rows.front() : nn::ConcatOp::create(b, rows, /*dim=*/0).getResult();
}

// Returns the names of the tensors of a function.
llvm::StringSet<> namesOf(func::FuncOp function) {
  llvm::StringSet<> names;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (auto name = function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr)) {
      names.insert(name.getValue());
    }
  }
  function.walk([&](Operation *op) {
    for (OpResult result : op->getResults()) {
      llvm::for_each(nn::namesOf(result), [&](StringRef name) { names.insert(name); });
    }
  });
  return names;
}

// A tensor of the model has one name: the names of a body get the number of the iteration. One that the model has for another tensor is
// left out.
void numberNames(Operation *op, int64_t iteration, llvm::StringSet<> &taken) {
  if (!op->hasAttr(nn::kOutputsAttr)) {
    return;
  }
  SmallVector<SmallVector<std::string>> names;
  for (OpResult result : op->getResults()) {
    names.push_back(llvm::map_to_vector(nn::namesOf(result), [](StringRef name) { return name.str(); }));
  }
  op->removeAttr(nn::kOutputsAttr);
  op->removeAttr(nn::kAliasesAttr);
  for (auto [result, all] : llvm::zip_equal(op->getResults(), names)) {
    for (const std::string &name : all) {
      if (std::string numbered = name + "/" + std::to_string(iteration); taken.insert(numbered).second) {
        nn::addName(result, numbered);
      }
    }
  }
}

// Copies the body of a repeat for one iteration. Returns the yielded values.
Values copyBody(OpBuilder &builder, nn::RepeatOp op, ValueRange arguments, int64_t iteration, llvm::StringSet<> &names) {
  IRMapping mapping;
  mapping.map(op.getBody().getArguments(), arguments);
  for (Operation &each : op.getBody().front().without_terminator()) {
    numberNames(builder.clone(each, mapping), iteration, names);
  }
  return llvm::map_to_vector(op.getYielded(), [&](Value value) { return mapping.lookup(value); });
}

// `names`: of the tensors of the function.
void unroll(nn::RepeatOp op, llvm::StringSet<> &names) {
  if (op.getCondition()) {
    nn::selectResults(op);
    return;
  }
  ImplicitLocOpBuilder b(op.getLoc(), op);
  const int64_t count = op.getCount();
  SmallVector<Values> rows = llvm::map_to_vector(op.getSliced(), [&](Value value) { return splitRows(b, value); });
  Values carried(op.getCarried());
  SmallVector<Values> stacked(op.getStackedResults().size(), Values(count));
  for (int64_t iteration = 0; iteration < count; ++iteration) {
    const int64_t place = op.getPlace(iteration);
    Values arguments = carried;
    for (const Values &each : rows) {
      arguments.push_back(each[place]);
    }
    llvm::append_range(arguments, op.getCaptured());
    Values yielded = copyBody(b, op, arguments, iteration, names);
    for (auto [each, row] : llvm::zip_equal(stacked, ArrayRef(yielded).drop_front(carried.size()))) {
      each[place] = row;
    }
    yielded.truncate(carried.size());
    carried = std::move(yielded);
  }
  for (auto [result, rowsOfResult] : llvm::zip_equal(op.getStackedResults(), stacked)) {
    carried.push_back(joinRows(b, rowsOfResult, typeOf(result)));
  }
  for (auto [result, value] : llvm::zip_equal(op->getResults(), carried)) {
    if (auto made = dyn_cast<OpResult>(value); made && !isa<nn::ReadOp>(made.getOwner())) {
      nn::moveNames(result, made);
    }
    result.replaceAllUsesWith(value);
  }
  op.erase();
}

struct UnrollRepeatsPass : public impl::UnrollRepeatsPassBase<UnrollRepeatsPass> {
  void runOnOperation() override {
    SmallVector<nn::RepeatOp> repeats; // inner ones first
    getOperation().walk([&](nn::RepeatOp op) { repeats.push_back(op); });
    llvm::StringSet<> names = repeats.empty() ? llvm::StringSet<>() : namesOf(getOperation());
    int64_t written = 0; // ops
    for (nn::RepeatOp op : repeats) {
      const int64_t count = op.getCount(), ops = static_cast<int64_t>(op.getBody().front().getOperations().size());
      if (count > kMostOps / ops || (written += count * ops) > kMostOps) {
        op.emitError("has ") << count << " iterations of " << ops << " ops, but iterations that stand one after the other have at most "
                             << kMostOps << " ops in all; cut the sequences of the model in pieces";
        return signalPassFailure();
      }
      unroll(op, names);
    }
  }
};

} // namespace

} // namespace ashlar::train
