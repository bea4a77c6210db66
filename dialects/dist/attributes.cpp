// SPDX-License-Identifier: Apache-2.0
//
// The mesh and layout attributes: parse, print, verify, and the arithmetic of a mesh.

#include "dialects/dist/dist.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

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

LogicalResult CostsAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> latencyNs, ArrayRef<int64_t> bytesPerUs,
                                ArrayRef<int64_t> beside) {
  if (latencyNs.size() != bytesPerUs.size()) { // C1
    return emitError() << "costs have " << latencyNs.size() << " latencies but " << bytesPerUs.size() << " rates";
  }
  for (auto [latency, rate] : llvm::zip_equal(latencyNs, bytesPerUs)) {
    if (latency < 0) { // C2
      return emitError() << "costs have a latency of " << latency << " ns, which is negative";
    }
    if (rate < 1) { // C2
      return emitError() << "costs have a rate of " << rate << " bytes a microsecond, which is not positive";
    }
  }
  int64_t least = 0, axes = latencyNs.size();
  for (int64_t axis : beside) {
    if (axis < least || axis >= axes) { // C3
      return emitError() << "costs name axis " << axis << " in \"beside\", which is "
                         << (axis < least ? "out of order" : "not one of " + std::to_string(axes));
    }
    least = axis + 1;
  }
  return success();
}

LogicalResult DeviceAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t flopsPerUs, int64_t narrowFlopsPerUs,
                                 int64_t bytesPerUs) {
  for (int64_t rate : {flopsPerUs, narrowFlopsPerUs, bytesPerUs}) {
    if (rate < 1) { // C1
      return emitError() << "device has a rate of " << rate << " a microsecond, which is not positive";
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

LogicalResult RunsAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t positions, int64_t step, int64_t first, int64_t last) {
  constexpr int64_t kLimit = int64_t(1) << 46;
  auto print = [&](InFlightDiagnostic error) -> InFlightDiagnostic {
    error << "runs of " << positions << " positions, step " << step << ", first " << first << " and last " << last;
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
