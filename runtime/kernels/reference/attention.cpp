// SPDX-License-Identifier: Apache-2.0
//
// One head after the other, one row after the other.

#include "runtime/kernels/reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ashlar::rt {
namespace {

constexpr double kOfF32 = 0x1p-16;

// Sums with the sizes of their terms.
struct Sums {
  explicit Sums(int64_t count) : sizes(static_cast<size_t>(count)), looseSizes(sizes.size()) {
    numbers.values.resize(sizes.size());
    numbers.bounds.resize(sizes.size());
  }

  // `loose`: the size of what cancelled in the term as well.
  void add(int64_t at, double term, double loose) {
    numbers.values[static_cast<size_t>(at)] += term;
    sizes[static_cast<size_t>(at)] += std::fabs(term);
    looseSizes[static_cast<size_t>(at)] += loose;
  }

  BoundedNumbers finish(double unit) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      numbers.bounds[i] = 2.1 * unit * sizes[i] + kOfF32 * looseSizes[i] + 0x1p-24;
    }
    return numbers;
  }

  BoundedNumbers numbers;
  std::vector<double> sizes, looseSizes;
};

double product(const float *a, const float *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

} // namespace

size_t BoundedNumbers::firstFault(const std::vector<double> &found) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(std::fabs(found[i] - values[i]) <= bounds[i])) {
      return i;
    }
  }
  return values.size();
}

double BoundedNumbers::worstShare(const std::vector<double> &found) const {
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double share = std::fabs(found[i] - values[i]) / bounds[i];
    worst = share <= worst ? worst : share; // NaN stays
  }
  return worst;
}

ReferenceAttention referenceAttention(const ashlar_rt_attention_desc &desc, const float *query, const float *key, const float *value,
                                      const float *mask, const float *out, const float *dOut, double unit) {
  const int64_t rows = desc.rows, keys = desc.keys, width = desc.width, columns = desc.value_width, heads = desc.batch * desc.heads;
  Sums result(heads * rows * columns), logs(heads * rows), dQuery(heads * rows * width), dKey(heads * keys * width),
      dValue(heads * keys * columns);
  std::vector<double> weights(static_cast<size_t>(keys));
  for (int64_t row = 0; row < heads * rows; ++row) {
    const int64_t head = row / rows, seen = desc.causal != 0 ? std::min(keys, row % rows + desc.diagonal + 1) : keys;
    const float *q = query + row * width;
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < seen; ++j) {
      double &score = weights[static_cast<size_t>(j)];
      score = static_cast<double>(desc.scale) * product(q, key + (head * keys + j) * width, width);
      if (desc.mask != 0) {
        const int64_t *strides = desc.mask_strides;
        score += static_cast<double>(
            mask[head / desc.heads * strides[0] + head % desc.heads * strides[1] + row % rows * strides[2] + j * strides[3]]);
      }
      most = std::max(most, weights[static_cast<size_t>(j)]);
    }
    for (int64_t j = 0; j < seen; ++j) {
      sum += weights[static_cast<size_t>(j)] = std::exp(weights[static_cast<size_t>(j)] - most);
    }
    logs.add(row, most + std::log(sum), 1 + std::fabs(most));
    const double mean = dOut != nullptr ? product(dOut + row * columns, out + row * columns, columns) : 0;
    for (int64_t j = 0; j < seen; ++j) {
      const double weight = weights[static_cast<size_t>(j)] / sum;
      const int64_t at = head * keys + j;
      for (int64_t c = 0; c < columns; ++c) {
        const double term = weight * static_cast<double>(value[at * columns + c]);
        result.add(row * columns + c, term, std::fabs(term));
      }
      if (dOut == nullptr) {
        continue;
      }
      const double dWeight = product(dOut + row * columns, value + at * columns, columns);
      const double dScore = weight * (dWeight - mean) * static_cast<double>(desc.scale);
      const double loose = weight * (std::fabs(dWeight) + std::fabs(mean) + 1) * std::fabs(static_cast<double>(desc.scale));
      for (int64_t c = 0; c < columns; ++c) {
        const double term = weight * static_cast<double>(dOut[row * columns + c]);
        dValue.add(at * columns + c, term, std::fabs(term));
      }
      for (int64_t c = 0; c < width; ++c) {
        const auto k = static_cast<double>(key[at * width + c]);
        dQuery.add(row * width + c, dScore * k, loose * std::fabs(k));
        dKey.add(at * width + c, dScore * static_cast<double>(q[c]), loose * std::fabs(static_cast<double>(q[c])));
      }
    }
  }
  BoundedNumbers ofLogs = logs.finish(/*unit=*/0);
  return {result.finish(unit), ofLogs, dQuery.finish(unit), dKey.finish(unit), dValue.finish(unit)};
}

} // namespace ashlar::rt
