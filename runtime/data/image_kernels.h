// SPDX-License-Identifier: Apache-2.0
//
// The loops over images: taking a window out of one, resizing it. T, float or double, is the type of the computation. Nothing here
// allocates.

#ifndef ASHLAR_RUNTIME_DATA_IMAGE_KERNELS_H
#define ASHLAR_RUNTIME_DATA_IMAGE_KERNELS_H

#include "runtime/data/element.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ashlar::rt {

// The order of the elements of an image in memory: planes x height x width x inner. Channels are planes or inner. Other samples have one
// row, or as many as their leading dims have: element-wise work does not mind.
struct Grid {
  int64_t planes = 1, height = 1, width = 1, inner = 1;

  int64_t elements() const { return planes * height * width * inner; }
  int64_t channels() const { return planes * inner; }
};

// Where a window lies. Row y of the window is row y + rowShift of the image, column x is column x * columnStep + columnShift; that holds
// for the rows and columns from begin to end, the others are padding.
struct Window {
  int64_t rowShift = 0, columnShift = 0, columnStep = 1;
  int64_t rowBegin = 0, rowEnd = 0, columnBegin = 0, columnEnd = 0;
};

// x * scale + shift of each channel, and the value of padding.
template <typename T> struct ChannelMap {
  std::vector<T> scale, shift, padding; // by channel
};

// An image, of any element type, and how many elements lie between its planes, rows and columns. Inner elements follow each other.
struct ImageView {
  const void *data;
  uint32_t element;
  int64_t planeStride, rowStride, columnStride;
};

// Writes the window `out` of an image, each element mapped.
template <typename T> void copyWindow(const ImageView &image, const Window &window, const Grid &out, const ChannelMap<T> &map, T *to);

// How one side is resized: element i of the result is near[i] * (1 - weight[i]) + far[i] * weight[i] of the elements at these places.
template <typename T> struct ResizedSide {
  std::vector<int64_t> near, far;
  std::vector<T> weight;

  // Half-pixel centers, no antialiasing: element i lies at (i + 1/2) * from / to - 1/2, at least 0; beyond the last element is the last.
  static ResizedSide make(int64_t from, int64_t to);
};

// Returns the map of each element of a row where channels are inner, so that the elements of a row need not know their channel; else `map`.
template <typename T> ChannelMap<T> ofRow(const ChannelMap<T> &map, const Grid &grid);

// Resizes `from`, an image of T in the order of `in`: columns first, then rows; each result is mapped, by ofRow(). `rowMemory` has room for
// two rows of the result.
template <typename T>
void resizeImage(const Grid &in, const T *from, const ResizedSide<T> &rows, const ResizedSide<T> &columns, const ChannelMap<T> &map,
                 T *rowMemory, T *to);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_IMAGE_KERNELS_H
