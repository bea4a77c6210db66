// SPDX-License-Identifier: Apache-2.0
//
// The regression generator: (u, v) uniform in [-1, 1)^2, "x" = (u^2, v^3), "z" = a u^2 + b v^3 + c + N(0, noise).

#include "runtime/base/philox.h"
#include "runtime/data/dataset.h"
#include "runtime/data/streams.h"

#include <cmath>

namespace ashlar::rt {

namespace {

// Computed once, at the start: a sample takes longer than the step that uses it.
class RegressionDataset final : public Dataset {
public:
  RegressionDataset(const ashlar_rt_dataset &description, Split split)
      : allColumns({{"x", ASHLAR_RT_F32, {2}}, {"z", ASHLAR_RT_F32, {1}}}),
        count(split == Split::kTrain ? description.train_samples : description.eval_samples), inputs(2 * count), targets(count) {
    const double a = description.params[0], b = description.params[1], c = description.params[2], noise = description.params[3];
    for (uint64_t i = 0; i < count; ++i) {
      // The two splits draw from different counters; even ones give points, odd ones noise.
      const uint32_t counter = split == Split::kTrain ? 0 : 2;
      const PhiloxWords point = philoxWords(kGeneratorSeed, kRegressionStream, counter, i);
      const PhiloxWords draws = philoxWords(kGeneratorSeed, kRegressionStream, counter + 1, i);
      const double u = 2 * uniformDouble(point) - 1, v = 2 * uniformDouble({point[2], point[3], 0, 0}) - 1;
      // Box-Muller; 1 - uniform is in (0, 1], so the logarithm is finite.
      const double radius = std::sqrt(-2 * std::log(1 - uniformDouble(draws)));
      const double normal = radius * std::cos(2 * std::acos(-1.0) * uniformDouble({draws[2], draws[3], 0, 0}));
      inputs[2 * i] = static_cast<float>(u * u);
      inputs[2 * i + 1] = static_cast<float>(v * v * v);
      targets[i] = static_cast<float>(a * u * u + b * v * v * v + c + noise * normal);
    }
  }

  uint64_t samples() const override { return count; }
  const std::vector<Column> &columns() const override { return allColumns; }
  const void *read(size_t column, const SampleRandom &which, void *scratch) override {
    return column == 0 ? &inputs[2 * which.sample] : &targets[which.sample];
  }

private:
  std::vector<Column> allColumns;
  uint64_t count;
  std::vector<float> inputs, targets;
};

} // namespace

Status openRegression(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset) {
  dataset = std::make_unique<RegressionDataset>(description, split);
  return {};
}

const DataFormat ASHLAR_RT_COMPONENT(data_regression) = {"regression", openRegression, /*isGenerated=*/true};

} // namespace ashlar::rt
