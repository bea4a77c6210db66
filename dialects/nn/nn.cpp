// SPDX-License-Identifier: Apache-2.0
//
// Registration of the nn dialect and the helpers declared in nn.h.

#include "dialects/nn/functions.h"
#include "dialects/nn/repeat.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "dialects/nn/nn_dialect.cpp.inc"
#include "dialects/nn/nn_enums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/nn/nn_attrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/nn/functions.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/nn/repeat.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/nn/nn_ops.cpp.inc"

namespace ashlar::nn {

void NnDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/nn/nn_attrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/functions.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/repeat.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/nn_ops.cpp.inc"
      >();
}

Operation *NnDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  return ConstantOp::create(builder, loc, type, cast<ElementsAttr>(value));
}

StringRef getPath(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc)) {
    return name.getName().getValue();
  }
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations()) {
      if (StringRef path = getPath(part); !path.empty()) {
        return path;
      }
    }
  }
  return {};
}

uint32_t streamOf(StringRef name) {
  uint32_t hash = 2166136261u;
  for (unsigned char byte : name.bytes()) {
    hash = (hash ^ byte) * 16777619u;
  }
  return hash;
}

DenseElementsAttr streamConstant(MLIRContext *context, StringRef name) {
  auto type = RankedTensorType::get({}, IntegerType::get(context, 32));
  return DenseElementsAttr::get(type, APInt(32, streamOf(name)));
}

bool isZero(Value value) {
  return matchPattern(value, m_AnyZeroFloat()) || matchPattern(value, m_Zero());
}

DenseElementsAttr splat(RankedTensorType type, double value) {
  Type element = type.getElementType();
  if (auto floatType = dyn_cast<FloatType>(element)) {
    APFloat rounded(value);
    bool losesInfo;
    rounded.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
    return DenseElementsAttr::get(type, rounded);
  }
  return DenseElementsAttr::get(type, APInt(element.getIntOrFloatBitWidth(), static_cast<int64_t>(value), /*isSigned=*/true,
                                            /*implicitTrunc=*/true));
}

} // namespace ashlar::nn
