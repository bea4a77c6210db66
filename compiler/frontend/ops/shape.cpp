// SPDX-License-Identifier: Apache-2.0
//
// Ops that move elements about, and those that ask for a shape.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/shape_rules.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

void importReshapeTo(Node &node, ArrayRef<int64_t> shape) {
  if (shape == node.inputType(0).getShape()) {
    return node.aliasResult(0, 0);
  }
  node.setResult(0, reshape(node, node.input(0), shape));
}

void importReshape(Node &node) {
  importReshapeTo(node, reshapedShape(node, node.inputType(0).getShape()));
}
void importSqueeze(Node &node) {
  importReshapeTo(node, squeezedShape(node, node.inputType(0).getShape()));
}
void importUnsqueeze(Node &node) {
  importReshapeTo(node, unsqueezedShape(node, node.inputType(0).getShape()));
}

void importFlatten(Node &node) {
  ArrayRef<int64_t> from = node.inputType(0).getShape();
  int64_t rank = from.size(), axis = node.getInt("axis", 1);
  if (axis < -rank || axis > rank) { // `rank` itself is allowed: all dims become rows
    node.fail("axis " + Twine(axis) + " is not in [" + Twine(-rank) + ", " + Twine(rank) + "]");
  }
  axis = axis < 0 ? axis + rank : axis;
  int64_t rows = 1, columns = 1;
  for (auto [i, dim] : llvm::enumerate(from)) {
    (static_cast<int64_t>(i) < axis ? rows : columns) *= dim;
  }
  importReshapeTo(node, {rows, columns});
}

void importTranspose(Node &node) {
  int64_t rank = node.inputType(0).getRank();
  SmallVector<int64_t> permutation = node.getInts("perm"), sorted;
  if (permutation.empty()) {
    permutation = llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, rank)));
  }
  sorted = permutation;
  llvm::sort(sorted);
  if (sorted != llvm::to_vector(llvm::seq<int64_t>(0, rank))) {
    node.fail("attribute \"perm\" is not a permutation of the " + Twine(rank) + " dims");
  }
  if (permutation == sorted) {
    return node.aliasResult(0, 0);
  }
  node.setResult(0, transpose(node, node.input(0), permutation));
}

void importConcat(Node &node) {
  if (node.numInputs() == 0) {
    node.fail("has no input");
  }
  RankedTensorType first = node.inputType(0);
  if (!node.hasAttribute("axis")) {
    node.fail("attribute \"axis\" is missing");
  }
  int64_t axis = node.getAxis("axis", 0, first.getRank());
  SmallVector<Value> parts;
  SmallVector<int64_t> joined(first.getShape());
  joined[axis] = 0;
  for (size_t i = 0; i < node.numInputs(); ++i) {
    RankedTensorType type = node.inputType(i);
    SmallVector<int64_t> expected(first.getShape());
    if (type.getRank() == first.getRank()) {
      expected[axis] = type.getDimSize(axis);
    }
    if (type != first.clone(expected)) {
      std::string types;
      llvm::raw_string_ostream(types) << type << " cannot be joined with input 0 of " << first << " along axis " << axis;
      node.fail("input " + Twine(i) + " of " + types);
    }
    joined[axis] = joinedSize(joined[axis], type.getDimSize(axis));
    parts.push_back(node.input(i));
  }
  node.checkSize(joined, first.getElementType());
  node.setResult(0, node.create<nn::ConcatOp>(parts, axis).getResult());
}

void importSlice(Node &node) {
  ArrayRef<int64_t> from = node.inputType(0).getShape();
  SliceBounds bounds = sliceBounds(node, from);
  bool isWhole = bounds.limits == Shape(from) && llvm::all_of(bounds.starts, [](int64_t s) { return s == 0; }) &&
                 llvm::all_of(bounds.steps, [](int64_t s) { return s == 1; });
  if (isWhole && bounds.reversed.empty()) {
    return node.aliasResult(0, 0);
  }
  Value value = node.input(0);
  if (!isWhole) {
    value = node.create<nn::SliceOp>(value, bounds.starts, bounds.limits, bounds.steps);
  }
  for (int64_t dim : bounds.reversed) {
    value = reverseAlong(node, value, dim);
  }
  node.setResult(0, value);
}

// Each dim that is repeated gets one in front of it, and both become one.
void importTile(Node &node) {
  RankedTensorType from = node.inputType(0);
  Shape repeats = node.intsInput(1, "repeats"), kept, dims, wide, to;
  if (repeats.size() != from.getShape().size()) {
    node.fail("has " + Twine(repeats.size()) + " repeats for " + Twine(from.getRank()) + " dims");
  }
  for (auto [d, size, count] : llvm::enumerate(from.getShape(), repeats)) {
    if (count < 0) {
      node.fail("repeats dim " + Twine(d) + " " + Twine(count) + " times");
    }
    if (llvm::MulOverflow(size, count, to.emplace_back())) {
      to.back() = INT64_MAX; // which no tensor has
    }
    if (count != 1) {
      wide.push_back(count);
    }
    if (count == 1 || size != 1) {
      dims.push_back(wide.size());
      wide.push_back(size);
      kept.push_back(size);
    }
  }
  node.checkSize(to, from.getElementType());
  if (to == Shape(from.getShape())) {
    return node.aliasResult(0, 0);
  }
  Value repeated = node.create<nn::BroadcastOp>(from.clone(wide), reshape(node, node.input(0), kept), dims);
  node.setResult(0, reshape(node, repeated, to));
}

