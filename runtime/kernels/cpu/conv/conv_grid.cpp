// SPDX-License-Identifier: Apache-2.0
//
// Grids of positions and tables of addresses. Most pixels have no padding in their window; those take the short way.

#include "runtime/kernels/cpu/conv/conv_grid.h"

#include "runtime/kernels/cpu/parts.h"

namespace ashlar::rt {

// A position and what moves with it.
struct ConvGrid::Walker {
  const ConvGrid &grid;
  int64_t image, t[3];

  Walker(const ConvGrid &grid, int64_t position) : grid(grid) {
    for (int d = 2; d >= 0; --d) {
      t[d] = position % grid.runs[d]->size;
      position /= grid.runs[d]->size;
    }
    image = position;
  }

  void next() {
    for (int d = 2; d >= 0; --d) {
      if (++t[d] < grid.runs[d]->size) {
        return;
      }
      t[d] = 0;
    }
    ++image;
  }

  // Returns the offset of the input's pixel of a place with first = 0.
  int64_t inOffset(int64_t firstImage) const {
    const ConvRun *const *runs = grid.runs;
    const int64_t row = ((image - firstImage) * runs[0]->inSize + t[0] * runs[0]->inStep) * runs[1]->inSize + t[1] * runs[1]->inStep;
    return (row * runs[2]->inSize + t[2] * runs[2]->inStep) * grid.inPixel;
  }

  int64_t outOffset() const {
    const ConvRun *const *runs = grid.runs;
    const int64_t row = (image * runs[0]->outSize + t[0] * runs[0]->outStep + runs[0]->outFirst) * runs[1]->outSize +
                        t[1] * runs[1]->outStep + runs[1]->outFirst;
    return (row * runs[2]->outSize + t[2] * runs[2]->outStep + runs[2]->outFirst) * grid.outPixel;
  }
};

namespace {

using Places = std::vector<ConvRun::Place>;

// Splits `run` where the set of places changes that have pixels, and adds the pieces to `runs`.
void splitRun(const ConvRun &run, std::vector<ConvRun> &runs) {
  const auto placesAt = [&](int64_t t) {
    Places places;
    for (const ConvRun::Place &place : run.places) {
      const int64_t at = t * run.inStep + place.first;
      if (at >= 0 && at < run.inSize) {
        places.push_back(place);
      }
    }
    return places;
  };
  const auto same = [](const Places &left, const Places &right) {
    return left.size() == right.size() && (left.empty() || left[0].index == right[0].index);
  };
  for (int64_t begin = 0; begin < run.size;) {
    ConvRun piece = run;
    piece.places = placesAt(begin);
    int64_t end = begin + 1;
    while (end < run.size && same(placesAt(end), piece.places)) {
      ++end;
    }
    piece.size = end - begin;
    piece.outFirst += begin * run.outStep;
    for (ConvRun::Place &place : piece.places) {
      place.first += begin * run.inStep;
    }
    runs.push_back(piece);
    begin = end;
  }
}

} // namespace

std::vector<ConvRun> runsOf(uint32_t kind, const ashlar_rt_conv_dim &dim, bool folded, int64_t columns) {
  std::vector<ConvRun> runs;
  if (kind == ASHLAR_RT_CONV_DATA) {
    for (int64_t phase = 0; phase < std::min(dim.stride, dim.in); ++phase) {
      ConvRun run = {ceilDiv(dim.in - phase, dim.stride), dim.in, dim.stride, phase, dim.out, 1, dim.kernel, {}};
      for (int64_t k = 0; k < dim.kernel; ++k) {
        const int64_t distance = phase + dim.low - k * dim.dilation; // of pixel `phase` from the window at position 0
        if (distance % dim.stride == 0) {
          run.places.push_back({k, distance / dim.stride});
        }
      }
      splitRun(run, runs);
    }
    return runs;
  }
  ConvRun run = {dim.out, dim.out, 1, 0, folded ? columns : dim.in, dim.stride, folded ? 1 : dim.kernel, {}};
  for (int64_t k = 0; k < run.kernel; ++k) {
    run.places.push_back({k, folded ? 0 : k * dim.dilation - dim.low});
  }
  if (kind == ASHLAR_RT_CONV_WEIGHTS) {
    return {run};
  }
  splitRun(run, runs);
  return runs;
}

int64_t ConvGrid::places() const {
  return static_cast<int64_t>(runs[0]->places.size() * runs[1]->places.size() * runs[2]->places.size());
}

void ConvGrid::listPlaces(ConvPlace *places) const {
  for (const ConvRun::Place &place0 : runs[0]->places) {
    for (const ConvRun::Place &place1 : runs[1]->places) {
      for (const ConvRun::Place &place2 : runs[2]->places) {
        const int64_t pixel = (place0.first * runs[1]->inSize + place1.first) * runs[2]->inSize + place2.first;
        const int64_t index = (place0.index * runs[1]->kernel + place1.index) * runs[2]->kernel + place2.index;
        *places++ = {index, {place0.first, place1.first, place2.first}, pixel * inPixel};
      }
    }
  }
}

// Returns true if all places have pixels.
bool ConvGrid::allInside(const Walker &walker) const {
  bool in = true;
  for (int d = 0; d < 3; ++d) {
    const ConvRun &run = *runs[d];
    const int64_t at = walker.t[d] * run.inStep;
    // Places are in ascending order of k: their pixels go up, or in a data gradient down.
    for (const ConvRun::Place &place : {run.places.front(), run.places.back()}) {
      in &= at + place.first >= 0 && at + place.first < run.inSize;
    }
  }
  return in;
}

bool ConvGrid::inside(const Walker &walker, const ConvPlace &place) const {
  bool in = true;
  for (int d = 0; d < 3; ++d) {
    const int64_t at = walker.t[d] * runs[d]->inStep + place.first[d];
    in &= at >= 0 && at < runs[d]->inSize;
  }
  return in;
}

void ConvGrid::fillPixels(int64_t begin, int64_t count, const ConvPlace *place, int64_t places, int64_t firstImage, const char *in,
                          const char *zeros, int64_t tileRows, const char **table, int64_t *at) const {
  Walker walker(*this, begin);
  for (int64_t i = 0; i < count; ++i, walker.next()) {
    const char **entry = table + i / tileRows * tileRows * places + i % tileRows;
    const int64_t base = walker.inOffset(firstImage);
    at[i] = walker.outOffset();
    if (!zeros || allInside(walker)) {
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

void ConvGrid::fillPairs(int64_t begin, int64_t count, const ConvPlace *place, int64_t places, int64_t firstImage, const char *in,
                         const char *rows, int64_t rowBytes, ConvPair *pairs, int64_t stride, int64_t *pairCounts) const {
  Walker walker(*this, begin);
  std::fill_n(pairCounts, places, 0);
  for (int64_t i = 0; i < count; ++i, walker.next()) {
    const int64_t base = walker.inOffset(firstImage);
    const char *row = rows + i * rowBytes;
    const bool all = allInside(walker);
    for (int64_t p = 0; p < places; ++p) {
      if (all || inside(walker, place[p])) {
        pairs[p * stride + pairCounts[p]++] = {in + (base + place[p].offset), row};
      }
    }
  }
  for (int64_t p = 0; p < places; ++p) {
    std::fill_n(pairs + p * stride + pairCounts[p], kConvAhead, ConvPair{in, rows});
  }
}

} // namespace ashlar::rt
