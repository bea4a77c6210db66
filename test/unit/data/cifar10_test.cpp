// SPDX-License-Identifier: Apache-2.0
//
// CIFAR-10's binary batches: what a file becomes, which files belong together, and files that are wrong.

#include "runtime/data/dataset.h"
#include "test/unit/data/read_sample.h"
#include "test/unit/data/temporary_folder.h"

#include <filesystem>
#include <tuple>

#include <catch2/catch.hpp>

namespace ashlar::test::cifar10_test {

using namespace ashlar::rt;
using ashlar::test::TemporaryFolder;
using Catch::Matchers::Contains;

namespace {

// `count` records, the first of which is number `first`: the label is its last digit, element (channel, y, x) is
// number + 100 channel + 3 y + x modulo 251.
std::string records(int first, int count) {
  std::string bytes;
  for (int number = first; number < first + count; ++number) {
    bytes += static_cast<char>(number % 10);
    for (int channel = 0; channel < 3; ++channel) {
      for (int pixel = 0; pixel < 1024; ++pixel) {
        bytes += static_cast<char>((number + 100 * channel + 3 * (pixel / 32) + pixel % 32) % 251);
      }
    }
  }
  return bytes;
}

Status open(const TemporaryFolder &folder, Split split, std::unique_ptr<Dataset> &dataset) {
  ashlar_rt_dataset description = {};
  description.format = "cifar10";
  return openDataset(description, folder.path(), split, dataset);
}

std::string refusal(const TemporaryFolder &folder, Split split = Split::kTrain) {
  std::unique_ptr<Dataset> dataset;
  const Status status = open(folder, split, dataset);
  REQUIRE(!status.ok());
  return status.message();
}

} // namespace

TEST_CASE("cifar10: images come with their channels last, batches one after the other", "[data][cifar10]") {
  TemporaryFolder folder;
  folder.write("data_batch_1.bin", records(0, 3));
  folder.write("data_batch_2.bin", records(3, 1));
  folder.write("data_batch_3.bin", records(4, 7));
  folder.write("test_batch.bin", records(20, 2));
  std::unique_ptr<Dataset> dataset;
  for (const auto &[split, first, count] : {std::tuple<Split, int, int>{Split::kTrain, 0, 11}, {Split::kEval, 20, 2}}) {
    REQUIRE(open(folder, split, dataset).ok());
    REQUIRE(dataset->samples() == static_cast<uint64_t>(count));
    REQUIRE(dataset->columns().size() == 2);
    CHECK((dataset->columns()[0].name == "image" && dataset->columns()[0].shape == std::vector<int64_t>{32, 32, 3}));
    CHECK((dataset->columns()[1].name == "label" && dataset->columns()[1].shape.empty()));
    for (int sample = 0; sample < count; ++sample) {
      CHECK(*static_cast<const uint8_t *>(readSample(*dataset, 1, sample)) == (first + sample) % 10);
      const uint8_t *image = static_cast<const uint8_t *>(readSample(*dataset, 0, sample));
      for (int i = 0; i < 3072; ++i) {
        const int channel = i % 3, y = i / 96, x = i / 3 % 32;
        REQUIRE(image[i] == (first + sample + 100 * channel + 3 * y + x) % 251);
      }
    }
    CHECK(dataset->check().ok());
  }
}

TEST_CASE("cifar10: files that are wrong or missing are named", "[data][cifar10]") {
  TemporaryFolder folder;
  CHECK_THAT(refusal(folder), Contains("no data_batch_1.bin in \"" + folder.path() + "\"; --data names the folder"));
  CHECK_THAT(refusal(folder, Split::kEval), Contains("no test_batch.bin in "));
  folder.write("data_batch_1.bin", records(0, 2));
  folder.write("data_batch_4.bin", records(0, 2));
  CHECK_THAT(refusal(folder), Contains("data_batch_2.bin\" is missing but \"") && Contains("data_batch_4.bin\" is there"));
  std::filesystem::remove(folder.file("data_batch_4.bin"));
  folder.write("data_batch_1.bin", records(0, 2) + "xyz");
  CHECK_THAT(refusal(folder), Contains("data_batch_1.bin\" has 6149 bytes but records of CIFAR-10 have 3073: 2 samples and 3 bytes more"));
  std::string wrong = records(0, 5);
  wrong[3 * 3073] = 10;
  folder.write("data_batch_1.bin", wrong);
  CHECK_THAT(refusal(folder), Contains("label 10 of sample 3 in \"" + folder.file("data_batch_1.bin") + "\" is not one of the 10 classes"));
  folder.write("data_batch_1.bin", "");
  CHECK_THAT(refusal(folder), Contains("data_batch_1.bin"));
}

TEST_CASE("cifar10: a batch that is cut during the run is noticed", "[data][cifar10]") {
  TemporaryFolder folder;
  folder.write("data_batch_1.bin", records(0, 8));
  std::unique_ptr<Dataset> dataset;
  REQUIRE(open(folder, Split::kTrain, dataset).ok());
  std::filesystem::resize_file(folder.file("data_batch_1.bin"), 3073);
  readSample(*dataset, 0, 7);
  CHECK_FALSE(dataset->check().ok());
}

} // namespace ashlar::test::cifar10_test
