// SPDX-License-Identifier: Apache-2.0
//
// The mesh and layout attributes: parse, print, verify, and the arithmetic of a mesh.

#include "dialects/dist/dist.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::dist {

//===-- Parts of attributes that may be left out --------------------------------------------------------------------------------------===//

// A part that is written as `, name = ...`.
struct OptionalPart {
  StringRef name;
  llvm::function_ref<ParseResult()> parse; // what is behind the equals sign
};

// Parses parts, any of them, in their order.
static ParseResult parseParts(AsmParser &parser, ArrayRef<OptionalPart> parts) {
  while (succeeded(parser.parseOptionalComma())) {
    const OptionalPart *part =
        llvm::find_if(parts, [&](const OptionalPart &each) { return succeeded(parser.parseOptionalKeyword(each.name)); });
    if (part == parts.end()) {
      return parser.emitError(parser.getCurrentLocation(), "expected ")
             << llvm::join(llvm::map_range(parts, [](const OptionalPart &each) { return "'" + each.name.str() + "'"; }), " or ");
    }
    if (parser.parseEqual() || part->parse()) {
      return failure();
    }
    parts = parts.drop_front(part - parts.begin() + 1);
  }
  return success();
}

template <typename T> static ParseResult parseList(AsmParser &parser, SmallVectorImpl<T> &list) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    FailureOr<T> element = FieldParser<T>::parse(parser);
    return succeeded(element) ? (list.push_back(*element), success()) : failure();
  });
}

template <typename T> static void printList(AsmPrinter &printer, ArrayRef<T> list) {
  printer << "[";
  printer.printStrippedAttrOrType(list);
  printer << "]";
}

template <typename T> static void printList(AsmPrinter &printer, StringRef name, ArrayRef<T> list) {
  if (!list.empty()) {
    printer << ", " << name << " = ";
    printList(printer, list);
  }
}

static ParseResult parseLinkLists(AsmParser &parser, SmallVectorImpl<int64_t> &beside, SmallVectorImpl<KindCostsAttr> &kinds) {
  return parseParts(parser, {{"beside", [&] { return parseList(parser, beside); }}, {"kinds", [&] { return parseList(parser, kinds); }}});
}

static void printLinkLists(AsmPrinter &printer, ArrayRef<int64_t> beside, ArrayRef<KindCostsAttr> kinds) {
  printList(printer, "beside", beside);
  printList(printer, "kinds", kinds);
}

static ParseResult parseRateTables(AsmParser &parser, int64_t &launchNs, SmallVectorImpl<RateAttr> &products,
                                   SmallVectorImpl<RateAttr> &convolutions, SmallVectorImpl<RateAttr> &attentions) {
  return parseParts(parser, {{"launch_ns", [&] { return parser.parseInteger(launchNs); }},
                             {"products", [&] { return parseList(parser, products); }},
                             {"convolutions", [&] { return parseList(parser, convolutions); }},
                             {"attentions", [&] { return parseList(parser, attentions); }}});
}

static void printRateTables(AsmPrinter &printer, int64_t launchNs, ArrayRef<RateAttr> products, ArrayRef<RateAttr> convolutions,
                            ArrayRef<RateAttr> attentions) {
  if (launchNs != 0) {
    printer << ", launch_ns = " << launchNs;
  }
  printList(printer, "products", products);
  printList(printer, "convolutions", convolutions);
  printList(printer, "attentions", attentions);
}

} // namespace ashlar::dist

#include "dialects/dist/dist_enums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/dist/dist_attrs.cpp.inc"

namespace ashlar::dist {

void DistDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/dist/dist_attrs.cpp.inc"
      >();
}

