// SPDX-License-Identifier: Apache-2.0
//
// Sequences and optional values: known when compiling, element by element. A tensor of a sequence keeps the name that it has.

#include "compiler/frontend/body.h"
#include "compiler/frontend/registry.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

// Returns the position that an input holds, counted from the front; `limit` is one past the largest.
int64_t positionInput(const Node &node, size_t index, int64_t limit) {
  SmallVector<int64_t> position = node.intsInput(index, "position");
  if (position.size() != 1 || position.front() < -limit || position.front() >= limit) {
    node.fail("position " + (position.size() == 1 ? Twine(position.front()) : Twine("of several elements")) + " is not in [" +
              Twine(-limit) + ", " + Twine(limit) + ")");
  }
  return position.front() < 0 ? position.front() + limit : position.front();
}

std::vector<onnx::NodeProto> identity(const Node &node, StringRef name) {
  if (!node.hasResult(0)) {
    return {};
  }
  return {makeNode("Identity", {name.str()}, {node.resultName(0).str()}, node.getPath())};
}

std::vector<onnx::NodeProto> expandConstruct(Node &node) {
  std::vector<std::string> elements;
  for (size_t i = 0; i < node.numInputs(); ++i) {
    node.inputType(i); // a tensor
    elements.push_back(node.inputName(i).str());
  }
  node.setSequence(0, std::move(elements));
  return {};
}

std::vector<onnx::NodeProto> expandEmpty(Node &node) {
  node.getInt("dtype", 0);
  node.setSequence(0, {});
  return {};
}

std::vector<onnx::NodeProto> expandAt(Node &node) {
  const std::vector<std::string> &elements = node.sequenceInput(0);
  return identity(node, elements[static_cast<size_t>(positionInput(node, 1, static_cast<int64_t>(elements.size())))]);
}

std::vector<onnx::NodeProto> expandInsert(Node &node) {
  std::vector<std::string> elements = node.sequenceInput(0);
  auto size = static_cast<int64_t>(elements.size());
  node.inputType(1);
  int64_t position = size;
  if (node.hasInput(2)) {
    SmallVector<int64_t> given = node.intsInput(2, "position");
    position = given.size() == 1 && given.front() == size ? size : positionInput(node, 2, size); // behind the last one, too
  }
  elements.insert(elements.begin() + position, node.inputName(1).str());
  node.setSequence(0, std::move(elements));
  return {};
}

std::vector<onnx::NodeProto> expandErase(Node &node) {
  std::vector<std::string> elements = node.sequenceInput(0);
  auto size = static_cast<int64_t>(elements.size());
  if (elements.empty()) {
    node.fail("its sequence is empty");
  }
  elements.erase(elements.begin() + (node.hasInput(1) ? positionInput(node, 1, size) : size - 1));
  node.setSequence(0, std::move(elements));
  return {};
}

std::vector<onnx::NodeProto> expandLength(Node &node) {
  auto length = static_cast<int64_t>(node.sequenceInput(0).size());
  return {makeInt(node.uniqueName().str(), length, node.getPath())};
}

