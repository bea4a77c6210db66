// SPDX-License-Identifier: Apache-2.0
//
// Training by plain loops; see job_reference.h.

#include "test/fuzz/job_reference.h"

#include "test/fuzz/optimizer_reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

namespace ashlar::fuzz {

namespace {

using Vector = std::vector<double>;

// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> x, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9, key1 += 0xBB67AE85) {
    uint64_t a = uint64_t{x[0]} * 0xD2511F53, b = uint64_t{x[2]} * 0xCD9E8D57;
    x = {uint32_t(b >> 32) ^ x[1] ^ key0, uint32_t(b), uint32_t(a >> 32) ^ x[3] ^ key1, uint32_t(a)};
  }
  return x;
}

double activate(Activation kind, double x) {
  switch (kind) {
  case Activation::None:
    return x;
  case Activation::Tanh:
    return std::tanh(x);
  case Activation::Sigmoid:
    return 1 / (1 + std::exp(-x));
  case Activation::Relu:
    return x > 0 ? x : 0;
  }
  return x;
}

// The slope of an activation where its value is y.
double slopeAt(Activation kind, double y) {
  switch (kind) {
  case Activation::None:
    return 1;
  case Activation::Tanh:
    return 1 - y * y;
  case Activation::Sigmoid:
    return y * (1 - y);
  case Activation::Relu:
    return y > 0 ? 1 : 0;
  }
  return 1;
}

// Returns log(sum of exp(x)).
double logSumExp(const Vector &x) {
  double largest = *std::max_element(x.begin(), x.end()), sum = 0;
  for (double value : x) {
    sum += std::exp(value - largest);
  }
  return largest + std::log(sum);
}

bool hasLabels(LossKind kind) {
  return kind == LossKind::CrossEntropy || kind == LossKind::LogLikelihood || kind == LossKind::ModelEntropy;
}

// The loss of one sample, ahead of its weight, and its gradient by the outputs. A log softmax at the end of the model and the likelihood of
// its results are together the cross entropy.
double lossOfSample(LossKind kind, const Vector &outputs, const double *target, int64_t label, Vector &gradient) {
  double loss = 0, count = outputs.size();
  gradient.assign(outputs.size(), 0);
  if (hasLabels(kind)) {
    double norm = logSumExp(outputs);
    for (size_t c = 0; c < outputs.size(); ++c) {
      gradient[c] = std::exp(outputs[c] - norm) - (static_cast<int64_t>(c) == label ? 1 : 0);
    }
    return norm - (label >= 0 ? outputs[label] : 0);
  }
  for (size_t c = 0; c < outputs.size(); ++c) {
    double difference = outputs[c] - (kind == LossKind::SquaredError ? target[c] : 0);
    loss += difference * difference / count;
    gradient[c] = 2 * difference / count;
  }
  return loss;
}

// An image on its way through the transforms, its channels last.
struct Image {
  int64_t height, width, channels;
  Vector values;

  double &at(int64_t y, int64_t x, int64_t c) { return values[(y * width + x) * channels + c]; }
};

Image blank(int64_t height, int64_t width, int64_t channels) {
  return {height, width, channels, Vector(height * width * channels, 0)};
}

// Returns the part of an image that begins at (top, left), with zeros where there is none.
Image cropped(Image &image, int64_t top, int64_t left, int64_t height, int64_t width) {
  Image result = blank(height, width, image.channels);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < image.channels; ++c) {
        bool isInside = y + top >= 0 && y + top < image.height && x + left >= 0 && x + left < image.width;
        result.at(y, x, c) = isInside ? image.at(y + top, x + left, c) : 0;
      }
    }
  }
  return result;
}

Image mirrored(Image &image) {
  Image result = image;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      for (int64_t c = 0; c < image.channels; ++c) {
        result.at(y, x, c) = image.at(y, image.width - 1 - x, c);
      }
    }
  }
  return result;
}

