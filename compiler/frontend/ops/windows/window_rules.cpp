// SPDX-License-Identifier: Apache-2.0
//
// Attributes of windows, checked so that nothing computed from them overflows.

#include "compiler/frontend/ops/windows/window_rules.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

std::string print(ArrayRef<int64_t> numbers) {
  return "[" + llvm::join(llvm::map_range(numbers, [](int64_t d) { return std::to_string(d); }), ", ") + "]";
}

void checkRange(const Node &node, StringRef name, ArrayRef<int64_t> numbers, int64_t least) {
  if (!llvm::all_of(numbers, [&](int64_t number) { return number >= least && number <= kMostInWindow; })) {
    node.fail("attribute \"" + name + "\" is " + print(numbers) + "; every number has to be from " + Twine(least) + " to " +
              Twine(kMostInWindow));
  }
}

Shape readInts(Node &node, StringRef name, size_t count, size_t rank, int64_t least, int64_t byDefault) {
  Shape numbers = node.getInts(name);
  if (numbers.empty() && !node.hasAttribute(name)) {
    return Shape(count, byDefault);
  }
  if (numbers.size() != count) {
    node.fail("attribute \"" + name + "\" has " + Twine(numbers.size()) + " numbers, " + print(numbers) + ", but " + Twine(rank) +
              " spatial dims need " + Twine(count));
  }
  checkRange(node, name, numbers, least);
  return numbers;
}

AutoPad readAutoPad(Node &node) {
  std::string name = node.getString("auto_pad", "NOTSET");
  auto found = llvm::StringSwitch<std::optional<AutoPad>>(name)
                   .Case("NOTSET", AutoPad::NotSet)
                   .Case("SAME_UPPER", AutoPad::SameUpper)
                   .Case("SAME_LOWER", AutoPad::SameLower)
                   .Case("VALID", AutoPad::Valid)
                   .Default(std::nullopt);
  if (!found) {
    node.fail("attribute \"auto_pad\" is \"" + name + "\"; use NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  }
  return *found;
}

// The padding of one dim in front and behind.
std::pair<int64_t, int64_t> paddingFor(const WindowAttributes &attributes, size_t dim, int64_t size) {
  if (attributes.autoPad == AutoPad::NotSet || attributes.autoPad == AutoPad::Valid) {
    return {attributes.low[dim], attributes.high[dim]};
  }
  int64_t positions = llvm::divideCeil(size, attributes.strides[dim]);
  int64_t needed = std::max<int64_t>((positions - 1) * attributes.strides[dim] + attributes.span(dim) - size, 0);
  int64_t less = needed / 2, more = needed - less;
  return attributes.autoPad == AutoPad::SameUpper ? std::pair(less, more) : std::pair(more, less);
}

} // namespace

Shape readSpatialInts(Node &node, StringRef name, size_t rank, int64_t least, int64_t byDefault) {
  return readInts(node, name, rank, rank, least, byDefault);
}

std::pair<Shape, Shape> readPads(Node &node, size_t rank) {
  Shape pads = readInts(node, "pads", 2 * rank, rank, /*least=*/0, /*byDefault=*/0);
  return {Shape(pads.begin(), pads.begin() + rank), Shape(pads.begin() + rank, pads.end())};
}

WindowAttributes readWindowAttributes(Node &node, size_t rank, ArrayRef<int64_t> kernel) {
  WindowAttributes result;
  if (kernel.empty() && !node.hasAttribute("kernel_shape")) {
    node.fail("has no attribute \"kernel_shape\"");
  }
  result.kernel = readSpatialInts(node, "kernel_shape", rank, /*least=*/1, /*byDefault=*/1);
  if (!kernel.empty()) {
    if (node.hasAttribute("kernel_shape") && ArrayRef<int64_t>(result.kernel) != kernel) {
      node.fail("attribute \"kernel_shape\" is " + print(result.kernel) + " but W has a kernel of " + print(kernel));
    }
    checkRange(node, "kernel_shape", kernel, /*least=*/1); // as W has it
    result.kernel.assign(kernel.begin(), kernel.end());
  }
  result.strides = readSpatialInts(node, "strides", rank, /*least=*/1, /*byDefault=*/1);
  result.dilations = readSpatialInts(node, "dilations", rank, /*least=*/1, /*byDefault=*/1);
  std::tie(result.low, result.high) = readPads(node, rank);
  result.autoPad = readAutoPad(node);
  if (result.autoPad != AutoPad::NotSet &&
      llvm::any_of(llvm::concat<int64_t>(result.low, result.high), [](int64_t pad) { return pad != 0; })) {
    node.fail("has pads " + print(node.getInts("pads")) + " and auto_pad \"" + node.getString("auto_pad", "NOTSET") +
              "\"; leave one of them out");
  }
  return result;
}

SmallVector<Attribute> windowsOver(const Node &node, const WindowAttributes &attributes, ArrayRef<int64_t> sizes) {
  SmallVector<Attribute> windows;
  for (auto [dim, size] : llvm::enumerate(sizes)) {
    auto [low, high] = paddingFor(attributes, dim, size);
    if (attributes.span(dim) > size + low + high) {
      node.fail("the kernel spans " + Twine(attributes.span(dim)) + " elements in spatial dim " + Twine(dim) + ", but the input has " +
                Twine(size) + " there and padding of " + Twine(low) + " and " + Twine(high) + "; pad more, or use a smaller kernel");
    }
    if (low > kMostInWindow || high > kMostInWindow) {
      node.fail("needs padding of " + Twine(low) + " and " + Twine(high) + " in spatial dim " + Twine(dim) + "; the most is " +
                Twine(kMostInWindow));
    }
    windows.push_back(nn::WindowAttr::get(node.builder().getContext(), attributes.kernel[dim], attributes.strides[dim],
                                          attributes.dilations[dim], low, high));
  }
  return windows;
}

} // namespace ashlar::frontend
