// SPDX-License-Identifier: Apache-2.0
//
// The pipeline: the pieces of all ranks are the batches of one rank, every sample comes once a pass, and nothing is allocated on the way.

#include "runtime/data/formats/npy.h"
#include "runtime/data/pipeline.h"
#include "test/unit/data/allocations.h"
#include "test/unit/data/temporary_folder.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

#include <catch2/catch.hpp>

namespace ashlar::test::pipeline_test {

using namespace ashlar::rt;
using ashlar::test::TemporaryFolder;
using Catch::Matchers::Contains;

namespace {

// A program for a mesh {dp, tp} with inputs "input" (batch, 4, 3) f32 and "labels" (batch) i64. Dim 0 is split over dp; dim 2 of "input"
// over the axes in `inner` and dim 1 over those in `middle`.
struct Program {
  ashlar_rt_axis axes[2];
  uint32_t dpAxis = 0, tpAxis = 1;
  std::vector<ashlar_rt_dim_split> inputSplits, labelSplits;
  std::vector<int64_t> inputLocal, inputGlobal, labelLocal, labelGlobal;
  ashlar_rt_tensor tensors[2] = {};
  ashlar_rt_feature features[2] = {};
  double rescale[2] = {0.5, 1}, normalize[2] = {3, 2};
  ashlar_rt_transform transforms[2] = {{ASHLAR_RT_RESCALE, 2, rescale}, {ASHLAR_RT_NORMALIZE, 2, normalize}};
  ashlar_rt_variant variant = {};
  ashlar_rt_training training = {};

  Program(uint32_t dp, uint32_t tp, int64_t batch, int splitDim = 0) : axes{{"dp", dp}, {"tp", tp}} {
    inputGlobal = {batch, 4, 3};
    labelGlobal = {batch};
    inputLocal = {batch / dp, 4, 3};
    labelLocal = {batch / dp};
    inputSplits = {{1, &dpAxis}, {0, nullptr}, {0, nullptr}};
    labelSplits = {{1, &dpAxis}};
    if (splitDim > 0) {
      inputSplits[splitDim] = {1, &tpAxis};
      inputLocal[splitDim] /= tp;
    }
    tensors[0] = {"input", ASHLAR_RT_INPUT, 3, inputLocal.data(), inputGlobal.data(), inputSplits.data(), {0, ASHLAR_RT_F32, 0, 0}};
    tensors[1] = {"labels", ASHLAR_RT_INPUT, 1, labelLocal.data(), labelGlobal.data(), labelSplits.data(), {0, ASHLAR_RT_I64, 0, 0}};
    features[0] = {"image", "input", 0, transforms, 0, 0, 0};
    features[1] = {"label", "labels", 0, nullptr, 0, 0, 0};
    variant.num_axes = 2;
    variant.axes = axes;
    variant.num_tensors = 2;
    variant.tensors = tensors;
    training.dataset.format = "npy";
    training.dataset.shuffle = 1;
    training.dataset.drop_remainder = 1;
    training.dataset.repeat = 1;
    training.dataset.num_features = 2;
    training.dataset.features = features;
    training.global_batch = batch;
  }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  PipelineOptions options(const std::string &directory, uint32_t firstDevice = 0, uint32_t numDevices = 1) const {
    PipelineOptions options;
    options.training = &training;
    options.variant = &variant;
    options.firstDevice = firstDevice;
    options.numDevices = numDevices;
    options.directory = directory;
    options.seed = 11;
    return options;
  }
};

// Writes image_<split>.npy, element e of sample s is 12 s + e, as u8-free f32, and label_<split>.npy, the number of the sample.
void writeSamples(const TemporaryFolder &folder, int64_t count, const char *split = "train") {
  std::vector<float> images(count * 12);
  std::iota(images.begin(), images.end(), 0.0f);
  std::vector<int32_t> labels(count);
  std::iota(labels.begin(), labels.end(), 0);
  REQUIRE(writeNpy(folder.file(std::string("image_") + split + ".npy"), ASHLAR_RT_F32, {count, 12}, images.data()).ok());
  REQUIRE(writeNpy(folder.file(std::string("label_") + split + ".npy"), ASHLAR_RT_I32, {count}, labels.data()).ok());
}

Pipeline created(const PipelineOptions &options) {
  Pipeline pipeline;
  const Status status = Pipeline::create(options, pipeline);
  INFO(status.message());
  REQUIRE(status.ok());
  return pipeline;
}

std::string refusal(const PipelineOptions &options) {
  Pipeline pipeline;
  const Status status = Pipeline::create(options, pipeline);
  REQUIRE(!status.ok());
  return status.message();
}

// Returns the labels of the next `steps` batches of device 0 of the process.
std::vector<int64_t> labelsOf(Pipeline &pipeline, uint64_t steps) {
  std::vector<int64_t> all;
  for (uint64_t i = 0; i < steps; ++i) {
    const int64_t *labels = static_cast<const int64_t *>(pipeline.next().data(0, 1));
    all.insert(all.end(), labels, labels + pipeline.featureBytes(1) / sizeof(int64_t));
  }
  return all;
}

// Batches of CIFAR-10's images, or of digits, cropped, mirrored and resized, in f32, with their labels.
struct Images {
  int64_t global[4] = {0, 20, 24, 3}, labelGlobal[1] = {0};
  ashlar_rt_dim_split splits[4] = {};
  ashlar_rt_tensor tensors[2] = {};
  double crop[3] = {0, 0, 4}, flip[1] = {0.5}, resize[2] = {20, 24}, rescale[2] = {0.25, 1};
  ashlar_rt_transform transforms[4] = {
      {ASHLAR_RT_RANDOM_CROP, 3, crop}, {ASHLAR_RT_RANDOM_FLIP, 1, flip}, {ASHLAR_RT_RESIZE, 2, resize}, {ASHLAR_RT_RESCALE, 2, rescale}};
  ashlar_rt_feature features[2] = {};
  ashlar_rt_variant variant = {};
  ashlar_rt_training training = {};