// The sizes of the parts: given, or equal; from opset 18 on the last may be smaller.
SmallVector<int64_t> splitSizes(Node &node, int64_t size) {
  SmallVector<int64_t> sizes;
  if (node.getOpset() < 13) {
    sizes = node.getInts("split");
  } else if (node.hasInput(1)) {
    sizes = node.intsInput(1, "split");
  }
  int64_t parts = node.numResults();
  if (node.getOpset() >= 18 && node.getInt("num_outputs", parts) != parts) {
    node.fail("attribute \"num_outputs\" " + Twine(node.getInt("num_outputs", parts)) + " but there are " + Twine(parts) + " outputs");
  }
  if (sizes.empty()) {
    if (node.getOpset() < 18 && size % parts != 0) {
      node.fail("size " + Twine(size) + " does not split into " + Twine(parts) + " equal parts");
    }
    int64_t chunk = llvm::divideCeil(size, parts), left = size;
    for (int64_t i = 0; i < parts; ++i) {
      sizes.push_back(std::min(chunk, left));
      left -= sizes.back();
    }
  }
  int64_t sum = 0;
  for (int64_t part : sizes) {
    if (part < 0 || part > size) {
      node.fail("a part has size " + Twine(part) + " but size " + Twine(size) + " is split");
    }
    sum += part;
  }
  if (sum != size || static_cast<int64_t>(sizes.size()) != parts) {
    node.fail(Twine(sizes.size()) + " parts of " + Twine(sum) + " elements in all, but " + Twine(parts) + " outputs and size " +
              Twine(size));
  }
  return sizes;
}

void importSplit(Node &node) {
  RankedTensorType type = node.inputType(0);
  int64_t axis = node.getAxis("axis", 0, type.getRank()), at = 0;
  for (auto [i, size] : llvm::enumerate(splitSizes(node, type.getDimSize(axis)))) {
    if (node.hasResult(i)) {
      size == type.getDimSize(axis) ? node.aliasResult(i, 0) : node.setResult(i, sliceAlong(node, node.input(0), axis, at, at + size));
    }
    at += size;
  }
}

void importExpand(Node &node) {
  Shape shape = broadcastShapes(node, node.inputType(0).getShape(), node.intsInput(1, "shape"));
  node.checkSize(shape, node.inputType(0).getElementType());
  if (shape == node.inputType(0).getShape()) {
    return node.aliasResult(0, 0);
  }
  node.setResult(0, broadcastTo(node, node.input(0), shape));
}

// The counts of the dims of input 0, which is not asked for its value where there are none.
SmallVector<Value> inputCounts(const Node &node) {
  Value value = node.peekValue(0);
  return value ? node.countsOf(value) : SmallVector<Value>();
}

// Shape and Size need only the type of their input, and its counts: what has one is computed.
void importShape(Node &node) {
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  int64_t rank = shape.size();
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  int64_t start = clamp(node.getInt("start", 0)), end = clamp(node.getInt("end", rank)); // since opset 15
  ArrayRef<int64_t> part = start < end ? shape.slice(start, end - start) : ArrayRef<int64_t>();
  SmallVector<Value> counts = inputCounts(node), sizes;
  if (start < end && !counts.empty() && llvm::any_of(ArrayRef(counts).slice(start, end - start), [](Value count) { return !!count; })) {
    auto one = RankedTensorType::get({1}, node.builder().getI64Type());
    for (int64_t d = start; d < end; ++d) {
      sizes.push_back(counts[d] ? reshape(node, counts[d], {1}) : splatConstant(node, one, static_cast<double>(shape[d])));
    }
    return node.setResult(0, sizes.size() == 1 ? sizes.front() : node.create<nn::ConcatOp>(sizes, 0).getResult());
  }
  node.setResult(0, DenseElementsAttr::get(RankedTensorType::get({static_cast<int64_t>(part.size())}, node.builder().getI64Type()), part));
}

void importSize(Node &node) {
  if (!inputCounts(node).empty()) {
    Value value = node.input(0);
    return node.setResult(0, countElements(node, value, llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank()))));
  }
  node.setResult(0, DenseElementsAttr::get(RankedTensorType::get({}, node.builder().getI64Type()), node.inputType(0).getNumElements()));
}

constexpr RegistryRow kShapeRows[] = {
    {"Concat", importConcat},     {"Expand", importExpand},   {"Flatten", importFlatten},     {"Reshape", importReshape},
    flat({"Shape", importShape}), flat({"Size", importSize}), {"Slice", importSlice},         {"Split", importSplit},
    {"Squeeze", importSqueeze},   {"Tile", importTile},       {"Transpose", importTranspose}, {"Unsqueeze", importUnsqueeze},
};

} // namespace

ArrayRef<RegistryRow> shapeRows() {
  return kShapeRows;
}

} // namespace ashlar::frontend
