// SPDX-License-Identifier: Apache-2.0
//
// Windows of tokens: every column against documents that are counted from the beginning of the file, in all kinds of files. Malformed files
// are refused in one line.

#include "runtime/data/dataset.h"
#include "runtime/data/feature.h"
#include "runtime/data/formats/file_pattern.h"
#include "test/unit/data/read_sample.h"
#include "test/unit/data/temporary_folder.h"

#include <cmath>
#include <cstring>

#include <catch2/catch.hpp>

namespace ashlar::test::tokens_test {

using namespace ashlar::rt;
using ashlar::test::TemporaryFolder;
using Catch::Matchers::Contains;

namespace {

// A data set of tokens, or of text, with all columns.
struct Description {
  ashlar_rt_feature features[5] = {{"tokens", "a", 0, nullptr, 0, 0, 0},
                                   {"targets", "b", 0, nullptr, 0, 0, 0},
                                   {"positions", "c", 0, nullptr, 0, 0, 0},
                                   {"segments", "d", 0, nullptr, 0, 0, 0},
                                   {"mask", "e", 0, nullptr, 0, 0, 0}};
  ashlar_rt_dataset dataset = {};

  explicit Description(int64_t window, int bytes = 2, const char *format = "tokens") {
    dataset.format = format;
    dataset.directory_format = "tokens";
    dataset.train_files = "train.bin";
    dataset.eval_files = "val.bin";
    dataset.num_features = 5;
    dataset.features = features;
    dataset.params[ASHLAR_RT_WINDOW] = static_cast<double>(window);
    dataset.params[ASHLAR_RT_TOKEN_BYTES] = bytes;
    dataset.params[ASHLAR_RT_BOUNDARY] = -1;
    dataset.params[ASHLAR_RT_PREDICTS_NEXT] = 1;
    dataset.params[ASHLAR_RT_RESTARTS_POSITIONS] = 1;
  }
  Description(const Description &) = delete;
  Description &operator=(const Description &) = delete;
};

std::string bytesOf(const std::vector<uint32_t> &tokens, int bytes) {
  std::string text;
  for (uint32_t token : tokens) {
    text.append(reinterpret_cast<const char *>(&token), bytes); // little endian
  }
  return text;
}

// The header of llm.c.
std::string header(std::vector<uint32_t> numbers) {
  numbers.resize(256);
  return bytesOf(numbers, 4);
}

std::unique_ptr<Dataset> opened(const Description &description, const std::string &directory, Split split = Split::kTrain) {
  std::unique_ptr<Dataset> dataset;
  const Status status = openDataset(description.dataset, directory, split, dataset);
  INFO(status.message());
  REQUIRE(status.ok());
  return dataset;
}

std::string refusal(const Description &description, const std::string &directory) {
  std::unique_ptr<Dataset> dataset;
  const Status status = openDataset(description.dataset, directory, Split::kTrain, dataset);
  REQUIRE(!status.ok());
  CHECK(status.message().find('\n') == std::string::npos);
  return status.message();
}

// Returns the elements of a column, whatever their type is.
std::vector<int64_t> numbersOf(Dataset &dataset, size_t column, uint64_t sample) {
  std::vector<int64_t> numbers(numElements(dataset.columns()[column].shape));
  convertElements(dataset.columns()[column].element, readSample(dataset, column, sample), ASHLAR_RT_I64, numbers.data(), numbers.size(), 1,
                  0);
  return numbers;
}

// Numbers the document of each token, from the beginning of the file.
std::vector<int> documentsOf(const std::vector<uint32_t> &tokens, int64_t boundary, bool begins) {
  std::vector<int> documents;
  int document = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    document += begins && i > 0 && tokens[i] == boundary ? 1 : 0;
    documents.push_back(document);
    document += !begins && tokens[i] == boundary ? 1 : 0;
  }
  return documents;
}

// Pseudo-random tokens below 50, among them boundaries of value 7.
std::vector<uint32_t> someTokens(size_t count, uint32_t seed) {
  std::vector<uint32_t> tokens;
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525 + 1013904223;
    tokens.push_back(seed >> 28 < 3 ? 7 : seed >> 16 & 31);
  }
  return tokens;
}

} // namespace

