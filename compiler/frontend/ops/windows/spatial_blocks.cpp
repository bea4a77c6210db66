// SPDX-License-Identifier: Apache-2.0
//
// Ops that move blocks of an image between its channels and its space.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/ops/windows/window_rules.h"
#include "compiler/frontend/registry.h"

#include "dialects/nn/windows/window_views.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

// An image and its blocks.
struct Blocks {
  int64_t batch, channels, height, width, size;
  bool depthFirst; // the channels of a block's elements: element by element, or channel by channel
};

Blocks readBlocks(Node &node, int64_t modeSince) {
  RankedTensorType type = node.inputType(0);
  if (type.getRank() != 4) {
    node.fail("input is " + describeTensor(type) + ", not an image of batch, channels, height and width");
  }
  ArrayRef<int64_t> shape = type.getShape();
  constexpr int64_t kMost = int64_t{1} << 15; // so that channels / size^2 is a number
  const int64_t size = node.getInt("blocksize", 0);
  if (size < 1 || size > kMost) {
    node.fail("attribute \"blocksize\" is " + Twine(size) + ", not in [1, " + Twine(kMost) + "]");
  }
  std::string mode = node.getOpset() >= modeSince ? node.getString("mode", "DCR") : "DCR";
  if (mode != "DCR" && mode != "CRD") {
    node.fail("attribute \"mode\" is \"" + mode + "\"; use DCR or CRD");
  }
  return {shape[0], shape[1], shape[2], shape[3], size, mode == "DCR"};
}

void importDepthToSpace(Node &node) {
  Blocks image = readBlocks(node, /*modeSince=*/11);
  const int64_t size = image.size, channels = image.channels / (size * size);
  if (image.channels % (size * size) != 0) {
    node.fail("has " + Twine(image.channels) + " channels, not a multiple of blocksize^2 = " + Twine(size * size));
  }
  Value value = node.input(0);
  if (image.depthFirst) {
    value = reshape(node, value, {image.batch, size, size, channels, image.height, image.width});
    value = transpose(node, value, {0, 3, 4, 1, 5, 2});
  } else {
    value = reshape(node, value, {image.batch, channels, size, size, image.height, image.width});
    value = transpose(node, value, {0, 1, 4, 2, 5, 3});
  }
  node.setResult(0, reshape(node, value, {image.batch, channels, image.height * size, image.width * size}));
}

void importSpaceToDepth(Node &node) {
  Blocks image = readBlocks(node, /*modeSince=*/28);
  const int64_t size = image.size, height = image.height / size, width = image.width / size;
  if (image.height % size != 0 || image.width % size != 0) {
    node.fail("height " + Twine(image.height) + " and width " + Twine(image.width) + " are not multiples of blocksize " + Twine(size));
  }
  Value value = reshape(node, node.input(0), {image.batch, image.channels, height, size, width, size});
  value = transpose(node, value, image.depthFirst ? ArrayRef<int64_t>{0, 3, 5, 1, 2, 4} : ArrayRef<int64_t>{0, 1, 3, 5, 2, 4});
  node.setResult(0, reshape(node, value, {image.batch, image.channels * size * size, height, width}));
}

// Adds up the elements that blocks, which may overlap, have for each element of an image of any number of dims.
void importCol2Im(Node &node) {
  RankedTensorType type = node.inputType(0);
  Shape image = node.intsInput(1, "image_shape"), block = node.intsInput(2, "block_shape");
  if (image.empty() || image.size() != block.size() || type.getRank() != 3) {
    node.fail("input is " + describeTensor(type) + " for an image of " + Twine(image.size()) + " dims and blocks of " +
              Twine(block.size()) + "; it has to be batch, channels times elements of a block, and blocks");
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  int64_t elements = 1;
  for (auto [size, span] : llvm::zip_equal(image, block)) {
    if (size < 1 || span < 1 || std::max(size, span) > kMost || llvm::MulOverflow(elements, span, elements)) {
      node.fail("has an image of size " + Twine(size) + " and blocks of size " + Twine(span) + "; both have to be from 1 to " +
                Twine(kMost));
    }
  }
  Shape shape{type.getDimSize(0), type.getDimSize(1) / elements}, dims;
  for (size_t d = 0; d < image.size(); ++d) {
    dims.push_back(shape.size());
    shape.push_back(image[d]);
  }
  WindowAttributes attributes;
  attributes.kernel = block;
  attributes.strides = readSpatialInts(node, "strides", block.size(), /*least=*/1, /*byDefault=*/1);
  attributes.dilations = readSpatialInts(node, "dilations", block.size(), /*least=*/1, /*byDefault=*/1);
  std::tie(attributes.low, attributes.high) = readPads(node, block.size());
  ArrayAttr windows = node.builder().getArrayAttr(windowsOver(node, attributes, image));
  node.checkSize(shape, type.getElementType());
  int64_t blocks = 1;
  Shape split(ArrayRef(shape).take_front(2)), order{0, 1};
  llvm::append_range(split, block);
  for (auto [d, size] : llvm::enumerate(image)) {
    int64_t positions = *nn::windowAt(windows, d).countPositions(size);
    split.push_back(positions);
    blocks = llvm::MulOverflow(blocks, positions, blocks) ? -1 : blocks;
    order.push_back(2 + image.size() + d);
  }
  llvm::append_range(order, dims);
  if (shape[1] * elements != type.getDimSize(1) || blocks != type.getDimSize(2)) {
    node.fail("input is " + describeTensor(type) + ", not channels times " + Twine(elements) + " elements of a block, and " +
              Twine(blocks) + " blocks");
  }
  Value columns = transpose(node, reshape(node, node.input(0), split), order); // (batch, channels, positions..., block...)
  Shape whole = nn::withWindows(shape, dims, windows);
  node.checkSize(whole, type.getElementType());
  Value parts = node.create<nn::UnwindowsOp>(type.clone(whole), columns, dims, windows);
  node.setResult(0, reduce(node, Reduction::Sum, parts, nn::windowDims(dims)));
}

constexpr RegistryRow kSpatialBlockRows[] = {
    {"Col2Im", importCol2Im, Accepts::Numbers}, {"DepthToSpace", importDepthToSpace}, {"SpaceToDepth", importSpaceToDepth}};

} // namespace

ArrayRef<RegistryRow> spatialBlockRows() {
  return kSpatialBlockRows;
}

} // namespace ashlar::frontend
