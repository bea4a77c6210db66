// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of parts of axes, and their place in a module.

#include "passes/analysis/planner/mesh_refinement.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ashlar::analysis {

namespace {

// "dp" of size 2, "tp" of size 4.
std::string nameAxes(dist::MeshAttr mesh) {
  auto nameAxis = [](auto item) {
    auto [axis, size] = item;
    return "\"" + axis.str() + "\" of size " + std::to_string(size);
  };
  return llvm::join(llvm::map_range(llvm::zip_equal(mesh.getAxes(), mesh.getSizes()), nameAxis), ", ");
}

} // namespace

std::string AxisPart::toString() const {
  return size == 0 ? axis : axis + ":(" + std::to_string(before) + ")" + std::to_string(size);
}

LogicalResult MeshRefinement::cut(const AxisPart &part, function_ref<InFlightDiagnostic()> emitError) {
  auto axis = StringAttr::get(mesh.getContext(), part.axis);
  if (!mesh.findAxis(axis)) {
    return emitError() << "the mesh has no axis " << axis << "; its axes are " << nameAxes(mesh);
  }
  if (part.size == 0) {
    return success();
  }
  int64_t size = mesh.axisSize(axis);
  if (size % part.before != 0 || size / part.before % part.size != 0) {
    return emitError() << part.toString() << " is no part of mesh axis " << axis << ": " << part.before << " times " << part.size
                       << " does not divide its size " << size;
  }
  cuts[part.axis].insert({1, part.before, part.before * part.size, size});
  return success();
}

SmallVector<MeshRefinement::Piece> MeshRefinement::pieces(StringAttr axis) const {
  SmallVector<Piece> pieces;
  auto found = cuts.find(axis.str());
  std::set<int64_t> places = found == cuts.end() ? std::set<int64_t>{1, mesh.axisSize(axis)} : found->second;
  for (auto place = places.begin(); std::next(place) != places.end(); ++place) {
    pieces.push_back({*place, *std::next(place)});
  }
  return pieces;
}

LogicalResult MeshRefinement::check(function_ref<InFlightDiagnostic()> emitError) const {
  for (const auto &[axis, places] : cuts) {
    for (auto place = places.begin(), next = std::next(place); next != places.end(); place = next++) {
      if (*next % *place != 0) {
        return emitError() << "mesh axis \"" << axis << "\" is cut after " << *place << " and after " << *next
                           << " parts, by rules or shard_size, and the one does not divide the other; use parts that nest";
      }
    }
  }
  return success();
}

dist::AxisList MeshRefinement::expand(const AxisPart &part) const {
  auto found = cuts.find(part.axis);
  if (found == cuts.end() || found->second.size() == 1) {
    return {StringAttr::get(mesh.getContext(), part.axis)};
  }
  dist::AxisList axes;
  int64_t end = part.size == 0 ? *found->second.rbegin() : part.before * part.size;
  for (auto place = found->second.find(part.before); *place < end; ++place) {
    AxisPart piece{part.axis, *place, *std::next(place) / *place};
    // An axis in one piece keeps its name.
    axes.push_back(StringAttr::get(mesh.getContext(), found->second.size() == 2 ? part.axis : piece.toString()));
  }
  return axes;
}

dist::MeshAttr MeshRefinement::refinedMesh() const {
  SmallVector<StringAttr> axes;
  SmallVector<int64_t> sizes;
  for (auto [axis, size] : llvm::zip_equal(mesh.getAxes(), mesh.getSizes())) {
    auto found = cuts.find(axis.str());
    if (found == cuts.end() || found->second.size() <= 2) {
      axes.push_back(axis);
      sizes.push_back(size);
      continue;
    }
    llvm::append_range(axes, expand({axis.str()}));
    for (auto place = found->second.begin(); std::next(place) != found->second.end(); ++place) {
      sizes.push_back(*std::next(place) / *place);
    }
  }
  return dist::MeshAttr::get(mesh.getContext(), axes, sizes);
}

MeshLinks MeshRefinement::refineLinks(const MeshLinks &links) const {
  MeshLinks refined = links;
  if (links.hosts) {
    refined.axes = hostLinks(links.hosts, refinedMesh().getSizes(), links.deviceIds);
    return refined;
  }
  refined.axes.clear();
  for (auto [axis, link] : llvm::zip_equal(mesh.getAxes(), links.axes)) {
    refined.axes.append(expand({axis.str()}).size(), link);
  }
  return refined;
}

dist::Layout MeshRefinement::refine(const dist::Layout &layout) const {
  dist::Layout refined = layout;
  auto refineAxes = [&](dist::AxisList &axes) {
    dist::AxisList parts;
    for (StringAttr axis : axes) {
      llvm::append_range(parts, expand({axis.str()}));
    }
    axes = parts;
  };
  llvm::for_each(refined.dims, refineAxes);
  refineAxes(refined.partial);
  return refined;
}

void MeshRefinement::apply(ModuleOp module) const {
  if (refinedMesh() == mesh) {
    return;
  }
  dist::MeshOp meshOp = dist::findMesh(module);
  if (meshOp.getCostsAttr()) {
    meshOp.setCostsAttr(costsOf(module.getContext(), refineLinks(linksOf(meshOp)).axes));
  }
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](dist::LayoutAttr attribute) -> std::optional<Attribute> {
    return dist::LayoutAttr::get(attribute.getContext(), refine(attribute.getLayout()));
  });
  replacer.addReplacement([&](dist::MeshAttr) -> std::optional<Attribute> { return refinedMesh(); });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true, /*replaceLocs=*/false, /*replaceTypes=*/false);
}

} // namespace ashlar::analysis