TEST_CASE("tokens: every column of every window, by documents of the whole file", "[data][tokens]") {
  TemporaryFolder folder;
  const int64_t window = 6;
  const std::vector<uint32_t> tokens = someTokens(45, 3); // 7 windows, two tokens more
  folder.write("train.bin", bytesOf(tokens, 2));
  for (const bool begins : {false, true}) {
    for (const bool predicts : {false, true}) {
      for (const bool restarts : {false, true}) {
        Description description(window);
        description.dataset.params[ASHLAR_RT_BOUNDARY] = 7;
        description.dataset.params[ASHLAR_RT_BOUNDARY_BEGINS] = begins ? 1 : 0;
        description.dataset.params[ASHLAR_RT_PREDICTS_NEXT] = predicts ? 1 : 0;
        description.dataset.params[ASHLAR_RT_RESTARTS_POSITIONS] = restarts ? 1 : 0;
        const auto dataset = opened(description, folder.path());
        const std::vector<int> documents = documentsOf(tokens, 7, begins);
        REQUIRE(dataset->samples() == 7);
        int ignored = 0, restarted = 0;
        for (int64_t sample = 0; sample < 7; ++sample) {
          const auto inputs = numbersOf(*dataset, 0, sample), targets = numbersOf(*dataset, 1, sample),
                     positions = numbersOf(*dataset, 2, sample), segments = numbersOf(*dataset, 3, sample),
                     mask = numbersOf(*dataset, 4, sample);
          for (int64_t i = 0; i < window; ++i) {
            const int64_t at = sample * window + i;
            int64_t first = at; // of the document, in the window
            while (first > sample * window && documents[first - 1] == documents[at]) {
              --first;
            }
            CHECK(inputs[i] == tokens[at]);
            const bool counts = predicts || documents[at] == documents[at + 1];
            CHECK(targets[i] == (counts ? static_cast<int64_t>(tokens[at + 1]) : -100));
            CHECK(positions[i] == (restarts ? at - first : i));
            CHECK(segments[i] == documents[at] - documents[sample * window]);
            for (int64_t j = 0; j < window; ++j) {
              CHECK(mask[i * window + j] == (j <= i && documents[sample * window + j] == documents[at] ? 1 : 0));
            }
            ignored += counts ? 0 : 1;
            restarted += positions[i] != i ? 1 : 0;
          }
        }
        CHECK((ignored > 3) == !predicts);
        CHECK((restarted > 3) == restarts);
      }
    }
  }
}

TEST_CASE("tokens: without documents a file is one, and columns have the type of the file", "[data][tokens]") {
  TemporaryFolder folder;
  folder.write("train.bin", bytesOf({300, 1, 2, 65535, 4, 5, 6}, 2));
  Description description(3);
  const auto dataset = opened(description, folder.path());
  CHECK(dataset->samples() == 2);
  CHECK(sampleOf<uint16_t>(*dataset, 0, 1) == std::vector<uint16_t>{65535, 4, 5});
  CHECK(sampleOf<uint16_t>(*dataset, 1, 0) == std::vector<uint16_t>{1, 2, 65535});
  CHECK(sampleOf<int32_t>(*dataset, 2, 1) == std::vector<int32_t>{0, 1, 2});
  CHECK(sampleOf<int32_t>(*dataset, 3, 1) == std::vector<int32_t>{0, 0, 0});
  CHECK(dataset->scratchBytes(0) == 0); // read in place
  CHECK(dataset->scratchBytes(1) == 0);
  CHECK((dataset->range(0)->least == 1 && dataset->range(0)->greatest == 65535));
  CHECK((dataset->range(2)->least == 0 && dataset->range(2)->greatest == 2));
  // The label that the loss ignores takes the place of -100.
  description.features[1].classes = 50;
  description.features[1].ignored_label = -1;
  description.dataset.params[ASHLAR_RT_BOUNDARY] = 2;
  description.dataset.params[ASHLAR_RT_PREDICTS_NEXT] = 0;
  CHECK(sampleOf<int64_t>(*opened(description, folder.path()), 1, 0) == std::vector<int64_t>{1, 2, -1});
}

