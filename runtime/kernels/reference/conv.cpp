// SPDX-License-Identifier: Apache-2.0
//
// One walk over all products x * w that elements of y add up; the kinds differ in the tensor that gets them.

#include "runtime/kernels/reference/conv.h"

#include "runtime/kernels/reference/gemm.h"

#include <cstddef>
#include <vector>

namespace ashlar::rt {
namespace {

int64_t elementsOfX(const ashlar_rt_conv_desc &d) {
  return d.batch * d.dims[0].in * d.dims[1].in * d.dims[2].in * d.groups * d.channels_in;
}

int64_t elementsOfWeights(const ashlar_rt_conv_desc &d) {
  return d.groups * d.channels_out * d.channels_in * d.dims[0].kernel * d.dims[1].kernel * d.dims[2].kernel;
}

int64_t elementsOfY(const ashlar_rt_conv_desc &d) {
  return d.batch * d.dims[0].out * d.dims[1].out * d.dims[2].out * d.groups * d.channels_out;
}

// Calls `body` with the row-major positions of an element of x, of the weights and of y for each product.
template <typename Body> void forEachProduct(const ashlar_rt_conv_desc &d, Body body) {
  const int64_t channelsOfX = d.groups * d.channels_in, channelsOfY = d.groups * d.channels_out;
  // Positions, and places of a window, in all spatial dims, the last one fastest.
  const int64_t positions = d.dims[0].out * d.dims[1].out * d.dims[2].out;
  const int64_t places = d.dims[0].kernel * d.dims[1].kernel * d.dims[2].kernel;
  for (int64_t sample = 0; sample < d.batch; ++sample) {
    for (int64_t position = 0; position < positions; ++position) {
      for (int64_t place = 0; place < places; ++place) {
        int64_t pixel = 0, stride = 1, positionLeft = position, placeLeft = place;
        bool isPadding = false;
        for (int dim = 2; dim >= 0; --dim) {
          const ashlar_rt_conv_dim &s = d.dims[dim];
          const int64_t at = positionLeft % s.out * s.stride + placeLeft % s.kernel * s.dilation - s.low;
          isPadding |= at < 0 || at >= s.in;
          pixel += at * stride;
          stride *= s.in;
          positionLeft /= s.out;
          placeLeft /= s.kernel;
        }
        if (isPadding) {
          continue;
        }
        for (int64_t m = 0; m < channelsOfY; ++m) {
          for (int64_t c = 0; c < d.channels_in; ++c) {
            const int64_t channel = m / d.channels_out * d.channels_in + c;
            body((sample * stride + pixel) * channelsOfX + channel, (m * d.channels_in + c) * places + place,
                 (sample * positions + position) * channelsOfY + m);
          }
        }
      }
    }
  }
}

} // namespace

void referenceConv(const ashlar_rt_conv_desc &desc, const float *a, const float *b, const float *scale, const float *bias,
                   const float *residual, float *out) {
  const bool isForward = desc.kind == ASHLAR_RT_CONV_FORWARD, isData = desc.kind == ASHLAR_RT_CONV_DATA;
  const int64_t count = isForward ? elementsOfY(desc) : isData ? elementsOfX(desc) : elementsOfWeights(desc);
  std::vector<double> sums(static_cast<size_t>(count), 0);
  forEachProduct(desc, [&](int64_t x, int64_t w, int64_t y) {
    if (isForward) {
      sums[y] += static_cast<double>(a[x]) * b[w];
    } else if (isData) {
      sums[x] += static_cast<double>(a[y]) * b[w];
    } else {
      sums[w] += static_cast<double>(a[x]) * b[y];
    }
  });
  const int64_t channels = desc.groups * (isForward ? desc.channels_out : desc.channels_in);
  for (int64_t i = 0; i < count; ++i) {
    double sum = sums[i] * (desc.has_scale ? scale[i % channels] : 1) + (desc.has_bias ? bias[i % channels] : 0) +
                 (desc.has_residual ? residual[i] : 0);
    out[i] = static_cast<float>(referenceEpilogue(desc.epilogue, sum));
  }
}

} // namespace ashlar::rt
