// SPDX-License-Identifier: Apache-2.0
//
// Windows and bilinear resizing. The long loops run over rows of contiguous elements, which the compiler vectorises.

#include "runtime/data/image_kernels.h"

#include "runtime/data/convert_one.h"

#include <algorithm>
#include <cmath>

namespace ashlar::rt {

namespace {

// Writes `count` pixels of a row; `step` elements lie between two of the source. scale, shift: of each inner element.
template <typename From, typename T>
void copyPixels(const From *from, int64_t step, int64_t count, int64_t inner, const T *scale, const T *shift, T *__restrict__ to) {
  if (inner == 1) {
    const T factor = *scale, offset = *shift;
    for (int64_t i = 0; i < count; ++i) {
      to[i] = convertOne<T>(from[i * step]) * factor + offset;
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < inner; ++c) {
      to[i * inner + c] = convertOne<T>(from[i * step + c]) * scale[c] + shift[c];
    }
  }
}

// Writes `count` pixels of padding.
template <typename T> void fillPixels(int64_t count, int64_t inner, const T *padding, T *to) {
  for (int64_t i = 0; i < count; ++i) {
    std::copy(padding, padding + inner, to + i * inner);
  }
}

template <typename From, typename T>
void copyWindowOf(const ImageView &image, const Window &window, const Grid &out, const ChannelMap<T> &map, T *to) {
  const From *data = static_cast<const From *>(image.data);
  const int64_t columns = window.columnEnd - window.columnBegin, rowElements = out.width * out.inner;
  const int64_t firstColumn = window.columnBegin * window.columnStep + window.columnShift;
  for (int64_t plane = 0; plane < out.planes; ++plane) {
    const T *padding = map.padding.data() + plane * out.inner;
    for (int64_t y = 0; y < out.height; ++y, to += rowElements) {
      if (y < window.rowBegin || y >= window.rowEnd) {
        fillPixels(out.width, out.inner, padding, to);
        continue;
      }
      fillPixels(window.columnBegin, out.inner, padding, to);
      fillPixels(out.width - window.columnEnd, out.inner, padding, to + window.columnEnd * out.inner);
      if (columns > 0) {
        const From *row = data + plane * image.planeStride + (y + window.rowShift) * image.rowStride + firstColumn * image.columnStride;
        copyPixels(row, window.columnStep * image.columnStride, columns, out.inner, map.scale.data() + plane * out.inner,
                   map.shift.data() + plane * out.inner, to + window.columnBegin * out.inner);
      }
    }
  }
}

// Writes a row of the source with the width of the result. Inner: the inner elements, when the compiler shall know; else 0.
template <int Inner, typename T> void resizeRowOf(const T *from, const ResizedSide<T> &columns, int64_t given, T *__restrict__ to) {
  const auto count = static_cast<int64_t>(columns.weight.size());
  const int64_t inner = Inner == 0 ? given : Inner;
  for (int64_t x = 0; x < count; ++x) {
    const T *near = from + columns.near[x] * inner, *far = from + columns.far[x] * inner;
    const T weight = columns.weight[x], rest = 1 - weight;
    for (int64_t c = 0; c < inner; ++c) {
      to[x * inner + c] = near[c] * rest + far[c] * weight;
    }
  }
}

template <typename T> void resizeRow(const T *from, const ResizedSide<T> &columns, int64_t inner, T *to) {
  switch (inner) {
  case 1:
    return resizeRowOf<1>(from, columns, inner, to);
  case 3:
    return resizeRowOf<3>(from, columns, inner, to);
  default:
    return resizeRowOf<0>(from, columns, inner, to);
  }
}

// to = (near * rest + far * weight) * scale + shift, with one scale and shift, or those of each element.
template <bool HasOne, typename T>
void blendRows(const T *near, const T *far, T weight, int64_t count, const T *scale, const T *shift, T *__restrict__ to) {
  const T rest = 1 - weight, factor = *scale, offset = *shift;
  for (int64_t i = 0; i < count; ++i) {
    to[i] = (near[i] * rest + far[i] * weight) * (HasOne ? factor : scale[i]) + (HasOne ? offset : shift[i]);
  }
}

// The last two rows that were widened: an upscaled image takes each row of the source several times.
template <typename T> class WideRows {
public:
  WideRows(const T *plane, int64_t rowElements, const ResizedSide<T> &columns, int64_t inner, T *memory)
      : plane(plane), rowElements(rowElements), columns(columns), inner(inner), memory(memory) {}

  // Returns a row. Valid until two others were asked for.
  const T *row(int64_t number) {
    if (held[0] != number && held[1] != number) {
      const int64_t oldest = held[0] < held[1] ? 0 : 1;
      resizeRow(plane + number * rowElements, columns, inner, at(oldest));
      held[oldest] = number;
    }
    return at(held[0] == number ? 0 : 1);
  }

private:
  T *at(int64_t i) { return memory + i * static_cast<int64_t>(columns.weight.size()) * inner; }

  const T *plane;
  int64_t rowElements;
  const ResizedSide<T> &columns;
  int64_t inner;
  T *memory;
  int64_t held[2] = {-1, -1};
};

} // namespace

template <typename T> void copyWindow(const ImageView &image, const Window &window, const Grid &out, const ChannelMap<T> &map, T *to) {
  withDtype(image.element, [&](auto element) { copyWindowOf<StoredElement<decltype(element)>>(image, window, out, map, to); });
}

template <typename T> ChannelMap<T> ofRow(const ChannelMap<T> &map, const Grid &grid) {
  ChannelMap<T> row;
  for (int64_t x = 0; x < grid.width && grid.inner > 1; ++x) {
    row.scale.insert(row.scale.end(), map.scale.begin(), map.scale.end());
    row.shift.insert(row.shift.end(), map.shift.begin(), map.shift.end());
  }
  return grid.inner > 1 ? row : map;
}

template <typename T> ResizedSide<T> ResizedSide<T>::make(int64_t from, int64_t to) {
  ResizedSide side;
  for (int64_t i = 0; i < to; ++i) {
    // Only the quotient is rounded.
    const double at = std::max(0.0, static_cast<double>((2 * i + 1) * from) / static_cast<double>(2 * to) - 0.5);
    const int64_t near = std::min(static_cast<int64_t>(std::floor(at)), from - 1);
    side.near.push_back(near);
    side.far.push_back(std::min(near + 1, from - 1));
    side.weight.push_back(static_cast<T>(at - static_cast<double>(near)));
  }
  return side;
}

template <typename T>
void resizeImage(const Grid &in, const T *from, const ResizedSide<T> &rows, const ResizedSide<T> &columns, const ChannelMap<T> &map,
                 T *rowMemory, T *to) {
  const auto height = static_cast<int64_t>(rows.weight.size()), width = static_cast<int64_t>(columns.weight.size());
  const int64_t rowElements = in.width * in.inner;
  for (int64_t plane = 0; plane < in.planes; ++plane) {
    WideRows<T> wide(from + plane * in.height * rowElements, rowElements, columns, in.inner, rowMemory);
    for (int64_t y = 0; y < height; ++y, to += width * in.inner) {
      const T *near = wide.row(rows.near[y]), *far = wide.row(rows.far[y]);
      if (in.inner == 1) {
        blendRows<true>(near, far, rows.weight[y], width, &map.scale[plane], &map.shift[plane], to);
      } else {
        blendRows<false>(near, far, rows.weight[y], width * in.inner, map.scale.data(), map.shift.data(), to);
      }
    }
  }
}

template void copyWindow(const ImageView &, const Window &, const Grid &, const ChannelMap<float> &, float *);
template void copyWindow(const ImageView &, const Window &, const Grid &, const ChannelMap<double> &, double *);
template ChannelMap<float> ofRow(const ChannelMap<float> &, const Grid &);
template ChannelMap<double> ofRow(const ChannelMap<double> &, const Grid &);
template struct ResizedSide<float>;
template struct ResizedSide<double>;
template void resizeImage(const Grid &, const float *, const ResizedSide<float> &, const ResizedSide<float> &, const ChannelMap<float> &,
                          float *, float *);
template void resizeImage(const Grid &, const double *, const ResizedSide<double> &, const ResizedSide<double> &,
                          const ChannelMap<double> &, double *, double *);

} // namespace ashlar::rt