TEST_CASE("tokens: llm.c's files of both types, nanoGPT's, and bytes", "[data][tokens]") {
  TemporaryFolder folder;
  const std::vector<uint32_t> small = {5, 6, 50256, 8, 9}, large = {5, 128000, 70000, 8, 9};
  const struct {
    std::string bytes;
    int width;
    uint32_t element;
    const std::vector<uint32_t> &tokens;
  } files[] = {{header({20240520, 1, 5}) + bytesOf(small, 2), 4, ASHLAR_RT_U16, small}, // the header decides
               {header({20240801, 7, 5}) + bytesOf(large, 4), 2, ASHLAR_RT_U32, large},
               {bytesOf(small, 2), 2, ASHLAR_RT_U16, small},
               {bytesOf(large, 4), 4, ASHLAR_RT_U32, large},
               {bytesOf({65, 10, 255, 0, 66}, 1), 1, ASHLAR_RT_U8, std::vector<uint32_t>{65, 10, 255, 0, 66}}};
  for (const auto &file : files) {
    folder.write("train.bin", file.bytes);
    const auto dataset = opened(Description(2, file.width), folder.path());
    CHECK(dataset->columns()[0].element == file.element);
    REQUIRE(dataset->samples() == 2);
    for (int64_t i = 0; i < 4; ++i) {
      CHECK(numbersOf(*dataset, 0, i / 2)[i % 2] == file.tokens[i]);
      CHECK(numbersOf(*dataset, 1, i / 2)[i % 2] == file.tokens[i + 1]);
    }
  }
}

TEST_CASE("tokens: shards in natural order, no window over two of them, and a split by share", "[data][tokens]") {
  TemporaryFolder folder;
  folder.write("part_10.bin", bytesOf({20, 21, 22, 23, 24}, 2));
  folder.write("part_9.bin", bytesOf({10, 11, 12, 13}, 2));
  folder.write("part_11.bin", bytesOf({30, 31}, 2)); // too short for a window
  folder.write("other_1.bin", bytesOf({40, 41, 42}, 2));
  Description description(2);
  description.dataset.train_files = "part_*.bin";
  const auto shards = opened(description, folder.path());
  REQUIRE(shards->samples() == 3);
  CHECK(sampleOf<uint16_t>(*shards, 0, 0) == std::vector<uint16_t>{10, 11});
  CHECK(sampleOf<uint16_t>(*shards, 0, 1) == std::vector<uint16_t>{20, 21});
  CHECK(sampleOf<uint16_t>(*shards, 0, 2) == std::vector<uint16_t>{22, 23});
  // 80 % of each file, and the rest: 4 of 5 tokens, 8 of 10.
  folder.write("a.txt", "abcde");
  folder.write("b.txt", "0123456789");
  Description text(1, 1);
  text.dataset.train_files = "*.txt";
  text.dataset.params[ASHLAR_RT_EVAL_SHARE] = 0.2;
  const auto train = opened(text, folder.path()), eval = opened(text, folder.path(), Split::kEval);
  REQUIRE(train->samples() == 3 + 7);
  REQUIRE(eval->samples() == 1);
  CHECK(numbersOf(*train, 1, 2)[0] == 'd');
  CHECK(numbersOf(*train, 0, 3)[0] == '0');
  CHECK(numbersOf(*train, 1, 9)[0] == '7');
  CHECK((numbersOf(*eval, 0, 0)[0] == '8' && numbersOf(*eval, 1, 0)[0] == '9'));
  // A folder in the pattern, and files of its own.
  std::filesystem::create_directory(folder.file("sub"));
  folder.write("sub/v1.bin", bytesOf({1, 2, 3}, 2));
  description.dataset.eval_files = "sub/v?.bin";
  CHECK(opened(description, folder.path(), Split::kEval)->samples() == 1);
}

