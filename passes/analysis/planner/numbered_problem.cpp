// SPDX-License-Identifier: Apache-2.0
//
// Which axes serve in a search, and how many of them move as one.

#include "passes/analysis/planner/numbered_problem.h"

#include "dialects/support/element_type.h"
#include "passes/analysis/planner/redistribution_bound.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ashlar::analysis {

namespace {

// What an axis is to a layout: at a place of a dim's list, summed, or idle.
struct Place {
  enum Kind { Idle, Summed, Splits } kind = Idle;
  size_t dim = 0, position = 0;

  // Returns true when `other` is the same, or the place behind this one.
  bool isBefore(const Place &other) const {
    return kind == other.kind && (kind != Splits || (dim == other.dim && position + 1 == other.position));
  }
};

Place placeOf(const dist::Layout &layout, StringAttr axis) {
  for (auto [d, list] : llvm::enumerate(layout.dims)) {
    if (const StringAttr *found = llvm::find(list, axis); found != list.end()) {
      return {Place::Splits, d, static_cast<size_t>(found - list.begin())};
    }
  }
  return {llvm::is_contained(layout.partial, axis) ? Place::Summed : Place::Idle};
}

} // namespace

NumberedProblem::NumberedProblem(dist::MeshAttr mesh, ArrayRef<Link> links, RankedTensorType type, const dist::Layout &from,
                                 const dist::Layout &to, size_t limit)
    : mesh(mesh), links(links), type(type), from(from), to(to), before(type.getRank()) {
  problem.shape.assign(type.getShape().begin(), type.getShape().end());
  problem.elementBytes = elementBytes(type.getElementType());
  dist::Layout start = from, end = to;
  SmallVector<StringAttr> used = usedAxes(start, end);
  isSmaller = used.size() > limit;
  if (isSmaller) {
    leaveOutFixed(start, end);
    used = usedAxes(start, end);
    llvm::for_each(joinAxes(used, start, end), [&](const dist::AxisList &axes) { addAxis(axes); });
  } else {
    llvm::for_each(used, [&](StringAttr axis) { addAxis({axis}); });
  }
  assert(names.size() <= kMostAxes && "more axes than a set of them holds");
  addIdle(used, limit);
  problem.from = number(start);
  problem.to = number(end);
}

SmallVector<StringAttr> NumberedProblem::usedAxes(const dist::Layout &from, const dist::Layout &to) const {
  return llvm::to_vector(llvm::make_filter_range(mesh.getAxes(), [&](StringAttr axis) { return from.uses(axis) || to.uses(axis); }));
}

void NumberedProblem::leaveOutFixed(dist::Layout &from, dist::Layout &to) {
  dist::AxisList summed = to.partial;
  to.partial.clear();
  llvm::erase_if(from.partial, [&](StringAttr axis) { return llvm::is_contained(summed, axis); });
  for (auto [size, first, second, left] : llvm::zip_equal(problem.shape, from.dims, to.dims, before)) {
    if (!dist::isEven(mesh, size, first) || !dist::isEven(mesh, size, second)) {
      continue; // pieces at the end of the dim are smaller than others
    }
    auto [end, other] = std::mismatch(first.begin(), first.end(), second.begin(), second.end());
    left.assign(first.begin(), end);
    first.erase(first.begin(), end);
    second.erase(second.begin(), other);
    size /= mesh.groupSize(left);
  }
}

SmallVector<dist::AxisList> NumberedProblem::joinAxes(Names axes, const dist::Layout &from, const dist::Layout &to) const {
  SmallVector<dist::AxisList> joined;
  SmallVector<StringAttr> left(axes);
  // Lists stand in the order of the layouts, sums and idle axes in that of the mesh. So an axis that could follow another may come before
  // it: begin where nothing does.
  auto follows = [&](StringAttr axis, StringAttr other) {
    return axis != other && linkOf(axis) == linkOf(other) && placeOf(from, axis).isBefore(placeOf(from, other)) &&
           placeOf(to, axis).isBefore(placeOf(to, other));
  };
  while (!left.empty()) {
    auto isFirst = [&](StringAttr axis) {
      bool isSplit = placeOf(from, axis).kind == Place::Splits || placeOf(to, axis).kind == Place::Splits;
      return !isSplit || llvm::none_of(left, [&](StringAttr other) { return follows(other, axis); });
    };
    StringAttr *first = llvm::find_if(left, isFirst);
    dist::AxisList &list = joined.emplace_back(dist::AxisList{*first});
    left.erase(first);
    auto next = [&] { return llvm::find_if(left, [&](StringAttr axis) { return follows(list.back(), axis); }); };
    for (StringAttr *axis = next(); axis != left.end(); axis = next()) {
      list.push_back(*axis);
      if (!cutsAtOnce(list, from) || !cutsAtOnce(list, to)) {
        list.pop_back();
        break;
      }
      left.erase(axis);
    }
  }
  return joined;
}