  Images(const char *format, int64_t batch) {
    const bool digits = std::string(format) == "digits";
    global[0] = labelGlobal[0] = batch;
    tensors[0] = {"input", ASHLAR_RT_INPUT, digits ? 3U : 4U, global, global, splits, {0, ASHLAR_RT_F32, 0, 0}};
    tensors[1] = {"labels", ASHLAR_RT_INPUT, 1, labelGlobal, labelGlobal, splits, {0, ASHLAR_RT_I64, 0, 0}};
    features[0] = {"image", "input", 4, transforms, 0, 0, 0};
    features[1] = {"label", "labels", 0, nullptr, 0, 0, 0};
    variant.num_tensors = 2;
    variant.tensors = tensors;
    training.dataset.format = format;
    training.dataset.shuffle = training.dataset.drop_remainder = training.dataset.repeat = 1;
    training.dataset.train_samples = 100;
    training.dataset.eval_samples = 50;
    training.dataset.num_features = 2;
    training.dataset.features = features;
    training.global_batch = batch;
  }
  Images(const Images &) = delete;

  // Returns the bytes of so many batches, prepared by a number of threads.
  std::string batches(const std::string &directory, Split split, int threads, int count) const {
    PipelineOptions options;
    options.training = &training;
    options.variant = &variant;
    options.split = split;
    options.directory = directory;
    options.seed = 11;
    options.threads = threads;
    Pipeline pipeline = created(options);
    std::string bytes;
    for (int i = 0; i < count; ++i) {
      const Batch &batch = pipeline.next();
      for (uint32_t feature = 0; feature < 2; ++feature) {
        bytes.append(static_cast<const char *>(batch.data(0, feature)), pipeline.featureBytes(feature));
      }
    }
    return bytes;
  }
};

} // namespace

TEST_CASE("pipeline: a pass has whole steps of several micro-batches", "[data][pipeline]") {
  TemporaryFolder folder;
  writeSamples(folder, 44); // 5 micro-batches of 8, and one step of 3
  Program program(1, 1, 8);
  program.training.accumulate = 3;
  program.training.dataset.shuffle = 0;
  Pipeline pipeline = created(program.options(folder.path()));
  REQUIRE(pipeline.stepsPerEpoch() == 3);
  std::vector<int64_t> labels = labelsOf(pipeline, 6), once(labels.begin(), labels.begin() + 24);
  CHECK(std::vector<int64_t>(labels.begin() + 24, labels.end()) == once);
  program.training.accumulate = 6; // 48 samples are more than there are
  CHECK_THAT(refusal(program.options(folder.path())),
             Contains("the global batch is 48 in 6 micro-batches of 8 but the train split of the data set holds 44"));
}

TEST_CASE("pipeline: a stage prepares the inputs that it has, and knows as much as the others", "[data][pipeline]") {
  TemporaryFolder folder;
  writeSamples(folder, 44);
  Program program(1, 1, 8);
  program.training.dataset.shuffle = 0;
  ashlar_rt_variant stages[3] = {program.variant, program.variant, program.variant};
  for (uint32_t stage = 0; stage < 3; ++stage) {
    stages[stage].stage = stage;
    stages[stage].num_stages = 3;
    stages[stage].num_tensors = stage == 1 ? 0 : 1;
  }
  stages[2].tensors = &program.tensors[1];
  std::vector<Pipeline> pipelines;
  for (const ashlar_rt_variant &stage : stages) {
    PipelineOptions options = program.options(folder.path());
    options.variant = &stage;
    pipelines.push_back(created(options));
    CHECK(pipelines.back().stepsPerEpoch() == 5);
    CHECK(pipelines.back().samples() == 44);
    CHECK(pipelines.back().facts().text == pipelines[0].facts().text);
    CHECK(pipelines.back().facts().contents == pipelines[0].facts().contents);
    CHECK(pipelines.back().numFeatures() == (stage.stage == 1 ? 0 : 1));
    CHECK((pipelines.back().memoryBytes() == 0) == (stage.stage == 1));
  }
  for (int64_t step = 0; step < 7; ++step) { // over the end of an epoch, too
    CHECK(static_cast<const float *>(pipelines[0].next().data(0, 0))[0] == static_cast<float>(12 * 8 * (step % 5)));
    pipelines[1].next();
    CHECK(pipelines[1].check().ok());
    CHECK(static_cast<const int64_t *>(pipelines[2].next().data(0, 0))[0] == 8 * (step % 5));
  }
  stages[2].num_tensors = 0; // nobody has the labels
  PipelineOptions options = program.options(folder.path());
  options.variant = &stages[1];
  CHECK_THAT(refusal(options), Contains("goes to the input tensor \"labels\" but the program has no such input"));
}

TEST_CASE("pipeline: every sample comes once a pass, in another order each time", "[data][pipeline]") {
  TemporaryFolder folder;
  writeSamples(folder, 48);
  Program program(1, 1, 8);
  program.training.dataset.repeat = 2;
  Pipeline pipeline = created(program.options(folder.path()));
  REQUIRE(pipeline.stepsPerEpoch() == 12);
  REQUIRE(pipeline.samples() == 48);
  std::vector<std::vector<int64_t>> passes;
  for (int pass = 0; pass < 4; ++pass) {
    passes.push_back(labelsOf(pipeline, 6));
    std::vector<int64_t> sorted = passes.back();
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i = 0; i < 48; ++i) {
      REQUIRE(sorted[i] == i);
    }
    for (int other = 0; other < pass; ++other) {
      REQUIRE(passes[other] != passes[pass]);
    }
  }
  // Epoch 1 begins with pass 2, also when one goes there directly or comes back.
  for (int round = 0; round < 2; ++round) {
    pipeline.goTo(pipeline.stepsPerEpoch());
    REQUIRE(labelsOf(pipeline, 6) == passes[2]);
    pipeline.goTo(0);
    REQUIRE(labelsOf(pipeline, 6) == passes[0]);
  }
}

