// SPDX-License-Identifier: Apache-2.0
//
// Which bytes of whose buffer a collective moves where. A View is a run of equal blocks at equal distances: a piece of a tensor along one
// dim, in row-major order. Copying one view into another of the same size is all that the moving collectives do.

#ifndef ASHLAR_RUNTIME_COMM_VIEW_H
#define ASHLAR_RUNTIME_COMM_VIEW_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ashlar::rt {

// `count` blocks of `block` bytes, the first at `offset`, each `stride` after the one before. A dense view has count 1.
struct View {
  size_t offset = 0;
  size_t block = 0;
  size_t stride = 0;
  size_t count = 1;

  // Bytes in the view.
  size_t bytes() const { return block * count; }

  // Whether the bytes lie one after the other.
  bool dense() const { return count == 1; }
};

// Copies the bytes [begin, end) of the view `source` of `from` to the same bytes of the view `target` of `to`, counted along the views.
// Assumes views of equal size that do not overlap in memory, or that are the same.
void copyView(const char *from, const View &source, char *to, const View &target, size_t begin, size_t end);

// Fills the bytes [begin, end) of the view of `to` with zeros, counted along the view.
void zeroView(char *to, const View &view, size_t begin, size_t end);

// The transfer from one member of a group to another, for the collectives that only move bytes.
struct Movement {
  int source; // coordinate in the group
  int target;
  View from; // of the source's `in`
  View to;   // of the target's `out`
};

// The geometry of one tensor of a collective in a group of `members`.
class CollectiveShape {
public:
  // Checks the desc and one of its tensors against the group and the buffers and computes the sizes.
  static Status create(const ashlar_rt_collective_desc &desc, const ashlar_rt_collective_tensor &tensor, int members, uint64_t inBytes,
                       uint64_t outBytes, CollectiveShape &shape);

  // Makes a tensor of an all-reduce one of so many bytes.
  void lengthen(size_t bytes) { inputBytes = outputBytes = bytes; }

  // Whether the collective combines values (all-reduce, reduce-scatter) rather than moves them.
  bool reduces() const { return isReduction; }

  // The views of `out` of device `target` that nobody fills, and so must be filled with zeros: all of it, of a permute in which nobody
  // sends to the device; of a halo the parts outside of the tensor.
  std::vector<View> zeroed(int target) const;

  // All movements with the given source and target coordinates; at most one. Assumes !reduces() and a kind that communicates, or a slice.
  bool movement(int source, int target, Movement &result) const;

  // The view of `in` that ends up, reduced, in the `out` of `target` (reduce-scatter), or all of `in` (all-reduce).
  View reducedView(int target) const;

  // Bytes of `in` and of `out`.
  size_t inBytes() const { return inputBytes; }
  size_t outBytes() const { return outputBytes; }

private:
  // The elements [begin, begin + count) along `split_dim` of a tensor whose dims are `shape`.
  View run(const std::vector<int64_t> &dims, int64_t begin, int64_t count) const;

  // The transfer of a halo.
  bool haloMovement(int source, int target, Movement &result) const;

  // Checks the segments of a halo and computes the dims of `out`.
  Status placeRuns();

  // Piece `index` of `pieces` along `dim` of a tensor whose dims are `shape`.
  View piece(const std::vector<int64_t> &dims, uint32_t dim, int index) const;

  const ashlar_rt_collective_desc *desc = nullptr;
  const ashlar_rt_collective_tensor *tensor = nullptr;
  int members = 1;
  bool isReduction = false;
  size_t elementBytes = 0;
  size_t inputBytes = 0;
  size_t outputBytes = 0;
  std::vector<int64_t> inDims;
  std::vector<int64_t> outDims;
};

// Returns the name of the kind for errors and profiles, like "all_reduce".
const char *collectiveKindName(uint32_t kind);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_VIEW_H
