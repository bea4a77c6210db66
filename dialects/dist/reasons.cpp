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

Attribute toAttr(MLIRContext *context, const Reason &reason) {
  Builder builder(context);
  SmallVector<Attribute> consumers(reason.consumers.begin(), reason.consumers.end()), origins(reason.origins.begin(), reason.origins.end());
  return builder.getDictionaryAttr({builder.getNamedAttr(kProducer, reason.producer),
                                    builder.getNamedAttr(kConsumers, builder.getArrayAttr(consumers)),
                                    builder.getNamedAttr(kOrigins, builder.getArrayAttr(origins)), builder.getNamedAttr(kFrom, reason.from),
                                    builder.getNamedAttr(kTo, reason.to), builder.getNamedAttr(kType, TypeAttr::get(reason.type))});
}

Reason toReason(DictionaryAttr attribute) {
  Reason reason;
  reason.producer = attribute.getAs<EndAttr>(kProducer);
  llvm::append_range(reason.consumers, attribute.getAs<ArrayAttr>(kConsumers).getAsRange<EndAttr>());
  llvm::append_range(reason.origins, attribute.getAs<ArrayAttr>(kOrigins).getAsRange<ArrayAttr>());
  reason.from = attribute.getAs<LayoutAttr>(kFrom);
  reason.to = attribute.getAs<LayoutAttr>(kTo);
  reason.type = cast<RankedTensorType>(attribute.getAs<TypeAttr>(kType).getValue());
  return reason;
}

} // namespace

std::vector<std::string> sourcesOf(ArrayRef<ArrayAttr> origins) {
  std::vector<std::string> sources;
  for (ArrayAttr list : origins) {
    for (auto origin : list.getAsRange<OriginAttr>()) {
      if (std::string source = origin.getSource().str(); !llvm::is_contained(sources, source)) {
        sources.push_back(source);
      }
    }
  }
  return sources;
}

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