TEST_CASE("tokens: malformed and missing files are refused by name", "[data][tokens]") {
  TemporaryFolder folder;
  const Description description(4);
  const auto refused = [&](const std::string &bytes) {
    folder.write("train.bin", bytes);
    return refusal(description, folder.path());
  };
  CHECK_THAT(refusal(description, folder.path()), Contains("cannot open \"" + folder.file("train.bin") + "\": No such file"));
  CHECK_THAT(refused(""), Contains("it is empty"));
  CHECK_THAT(refused("12345678901"), Contains("train.bin\" has 11 bytes, which are no whole tokens of u16"));
  CHECK_THAT(refused("12345678"), Contains("the train split has 4 tokens in 1 files") && Contains("takes 4 and the one behind"));
  CHECK_THAT(refused(header({20240520, 1}).substr(0, 1000)), Contains("has 1000 bytes, fewer than the 1024 of its header"));
  CHECK_THAT(refused(header({20240520, 2, 1}) + "ab"), Contains("of version 2; version 1 can be read"));
  CHECK_THAT(refused(header({20240520, 1, 3}) + "abcd"), Contains("announces 3 tokens of u16 (6 bytes) but holds 4 bytes"));
  CHECK_THAT(refused(header({20240801, 7, 0xffffffff}) + "abcd"),
             Contains("announces 4294967295 tokens of u32 (17179869180 bytes) but holds 4"));
  Description shards(1);
  shards.dataset.train_files = "t*.bin";
  folder.write("train.bin", bytesOf({1, 2, 3}, 2));
  folder.write("t2.bin", header({20240801, 7, 2}) + bytesOf({1, 2}, 4));
  CHECK_THAT(refusal(shards, folder.path()), Contains("train.bin\" holds tokens of u16 but \"") && Contains("t2.bin\" holds u32"));
  shards.dataset.train_files = "x*";
  CHECK_THAT(refusal(shards, folder.path()), Contains("no file in \"" + folder.path() + "\" matches \"x*\""));
  CHECK_THAT(refusal(shards, "/nowhere"), Contains("cannot open the folder \"/nowhere\": No such file"));
}

TEST_CASE("tokens: every token has a row of the model's table, every target is a class or ignored", "[data][tokens]") {
  TemporaryFolder folder;
  folder.write("train.bin", bytesOf({3, 0, 7, 9, 1, 49, 2}, 2));
  Description description(3);
  const auto dataset = opened(description, folder.path());
  Feature tokens, targets;
  targets.column = 1;
  ashlar_rt_feature &table = description.features[0], &labels = description.features[1];
  const auto fault = [&](const ashlar_rt_feature &feature, const Feature &resolved) {
    return checkLabels(feature, resolved, "train", *dataset).message();
  };
  CHECK(checkLabels(table, tokens, "train", *dataset).ok());
  table.table_rows = 50;
  labels.classes = 50;
  CHECK(checkLabels(table, tokens, "train", *dataset).ok());
  CHECK(checkLabels(labels, targets, "train", *dataset).ok());
  table.table_rows = 49;
  labels.classes = 49;
  CHECK_THAT(fault(table, tokens),
             Contains("index 49 of sample 1 in column \"tokens\" of the train split is not one of the 49 rows 0 .. 48 of the "
                      "model's table"));
  CHECK_THAT(fault(labels, targets),
             Contains("label 49 of sample 1 in column \"targets\" of the train split is not one of the 49 classes 0 .. 48;"));
  // An index below 0 counts from the end, down to the first row.
  const double shift[2] = {1, -49};
  const ashlar_rt_transform rescale = {ASHLAR_RT_RESCALE, 2, shift};
  table.transforms = &rescale;
  table.num_transforms = 1;
  CHECK(checkLabels(table, tokens, "train", *dataset).ok());
  table.table_rows = 48;
  CHECK_THAT(fault(table, tokens), Contains("index -49 of sample 0"));
}

