// SPDX-License-Identifier: Apache-2.0
//
// Segments of elements along a sharded dim, as plain numbers: the elements on a device, the elements that it needs, and the traffic that
// results. SegmentsAttr is the same thing inside the IR; dist_base.td has its meaning. A device of a group is known by its coordinate.

#ifndef ASHLAR_DIALECTS_DIST_SEGMENTS_H
#define ASHLAR_DIALECTS_DIST_SEGMENTS_H

#include "dialects/dist/layout.h"
#include "dialects/support/sharding_rule.h"

namespace ashlar::dist {

class HaloOp;

// The segments of all devices of a group: positions cut into pieces, and the elements that a piece needs.
struct Segments {
  int64_t positions;
  Access access;

  bool operator==(const Segments &other) const {
    return positions == other.positions && access.step == other.access.step && access.first == other.access.first &&
           access.last == other.access.last;
  }
};

// The segment of one device.
struct Segment {
  int64_t start;      // the element that its buffer begins with; negative in the padding in front of the tensor
  int64_t begin, end; // the elements of the tensor in it; none where end <= begin
};

// Returns the segment of the device with a coordinate, along a dim of `size` elements split over axes of these sizes.
//   8 positions, first -1, last 2, over 2 devices: coordinate 0 has elements [0, 5) behind one of padding, coordinate 1 [3, 8)
Segment segmentAt(llvm::ArrayRef<int64_t> axisSizes, int64_t size, const Segments &segments, int64_t coordinate);

// Returns how long a device's buffer is along the dim: the same on all devices.
int64_t segmentLength(llvm::ArrayRef<int64_t> axisSizes, const Segments &segments);

// How a halo changes the segments along a dim of `size` elements.
struct Halo {
  int64_t size;
  Segments from, to;
};

// Returns whether the segments that devices hold are blocks, which do not overlap, and hold all elements.
bool holdsAll(const Halo &halo);

// The traffic of a halo, in elements along its dim.
struct HaloTraffic {
  int64_t mostSent = 0, mostReceived = 0; // by one device
  int64_t mostMessages = 0;               // that one device sends, or that it receives
  int64_t total = 0;                      // sent by all devices of a group
};
HaloTraffic haloTraffic(llvm::ArrayRef<int64_t> axisSizes, const Halo &halo);

// Returns the element of its piece, the same on all devices, with which a device's run begins, where pieces are of one size and each has
// the run of its device; nothing elsewhere.
//   16 elements over 4 devices, a run of 3 from each position of step 4 with first 1: 1
std::optional<int64_t> offsetInPieces(llvm::ArrayRef<int64_t> axisSizes, const Halo &halo);

// Returns the sizes of axes of the mesh.
llvm::SmallVector<int64_t> axisSizes(MeshAttr mesh, llvm::ArrayRef<mlir::StringAttr> axes);

// Returns how the pieces of a dim of `size` elements become the segments that an op reads, which needs `access` at each of `positions`;
// nothing where each device has all that it needs at the beginning of its piece.
std::optional<Halo> haloOfOperand(llvm::ArrayRef<int64_t> axisSizes, int64_t size, int64_t positions, const Access &access);

// Returns how the blocks of `step` elements that an op makes, one a position, become the pieces of a dim of `size` elements; nothing where
// they are these.
std::optional<Halo> haloOfResult(llvm::ArrayRef<int64_t> axisSizes, int64_t size, int64_t positions, int64_t step);

// Returns segments of one position a device that hold the ranges of the device's positions. The steps between devices are equal, so every
// segment has the length of the longest one, and up to one element more where the ranges have unequal steps.
//   ranges [0, 1), [0, 2), [1, 3), [2, 4), [3, 5), [4, 5) over 2 devices: step 2, first 0, last 3
Segments segmentsOfRanges(llvm::ArrayRef<int64_t> axisSizes, llvm::ArrayRef<ElementRange> ranges);

// A windowed dim that is split.
struct SplitWindow {
  unsigned tensor, dim;     // as in WindowedDim
  AxisList axes;            // that split it, of more than one device each
  int64_t positions;        // that the factor of the dim counts
  Segments segments;        // of the elements that the op reads or makes
  std::optional<Halo> halo; // between pieces and segments; nothing where they are one

  // Returns the length of the segments: the local size of the dim for the op.
  int64_t length(MeshAttr mesh) const;
};

// Returns the windowed dims that are split when the tensors of an op, operands, then results, have these types and layouts.
llvm::SmallVector<SplitWindow> splitWindows(MeshAttr mesh, const ShardingRule &rule, llvm::ArrayRef<mlir::RankedTensorType> types,
                                            llvm::ArrayRef<Layout> layouts);

// Returns the type with another size of a dim.
mlir::RankedTensorType withLength(mlir::RankedTensorType type, int64_t dim, int64_t length);

// Returns the halo of the numbers that an instruction has: size, then positions, step, first and last of each side.
Halo haloOf(llvm::ArrayRef<int64_t> numbers);

// Returns the halo of an op, and the sizes of its axes. Assumes that it lies in a module with a mesh.
Halo haloOf(HaloOp op);
llvm::SmallVector<int64_t> axisSizes(HaloOp op);

} // namespace ashlar::dist

#endif // ASHLAR_DIALECTS_DIST_SEGMENTS_H