TEST_CASE("pipeline: the pieces of 2 and 4 ranks are the batches of one rank", "[data][pipeline]") {
  // Also with several devices in one process, which play consecutive devices of the mesh.
  TemporaryFolder folder;
  writeSamples(folder, 64);
  for (const auto &[dp, perProcess] : {std::pair<uint32_t, uint32_t>{2, 1}, {4, 1}, {4, 2}, {4, 4}}) {
    Program single(1, 1, 16), split(dp, 1, 16);
    Pipeline whole = created(single.options(folder.path()));
    std::vector<Pipeline> ranks;
    for (uint32_t device = 0; device < dp; device += perProcess) {
      ranks.push_back(created(split.options(folder.path(), device, perProcess)));
    }
    for (int step = 0; step < 9; ++step) {
      const Batch &batch = whole.next();
      const char *images = static_cast<const char *>(batch.data(0, 0)), *labels = static_cast<const char *>(batch.data(0, 1));
      for (Pipeline &rank : ranks) {
        const Batch &piece = rank.next();
        for (uint32_t device = 0; device < perProcess; ++device) {
          REQUIRE(std::memcmp(images, piece.data(device, 0), rank.featureBytes(0)) == 0);
          REQUIRE(std::memcmp(labels, piece.data(device, 1), rank.featureBytes(1)) == 0);
          images += rank.featureBytes(0);
          labels += rank.featureBytes(1);
        }
      }
    }
  }
}

