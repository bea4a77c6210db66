// SPDX-License-Identifier: Apache-2.0
//
// Segments along split dims, and what devices send each other for them.

#include "dialects/dist/segments.h"

#include "dialects/dist/dist.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace ashlar::dist {

namespace {

// Returns the positions [start, end) of the device with a coordinate; none where end <= start. `piece` becomes the size of a full one.
std::pair<int64_t, int64_t> positionsAt(ArrayRef<int64_t> axisSizes, int64_t positions, int64_t coordinate, int64_t &piece) {
  int64_t minor = std::accumulate(axisSizes.begin(), axisSizes.end(), int64_t(1), std::multiplies<>());
  int64_t start = 0, end = positions;
  piece = positions;
  for (int64_t size : axisSizes) {
    minor /= size;
    piece = llvm::divideCeil(piece, size);
    start += coordinate / minor % size * piece;
    end = std::min(end, start + piece);
  }
  return {start, end};
}

// Returns true when pieces of `size` elements are, on every device, `step` times those of the positions.
bool haveEqualPieces(ArrayRef<int64_t> axisSizes, int64_t size, int64_t positions, int64_t step) {
  return llvm::all_of(axisSizes, [&](int64_t axis) {
    size = llvm::divideCeil(size, axis), positions = llvm::divideCeil(positions, axis);
    return size == positions * step;
  });
}

} // namespace

Segment segmentAt(ArrayRef<int64_t> axisSizes, int64_t size, const Segments &segments, int64_t coordinate) {
  int64_t piece;
  auto [start, end] = positionsAt(axisSizes, segments.positions, coordinate, piece);
  const Access &access = segments.access;
  Segment segment{start * access.step + access.first, 0, 0};
  if (start < end) {
    segment.begin = std::max<int64_t>(0, segment.start);
    segment.end = std::min(size, (end - 1) * access.step + access.last);
  }
  return segment;
}

int64_t segmentLength(ArrayRef<int64_t> axisSizes, const Segments &segments) {
  int64_t piece;
  positionsAt(axisSizes, segments.positions, /*coordinate=*/0, piece);
  return (piece - 1) * segments.access.step + segments.access.last - segments.access.first;
}

bool holdsAll(const Halo &halo) {
  const Access &held = halo.from.access;
  return halo.size >= 1 && held.first == 0 && held.last == held.step && halo.from.positions * held.step >= halo.size;
}

// Those that have elements have them in the order of their coordinates, so the ones that a device needs stand in a row.
HaloTraffic haloTraffic(ArrayRef<int64_t> axisSizes, const Halo &halo) {
  int64_t members = std::accumulate(axisSizes.begin(), axisSizes.end(), int64_t(1), std::multiplies<>());
  SmallVector<Segment> held;
  SmallVector<int64_t> holders, sent(members, 0), messages(members, 0);
  for (int64_t member = 0; member < members; ++member) {
    Segment segment = segmentAt(axisSizes, halo.size, halo.from, member);
    if (segment.begin < segment.end) {
      held.push_back(segment);
      holders.push_back(member);
    }
  }
  HaloTraffic traffic;
  for (int64_t member = 0; member < members; ++member) {
    Segment needed = segmentAt(axisSizes, halo.size, halo.to, member);
    int64_t received = 0, senders = 0;
    const Segment *first = llvm::partition_point(held, [&](const Segment &segment) { return segment.end <= needed.begin; });
    for (const Segment *segment = first; segment != held.end() && segment->begin < needed.end; ++segment) {
      int64_t source = holders[segment - held.begin()];
      int64_t elements = std::min(segment->end, needed.end) - std::max(segment->begin, needed.begin);
      if (source == member || elements <= 0) {
        continue;
      }
      received += elements;
      sent[source] += elements;
      ++senders;
      ++messages[source];
    }
    traffic.mostReceived = std::max(traffic.mostReceived, received);
    traffic.mostMessages = std::max(traffic.mostMessages, senders);
    traffic.total += received;
  }
  for (auto [elements, count] : llvm::zip_equal(sent, messages)) {
    traffic.mostSent = std::max(traffic.mostSent, elements);
    traffic.mostMessages = std::max(traffic.mostMessages, count);
  }
  return traffic;
}

std::optional<int64_t> offsetInPieces(ArrayRef<int64_t> axisSizes, const Halo &halo) {
  const Access &needed = halo.to.access;
  const int64_t devices = std::accumulate(axisSizes.begin(), axisSizes.end(), int64_t(1), std::multiplies<>());
  // Without padding, neither in pieces nor in runs.
  bool isInside = halo.from == Segments{halo.size, {}} && halo.to.positions % devices == 0 &&
                  halo.size == halo.to.positions * needed.step && needed.first >= 0 && needed.last <= needed.step;
  return isInside ? std::optional(needed.first) : std::nullopt;
}

SmallVector<int64_t> axisSizes(MeshAttr mesh, ArrayRef<StringAttr> axes) {
  return llvm::map_to_vector(axes, [&](StringAttr axis) { return mesh.axisSize(axis); });
}

