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

// Writes a row of the source with the width of the result.
template <typename T> void resizeRow(const T *from, const ResizedSide<T> &columns, int64_t inner, T *__restrict__ to) {
  const auto count = static_cast<int64_t>(columns.weight.size());
  for (int64_t x = 0; x < count; ++x) {
    const T *near = from + columns.near[x] * inner, *far = from + columns.far[x] * inner;
    const T weight = columns.weight[x], rest = 1 - weight;
    for (int64_t c = 0; c < inner; ++c) {
      to[x * inner + c] = near[c] * rest + far[c] * weight;
    }
  }
}

// to = (near * rest + far * weight) * scale + shift, with one scale and shift, or with those of each inner element.
template <typename T>
void blendRows(const T *near, const T *far, T weight, int64_t pixels, int64_t inner, const T *scale, const T *shift, T *__restrict__ to) {
  const T rest = 1 - weight;
  if (inner == 1) {
    const T factor = *scale, offset = *shift;
    for (int64_t i = 0; i < pixels; ++i) {
      to[i] = (near[i] * rest + far[i] * weight) * factor + offset;
    }
    return;
  }
  for (int64_t i = 0; i < pixels; ++i) {
    for (int64_t c = 0; c < inner; ++c) {
      to[i * inner + c] = (near[i * inner + c] * rest + far[i * inner + c] * weight) * scale[c] + shift[c];
    }
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
  switch (image.element) {
  case Element::kF32:
    return copyWindowOf<float>(image, window, out, map, to);
  case Element::kF64:
    return copyWindowOf<double>(image, window, out, map, to);
  case Element::kF16:
    return copyWindowOf<F16>(image, window, out, map, to);
  case Element::kI32:
    return copyWindowOf<int32_t>(image, window, out, map, to);
  case Element::kI64:
    return copyWindowOf<int64_t>(image, window, out, map, to);
  case Element::kU8:
  case Element::kBool:
    return copyWindowOf<uint8_t>(image, window, out, map, to);
  }
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
    const T *scale = map.scale.data() + plane * in.inner, *shift = map.shift.data() + plane * in.inner;
    for (int64_t y = 0; y < height; ++y, to += width * in.inner) {
      const T *near = wide.row(rows.near[y]), *far = wide.row(rows.far[y]);
      blendRows(near, far, rows.weight[y], width, in.inner, scale, shift, to);
    }
  }
}

template void copyWindow(const ImageView &, const Window &, const Grid &, const ChannelMap<float> &, float *);
template void copyWindow(const ImageView &, const Window &, const Grid &, const ChannelMap<double> &, double *);
template struct ResizedSide<float>;
template struct ResizedSide<double>;
template void resizeImage(const Grid &, const float *, const ResizedSide<float> &, const ResizedSide<float> &, const ChannelMap<float> &,
                          float *, float *);
template void resizeImage(const Grid &, const double *, const ResizedSide<double> &, const ResizedSide<double> &,
                          const ChannelMap<double> &, double *, double *);

} // namespace ashlar::rt