TEST_CASE("pipeline: dims of a sample can be split too", "[data][pipeline]") {
  // Mesh {dp = 2, tp}: element (s, i, j) of a device's piece is element (s, i, j) of the tensor, counted from where the piece begins.
  TemporaryFolder folder;
  writeSamples(folder, 8);
  for (const auto &[dim, tp] : {std::pair<int, uint32_t>{1, 2}, {1, 4}, {2, 3}}) {
    Program program(2, tp, 8, dim);
    program.training.dataset.shuffle = 0;
    Pipeline pipeline = created(program.options(folder.path(), 0, 2 * tp));
    const Batch &batch = pipeline.next();
    for (uint32_t device = 0; device < 2 * tp; ++device) {
      const float *piece = static_cast<const float *>(batch.data(device, 0));
      const int64_t *local = program.inputLocal.data();
      const int64_t start[3] = {device / tp * local[0], dim == 1 ? device % tp * local[1] : 0, dim == 2 ? device % tp * local[2] : 0};
      for (int64_t s = 0; s < local[0]; ++s) {
        for (int64_t i = 0; i < local[1]; ++i) {
          for (int64_t j = 0; j < local[2]; ++j) {
            const int64_t expected = (start[0] + s) * 12 + (start[1] + i) * 3 + start[2] + j;
            REQUIRE(piece[(s * local[1] + i) * local[2] + j] == static_cast<float>(expected));
          }
        }
      }
      // Devices that differ along tp alone hold the same labels, once in memory.
      REQUIRE(batch.data(device, 1) == batch.data(device / tp * tp, 1));
    }
  }
}

TEST_CASE("pipeline: a label that is no class is refused, with its sample and the classes", "[data][pipeline]") {
  TemporaryFolder folder;
  writeSamples(folder, 8); // the labels are 0 .. 7
  Program program(1, 1, 4);
  program.features[1].classes = 8;
  created(program.options(folder.path()));
  program.features[1].classes = 6;
  CHECK(refusal(program.options(folder.path())) ==
        "label 6 of sample 6 in column \"label\" of the train split is not one of the 6 classes 0 .. 5; correct the data set");
  program.features[1].classes = 7;
  program.features[1].ignored_label = 7;
  created(program.options(folder.path()));
  // Below 0, also where the type of the file differs, and a fraction, which would be cut to a class.
  program.features[1].ignored_label = -1;
  std::vector<double> labels = {0, 1, -1, -2, 0, 0, 0, 0};
  REQUIRE(writeNpy(folder.file("label_train.npy"), ASHLAR_RT_F64, {8}, labels.data()).ok());
  CHECK_THAT(refusal(program.options(folder.path())), Contains("label -2 of sample 3"));
  labels[3] = 0.5;
  REQUIRE(writeNpy(folder.file("label_train.npy"), ASHLAR_RT_F64, {8}, labels.data()).ok());
  CHECK_THAT(refusal(program.options(folder.path())), Contains("label 0.5 of sample 3"));
}

TEST_CASE("pipeline: transforms are applied in order, types converted", "[data][pipeline]") {
  // rescale x 0.5 + 1, then (y - 3) / 2: x / 4 - 1.
  TemporaryFolder folder;
  writeSamples(folder, 4);
  Program program(1, 1, 4);
  program.training.dataset.shuffle = 0;
  program.features[0].num_transforms = 2;
  Pipeline pipeline = created(program.options(folder.path()));
  const float *values = static_cast<const float *>(pipeline.next().data(0, 0));
  for (int i = 0; i < 48; ++i) {
    REQUIRE(values[i] == 0.25f * static_cast<float>(i) - 1);
  }
  REQUIRE(pipeline.featureTensor(1) == 1);
  REQUIRE(pipeline.featureBytes(0) == 4 * 12 * sizeof(float));
  REQUIRE(pipeline.featureBytes(1) == 4 * sizeof(int64_t));
}