// Returns the value of an image at a place between its elements, bilinear; beyond its edges is what is at the edges.
double between(Image &image, double y, double x, int64_t c) {
  y = std::clamp(y, 0.0, static_cast<double>(image.height - 1));
  x = std::clamp(x, 0.0, static_cast<double>(image.width - 1));
  int64_t top = static_cast<int64_t>(y), left = static_cast<int64_t>(x);
  int64_t bottom = std::min(top + 1, image.height - 1), right = std::min(left + 1, image.width - 1);
  double down = y - static_cast<double>(top), over = x - static_cast<double>(left);
  return (1 - down) * ((1 - over) * image.at(top, left, c) + over * image.at(top, right, c)) +
         down * ((1 - over) * image.at(bottom, left, c) + over * image.at(bottom, right, c));
}

Image resized(Image &image, int64_t height, int64_t width) {
  Image result = blank(height, width, image.channels);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < image.channels; ++c) {
        result.at(y, x, c) = between(image, (y + 0.5) * image.height / height - 0.5, (x + 0.5) * image.width / width - 0.5, c);
      }
    }
  }
  return result;
}

// Random numbers of a sample in a pass; no pass: evaluation, where a crop is the middle and nothing is mirrored.
struct Draw {
  uint64_t seed;
  std::optional<uint32_t> pass;
  uint64_t sample;

  std::array<uint32_t, 4> words(uint64_t transform) const {
    constexpr uint32_t kTransforms = 0x7472616e; // "tran"
    uint64_t index = 256 * sample + transform;
    return philox4x32({uint32_t(index), uint32_t(index >> 32), *pass, kTransforms}, uint32_t(seed), uint32_t(seed >> 32));
  }
};

Image transformed(Image image, const SampleTransform &transform, const Draw &draw, uint64_t number) {
  switch (transform.kind) {
  case SampleTransform::Scale:
    for (size_t i = 0; i < image.values.size(); ++i) {
      size_t channel = transform.scale.size() == 1 ? 0 : i % transform.scale.size();
      image.values[i] = image.values[i] * transform.scale[channel] + transform.shift[channel];
    }
    return image;
  case SampleTransform::Crop: {
    int64_t rows = image.height + 2 * transform.padding - transform.height, columns = image.width + 2 * transform.padding - transform.width;
    int64_t top = rows / 2, left = columns / 2;
    if (draw.pass) {
      auto words = draw.words(number);
      top = words[0] * uint64_t(rows + 1) >> 32;
      left = words[1] * uint64_t(columns + 1) >> 32;
    }
    return cropped(image, top - transform.padding, left - transform.padding, transform.height, transform.width);
  }
  case SampleTransform::Flip:
    return draw.pass && (draw.words(number)[0] >> 8) * 0x1p-24 < transform.probability ? mirrored(image) : image;
  case SampleTransform::Resize:
    return resized(image, transform.height, transform.width);
  case SampleTransform::ChannelsFirst: // at the end
  case SampleTransform::Nothing:
    return image;
  }
  return image;
}

class Reference {
public:
  Reference(const TrainingJob &job, const Rounding &rounding) : job(job), rounding(rounding), layers(job.layers) {
    weightState.resize(layers.size());
    biasState.resize(layers.size());
  }

