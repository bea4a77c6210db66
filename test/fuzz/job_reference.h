// SPDX-License-Identifier: Apache-2.0
//
// The expected result of a training job, computed by plain loops in double precision: order of the samples, batches, transforms, a chain of
// dense layers, loss, gradients, optimizer, evaluation. It shares no code with the compiler and the runtime; where they have a choice it
// follows docs/data.md, docs/semantics.md and docs/numbers.md. Written for reading.

#ifndef ASHLAR_TEST_FUZZ_JOB_REFERENCE_H
#define ASHLAR_TEST_FUZZ_JOB_REFERENCE_H

#include "compiler/job/job.pb.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ashlar::fuzz {

enum class Activation { None, Tanh, Sigmoid, Relu };

enum class LossKind {
  CrossEntropy,  // softmax cross entropy of the outputs and class labels
  SquaredError,  // mean over all elements of (output - target)^2
  LogLikelihood, // the model ends in a log softmax; class labels
  MeanSquare,    // the model computes it: the mean over all elements of output^2
  ModelEntropy   // the same: softmax cross entropy of the outputs and class labels
};

// Which rows of a loss with class labels count, and how much.
struct RowWeights {
  std::optional<int64_t> ignored; // label of rows that do not
  std::vector<double> ofClasses;  // one a class; empty: 1
  bool isSum = false;             // of the rows' losses; else the mean, by their weights

  double of(int64_t label) const { return label == ignored ? 0 : ofClasses.empty() ? 1 : ofClasses[label]; }
};

// y = activation(W x + b).
struct Layer {
  std::string name; // parameters NAME.weight (outputs x inputs) and, unless `bias` is empty, NAME.bias
  int64_t inputs = 0, outputs = 0;
  std::vector<double> weight, bias;
  Activation activation = Activation::None;
  bool weightIsFrozen = false;
};

// A transform of the inputs of a sample, from docs/data.md.
struct SampleTransform {
  enum Kind { Scale, Crop, Flip, Resize, ChannelsFirst, Nothing };
  Kind kind = Nothing;
  std::vector<double> scale, shift;           // Scale: x becomes x * scale + shift; one of each, or one a channel
  int64_t height = 0, width = 0, padding = 0; // Crop, Resize
  double probability = 0;                     // Flip
};

// The samples of a split, one after the other.
struct Samples {
  int64_t count = 0;
  std::vector<double> inputs;  // count x size of a sample before the transforms
  std::vector<double> targets; // count x outputs of the last layer
  std::vector<int64_t> labels; // count
};

struct TrainingJob {
  std::vector<Layer> layers;
  LossKind loss = LossKind::CrossEntropy;
  RowWeights rows; // of a loss with labels
  int64_t batch = 1, epochs = 1, repeat = 1;
  int64_t logEvery = 0; // 0: once an epoch
  bool shuffles = false;
  uint64_t seed = 1;
  // Of a sample before the transforms: of an image {height, width, channels}, else {1, 1, inputs of the first layer}.
  std::vector<int64_t> sampleShape;
  std::vector<SampleTransform> transforms;
  job::Optimizer optimizer;
  std::map<std::string, double> decays; // of parameters that have a weight decay of their own
  Samples train, evaluation;
};

// The rounding of each computed number: none, or a random error.
struct Rounding {
  std::function<double(double)> inner = [](double x) { return x; };     // values and gradients between layers
  std::function<double(double)> parameter = [](double x) { return x; }; // parameters and their state after an update
};

struct LogLine {
  int64_t epoch, step;
  double loss;
};

struct TrainingOutcome {
  std::vector<LogLine> lines;
  std::vector<Layer> layers; // as trained
  double evaluationLoss = 0; // of all samples
  int64_t correct = 0;       // rows that count whose first largest output is the label; 0 where the model computes the loss
};

// Trains and evaluates.
TrainingOutcome trainReference(const TrainingJob &job, const Rounding &rounding);

// Returns the order of the samples in a pass: Fisher-Yates from the end, where draw i is a number of 64 bits modulo i, the first two words
// of Philox of the seed, the stream "shuf", the pass and i.
std::vector<int64_t> orderOfPass(uint64_t seed, uint32_t pass, int64_t count);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_JOB_REFERENCE_H
