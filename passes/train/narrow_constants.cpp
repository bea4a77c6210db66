// SPDX-License-Identifier: Apache-2.0
//
// See narrow_constants.h.

#include "passes/train/narrow_constants.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/bit.h"

#include <cstring>
#include <vector>

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

// Calls `visit` with each f32 of some bytes and its place, until it returns false. A value that follows an equal one is not visited again:
// a mask of millions of numbers has runs of two.
void visitRuns(ArrayRef<char> data, function_ref<bool(size_t, const APFloat &)> visit) {
  uint32_t last = 0;
  for (size_t i = 0; i < data.size() / sizeof(float); ++i) {
    uint32_t bits;
    std::memcpy(&bits, data.data() + i * sizeof(float), sizeof(float));
    if ((i == 0 || bits != last) && !visit(i, APFloat(llvm::bit_cast<float>(bits)))) {
      return;
    }
    last = bits;
  }
}

bool anyBecomesInfinite(ArrayRef<char> data, FloatType type) {
  bool found = false;
  visitRuns(data, [&](size_t, const APFloat &value) {
    found = becomesInfinite(value, type);
    return !found;
  });
  return found;
}

} // namespace

bool overflows(ElementsAttr elements, FloatType type) {
  if (auto dense = dyn_cast<DenseFPElementsAttr>(elements)) {
    if (dense.isSplat()) {
      return becomesInfinite(dense.getSplatValue<APFloat>(), type);
    }
    return dense.getElementType().isF32()
               ? anyBecomesInfinite(dense.getRawData(), type)
               : llvm::any_of(dense.getValues<APFloat>(), [&](const APFloat &value) { return becomesInfinite(value, type); });
  }
  auto resource = dyn_cast<DenseResourceElementsAttr>(elements);
  AsmResourceBlob *blob = resource ? resource.getRawHandle().getBlob() : nullptr;
  return blob && anyBecomesInfinite(blob->getData(), type);
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
  if (!dense) {
    return {};
  }
  if (dense.isSplat() || !dense.getElementType().isF32() || type.getWidth() != 16) {
    return dense.mapValues(type, [&](const APFloat &value) { return rounded(value, type).bitcastToAPInt(); });
  }
  std::vector<uint16_t> narrow(dense.getNumElements());
  size_t filled = 0;
  auto fillTo = [&](size_t end) { // with the value before
    for (; filled < end; ++filled) {
      narrow[filled] = narrow[filled - 1];
    }
  };
  visitRuns(dense.getRawData(), [&](size_t place, const APFloat &value) {
    fillTo(place);
    narrow[filled++] = static_cast<uint16_t>(rounded(value, type).bitcastToAPInt().getZExtValue());
    return true;
  });
  fillTo(narrow.size());
  ArrayRef<char> bytes(reinterpret_cast<const char *>(narrow.data()), narrow.size() * sizeof(uint16_t));
  return DenseElementsAttr::getFromRawBuffer(dense.getType().clone(type), bytes);
}

} // namespace ashlar::train