// Returns true unless the axes cut a dim of the layout otherwise than one axis of all their devices would.
bool NumberedProblem::cutsAtOnce(Names axes, const dist::Layout &layout) const {
  Place place = placeOf(layout, axes.front());
  if (place.kind != Place::Splits) {
    return true;
  }
  int64_t outer = mesh.groupSize(Names(layout.dims[place.dim]).take_front(place.position));
  auto sizes = llvm::map_to_vector(axes, [&](StringAttr axis) { return mesh.axisSize(axis); });
  return isOneCut(llvm::divideCeil(problem.shape[place.dim], outer), sizes);
}

// Adds idle axes that are faster than one of `used`, in the mesh's order, while there is room; in a smaller problem those of equal links as
// one.
void NumberedProblem::addIdle(Names used, size_t limit) {
  SmallVector<dist::AxisList> idle;
  for (auto [axis, size, link] : llvm::zip_equal(mesh.getAxes(), mesh.getSizes(), links)) {
    auto isSlower = [&, link = link](StringAttr other) { return link.isFasterThan(linkOf(other)); };
    if (size == 1 || from.uses(axis) || to.uses(axis) || llvm::none_of(used, isSlower)) {
      continue;
    }
    auto *same = llvm::find_if(idle, [&, link = link](const dist::AxisList &list) { return isSmaller && linkOf(list.front()) == link; });
    if (same != idle.end()) {
      same->push_back(axis);
    } else {
      idle.push_back({axis});
    }
  }
  for (dist::AxisList &list : idle) {
    if (names.size() >= limit) {
      isSmaller = true;
      return;
    }
    problem.idle |= 1u << names.size();
    addAxis(list);
  }
}

void NumberedProblem::addAxis(dist::AxisList parts) {
  auto sizes = llvm::map_to_vector<2>(parts, [&](StringAttr axis) { return mesh.axisSize(axis); });
  problem.axes.push_back({mesh.groupSize(parts), linkOf(parts.front()), sizes});
  names.push_back(std::move(parts));
}

NumberedLayout NumberedProblem::number(const dist::Layout &layout) const {
  NumberedLayout numbered;
  numbered.dims.resize(layout.dims.size());
  for (auto [number, parts] : llvm::enumerate(names)) {
    numbered.partial |= llvm::is_contained(layout.partial, parts.front()) ? 1u << number : 0;
  }
  for (auto [list, axes] : llvm::zip_equal(numbered.dims, layout.dims)) {
    for (StringAttr axis : axes) {
      auto *found = llvm::find_if(names, [&](const dist::AxisList &parts) { return parts.front() == axis; });
      if (found != names.end()) { // the others stand behind one of these
        list.push_back(found - names.begin());
      }
    }
  }
  return numbered;
}

dist::AxisList NumberedProblem::nameAxes(ArrayRef<uint8_t> list) const {
  dist::AxisList axes;
  for (uint8_t axis : list) {
    llvm::append_range(axes, names[axis]);
  }
  return axes;
}

Plan NumberedProblem::name(ArrayRef<SearchStep> steps) const {
  Plan plan;
  SearchSpace space(problem);
  plan.peakBytes = std::max(space.localBytes(problem.from), space.localBytes(problem.to));
  for (const SearchStep &found : steps) {
    Step step{found.kind, nameAxes(found.axes), found.dim, found.concatDim, {}, found.bytes, found.timePs};
    if (step.kind == CollectiveKind::AllReduce || step.kind == CollectiveKind::Permute) { // in no order
      step.axes = dist::inMeshOrder(mesh, step.axes);
    }
    if (step.kind == CollectiveKind::Permute) {
      for (auto [left, list] : llvm::zip_equal(before, found.after.dims)) {
        step.dims.push_back(left);
        llvm::append_range(step.dims.back(), nameAxes(list));
      }
    }
    plan.bytes += step.bytes;
    plan.timePs += step.timePs;
    plan.peakBytes = std::max(plan.peakBytes, space.localBytes(found.after));
    plan.steps.push_back(std::move(step));
  }
  if (!isSmaller && names.size() <= kExactAxes) {
    plan.leastPs = plan.timePs;
  } else {
    NumberedProblem whole(mesh, links, type, from, to, kMostAxes);
    plan.leastPs = leastTimePs(SearchSpace(whole.get()), whole.get().from);
  }
  return plan;
}

} // namespace ashlar::analysis