TEST_CASE("tokens: a file that is cut during the run is noticed", "[data][tokens]") {
  TemporaryFolder folder;
  folder.write("train.bin", std::string(100000, 'x'));
  const auto dataset = opened(Description(4), folder.path());
  CHECK(dataset->check().ok());
  std::filesystem::resize_file(folder.file("train.bin"), 100);
  readSample(*dataset, 0, 12000);
  CHECK_THAT(dataset->check().message(), Contains("train.bin"));
}

TEST_CASE("files: natural order and wildcards", "[data][tokens]") {
  const std::vector<std::string> sorted = {"", "a", "a01", "a1", "a2", "a10", "a10b", "a11", "b"};
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (size_t j = 0; j < sorted.size(); ++j) {
      INFO(sorted[i] << " " << sorted[j]);
      CHECK(isNaturallyBefore(sorted[i], sorted[j]) == (i < j));
    }
  }
  for (const auto &[pattern, name, matches] : {std::tuple<const char *, const char *, bool>{"*", "", true},
                                               {"a*b*c", "aXbbYc", true},
                                               {"a*b*c", "aXbbYcd", false},
                                               {"?", "", false},
                                               {"a?c", "abc", true},
                                               {"a?c", "ac", false},
                                               {"*.bin", "x.bin", true},
                                               {"*.bin", "x.binary", false},
                                               {"abc", "abc", true},
                                               {"ab", "abc", false}}) {
    INFO(pattern << " " << name);
    CHECK(matchesPattern(pattern, name) == matches);
  }
}

TEST_CASE("text: sentences of the grammar, other ones for the evaluation, and files in their place", "[data][text]") {
  Description description(16, 1, "text");
  description.dataset.train_samples = 2000;
  description.dataset.eval_samples = 100;
  description.dataset.train_files = "*.txt";
  description.dataset.params[ASHLAR_RT_EVAL_SHARE] = 0.1;
  const auto train = opened(description, ""), eval = opened(description, "", Split::kEval);
  REQUIRE(train->samples() == 2000);
  REQUIRE(eval->samples() == 100);
  std::string text, first;
  for (uint64_t sample = 0; sample < 2000; ++sample) {
    for (int64_t byte : numbersOf(*train, 0, sample)) {
      text += static_cast<char>(byte);
    }
  }
  for (uint64_t sample = 0; sample < 100; ++sample) {
    for (int64_t byte : numbersOf(*eval, 0, sample)) {
      first += static_cast<char>(byte);
    }
  }
  CHECK(text.substr(0, 1600) != first);
  // Each sentence has a verb with an s where its subject is one, "the" and a color; and all of them are about 41 bytes long on average.
  size_t begin = 0, sentences = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin), ++sentences) {
    const std::string sentence = text.substr(begin, end - begin);
    INFO(sentence);
    CHECK(sentence.back() == '.');
    bool isOne = false, isMany = false;
    for (const char *verb : {"see", "find", "like", "follow", "hear", "paint", "draw", "need"}) {
      isOne = isOne || sentence.find(std::string(" ") + verb + "s the ") != std::string::npos;
      isMany = isMany || sentence.find(std::string(" ") + verb + " the ") != std::string::npos;
    }
    CHECK(isOne != isMany);
    bool hasOne = false;
    for (const char *subject :
         {"the dog ", "a cat ", "the girl ", "the old man ", "my friend ", "a small bird ", "the queen ", "the fox "}) {
      hasOne = hasOne || sentence.rfind(subject, 0) == 0;
    }
    CHECK(hasOne == isOne);
    begin = end + 1;
  }
  CHECK(std::fabs(static_cast<double>(begin) / static_cast<double>(sentences) - 41) < 1);
  TemporaryFolder folder;
  folder.write("input.txt", std::string(1000, 'q'));
  CHECK(numbersOf(*opened(description, folder.path()), 0, 3)[5] == 'q');
}

} // namespace ashlar::test::tokens_test
