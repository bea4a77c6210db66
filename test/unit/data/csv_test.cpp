// SPDX-License-Identifier: Apache-2.0
//
// Tables of comma-separated values: numbers, vectors of columns, words, quotes and line ends; wrong fields are named by file, line and
// column.

#include "runtime/data/dataset.h"
#include "test/unit/data/read_sample.h"
#include "test/unit/data/temporary_folder.h"

#include <catch2/catch.hpp>

namespace ashlar::test::csv_test {

using namespace ashlar::rt;
using ashlar::test::TemporaryFolder;
using Catch::Matchers::Contains;

namespace {

// A data set with these columns.
struct Description {
  std::vector<ashlar_rt_feature> features;
  ashlar_rt_dataset dataset = {};
  explicit Description(std::vector<const char *> columns, const char *categories = nullptr) {
    for (const char *column : columns) {
      features.push_back({column, "x", 0, nullptr, 0, 0, 0});
    }
    dataset.format = "csv";
    dataset.categories = categories;
    dataset.num_features = static_cast<uint32_t>(features.size());
    dataset.features = features.data();
  }
};

using Numbers = std::vector<double>;

std::unique_ptr<Dataset> opened(const Description &description, const TemporaryFolder &folder, Split split = Split::kTrain) {
  std::unique_ptr<Dataset> dataset;
  const Status status = openDataset(description.dataset, folder.path(), split, dataset);
  INFO(status.message());
  REQUIRE(status.ok());
  return dataset;
}

std::string refusal(const Description &description, const TemporaryFolder &folder, const std::string &bytes, Split split = Split::kTrain) {
  folder.write(split == Split::kTrain ? "train.csv" : "eval.csv", bytes);
  std::unique_ptr<Dataset> dataset;
  const Status status = openDataset(description.dataset, folder.path(), split, dataset);
  REQUIRE(!status.ok());
  CHECK(status.message().find('\n') == std::string::npos);
  return status.message();
}

} // namespace

TEST_CASE("csv: columns by name, list and wildcard, whatever the line ends and blanks", "[data][csv]") {
  TemporaryFolder folder;
  const std::string lines = "age,income,name,p1,p2\n25, 1.5e3,\"x\",0,1\n-7,+0.25,\"a,\"\"b\"\"\nc\",2,3\n\n1e-2,3,,4,5";
  std::string windows;
  for (char c : lines) {
    windows += c == '\n' ? "\r\n" : std::string(1, c);
  }
  const Description description({"p*", "age", "income,age", "age", "p?"});
  for (const std::string &bytes : {lines, windows, lines + "\n", "\xef\xbb\xbf" + windows + "\r\n\r\n"}) {
    folder.write("train.csv", bytes);
    const auto dataset = opened(description, folder);
    REQUIRE(dataset->samples() == 3);
    REQUIRE(dataset->columns().size() == 4);
    CHECK(dataset->columns()[0].shape == std::vector<int64_t>{2});
    CHECK(dataset->columns()[1].shape.empty());
    CHECK(sampleOf<double>(*dataset, 0, 1) == Numbers{2, 3});
    CHECK(sampleOf<double>(*dataset, 0, 2) == Numbers{4, 5});
    CHECK(sampleOf<double>(*dataset, 1, 2) == Numbers{0.01});
    CHECK(sampleOf<double>(*dataset, 2, 0) == Numbers{1500, 25});
    CHECK(sampleOf<double>(*dataset, 2, 1) == Numbers{0.25, -7});
    CHECK(sampleOf<double>(*dataset, 3, 0) == Numbers{0, 1});
  }
}

TEST_CASE("csv: words are numbered in the sorted order of the train split", "[data][csv]") {
  TemporaryFolder folder;
  folder.write("train.csv", "city,size,kind\nRome,1,b\n\"Bari, IT\",2,a\nRome,3,a\n Zug ,4,b\n");
  folder.write("eval.csv", "size,kind,city\n9,a,Zug\n8,b,\"Bari, IT\"\n");
  const Description description({"city", "kind", "size"}, "city,k*");
  const auto train = opened(description, folder), eval = opened(description, folder, Split::kEval);
  REQUIRE((train->samples() == 4 && eval->samples() == 2));
  const Numbers cities = {1, 0, 1, 2}, kinds = {1, 0, 0, 1};
  for (uint64_t i = 0; i < 4; ++i) {
    CHECK(sampleOf<double>(*train, 0, i) == Numbers{cities[i]});
    CHECK(sampleOf<double>(*train, 1, i) == Numbers{kinds[i]});
  }
  CHECK((sampleOf<double>(*eval, 0, 0)[0] == 2 && sampleOf<double>(*eval, 1, 0)[0] == 0 && sampleOf<double>(*eval, 2, 0)[0] == 9));
  CHECK((sampleOf<double>(*eval, 0, 1)[0] == 0 && sampleOf<double>(*eval, 1, 1)[0] == 1));
  CHECK_THAT(refusal(description, folder, "size,kind,city\n9,a,Zug\n8,b,Oslo\n", Split::kEval),
             Contains("eval.csv:3: column \"city\" has \"Oslo\", which is none of its 3 words in the train split"));
  CHECK_THAT(refusal(Description({"size"}, "town"), folder, "city,size\nRome,1\n"),
             Contains("no column of \"") && Contains("matches \"town\""));
}

TEST_CASE("csv: wildcards stand for the columns of the train split in both splits", "[data][csv]") {
  TemporaryFolder folder;
  folder.write("train.csv", "pixel1,pixel2,pixel3,label\n1,2,3,0\n");
  folder.write("eval.csv", "other,pixel3,label,pixel2,pixel1\n9,30,1,20,10\n");
  const Description description({"pixel*", "label", "pixel?,label"});
  const auto train = opened(description, folder), eval = opened(description, folder, Split::kEval);
  CHECK(sampleOf<double>(*train, 0, 0) == Numbers{1, 2, 3});
  CHECK(sampleOf<double>(*eval, 0, 0) == Numbers{10, 20, 30});
  CHECK(sampleOf<double>(*eval, 1, 0) == Numbers{1});
  CHECK(sampleOf<double>(*eval, 2, 0) == Numbers{10, 20, 30, 1});
  CHECK_THAT(refusal(description, folder, "pixel1,pixel2,pixel4,label\n1,2,3,0\n", Split::kEval),
             Contains("no column of \"" + folder.file("eval.csv") + "\" matches \"pixel3\"; it has \"pixel1\", "));
  CHECK_THAT(refusal(description, folder, "pixel1,pixel2,pixel3,pixel4,label\n1,2,3,4,0\n", Split::kEval),
             Contains("column \"pixel4\" of \"" + folder.file("eval.csv") + "\" matches \"pixel*\" but \"" + folder.file("train.csv") +
                      "\" has no such column"));
}

TEST_CASE("csv: faults are named by file, line and column", "[data][csv]") {
  TemporaryFolder folder;
  const Description x({"x"});
  const std::string where = folder.file("train.csv");
  CHECK_THAT(refusal(x, folder, "y,z\n1,2\n"), Contains("no column of \"" + where + "\" matches \"x\"; it has \"y\", \"z\""));
  CHECK_THAT(refusal(x, folder, "x,x\n1,2\n"), Contains(where + ":1: two columns have the name \"x\""));
  CHECK_THAT(refusal(x, folder, "x,\"a\nb\"\n1,2\n"), Contains(where + ":1: the name \"a?b\" of column 2 has a line end"));
  CHECK_THAT(refusal(x, folder, "y,x\n1,2\n3,\n"), Contains(where + ":3: column \"x\" has no value"));
  CHECK_THAT(refusal(x, folder, "y,x\n1,\n3,4\n"), Contains(where + ":2: column \"x\" has no value"));
  CHECK_THAT(refusal(x, folder, "y,x\n\"a\nb\",1\n2,Rome\n"),
             Contains(where + ":4: column \"x\" has \"Rome\", which is no number") && Contains("csv { categories: \"x\" }"));
  for (const char *text : {"1.5.2", "0x10", "nan", "inf", "1e999", "1 2", "--1", "1,5"}) {
    INFO(text);
    const std::string message = refusal(x, folder, "x,y\n" + std::string(text) + ",1\n");
    CHECK((message.find(":2: column \"x\" has \"") != std::string::npos || message.find(":2: the line has 3 fields") != std::string::npos));
  }
  CHECK_THAT(refusal(x, folder, "x,y\n9007199254740993,1\n"), Contains("integers from 2^53 on are not exact"));
  CHECK_THAT(refusal(x, folder, "x,y\n1,2\n3\n"), Contains(where + ":3: the line has 1 fields but the first line has 2 names"));
  CHECK_THAT(refusal(x, folder, "x,y\n1,2,3\n"), Contains(where + ":2: the line has 3 fields"));
  CHECK_THAT(refusal(x, folder, "x,y\n1,\"2\n3,4\n"), Contains(where + ":2: the quotes around field 2 have no end"));
  CHECK_THAT(refusal(x, folder, "x,y\n1,\"2\"3\n"), Contains(where + ":2: field 2 goes on behind its end with \"3\""));
  CHECK_THAT(refusal(x, folder, ""), Contains("it is empty"));
  std::unique_ptr<Dataset> dataset;
  CHECK_THAT(openDataset(x.dataset, folder.path(), Split::kEval, dataset).message(), Contains("eval.csv\": No such file"));
}

} // namespace ashlar::test::csv_test
