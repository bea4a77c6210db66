// SPDX-License-Identifier: Apache-2.0
//
// Tensors of equal sizes are compared in pairs, each to the first number that differs.

#include "compiler/frontend/weights/tied_weights.h"

#include "compiler/frontend/weights/initializer_numbers.h"
#include "dialects/support/element_type.h"

#include "llvm/ADT/StringSet.h"

#include <cstring>

using namespace mlir;

namespace ashlar::frontend {

namespace {

bool isTransposed(const TensorData &first, const TensorData &other) {
  ArrayRef<int64_t> shape = first.getType().getShape();
  if (shape.size() != 2 || other.getType().getShape() != ArrayRef<int64_t>{shape[1], shape[0]}) {
    return false;
  }
  const int64_t bytes = elementBytes(first.getType().getElementType());
  for (int64_t row = 0; row < shape[0]; ++row) {
    for (int64_t column = 0; column < shape[1]; ++column) {
      if (std::memcmp(first.getBytes().data() + (row * shape[1] + column) * bytes,
                      other.getBytes().data() + (column * shape[0] + row) * bytes, bytes) != 0) {
        return false;
      }
    }
  }
  return true;
}

} // namespace

Copy compareNumbers(const TensorData &first, const TensorData &other) {
  if (first.getType().getElementType() != other.getType().getElementType() || first.getBytes().empty()) {
    return Copy::None;
  }
  if (first.getType() == other.getType() && first.getBytes() == other.getBytes()) {
    return Copy::Same;
  }
  return isTransposed(first, other) ? Copy::Transposed : Copy::None;
}

std::vector<CopiedWeight> findCopies(ArrayRef<const onnx::TensorProto *> initializers, StringRef directory, MLIRContext *context) {
  std::vector<std::pair<const onnx::TensorProto *, TensorData>> large;
  for (const onnx::TensorProto *initializer : initializers) {
    TensorData data = TensorData::peek(*initializer, directory, context, "initializer \"" + initializer->name() + "\"");
    if (data.getType().getNumElements() >= kTiedElements && !InitializerNumbers(data).isUniform()) {
      large.emplace_back(initializer, std::move(data));
    }
  }
  std::vector<CopiedWeight> copies;
  llvm::StringSet<> found;
  for (auto first = large.begin(); first != large.end(); ++first) {
    if (found.contains(first->first->name())) {
      continue;
    }
    for (auto other = std::next(first); other != large.end(); ++other) {
      Copy kind = compareNumbers(first->second, other->second);
      if (kind != Copy::None && found.insert(other->first->name()).second) {
        copies.push_back({first->first->name(), other->first->name(), kind == Copy::Transposed});
      }
    }
  }
  return copies;
}

} // namespace ashlar::frontend
