// SPDX-License-Identifier: Apache-2.0
//
// Grids of positions and tables of addresses. Most pixels have no padding in their window; those take the short way.

#include "runtime/kernels/cpu/conv_grid.h"

#include "runtime/kernels/cpu/parts.h"

namespace ashlar::rt {

// A position and what moves with it.
struct ConvGrid::Walker {
  const ConvGrid &grid;
  int64_t image, t[3];

  Walker(const ConvGrid &grid, int64_t position) : grid(grid) {
    for (int d = 2; d >= 0; --d) {
      t[d] = position % grid.dims[d].size;
      position /= grid.dims[d].size;
    }
    image = position;
  }

  void next() {
    for (int d = 2; d >= 0; --d) {
      if (++t[d] < grid.dims[d].size) {
        return;
      }
      t[d] = 0;
    }
    ++image;
  }

  // Returns the offset of the input's pixel of a place with first = 0.
  int64_t inOffset(int64_t firstImage) const {
    const ConvGridDim *dims = grid.dims;
    const int64_t row = ((image - firstImage) * dims[0].inSize + t[0] * dims[0].inStep) * dims[1].inSize + t[1] * dims[1].inStep;
    return (row * dims[2].inSize + t[2] * dims[2].inStep) * grid.inPixel;
  }

  int64_t outOffset() const {
    const ConvGridDim *dims = grid.dims;
    const int64_t row =
        (image * dims[0].outSize + t[0] * dims[0].outStep + dims[0].outFirst) * dims[1].outSize + t[1] * dims[1].outStep + dims[1].outFirst;
    return (row * dims[2].outSize + t[2] * dims[2].outStep + dims[2].outFirst) * grid.outPixel;
  }
};

ConvGrid ConvGrid::ofOutput(const ashlar_rt_conv_desc &desc, bool folded, int64_t columns) {
  ConvGrid grid;
  grid.batch = desc.batch;
  for (int d = 0; d < 3; ++d) {
    const ashlar_rt_conv_dim &dim = desc.dims[d];
    grid.dims[d] = {dim.out, dim.out, 1, 0, dim.in, dim.stride};
  }
  const int64_t kernels[3] = {desc.dims[0].kernel, desc.dims[1].kernel, folded ? 1 : desc.dims[2].kernel};
  for (int64_t i = 0; i < kernels[0] * kernels[1] * kernels[2]; ++i) {
    const int64_t k[3] = {i / (kernels[1] * kernels[2]), i / kernels[2] % kernels[1], i % kernels[2]};
    ConvPlace place = {};
    place.index = i;
    for (int d = 0; d < 3; ++d) {
      place.first[d] = k[d] * desc.dims[d].dilation - desc.dims[d].low;
    }
    if (folded) {
      place.first[2] = 0;
    }
    grid.allPlaces.push_back(place);
  }
  if (folded) {
    grid.dims[2].inSize = columns;
  }
  grid.finish(desc.groups * desc.channels_in, desc.groups * desc.channels_out);
  return grid;
}

ConvGrid ConvGrid::ofInput(const ashlar_rt_conv_desc &desc, const int64_t phase[3]) {
  ConvGrid grid;
  grid.batch = desc.batch;
  for (int d = 0; d < 3; ++d) {
    const ashlar_rt_conv_dim &dim = desc.dims[d];
    grid.dims[d] = {dim.in > phase[d] ? ceilDiv(dim.in - phase[d], dim.stride) : 0, dim.in, dim.stride, phase[d], dim.out, 1};
  }
  const int64_t kernels[3] = {desc.dims[0].kernel, desc.dims[1].kernel, desc.dims[2].kernel};
  for (int64_t i = 0; i < kernels[0] * kernels[1] * kernels[2]; ++i) {
    const int64_t k[3] = {i / (kernels[1] * kernels[2]), i / kernels[2] % kernels[1], i % kernels[2]};
    ConvPlace place = {};
    place.index = i;
    bool hit = true;
    for (int d = 0; d < 3; ++d) {
      const ashlar_rt_conv_dim &dim = desc.dims[d];
      const int64_t distance = phase[d] + dim.low - k[d] * dim.dilation; // of pixel `phase` from the window at position 0
      hit &= distance % dim.stride == 0;
      place.first[d] = distance / dim.stride;
    }
    if (hit) {
      grid.allPlaces.push_back(place);
    }
  }
  grid.finish(desc.groups * desc.channels_out, desc.groups * desc.channels_in);
  return grid;
}

void ConvGrid::finish(int64_t inFloats, int64_t outFloats) {
  inPixel = inFloats;
  outPixel = outFloats;
  for (int d = 0; d < 3; ++d) {
    lowest[d] = highest[d] = allPlaces.empty() ? 0 : allPlaces[0].first[d];
  }
  for (ConvPlace &place : allPlaces) {
    place.offset = ((place.first[0] * dims[1].inSize + place.first[1]) * dims[2].inSize + place.first[2]) * inPixel;
    for (int d = 0; d < 3; ++d) {
      lowest[d] = std::min(lowest[d], place.first[d]);
      highest[d] = std::max(highest[d], place.first[d]);
    }
  }
}

// Returns true if all places have pixels.
bool ConvGrid::inside(const Walker &walker) const {
  bool in = true;
  for (int d = 0; d < 3; ++d) {
    const int64_t at = walker.t[d] * dims[d].inStep;
    in &= at + lowest[d] >= 0 && at + highest[d] < dims[d].inSize;
  }
  return in;
}

bool ConvGrid::inside(const Walker &walker, const ConvPlace &place) const {
  bool in = true;
  for (int d = 0; d < 3; ++d) {
    const int64_t at = walker.t[d] * dims[d].inStep + place.first[d];
    in &= at >= 0 && at < dims[d].inSize;
  }
  return in;
}

void ConvGrid::fillPixels(int64_t begin, int64_t count, int64_t placeBegin, int64_t places, int64_t firstImage, const float *in,
                          const float *zeros, int64_t tileRows, const float **table, int64_t *at) const {
  Walker walker(*this, begin);
  const ConvPlace *place = allPlaces.data() + placeBegin;
  for (int64_t i = 0; i < count; ++i, walker.next()) {
    const float **entry = table + i / tileRows * tileRows * places + i % tileRows;
    const int64_t base = walker.inOffset(firstImage);
    at[i] = walker.outOffset();
    if (inside(walker)) {
      for (int64_t p = 0; p < places; ++p) {
        entry[p * tileRows] = in + (base + place[p].offset);
      }
      continue;
    }
    for (int64_t p = 0; p < places; ++p) {
      entry[p * tileRows] = inside(walker, place[p]) ? in + (base + place[p].offset) : zeros;
    }
  }
}

void ConvGrid::fillPairs(int64_t begin, int64_t count, int64_t placeBegin, int64_t places, int64_t firstImage, const float *in,
                         const float *rows, int64_t rowFloats, ConvPair *pairs, int64_t stride, int64_t *pairCounts) const {
  Walker walker(*this, begin);
  const ConvPlace *place = allPlaces.data() + placeBegin;
  std::fill_n(pairCounts, places, 0);
  for (int64_t i = 0; i < count; ++i, walker.next()) {
    const int64_t base = walker.inOffset(firstImage);
    const float *row = rows + i * rowFloats;
    const bool all = inside(walker);
    for (int64_t p = 0; p < places; ++p) {
      if (all || inside(walker, place[p])) {
        pairs[p * stride + pairCounts[p]++] = {in + (base + place[p].offset), row};
      }
    }
  }
}

} // namespace ashlar::rt
