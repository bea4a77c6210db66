// SPDX-License-Identifier: Apache-2.0
//
// Daly's formulas.

#include "runtime/simulate/goodput.h"

#include <cmath>

namespace ashlar::rt {

double goodput(const FailureModel &model, double interval) {
  if (model.failuresPerDay == 0) {
    return interval / (interval + model.saveSeconds);
  }
  const double mean = model.meanSeconds();
  return interval / (std::exp(model.restartSeconds / mean) * mean * std::expm1((interval + model.saveSeconds) / mean));
}

double youngInterval(const FailureModel &model) {
  return std::sqrt(2 * model.saveSeconds * model.meanSeconds());
}

double dalyInterval(const FailureModel &model) {
  const double mean = model.meanSeconds(), part = model.saveSeconds / (2 * mean);
  return part >= 1 ? mean : youngInterval(model) * (1 + std::sqrt(part) / 3 + part / 9) - model.saveSeconds;
}

} // namespace ashlar::rt