TEST_CASE("elements: what an integer cannot hold becomes the nearest, and bool tells 0 from the rest", "[data][element]") {
  const double wide[] = {1.9, -1.9, 1e10, -1e10, 1e30, std::nan("")};
  int32_t narrow[6];
  convertElements(ASHLAR_RT_F64, wide, ASHLAR_RT_I32, narrow, 6, 1, 0);
  CHECK(std::vector<int32_t>(narrow, narrow + 6) == std::vector<int32_t>{1, -1, INT32_MAX, INT32_MIN, INT32_MAX, 0});
  int64_t labels[6];
  convertElements(ASHLAR_RT_F64, wide, ASHLAR_RT_I64, labels, 6, 2, 0);
  CHECK(std::vector<int64_t>(labels, labels + 6) == std::vector<int64_t>{3, -3, 20000000000, -20000000000, INT64_MAX, 0});
  const int64_t large[] = {int64_t{1} << 40, -(int64_t{1} << 40), 7};
  convertElements(ASHLAR_RT_I64, large, ASHLAR_RT_I32, narrow, 3, 1, 0);
  CHECK(std::vector<int32_t>(narrow, narrow + 3) == std::vector<int32_t>{INT32_MAX, INT32_MIN, 7});
  const int32_t numbers[] = {256, 0, -1};
  bool flags[3];
  convertElements(ASHLAR_RT_I32, numbers, ASHLAR_RT_BOOL, flags, 3, 1, 0);
  CHECK(flags[0]);
  CHECK_FALSE(flags[1]);
  CHECK(flags[2]);
  uint8_t bytes[6];
  convertElements(ASHLAR_RT_F64, wide, ASHLAR_RT_U8, bytes, 6, 1, 0);
  CHECK(std::vector<uint8_t>(bytes, bytes + 6) == std::vector<uint8_t>{1, 0, 255, 0, 255, 0});
  uint64_t words[6];
  convertElements(ASHLAR_RT_F64, wide, ASHLAR_RT_U64, words, 6, 1, 0);
  CHECK(std::vector<uint64_t>(words, words + 6) == std::vector<uint64_t>{1, 0, 10000000000, 0, UINT64_MAX, 0});
  int8_t small[3];
  convertElements(ASHLAR_RT_I64, large, ASHLAR_RT_I8, small, 3, 1, 0);
  CHECK(std::vector<int8_t>(small, small + 3) == std::vector<int8_t>{127, -128, 7});
  convertElements(ASHLAR_RT_U64, words, ASHLAR_RT_I64, labels, 5, 1, 0);
  CHECK(labels[4] == INT64_MAX);
  convertElements(ASHLAR_RT_I64, large, ASHLAR_RT_U64, words, 3, 1, 0);
  CHECK(std::vector<uint64_t>(words, words + 3) == std::vector<uint64_t>{uint64_t{1} << 40, 0, 7});
  Bf16 brain[3];
  convertElements(ASHLAR_RT_I64, large, ASHLAR_RT_BF16, brain, 3, 1, 0);
  CHECK(static_cast<float>(brain[1]) == -0x1p40f);
}

TEST_CASE("pipeline: the eval split comes in order, and its last batch is filled up with the first samples", "[data][pipeline]") {
  for (int64_t samples : {1, 3, 8, 16, 21}) {
    TemporaryFolder folder;
    writeSamples(folder, samples, "eval");
    Program program(1, 1, 8);
    program.training.dataset.repeat = 5;
    PipelineOptions options = program.options(folder.path());
    options.split = Split::kEval;
    Pipeline pipeline = created(options);
    REQUIRE(pipeline.samples() == static_cast<uint64_t>(samples));
    REQUIRE(pipeline.stepsPerEpoch() == static_cast<uint64_t>((samples + 7) / 8));
    const std::vector<int64_t> labels = labelsOf(pipeline, pipeline.stepsPerEpoch());
    for (size_t i = 0; i < labels.size(); ++i) {
      REQUIRE(labels[i] == static_cast<int64_t>(i) % samples);
    }
  }
}

