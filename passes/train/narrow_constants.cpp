// SPDX-License-Identifier: Apache-2.0
//
// See narrow_constants.h.

#include "passes/train/narrow_constants.h"

#include "mlir/IR/DialectResourceBlobManager.h"

#include <cstring>

using namespace mlir;

namespace ashlar::train {

namespace {

APFloat rounded(APFloat value, FloatType type) {
  bool losesInfo = false;
  value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
  return value;
}

bool becomesInfinite(const APFloat &value, FloatType type) {
  return value.isFinite() && rounded(value, type).isInfinity();
}

} // namespace

bool overflows(ElementsAttr elements, FloatType type) {
  if (auto dense = dyn_cast<DenseFPElementsAttr>(elements)) {
    if (dense.isSplat()) {
      return becomesInfinite(dense.getSplatValue<APFloat>(), type);
    }
    return llvm::any_of(dense.getValues<APFloat>(), [&](const APFloat &value) { return becomesInfinite(value, type); });
  }
  auto resource = dyn_cast<DenseResourceElementsAttr>(elements);
  AsmResourceBlob *blob = resource ? resource.getRawHandle().getBlob() : nullptr;
  ArrayRef<char> data = blob ? blob->getData() : ArrayRef<char>();
  for (size_t i = 0; i + sizeof(float) <= data.size(); i += sizeof(float)) {
    float value;
    std::memcpy(&value, data.data() + i, sizeof(float));
    if (becomesInfinite(APFloat(value), type)) {
      return true;
    }
  }
  return false;
}

bool isExact(ElementsAttr splat, FloatType type) {
  auto value = splat.getSplatValue<APFloat>();
  APFloat back = rounded(value, type);
  bool losesInfo = false;
  back.convert(value.getSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
  return back.bitwiseIsEqual(value);
}

ElementsAttr convertElements(ElementsAttr elements, FloatType type) {
  auto dense = dyn_cast<DenseFPElementsAttr>(elements);
  return dense ? dense.mapValues(type, [&](const APFloat &value) { return rounded(value, type).bitcastToAPInt(); }) : ElementsAttr();
}

} // namespace ashlar::train