//===-- Mesh --------------------------------------------------------------------------------------------------------------------------===//

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<StringAttr> axes, ArrayRef<int64_t> sizes) {
  assert(axes.size() == sizes.size() && "one size an axis");
  constexpr int64_t kMostDevices = std::numeric_limits<int32_t>::max();
  int64_t devices = 1;
  llvm::SmallPtrSet<StringAttr, 4> seen;
  for (auto [axis, size] : llvm::zip_equal(axes, sizes)) {
    if (size < 1) { // C1
      return emitError() << "mesh axis " << axis << " has size " << size << ", which is not positive";
    }
    if (!seen.insert(axis).second) { // C2
      return emitError() << "mesh has axis " << axis << " twice";
    }
    if (size > kMostDevices / devices) { // C3
      return emitError() << "mesh has " << devices << " devices before axis " << axis << " of size " << size << ", which makes more than "
                         << kMostDevices << "; use smaller axes";
    }
    devices *= size;
  }
  return success();
}

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> axes;
  SmallVector<int64_t> sizes;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    int64_t size;
    if (parser.parseString(&name) || parser.parseEqual() || parser.parseInteger(size)) {
      return failure();
    }
    axes.push_back(StringAttr::get(parser.getContext(), name));
    sizes.push_back(size);
    return success();
  };
  if (parser.parseLess() || parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis) || parser.parseGreater()) {
    return {};
  }
  return parser.getChecked<MeshAttr>(parser.getContext(), axes, sizes);
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(llvm::zip_equal(getAxes(), getSizes()), printer, [&](auto item) {
    auto [axis, size] = item;
    printer << axis << " = " << size;
  });
  printer << "]>";
}

std::optional<unsigned> MeshAttr::findAxis(StringAttr axis) const {
  const auto *found = llvm::find(getAxes(), axis);
  return found == getAxes().end() ? std::nullopt : std::optional<unsigned>(found - getAxes().begin());
}

int64_t MeshAttr::axisSize(StringAttr axis) const {
  std::optional<unsigned> position = findAxis(axis);
  assert(position && "not an axis of the mesh");
  return getSizes()[*position];
}

int64_t MeshAttr::groupSize(ArrayRef<StringAttr> axes) const {
  int64_t size = 1;
  for (StringAttr axis : axes) {
    size *= axisSize(axis);
  }
  return size;
}

int64_t MeshAttr::axisIndex(int64_t device, ArrayRef<StringAttr> axes) const {
  int64_t index = 0;
  for (StringAttr axis : axes) {
    int64_t size = axisSize(axis), minor = groupSize(getAxes().drop_front(*findAxis(axis) + 1));
    index = index * size + device / minor % size;
  }
  return index;
}

SmallVector<SmallVector<int64_t>> MeshAttr::groups(ArrayRef<StringAttr> axes) const {
  AxisList others;
  for (StringAttr axis : getAxes()) {
    if (!llvm::is_contained(axes, axis)) {
      others.push_back(axis);
    }
  }
  int64_t size = groupSize(axes);
  SmallVector<SmallVector<int64_t>> groups(groupSize(others), SmallVector<int64_t>(size));
  for (int64_t device = 0; device < numDevices(); ++device) {
    groups[axisIndex(device, others)][axisIndex(device, axes)] = device;
  }
  return groups;
}

//===-- Costs -------------------------------------------------------------------------------------------------------------------------===//

// Checks the latencies and rates of links, one of each an axis.
static LogicalResult verifyLinks(function_ref<InFlightDiagnostic()> emitError, StringRef what, ArrayRef<int64_t> latencyNs,
                                 ArrayRef<int64_t> bytesPerUs) {
  if (latencyNs.size() != bytesPerUs.size()) {
    return emitError() << what << " have " << latencyNs.size() << " latencies but " << bytesPerUs.size() << " rates";
  }
  for (auto [latency, rate] : llvm::zip_equal(latencyNs, bytesPerUs)) {
    if (latency < 0) {
      return emitError() << what << " have a latency of " << latency << " ns, which is negative";
    }
    if (rate < 1) {
      return emitError() << what << " have a rate of " << rate << " bytes a microsecond, which is not positive";
    }
  }
  return success();
}

LogicalResult KindCostsAttr::verify(function_ref<InFlightDiagnostic()> emitError, CollectiveKind kind, ArrayRef<int64_t> latencyNs,
                                    ArrayRef<int64_t> bytesPerUs) {
  if (kind == CollectiveKind::Slice) { // C1
    return emitError() << "costs of a slice, which sends nothing";
  }
  std::string what = "costs of " + stringifyCollectiveKind(kind).str();
  return verifyLinks(emitError, what, latencyNs, bytesPerUs); // C2, C3
}