  TrainingOutcome run() {
    TrainingOutcome outcome;
    int64_t stepsPerPass = job.train.count / job.batch, stepsPerEpoch = stepsPerPass * job.repeat, done = 0;
    int64_t logEvery = job.logEvery == 0 ? stepsPerEpoch : job.logEvery;
    for (int64_t pass = 0; pass < job.epochs * job.repeat; ++pass) {
      std::vector<int64_t> order(job.train.count);
      std::iota(order.begin(), order.end(), 0);
      order = job.shuffles ? orderOfPass(job.seed, static_cast<uint32_t>(pass), job.train.count) : order;
      for (int64_t step = 0; step < stepsPerPass; ++step) {
        double loss = trainStep(order.data() + step * job.batch, static_cast<uint32_t>(pass));
        if (++done % logEvery == 0) {
          outcome.lines.push_back({(done - 1) / stepsPerEpoch + 1, (done - 1) % stepsPerEpoch + 1, loss});
        }
      }
    }
    evaluate(outcome);
    outcome.layers = layers;
    return outcome;
  }

private:
  // Returns what becomes of the inputs of a sample.
  Vector inputsOf(const Samples &samples, int64_t sample, std::optional<uint32_t> pass) {
    Image image = blank(job.sampleShape[0], job.sampleShape[1], job.sampleShape[2]);
    const double *inputs = samples.inputs.data() + sample * image.values.size();
    std::copy(inputs, inputs + image.values.size(), image.values.begin());
    bool hasChannelsFirst = false;
    for (size_t i = 0; i < job.transforms.size(); ++i) {
      image = transformed(std::move(image), job.transforms[i], Draw{job.seed, pass, static_cast<uint64_t>(sample)}, i);
      hasChannelsFirst = hasChannelsFirst || job.transforms[i].kind == SampleTransform::ChannelsFirst;
    }
    if (!hasChannelsFirst) {
      return image.values;
    }
    Vector planes;
    for (int64_t c = 0; c < image.channels; ++c) {
      for (size_t i = c; i < image.values.size(); i += image.channels) {
        planes.push_back(image.values[i]);
      }
    }
    return planes;
  }

  // Returns the values of all layers of a sample: the transformed inputs, then what each layer makes.
  std::vector<Vector> forward(const Samples &samples, int64_t sample, std::optional<uint32_t> pass) {
    std::vector<Vector> values = {inputsOf(samples, sample, pass)};
    for (double &x : values[0]) {
      x = rounding.inner(x);
    }
    for (const Layer &layer : layers) {
      Vector outputs;
      for (int64_t row = 0; row < layer.outputs; ++row) {
        double sum = layer.bias.empty() ? 0 : layer.bias[row];
        for (int64_t column = 0; column < layer.inputs; ++column) {
          sum += rounding.inner(layer.weight[row * layer.inputs + column] * values.back()[column]);
        }
        outputs.push_back(rounding.inner(activate(layer.activation, rounding.inner(sum))));
      }
      values.push_back(std::move(outputs));
    }
    return values;
  }

  double lossOf(const Samples &samples, int64_t sample, const Vector &outputs, Vector &gradient) {
    const double *target = samples.targets.empty() ? nullptr : samples.targets.data() + sample * outputs.size();
    return rounding.inner(lossOfSample(job.loss, outputs, target, samples.labels.empty() ? 0 : samples.labels[sample], gradient));
  }

  // Returns how much each of these samples counts in their loss.
  std::vector<double> sharesOf(const Samples &samples, const std::vector<int64_t> &numbers) {
    std::vector<double> shares;
    double sum = 0;
    for (int64_t sample : numbers) {
      shares.push_back(samples.labels.empty() ? 1 : job.rows.of(samples.labels[sample]));
      sum += shares.back();
    }
    for (double &share : shares) {
      share /= job.rows.isSum ? 1 : sum;
    }
    return shares;
  }

  // One update from a batch; returns the loss ahead of it.
  double trainStep(const int64_t *batch, uint32_t pass) {
    std::vector<Vector> weightGradients, biasGradients;
    for (const Layer &layer : layers) {
      weightGradients.emplace_back(layer.weight.size(), 0);
      biasGradients.emplace_back(layer.bias.size(), 0);
    }
    double loss = 0;
    const std::vector<double> shares = sharesOf(job.train, std::vector<int64_t>(batch, batch + job.batch));
    for (int64_t i = 0; i < job.batch; ++i) {
      std::vector<Vector> values = forward(job.train, batch[i], pass);
      Vector gradient;
      loss += lossOf(job.train, batch[i], values.back(), gradient) * shares[i];
      for (size_t l = layers.size(); l-- > 0;) {
        gradient = backward(layers[l], values[l], values[l + 1], gradient, shares[i], weightGradients[l], biasGradients[l]);
      }
    }
    update(weightGradients, biasGradients);
    return rounding.parameter(loss);
  }

