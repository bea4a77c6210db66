// SPDX-License-Identifier: Apache-2.0
//
// Generated data sets: the same in every process, balanced, in range, and what they claim to be. And which format a description chooses.

#include "runtime/data/dataset.h"
#include "runtime/data/permutation.h"
#include "test/unit/data/read_sample.h"
#include "test/unit/data/temporary_folder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include <catch2/catch.hpp>

namespace ashlar::test::generators_test {

using namespace ashlar::rt;
using Catch::Matchers::Contains;

namespace {

ashlar_rt_dataset describe(const char *format, uint64_t train, uint64_t eval) {
  ashlar_rt_dataset description = {};
  description.format = format;
  description.train_samples = train;
  description.eval_samples = eval;
  description.params[0] = 2;
  description.params[1] = 3;
  description.params[2] = 5;
  description.params[3] = 0.03;
  return description;
}

std::unique_ptr<Dataset> opened(const ashlar_rt_dataset &description, Split split) {
  std::unique_ptr<Dataset> dataset;
  REQUIRE(openDataset(description, "", split, dataset).ok());
  return dataset;
}

} // namespace

TEST_CASE("digits: the same images whatever the order of reading and the size of the set", "[data][digits]") {
  const auto forward = opened(describe("digits", 50, 20), Split::kTrain), backward = opened(describe("digits", 40, 20), Split::kTrain);
  for (uint64_t i = 40; i-- > 0;) {
    const void *image = readSample(*backward, 0, i);
    REQUIRE(std::memcmp(readSample(*forward, 0, i), image, 784) == 0);
  }
  REQUIRE(std::memcmp(readSample(*forward, 0, 3), readSample(*forward, 0, 13), 784) != 0);
}

TEST_CASE("digits: labels are balanced, pixels use the range, the splits differ", "[data][digits]") {
  const auto train = opened(describe("digits", 1000, 500), Split::kTrain), eval = opened(describe("digits", 1000, 500), Split::kEval);
  REQUIRE(train->samples() == 1000);
  REQUIRE(eval->samples() == 500);
  std::vector<int> counts(10);
  double sum = 0;
  int largest = 0, bright = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    ++counts.at(*static_cast<const uint8_t *>(readSample(*train, 1, i)));
    const uint8_t *image = static_cast<const uint8_t *>(readSample(*train, 0, i));
    const int brightest = *std::max_element(image, image + 784);
    largest = std::max(largest, brightest);
    bright += brightest >= 100 ? 1 : 0;
    for (int p = 0; p < 784; ++p) {
      sum += image[p];
    }
  }
  for (int count : counts) {
    REQUIRE(count == 100);
  }
  CHECK(largest >= 250);
  CHECK(bright == 1000); // every image shows something
  CHECK(sum / (1000 * 784) > 15);
  CHECK(sum / (1000 * 784) < 60);
  REQUIRE(std::memcmp(readSample(*train, 0, 0), readSample(*eval, 0, 0), 784) != 0);
}

TEST_CASE("digits: a centroid classifier beats chance but is far from perfect", "[data][digits]") {
  // Learnable, and not by the mean image alone: what a network gains is tested where a network trains.
  const auto train = opened(describe("digits", 2000, 500), Split::kTrain), eval = opened(describe("digits", 2000, 500), Split::kEval);
  std::vector<double> mean(10 * 784);
  for (uint64_t i = 0; i < 2000; ++i) {
    const uint8_t *image = static_cast<const uint8_t *>(readSample(*train, 0, i));
    for (int p = 0; p < 784; ++p) {
      mean[i % 10 * 784 + p] += image[p] / 200.0;
    }
  }
  int correct = 0;
  for (uint64_t i = 0; i < 500; ++i) {
    const uint8_t *image = static_cast<const uint8_t *>(readSample(*eval, 0, i));
    double best = 1e300;
    int digit = 0;
    for (int d = 0; d < 10; ++d) {
      double distance = 0;
      for (int p = 0; p < 784; ++p) {
        distance += (image[p] - mean[d * 784 + p]) * (image[p] - mean[d * 784 + p]);
      }
      if (distance < best) {
        best = distance;
        digit = d;
      }
    }
    correct += digit == *static_cast<const uint8_t *>(readSample(*eval, 1, i)) ? 1 : 0;
  }
  INFO(correct << " of 500 correct");
  CHECK(correct > 150);
  CHECK(correct < 450);
}

TEST_CASE("regression: inputs in range, targets on the surface up to the noise", "[data][regression]") {
  const auto dataset = opened(describe("regression", 4000, 100), Split::kTrain),
             again = opened(describe("regression", 4000, 100), Split::kTrain);
  double mean = 0, square = 0, low = 1, high = -1;
  for (uint64_t i = 0; i < 4000; ++i) {
    const float *x = static_cast<const float *>(readSample(*dataset, 0, i)), *z = static_cast<const float *>(readSample(*dataset, 1, i));
    REQUIRE(x[0] >= 0);
    REQUIRE(x[0] <= 1);
    low = std::min<double>(low, x[1]);
    high = std::max<double>(high, x[1]);
    const double noise = z[0] - (2.0 * x[0] + 3.0 * x[1] + 5.0);
    mean += noise / 4000;
    square += noise * noise / 4000;
    REQUIRE(std::memcmp(x, readSample(*again, 0, i), 8) == 0);
    REQUIRE(std::memcmp(z, readSample(*again, 1, i), 4) == 0);
  }
  // Standard errors: 0.03 / sqrt(4000) = 5e-4 of the mean, 0.03 / sqrt(8000) = 3.4e-4 of the deviation; four of them allowed.
  CHECK(std::fabs(mean) < 2e-3);
  CHECK(std::sqrt(square) == Approx(0.03).margin(1.4e-3));
  CHECK(low < -0.9);
  CHECK(low >= -1);
  CHECK(high > 0.9);
}