LogicalResult CostsAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> latencyNs, ArrayRef<int64_t> bytesPerUs,
                                ArrayRef<int64_t> beside, ArrayRef<KindCostsAttr> kinds) {
  if (failed(verifyLinks(emitError, "costs", latencyNs, bytesPerUs))) { // C1, C2
    return failure();
  }
  int64_t least = 0, axes = latencyNs.size();
  for (int64_t axis : beside) {
    if (axis < least || axis >= axes) { // C3
      return emitError() << "costs name axis " << axis << " in \"beside\", which is "
                         << (axis < least ? "out of order" : "not one of " + std::to_string(axes));
    }
    least = axis + 1;
  }
  llvm::SmallSet<CollectiveKind, 8> seen;
  for (KindCostsAttr costs : kinds) {
    if (!seen.insert(costs.getKind()).second) { // C4
      return emitError() << "costs name " << stringifyCollectiveKind(costs.getKind()) << " twice in \"kinds\"";
    }
    if (static_cast<int64_t>(costs.getLatencyNs().size()) != axes) { // C5
      return emitError() << "costs of " << stringifyCollectiveKind(costs.getKind()) << " are of " << costs.getLatencyNs().size()
                         << " axes, and there are " << axes;
    }
  }
  return success();
}

LogicalResult HostsAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t ranksPerHost, int64_t adapters, int64_t hostsPerPod,
                                int64_t uplinks, bool rails, int64_t devicesPerRank, bool atOnce, CostsAttr links) {
  for (auto [number, what] :
       {std::pair(ranksPerHost, "ranks"), std::pair(adapters, "adapters"), std::pair(devicesPerRank, "devices a rank")}) {
    if (number < 1) { // C1
      return emitError() << "hosts have " << number << " " << what << ", which is not positive";
    }
  }
  if (hostsPerPod < 0 || uplinks < 0 || (hostsPerPod == 0) != (uplinks == 0)) { // C3
    return emitError() << "hosts have " << hostsPerPod << " hosts a pod and " << uplinks << " uplinks, which are not both positive";
  }
  if (rails && ranksPerHost % adapters != 0) { // C4
    return emitError() << "hosts have rails, and " << ranksPerHost << " ranks, not divisible by " << adapters << " adapters";
  }
  if (const size_t given = links.getLatencyNs().size(); given != (hostsPerPod == 0 ? 2 : 3)) { // C2
    return emitError() << "hosts have " << given << " links, not one within a host and one between hosts"
                       << (hostsPerPod == 0 ? "" : ", and one between pods");
  }
  return success();
}

LogicalResult RateAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t from, int64_t flopsPerUs, int64_t narrowFlopsPerUs) {
  if (from < 1) { // C1
    return emitError() << "rate is from size " << from << " on, which is not positive";
  }
  for (int64_t rate : {flopsPerUs, narrowFlopsPerUs}) {
    if (rate < 1) { // C1
      return emitError() << "rate from size " << from << " on is " << rate << " a microsecond, which is not positive";
    }
  }
  return success();
}

LogicalResult DeviceAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t flopsPerUs, int64_t narrowFlopsPerUs,
                                 int64_t bytesPerUs, int64_t launchNs, ArrayRef<RateAttr> products, ArrayRef<RateAttr> convolutions,
                                 ArrayRef<RateAttr> attentions) {
  for (int64_t rate : {flopsPerUs, narrowFlopsPerUs, bytesPerUs}) {
    if (rate < 1) { // C1
      return emitError() << "device has a rate of " << rate << " a microsecond, which is not positive";
    }
  }
  if (launchNs < 0) { // C2
    return emitError() << "device launches in " << launchNs << " ns, which is negative";
  }
  for (auto [name, table] :
       {std::pair("products", products), std::pair("convolutions", convolutions), std::pair("attentions", attentions)}) {
    for (auto [before, rate] : llvm::zip(table, table.drop_front(table.empty() ? 0 : 1))) {
      if (rate.getFrom() <= before.getFrom()) { // C3
        return emitError() << "device has rates of " << name << " from size " << before.getFrom() << " on and then from " << rate.getFrom()
                           << " on, which does not rise";
      }
    }
  }
  return success();
}