  // Adds a sample's share to the gradients of a layer's parameters; returns the gradient by its inputs.
  Vector backward(const Layer &layer, const Vector &inputs, const Vector &outputs, const Vector &gradient, double share,
                  Vector &weightGradient, Vector &biasGradient) {
    Vector below(layer.inputs, 0);
    for (int64_t row = 0; row < layer.outputs; ++row) {
      double slope = rounding.inner(gradient[row] * slopeAt(layer.activation, outputs[row]));
      for (int64_t column = 0; column < layer.inputs; ++column) {
        weightGradient[row * layer.inputs + column] += rounding.inner(slope * inputs[column]) * share;
        below[column] += rounding.inner(slope * layer.weight[row * layer.inputs + column]);
      }
      if (!biasGradient.empty()) {
        biasGradient[row] += slope * share;
      }
    }
    return below;
  }

  // Updates all parameters that are trained.
  void update(std::vector<Vector> &weightGradients, std::vector<Vector> &biasGradients) {
    std::vector<const Vector *> trained;
    for (size_t l = 0; l < layers.size(); ++l) {
      trained.push_back(&biasGradients[l]);
      if (!layers[l].weightIsFrozen) {
        trained.push_back(&weightGradients[l]);
      }
    }
    double factor = clipFactor(job.optimizer, trained);
    for (size_t l = 0; l < layers.size(); ++l) {
      if (!layers[l].weightIsFrozen) {
        update(layers[l].name + ".weight", layers[l].weight, weightState[l], weightGradients[l], factor);
      }
      update(layers[l].name + ".bias", layers[l].bias, biasState[l], biasGradients[l], factor);
    }
    ++step;
  }

  void update(const std::string &name, Vector &parameter, OptimizerState &state, Vector &gradient, double factor) {
    for (double &value : gradient) {
      value *= factor;
    }
    auto own = job.decays.find(name);
    double decay = own == job.decays.end() ? weightDecayOf(job.optimizer) : own->second;
    updateParameter(job.optimizer, step, /*updates=*/step, decay, gradient, parameter, state, rounding.parameter);
  }

  void evaluate(TrainingOutcome &outcome) {
    Vector gradient;
    std::vector<int64_t> all(job.evaluation.count);
    std::iota(all.begin(), all.end(), 0);
    const std::vector<double> shares = sharesOf(job.evaluation, all);
    for (int64_t sample : all) {
      Vector outputs = forward(job.evaluation, sample, std::nullopt).back();
      outcome.evaluationLoss += lossOf(job.evaluation, sample, outputs, gradient) * shares[sample];
      int64_t best = std::max_element(outputs.begin(), outputs.end()) - outputs.begin();
      const bool isCounted = shares[sample] > 0 && !job.evaluation.labels.empty() && job.loss != LossKind::ModelEntropy;
      outcome.correct += isCounted && best == job.evaluation.labels[sample];
    }
  }

  const TrainingJob &job;
  const Rounding &rounding;
  std::vector<Layer> layers;
  std::vector<OptimizerState> weightState, biasState;
  int64_t step = 0;
};

} // namespace

std::vector<int64_t> orderOfPass(uint64_t seed, uint32_t pass, int64_t count) {
  constexpr uint32_t kShuffle = 0x73687566; // "shuf"
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (uint64_t i = count; i > 1; --i) {
    auto words = philox4x32({uint32_t(i), uint32_t(i >> 32), pass, kShuffle}, uint32_t(seed), uint32_t(seed >> 32));
    std::swap(order[i - 1], order[(uint64_t{words[0]} << 32 | words[1]) % i]);
  }
  return order;
}

TrainingOutcome trainReference(const TrainingJob &job, const Rounding &rounding) {
  return Reference(job, rounding).run();
}

} // namespace ashlar::fuzz