// Parts of `split` rows: as many as there are, of one size, or a list of sizes; without, parts of one row, which keep the axis if they are
// to.
std::vector<onnx::NodeProto> expandSplit(Node &node) {
  RankedTensorType type = node.inputType(0);
  const int64_t axis = node.getAxis("axis", 0, type.getRank()), size = type.getDimSize(axis);
  const bool keepsAxis = node.getInt("keepdims", 1) != 0 || node.hasInput(1);
  SmallVector<int64_t> sizes;
  if (node.hasInput(1) && node.inputType(1).getRank() == 1) {
    sizes = node.intsInput(1, "split");
  } else {
    int64_t each = node.hasInput(1) ? node.intsInput(1, "split").front() : 1;
    if (each < 1) {
      node.fail("parts of " + Twine(each) + " rows are not to be had");
    }
    node.spend(llvm::divideCeil(size, each));
    for (int64_t at = 0; at < size; at += each) {
      sizes.push_back(std::min(each, size - at));
    }
  }
  const std::string prefix = node.uniqueName().str();
  std::vector<std::string> parts, elements;
  for (size_t i = 0; i < sizes.size(); ++i) {
    parts.push_back(prefix + "/" + std::to_string(i));
    elements.push_back(keepsAxis ? parts.back() : parts.back() + "/squeezed");
  }
  std::vector<onnx::NodeProto> nodes;
  if (!parts.empty()) {
    const std::vector<int64_t> list(sizes.begin(), sizes.end());
    nodes.push_back(makeInts(prefix + "/sizes", list, node.getPath()));
    onnx::NodeProto &split = nodes.emplace_back(makeNode("Split", {node.inputName(0).str()}, parts, node.getPath()));
    setInt(split, "axis", axis);
    setList(split, node.getOpset(), "split", list, prefix + "/sizes");
  }
  if (!keepsAxis) {
    nodes.push_back(makeInts(prefix + "/axes", {axis}, node.getPath()));
  }
  for (size_t i = 0; i < parts.size() && !keepsAxis; ++i) {
    onnx::NodeProto &row = nodes.emplace_back(makeNode("Squeeze", {parts[i]}, {elements[i]}, node.getPath()));
    setList(row, node.getOpset(), "axes", {axis}, prefix + "/axes");
  }
  node.setSequence(0, std::move(elements));
  return nodes;
}

std::vector<onnx::NodeProto> expandConcat(Node &node) {
  const std::vector<std::string> &elements = node.sequenceInput(0);
  if (elements.empty()) {
    node.fail("its sequence is empty");
  }
  if (!node.hasAttribute("axis")) {
    node.fail("attribute \"axis\" is missing");
  }
  const int64_t axis = node.getInt("axis", 0);
  const bool isNew = node.getInt("new_axis", 0) != 0;
  const std::string prefix = node.uniqueName().str();
  std::vector<onnx::NodeProto> nodes;
  std::vector<std::string> parts = elements;
  if (isNew) {
    nodes.push_back(makeInts(prefix + "/axes", {axis}, node.getPath()));
  }
  for (size_t i = 0; i < parts.size() && isNew; ++i) {
    parts[i] = prefix + "/" + std::to_string(i);
    onnx::NodeProto &row = nodes.emplace_back(makeNode("Unsqueeze", {elements[i]}, {parts[i]}, node.getPath()));
    setList(row, node.getOpset(), "axes", {axis}, prefix + "/axes");
  }
  setInt(nodes.emplace_back(makeNode("Concat", parts, {prefix}, node.getPath())), "axis", axis);
  return nodes;
}

std::vector<onnx::NodeProto> expandOptional(Node &node) {
  if (!node.hasInput(0)) {
    node.fail("without a value is not supported");
  }
  return identity(node, node.inputName(0));
}

std::vector<onnx::NodeProto> expandHasElement(Node &node) {
  std::string number = (node.uniqueName() + "/number").str();
  onnx::NodeProto cast = makeNode("Cast", {number}, {node.uniqueName().str()}, node.getPath());
  setInt(cast, "to", onnx::TensorProto::BOOL);
  return {makeInt(number, node.hasInput(0) ? 1 : 0, node.getPath()), cast};
}

constexpr RegistryRow row(llvm::StringLiteral opType, Expander expand) {
  return {opType, nullptr, Accepts::Any, /*knownFloats=*/0, /*draws=*/false, expand};
}

constexpr RegistryRow kSequenceRows[] = {
    row("ConcatFromSequence", expandConcat),     row("Optional", expandOptional),     row("OptionalGetElement", expandOptional),
    row("OptionalHasElement", expandHasElement), row("SequenceAt", expandAt),         row("SequenceConstruct", expandConstruct),
    row("SequenceEmpty", expandEmpty),           row("SequenceErase", expandErase),   row("SequenceInsert", expandInsert),
    row("SequenceLength", expandLength),         row("SplitToSequence", expandSplit),
};

} // namespace

ArrayRef<RegistryRow> sequenceRows() {
  return kSequenceRows;
}

} // namespace ashlar::frontend