//===-- Layout ------------------------------------------------------------------------------------------------------------------------===//

// Returns the parameters of the attribute that describes `layout`.
static std::tuple<SmallVector<ArrayAttr>, ArrayAttr, Reduction> layoutParameters(MLIRContext *context, const Layout &layout) {
  SmallVector<ArrayAttr> dims;
  for (const AxisList &axes : layout.dims) {
    dims.push_back(toAttr(context, axes));
  }
  AxisList partial = layout.partial;
  llvm::sort(partial, [](StringAttr a, StringAttr b) { return a.getValue() < b.getValue(); });
  return {dims, toAttr(context, partial), partial.empty() ? Reduction::Sum : layout.reduction};
}

LayoutAttr LayoutAttr::get(MLIRContext *context, const Layout &layout) {
  auto [dims, partial, reduction] = layoutParameters(context, layout);
  return Base::get(context, dims, partial, reduction);
}

LayoutAttr LayoutAttr::getChecked(function_ref<InFlightDiagnostic()> emitError, MLIRContext *context, const Layout &layout) {
  auto [dims, partial, reduction] = layoutParameters(context, layout);
  return Base::getChecked(emitError, context, dims, partial, reduction);
}

Layout LayoutAttr::getLayout() const {
  Layout layout;
  for (ArrayAttr axes : getDims()) {
    layout.dims.push_back(toAxisList(axes));
  }
  layout.partial = toAxisList(getPartialAxes());
  layout.reduction = getReduction();
  return layout;
}

LogicalResult LayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<ArrayAttr> dims, ArrayAttr partialAxes, Reduction) {
  llvm::SmallPtrSet<Attribute, 4> seen;
  auto verifyOnce = [&](ArrayAttr axes) {
    for (Attribute axis : axes) {
      if (!seen.insert(axis).second) { // C1
        emitError() << "layout uses axis " << axis << " twice";
        return false;
      }
    }
    return true;
  };
  return success(llvm::all_of(dims, verifyOnce) && verifyOnce(partialAxes));
}

LogicalResult SegmentsAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t positions, int64_t step, int64_t first,
                                   int64_t last) {
  constexpr int64_t kLimit = int64_t(1) << 46;
  auto print = [&](InFlightDiagnostic error) -> InFlightDiagnostic {
    error << "segments of " << positions << " positions, step " << step << ", first " << first << " and last " << last;
    return error;
  };
  if (positions < 1 || step < 1 || first >= last) { // C1, C2
    return print(emitError()) << ": positions and step must be at least 1, and first below last";
  }
  for (int64_t number : {positions, step, first, last}) {
    if (number >= kLimit || number <= -kLimit) { // C3
      return print(emitError()) << ": numbers must be below " << kLimit;
    }
  }
  return success();
}

// Parses {"dp", "tp"}.
static ParseResult parseAxes(AsmParser &parser, AxisList &axes) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, [&]() -> ParseResult {
    std::string name;
    if (parser.parseString(&name)) {
      return failure();
    }
    axes.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  });
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  Layout layout;
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() { return parseAxes(parser, layout.dims.emplace_back()); })) {
    return {};
  }
  if (succeeded(parser.parseOptionalComma())) {
    StringRef kind;
    SMLoc loc;
    if (parser.parseKeyword("partial") || parser.parseEqual() || parser.getCurrentLocation(&loc) || parser.parseKeyword(&kind)) {
      return {};
    }
    std::optional<Reduction> reduction = symbolizeReduction(kind);
    if (!reduction) {
      parser.emitError(loc, "expected sum, max or min, got \"") << kind << "\"";
      return {};
    }
    layout.reduction = *reduction;
    if (parseAxes(parser, layout.partial)) {
      return {};
    }
  }
  if (parser.parseGreater()) {
    return {};
  }
  return parser.getChecked<LayoutAttr>(parser.getContext(), layout);
}

void LayoutAttr::print(AsmPrinter &printer) const {
  printer << '<' << getLayout().toString() << '>';
}

} // namespace ashlar::dist