// 65504 is the largest f16; 1 + 2^-11 lies between two, and the even one is 1.
TEST_CASE("pipeline: elements of f16", "[data][pipeline]") {
  const double wide[] = {1.5, -65504, 1e9, 0x1p-24, 1 + 0x1p-11};
  uint16_t half[5];
  convertElements(ASHLAR_RT_F64, wide, ASHLAR_RT_F16, half, 5, 1, 0);
  CHECK((half[0] == 0x3e00 && half[1] == 0xfbff && half[2] == 0x7c00 && half[3] == 0x0001 && half[4] == 0x3c00));
  double back[5];
  convertElements(ASHLAR_RT_F16, half, ASHLAR_RT_F64, back, 5, 2, 1);
  CHECK((back[0] == 4 && back[1] == -131007 && back[3] == 1 + 0x1p-23 && back[4] == 3));
  int32_t integers[5];
  convertElements(ASHLAR_RT_F16, half, ASHLAR_RT_I32, integers, 5, 1, 0);
  CHECK((integers[0] == 1 && integers[1] == -65504 && integers[2] == std::numeric_limits<int32_t>::max() && integers[3] == 0));
  uint16_t same[5];
  convertElements(ASHLAR_RT_F16, half, ASHLAR_RT_F16, same, 5, 1, 0);
  CHECK(std::memcmp(half, same, sizeof(half)) == 0);
}

TEST_CASE("pipeline: passes are counted in 64 bits", "[data][pipeline]") {
  TemporaryFolder folder;
  writeSamples(folder, 16);
  Program program(1, 1, 8);
  program.training.dataset.repeat = (uint64_t{1} << 32) + 1;
  Pipeline pipeline = created(program.options(folder.path()));
  CHECK(pipeline.stepsPerEpoch() == 2 * ((uint64_t{1} << 32) + 1));
  program.training.dataset.repeat = uint64_t{1} << 63;
  CHECK(refusal(program.options(folder.path())) ==
        "9223372036854775808 passes of 2 steps are more than can be counted; lower dataset.repeat");
}

TEST_CASE("pipeline: other samples, counts, types or shapes have other facts", "[data][pipeline]") {
  Program program(1, 1, 8);
  auto factsOf = [&](auto &&change) {
    TemporaryFolder folder;
    writeSamples(folder, 200);
    change(folder);
    return created(program.options(folder.path())).facts();
  };
  const DataFacts same = factsOf([](TemporaryFolder &) {});
  CHECK(same.what == "the train split");
  CHECK(same.text == "200 samples, image f32 (12,), label i32 ()");
  CHECK(factsOf([](TemporaryFolder &) {}).contents == same.contents);
  CHECK(factsOf([](TemporaryFolder &folder) { writeSamples(folder, 201); }).text == "201 samples, image f32 (12,), label i32 ()");
  std::vector<float> images(200 * 12, 0);
  auto write = [&](TemporaryFolder &folder, std::vector<int64_t> shape) {
    REQUIRE(writeNpy(folder.file("image_train.npy"), ASHLAR_RT_F32, shape, images.data()).ok());
  };
  CHECK(factsOf([&](TemporaryFolder &folder) { write(folder, {200, 4, 3}); }).text == "200 samples, image f32 (4, 3), label i32 ()");
  // The first and the last sample, and any element of them.
  std::iota(images.begin(), images.end(), 0.0f);
  for (size_t element : {size_t{0}, size_t{11}, images.size() - 1}) {
    images[element] += 1;
    CHECK(factsOf([&](TemporaryFolder &folder) { write(folder, {200, 12}); }).contents != same.contents);
    images[element] -= 1;
  }
  CHECK(factsOf([&](TemporaryFolder &folder) { write(folder, {200, 12}); }).contents == same.contents);
}

TEST_CASE("pipeline: an epoch has more than 2^32 passes", "[data][pipeline]") {
  TemporaryFolder folder;
  writeSamples(folder, 48);
  Program program(1, 1, 8);
  program.training.dataset.repeat = (uint64_t{1} << 32) + 2;
  Pipeline pipeline = created(program.options(folder.path()));
  CHECK(pipeline.stepsPerEpoch() == 6 * ((uint64_t{1} << 32) + 2));
  const std::vector<int64_t> first = labelsOf(pipeline, 6);
  pipeline.goTo(pipeline.stepsPerEpoch()); // pass 2^32 + 2
  const std::vector<int64_t> second = labelsOf(pipeline, 6);
  program.training.dataset.repeat = 2;
  Pipeline small = created(program.options(folder.path()));
  small.goTo(small.stepsPerEpoch()); // pass 2
  CHECK(labelsOf(small, 6) != second);
  small.goTo(0);
  CHECK(labelsOf(small, 6) == first);
}