TEST_CASE("data sets: the format and --data must go together", "[data]") {
  std::unique_ptr<Dataset> dataset;
  ashlar_rt_dataset description = describe("regression", 10, 10);
  CHECK_THAT(openDataset(description, "/d", Split::kTrain, dataset).message(),
             Contains("--data \"/d\"") && Contains("\"regression\" is generated"));
  description.format = "idx";
  CHECK_THAT(openDataset(description, "", Split::kTrain, dataset).message(), Contains("--data DIR"));
  description.format = "cifar10";
  CHECK_THAT(openDataset(description, "", Split::kTrain, dataset).message(), Contains("--data DIR"));
  description.format = "parquet";
  CHECK_THAT(openDataset(description, "/d", Split::kTrain, dataset).message(), Contains("\"parquet\" is not in this program"));
  description.format = "digits";
  description.directory_format = "idx";
  CHECK_THAT(openDataset(description, "/nowhere", Split::kTrain, dataset).message(), Contains("no train-images-idx3-ubyte"));
}

TEST_CASE("data sets: the files of both splits are known without opening them", "[data]") {
  TemporaryFolder folder;
  auto filesOf = [&](ashlar_rt_dataset description) {
    std::vector<std::string> names;
    for (const std::string &path : dataFiles(description, folder.path())) {
      names.push_back(path.substr(folder.path().size() + 1));
    }
    return names;
  };
  using Names = std::vector<std::string>;
  const Names idx = {"train-images-idx3-ubyte.gz", "train-labels.idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
  const Names others = {"data_batch_1.bin", "data_batch_2.bin", "test_batch.bin", "a_0.bin", "a_1.bin", "notes.txt"};
  for (const Names &names : {idx, others}) {
    for (const std::string &name : names) {
      folder.write(name, "x");
    }
  }
  ashlar_rt_dataset description = describe("digits", 10, 10);
  CHECK(filesOf(description).empty());
  description.directory_format = "idx";
  CHECK(filesOf(description) == idx);
  CHECK(dataFiles(description, "").empty());
  CHECK(filesOf(describe("cifar10", 0, 0)) == Names{"data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"});
  CHECK(filesOf(describe("csv", 0, 0)) == Names{"train.csv", "eval.csv"});
  CHECK(filesOf(describe("images", 0, 0)) == Names{"train/", "val/", "eval/"});
  description = describe("npz", 0, 0);
  description.train_files = "t.npz";
  description.eval_files = "e.npz";
  CHECK(filesOf(description) == Names{"t.npz", "e.npz"});
  description.format = "tokens";
  description.train_files = "a_*.bin";
  description.eval_files = nullptr;
  description.params[ASHLAR_RT_EVAL_SHARE] = 0.1;
  CHECK(filesOf(description) == Names{"a_0.bin", "a_1.bin", "a_0.bin", "a_1.bin"});
  description.params[ASHLAR_RT_EVAL_SHARE] = 0;
  description.eval_files = "b.bin"; // not there yet
  CHECK(filesOf(description) == Names{"a_0.bin", "a_1.bin", "b.bin"});
  ashlar_rt_feature feature = {};
  feature.column = "x";
  description = describe("npy", 0, 0);
  description.num_features = 1;
  description.features = &feature;
  CHECK(filesOf(description) == Names{"x_train.npy", "x_eval.npy"});
}

TEST_CASE("order: a permutation, another one for each pass and seed", "[data][order]") {
  std::vector<uint64_t> first(1000), other(1000), sorted(1000);
  shuffledOrder(7, 0, first);
  sorted = first;
  std::sort(sorted.begin(), sorted.end());
  for (uint64_t i = 0; i < 1000; ++i) {
    REQUIRE(sorted[i] == i);
  }
  shuffledOrder(7, 0, other);
  REQUIRE(first == other);
  for (const auto &[seed, pass] : {std::pair<uint64_t, uint32_t>{7, 1}, {8, 0}}) {
    shuffledOrder(seed, pass, other);
    int same = 0;
    for (uint64_t i = 0; i < 1000; ++i) {
      same += first[i] == other[i] ? 1 : 0;
    }
    REQUIRE(same < 10); // 1 is expected of two random permutations
  }
}

TEST_CASE("order: every permutation of few samples comes equally often", "[data][order]") {
  // The last swaps decide between two and three places: one that is left out makes some orders impossible.
  constexpr int kPasses = 6000;
  for (const auto &[samples, permutations] : {std::pair<size_t, int>{2, 2}, {3, 6}, {4, 24}}) {
    std::map<std::vector<uint64_t>, int> counts;
    for (uint32_t pass = 0; pass < kPasses; ++pass) {
      std::vector<uint64_t> order(samples);
      shuffledOrder(5, pass, order);
      ++counts[order];
    }
    REQUIRE(counts.size() == static_cast<size_t>(permutations));
    const double expected = static_cast<double>(kPasses) / permutations, deviation = std::sqrt(expected);
    for (const auto &[order, count] : counts) {
      CHECK(std::fabs(count - expected) < 4.5 * deviation); // a binomial count: one in 10^5 is further away
    }
  }
}

} // namespace ashlar::test::generators_test
