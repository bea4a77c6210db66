// SPDX-License-Identifier: Apache-2.0
//
// Reasons as metadata of a fused location: an array of dictionaries.

#include "dialects/dist/reasons.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace ashlar::dist {

namespace {

using FusedWithReasons = FusedLocWith<ArrayAttr>;

// The keys of a reason.
constexpr llvm::StringLiteral kProducer = "producer", kConsumers = "consumers", kOrigins = "origins", kFrom = "from", kTo = "to",
                              kType = "type";

ArrayAttr findAttribute(Location location) {
  auto fused = dyn_cast<FusedWithReasons>(location);
  return fused ? fused.getMetadata() : ArrayAttr();
}

// Returns the location that withReasons() was given.
Location stripReasons(Location location) {
  auto fused = dyn_cast<FusedWithReasons>(location);
  return fused && fused.getLocations().size() == 1 ? fused.getLocations().front() : location;
}

Location withAttribute(Location location, ArrayRef<Attribute> reasons) {
  Location plain = stripReasons(location);
  MLIRContext *context = location.getContext();
  return reasons.empty() ? plain : FusedLoc::get(context, {plain}, ArrayAttr::get(context, reasons));
}

ArrayAttr toAttr(Builder &builder, ArrayRef<std::string> texts) {
  return builder.getStrArrayAttr(llvm::to_vector(llvm::map_range(texts, [](const std::string &text) { return StringRef(text); })));
}

std::vector<std::string> toTexts(ArrayAttr array) {
  std::vector<std::string> texts;
  for (auto text : array.getAsRange<StringAttr>()) {
    texts.push_back(text.str());
  }
  return texts;
}

Attribute toAttr(MLIRContext *context, const Reason &reason) {
  Builder builder(context);
  return builder.getDictionaryAttr({builder.getNamedAttr(kProducer, builder.getStringAttr(reason.producer)),
                                    builder.getNamedAttr(kConsumers, toAttr(builder, reason.consumers)),
                                    builder.getNamedAttr(kOrigins, toAttr(builder, reason.origins)),
                                    builder.getNamedAttr(kFrom, reason.from), builder.getNamedAttr(kTo, reason.to),
                                    builder.getNamedAttr(kType, TypeAttr::get(reason.type))});
}

Reason toReason(DictionaryAttr attribute) {
  return {attribute.getAs<StringAttr>(kProducer).str(),
          toTexts(attribute.getAs<ArrayAttr>(kConsumers)),
          toTexts(attribute.getAs<ArrayAttr>(kOrigins)),
          attribute.getAs<LayoutAttr>(kFrom),
          attribute.getAs<LayoutAttr>(kTo),
          cast<RankedTensorType>(attribute.getAs<TypeAttr>(kType).getValue())};
}

} // namespace

std::vector<Reason> getReasons(Location location) {
  std::vector<Reason> reasons;
  if (ArrayAttr attribute = findAttribute(location)) {
    for (auto reason : attribute.getAsRange<DictionaryAttr>()) {
      reasons.push_back(toReason(reason));
    }
  }
  return reasons;
}

Location withReasons(Location location, ArrayRef<Reason> reasons) {
  SmallVector<Attribute> attributes;
  for (const Reason &reason : reasons) {
    attributes.push_back(toAttr(location.getContext(), reason));
  }
  return withAttribute(location, attributes);
}

Location mergeReasons(Location location, Location other) {
  SmallVector<Attribute> merged;
  for (Location source : {location, other}) {
    ArrayAttr attribute = findAttribute(source);
    for (Attribute reason : attribute ? attribute.getValue() : ArrayRef<Attribute>()) {
      if (!llvm::is_contained(merged, reason)) {
        merged.push_back(reason);
      }
    }
  }
  return withAttribute(location, merged);
}

} // namespace ashlar::dist