TEST_CASE("pipeline: what does not fit is refused with both values", "[data][pipeline]") {
  TemporaryFolder folder;
  writeSamples(folder, 20);
  Program large(1, 1, 32);
  CHECK_THAT(refusal(large.options(folder.path())), Contains("global batch is 32") && Contains("holds 20 samples"));
  Program uneven(1, 1, 8);
  uneven.training.dataset.drop_remainder = 0;
  CHECK_THAT(refusal(uneven.options(folder.path())), Contains("20 samples, which batches of 8 do not divide"));
  Program column(1, 1, 4);
  column.training.dataset.format = "digits";
  column.training.dataset.train_samples = 100;
  CHECK_THAT(refusal(column.options("")),
             Contains("column \"image\" has 784 elements a sample, shape (28, 28)") && Contains("takes 12, shape (4, 3)"));
  column.features[0].column = "picture";
  CHECK_THAT(refusal(column.options("")), Contains("wants the column \"picture\"") && Contains("has \"image\", \"label\""));
  Program tensor(1, 1, 4);
  tensor.features[1].tensor = "classes";
  CHECK_THAT(refusal(tensor.options(folder.path())), Contains("no such input"));
  Program division(1, 1, 4);
  division.normalize[1] = 0;
  division.features[0].num_transforms = 2;
  CHECK_THAT(refusal(division.options(folder.path())), Contains("must not be 0"));
  writeSamples(folder, 24, "eval");
  const int32_t labels[3] = {1, 2, 3};
  REQUIRE(writeNpy(folder.file("label_train.npy"), ASHLAR_RT_I32, {3}, labels).ok());
  CHECK_THAT(refusal(tensor.options(folder.path())), Contains("holds 3 samples but") && Contains("holds 20"));
  std::vector<float> images(3 * 12);
  REQUIRE(writeNpy(folder.file("image_train.npy"), ASHLAR_RT_F32, {3, 2, 2, 3}, images.data()).ok());
  Program order(1, 1, 1);
  CHECK_THAT(refusal(order.options(folder.path())),
             Contains("samples of shape (2, 2, 3) but input tensor \"input\" takes (4, 3), the same number"));
}

TEST_CASE("pipeline: any number of threads prepares the same batches", "[data][pipeline]") {
  TemporaryFolder folder;
  std::string records;
  for (int i = 0; i < 100 * 3073; ++i) {
    records += static_cast<char>(i % 3073 == 0 ? i / 3073 % 10 : i * 7 + i / 3073 % 251);
  }
  folder.write("data_batch_1.bin", records);
  folder.write("test_batch.bin", records.substr(0, 50 * 3073));
  for (const char *format : {"cifar10", "digits"}) {
    const Images images(format, 64); // two thirds of the samples; in evaluation 14 of them twice
    const std::string directory = std::string(format) == "digits" ? "" : folder.path();
    for (Split split : {Split::kTrain, Split::kEval}) {
      const std::string one = images.batches(directory, split, /*threads=*/1, /*count=*/7);
      for (int threads : {2, 3, 8, 100}) {
        INFO(format << ", " << splitName(split) << ", " << threads << " threads");
        CHECK((images.batches(directory, split, threads, /*count=*/7) == one));
      }
    }
  }
}

TEST_CASE("pipeline: nothing is allocated after create", "[data][pipeline]") {
  // Over several passes and jumps, with every format that decodes on the way, by several threads.
  TemporaryFolder folder;
  writeSamples(folder, 2048);
  Program program(2, 1, 1024);
  PipelineOptions options = program.options(folder.path(), 0, 2);
  options.threads = 2;
  Pipeline pipeline = created(options);
  pipeline.next();
  const uint64_t before = ashlar::test::allocations();
  for (int step = 0; step < 300; ++step) {
    pipeline.next();
    if (step % 100 == 50) {
      pipeline.goTo(step * pipeline.stepsPerEpoch());
    }
  }
  REQUIRE(ashlar::test::allocations() == before);
}

TEST_CASE("pipeline: ends at once wherever it stands", "[data][pipeline]") {
  // Not started, in the middle of a batch, with a full ring, just after a jump.
  TemporaryFolder folder;
  writeSamples(folder, 64);
  Program program(1, 1, 16);
  for (int round = 0; round < 40; ++round) {
    Pipeline pipeline = created(program.options(folder.path()));
    if (round % 4 == 1) {
      pipeline.next();
    }
    if (round % 4 == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    if (round % 4 == 3) {
      pipeline.goTo(round * pipeline.stepsPerEpoch());
    }
  }
  SUCCEED("every destructor returned");
}

} // namespace ashlar::test::pipeline_test
