// SPDX-License-Identifier: Apache-2.0
//
// Plain loops over (depth, height, width): a convolution of two spatial dims has a depth of 1.

#include "test/emulator/cudnn/convolution.h"

#include "test/emulator/driver/elements.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace ashlar::emulator {
namespace {

using Place = std::array<int64_t, 3>; // depth, height, width

// The last numbers of a list behind its first `skipped`; `depth` where there are only two.
Place placeOf(const std::vector<int64_t> &values, size_t skipped, int64_t depth) {
  Place place{depth, depth, depth};
  std::copy(values.begin() + int64_t(skipped), values.end(), place.end() - int64_t(values.size() - skipped));
  return place;
}

template <class F> void forEachPlace(const Place &sizes, F f) {
  for (int64_t d = 0; d < sizes[0]; ++d) {
    for (int64_t h = 0; h < sizes[1]; ++h) {
      for (int64_t w = 0; w < sizes[2]; ++w) {
        f(Place{d, h, w});
      }
    }
  }
}

// The sizes of a tensor, channels last.
struct Grid {
  explicit Grid(const Tensor &tensor) : outer(tensor.dims[0]), channels(tensor.dims[1]), sizes(placeOf(tensor.dims, 2, 1)) {}

  size_t at(int64_t n, const Place &place, int64_t channel) const {
    return size_t((((n * sizes[0] + place[0]) * sizes[1] + place[1]) * sizes[2] + place[2]) * channels + channel);
  }

  int64_t outer, channels;
  Place sizes;
};

// The terms of one element.
class Sum {
public:
  explicit Sum(Algorithm algorithm) : unordered(algorithm == Algorithm::Unordered), random(unordered ? Engine::get().draw() : 0) {}

  void add(float a, float b) {
    if (unordered) {
      terms.emplace_back(a, b);
    } else {
      total = std::fma(a, b, total);
    }
  }

  // Returns the sum, and begins the next.
  float take() {
    std::shuffle(terms.begin(), terms.end(), random);
    for (const auto &[a, b] : terms) {
      total = std::fma(a, b, total);
    }
    terms.clear();
    return std::exchange(total, 0.0f);
  }

private:
  bool unordered;
  std::mt19937_64 random;
  std::vector<std::pair<float, float>> terms;
  float total = 0;
};

// One run.
class Run {
public:
  Run(const Convolution &convolution, Algorithm algorithm, const CUdeviceptr (&addresses)[3])
      : convolution(convolution), x(convolution.tensors[X]), w(convolution.tensors[W]), y(convolution.tensors[Y]),
        padding(placeOf(convolution.before, 0, 0)), strides(placeOf(convolution.strides, 0, 1)),
        dilations(placeOf(convolution.dilations, 0, 1)), channels(w.channels), filters(w.outer * w.channels / x.channels), sum(algorithm) {
    for (const Role role : {X, W, Y}) {
      const Tensor &tensor = convolution.tensors[role];
      const unsigned width = elementBytes(tensor.type);
      std::byte *data = Driver::get().mustResolve(addresses[role], tensor.bytes(), "a tensor of a convolution is not in device memory");
      if (role == convolution.result) {
        result = data;
        continue;
      }
      values[role].resize(tensor.bytes() / width);
      for (size_t i = 0; i < values[role].size(); ++i) {
        const float value = loadElement(data + i * width, tensor.type);
        values[role][i] = algorithm == Algorithm::Tf32 ? roundToTf32(value) : value;
      }
    }
  }

  void all() {
    const Grid &grid = convolution.result == X ? x : convolution.result == W ? w : y;
    for (int64_t n = 0; n < grid.outer; ++n) {
      forEachPlace(grid.sizes, [&](const Place &place) {
        for (int64_t channel = 0; channel < grid.channels; ++channel) {
          convolution.result == X   ? addToX(n, place, channel)
          : convolution.result == W ? addToW(n, place, channel)
                                    : addToY(n, place, channel);
          store(grid.at(n, place, channel));
        }
      });
    }
  }

private:
  void addToY(int64_t n, const Place &output, int64_t filter) {
    forEachPlace(w.sizes, [&](const Place &tap) {
      Place image;
      const bool inside = findImage(output, tap, image);
      for (int64_t c = 0; inside && c < channels; ++c) {
        sum.add(values[X][x.at(n, image, filter / filters * channels + c)], values[W][w.at(filter, tap, c)]);
      }
    });
  }

  void addToX(int64_t n, const Place &image, int64_t channel) {
    const int64_t first = channel / channels * filters;
    forEachPlace(w.sizes, [&](const Place &tap) {
      Place output;
      const bool found = findOutput(image, tap, output);
      for (int64_t k = first; found && k < first + filters; ++k) {
        sum.add(values[Y][y.at(n, output, k)], values[W][w.at(k, tap, channel % channels)]);
      }
    });
  }

  void addToW(int64_t filter, const Place &tap, int64_t channel) {
    for (int64_t n = 0; n < x.outer; ++n) {
      forEachPlace(y.sizes, [&](const Place &output) {
        Place image;
        if (findImage(output, tap, image)) {
          sum.add(values[X][x.at(n, image, filter / filters * channels + channel)], values[Y][y.at(n, output, filter)]);
        }
      });
    }
  }

  // Finds what a place of the filter multiplies for one of y. Returns false in the padding.
  bool findImage(const Place &output, const Place &tap, Place &image) const {
    for (size_t i = 0; i < 3; ++i) {
      image[i] = output[i] * strides[i] + tap[i] * dilations[i] - padding[i];
      if (image[i] < 0 || image[i] >= x.sizes[i]) {
        return false;
      }
    }
    return true;
  }

  // The other way round. Returns false when there is none.
  bool findOutput(const Place &image, const Place &tap, Place &output) const {
    for (size_t i = 0; i < 3; ++i) {
      const int64_t strided = image[i] + padding[i] - tap[i] * dilations[i];
      output[i] = strided / strides[i];
      if (strided < 0 || strided % strides[i] != 0 || output[i] >= y.sizes[i]) {
        return false;
      }
    }
    return true;
  }

  void store(size_t index) {
    const cudaDataType type = convolution.tensors[convolution.result].type;
    std::byte *at = result + index * elementBytes(type);
    float value = convolution.alpha * sum.take();
    if (convolution.beta != 0) {
      value = std::fma(convolution.beta, loadElement(at, type), value);
    }
    storeElement(at, type, value);
  }

  const Convolution &convolution;
  const Grid x, w, y;
  const Place padding, strides, dilations;
  const int64_t channels, filters; // of a group
  Sum sum;
  std::vector<float> values[3]; // of the operands
  std::byte *result = nullptr;
};

} // namespace

size_t Tensor::bytes() const {
  size_t bytes = elementBytes(type);
  for (const int64_t dim : dims) {
    bytes *= size_t(dim);
  }
  return bytes;
}

void convolve(const Convolution &convolution, Algorithm algorithm, const CUdeviceptr (&addresses)[3]) {
  Run(convolution, algorithm, addresses).all();
}

} // namespace ashlar::emulator