std::optional<Halo> haloOfOperand(ArrayRef<int64_t> axisSizes, int64_t size, int64_t positions, const Access &access) {
  // What lies in a block behind the elements that its positions need does no harm.
  bool isPiece = access.first == 0 && access.last <= access.step && haveEqualPieces(axisSizes, size, positions, access.step) &&
                 (positions - 1) * access.step + access.last <= size;
  bool isSplit = llvm::any_of(axisSizes, [](int64_t axis) { return axis > 1; });
  return isPiece || !isSplit ? std::nullopt : std::optional(Halo{size, {size, {}}, {positions, access}});
}

std::optional<Halo> haloOfResult(ArrayRef<int64_t> axisSizes, int64_t size, int64_t positions, int64_t step) {
  bool isSplit = llvm::any_of(axisSizes, [](int64_t axis) { return axis > 1; });
  return !isSplit || haveEqualPieces(axisSizes, size, positions, step)
             ? std::nullopt
             : std::optional(Halo{size, {positions, {step, 0, step}}, {size, {}}});
}

Segments segmentsOfRanges(ArrayRef<int64_t> axisSizes, ArrayRef<ElementRange> ranges) {
  int64_t members = std::accumulate(axisSizes.begin(), axisSizes.end(), int64_t(1), std::multiplies<>()), piece;
  SmallVector<std::pair<int64_t, ElementRange>> needed; // by the devices that read something
  for (int64_t member = 0; member < members; ++member) {
    auto [start, end] = positionsAt(axisSizes, ranges.size(), member, piece);
    ElementRange all{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
    for (const ElementRange &range : start < end ? ranges.slice(start, end - start) : ArrayRef<ElementRange>()) {
      if (range.begin < range.end) {
        all = {std::min(all.begin, range.begin), std::max(all.end, range.end)};
      }
    }
    if (all.begin < all.end) {
      needed.push_back({member, all});
    }
  }
  Segments segments{members, {}};
  if (needed.empty()) {
    return segments;
  }
  auto [firstMember, first] = needed.front();
  auto [lastMember, last] = needed.back();
  if (first.begin < last.begin) { // else, as in a dim that is turned round, each device reads most of it anyway
    segments.access.step = std::max<int64_t>(1, llvm::divideNearest(last.begin - first.begin, lastMember - firstMember));
  }
  segments.access.first = std::numeric_limits<int64_t>::max(), segments.access.last = std::numeric_limits<int64_t>::min();
  for (auto [member, range] : needed) {
    segments.access.first = std::min(segments.access.first, range.begin - member * segments.access.step);
    segments.access.last = std::max(segments.access.last, range.end - member * segments.access.step);
  }
  return segments;
}

// Where an op reads the piece as it is, its segment is as long as the piece.
int64_t SplitWindow::length(MeshAttr mesh) const {
  SmallVector<int64_t> sizes = axisSizes(mesh, axes);
  return halo ? segmentLength(sizes, segments)
              : segmentLength(sizes, {segments.positions, {segments.access.step, 0, segments.access.step}});
}

SmallVector<SplitWindow> splitWindows(MeshAttr mesh, const ShardingRule &rule, ArrayRef<RankedTensorType> types, ArrayRef<Layout> layouts) {
  SmallVector<SplitWindow> found;
  for (const WindowedDim &window : rule.windows) {
    AxisList axes = layouts[window.tensor].dims[window.dim];
    llvm::erase_if(axes, [&](StringAttr axis) { return mesh.axisSize(axis) == 1; });
    if (axes.empty()) {
      continue;
    }
    int64_t size = types[window.tensor].getDimSize(window.dim);
    int64_t positions = rule.factors[rule.factorOf(window)].size;
    SmallVector<int64_t> sizes = axisSizes(mesh, axes);
    Segments segments = window.ranges.empty() ? Segments{positions, window.access} : segmentsOfRanges(sizes, window.ranges);
    std::optional<Halo> halo = window.tensor < rule.operands.size() ? haloOfOperand(sizes, size, segments.positions, segments.access)
                                                                    : haloOfResult(sizes, size, segments.positions, segments.access.step);
    found.push_back({window.tensor, window.dim, axes, positions, segments, halo});
  }
  return found;
}

RankedTensorType withLength(RankedTensorType type, int64_t dim, int64_t length) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = length;
  return type.clone(shape);
}

Halo haloOf(ArrayRef<int64_t> numbers) {
  auto segments = [&](size_t i) { return Segments{numbers[i], {numbers[i + 1], numbers[i + 2], numbers[i + 3]}}; };
  return {numbers.front(), segments(1), segments(5)};
}

Halo haloOf(HaloOp op) {
  return {static_cast<int64_t>(op.getSize()), op.getFrom().getSegments(), op.getTo().getSegments()};
}

SmallVector<int64_t> axisSizes(HaloOp op) {
  return axisSizes(findMesh(op->getParentOfType<ModuleOp>()).getMesh(), toAxisList(op.getAxes()));
}

} // namespace ashlar::dist
