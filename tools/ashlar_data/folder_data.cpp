// SPDX-License-Identifier: Apache-2.0
//
// Finds data sets by the names of files. Each is opened as a job would open it, with all columns that it has.

#include "runtime/data/formats/csv_table.h"
#include "runtime/data/formats/file_pattern.h"
#include "runtime/data/formats/image_folder.h"
#include "runtime/data/formats/zip.h"
#include "tools/ashlar_data/split_facts.h"

#include <algorithm>

#include <sys/stat.h>

namespace ashlar::data {

namespace {

// A description without a job, which owns its names.
struct Guess {
  std::vector<std::string> columns;
  std::string files;
  std::vector<ashlar_rt_feature> features;
  ashlar_rt_dataset dataset = {};

  Guess(const char *format, std::vector<std::string> names, std::string pattern = "")
      : columns(std::move(names)), files(std::move(pattern)) {
    for (const std::string &column : columns) {
      features.push_back({column.c_str(), "", 0, nullptr, 0, 0, 0});
    }
    dataset.format = format;
    dataset.train_files = dataset.eval_files = files.c_str();
    dataset.num_features = static_cast<uint32_t>(features.size());
    dataset.features = features.data();
    dataset.params[ASHLAR_RT_WINDOW] = 1;
    dataset.params[ASHLAR_RT_TOKEN_BYTES] = 2;
    dataset.params[ASHLAR_RT_BOUNDARY] = -1;
  }
  Guess(const Guess &) = delete;
  Guess &operator=(const Guess &) = delete;
};

SplitFacts describeSplit(const ashlar_rt_dataset &dataset, const std::string &directory, rt::Split split) {
  SplitFacts facts;
  facts.format = dataset.format;
  facts.split = rt::splitName(split);
  std::unique_ptr<rt::Dataset> opened;
  rt::Status status = rt::openDataset(dataset, directory, split, opened);
  if (status.ok()) {
    facts.samples = opened->samples();
    for (size_t column = 0; column < opened->columns().size(); ++column) {
      facts.columns.push_back(readColumn(*opened, column, std::nullopt, std::nullopt));
    }
    status = opened->check();
  }
  facts.fault = status.ok() ? "" : status.message();
  return facts;
}

// The names in a folder, and what is found there.
class Folder {
public:
  explicit Folder(const std::string &directory) : directory(directory) {
    rt::Status status = rt::listDirectory(directory, names);
    if (!status.ok()) {
      splits.push_back({"folder", directory, status.message()});
    }
  }

  std::vector<SplitFacts> describe() {
    describeNamed("idx", {"image", "label"}, "train-images?idx3-ubyte*", "t10k-images?idx3-ubyte*");
    describeNamed("cifar10", {"image", "label"}, "data_batch_1.bin", "test_batch.bin");
    describeNpy();
    for (const std::string &name : matches("*.npz")) {
      describeNpz(name);
    }
    describeCsv();
    describeImages();
    for (const std::string &name : matches("*.bin")) {
      if (!rt::matchesPattern("data_batch_?.bin", name) && name != "test_batch.bin") {
        describeTokens(name, 2);
      }
    }
    for (const std::string &name : matches("*.txt")) {
      describeTokens(name, 1);
    }
    return std::move(splits);
  }

private:
  std::vector<std::string> matches(const std::string &pattern) const {
    std::vector<std::string> found;
    std::copy_if(names.begin(), names.end(), std::back_inserter(found),
                 [&](const std::string &name) { return rt::matchesPattern(pattern, name); });
    return found;
  }

  void add(const ashlar_rt_dataset &dataset, rt::Split split) { splits.push_back(describeSplit(dataset, directory, split)); }

  void describeNamed(const char *format, const std::vector<std::string> &columns, const char *train, const char *eval) {
    const Guess guess(format, columns);
    if (!matches(train).empty()) {
      add(guess.dataset, rt::Split::kTrain);
    }
    if (!matches(eval).empty()) {
      add(guess.dataset, rt::Split::kEval);
    }
  }

  void describeNpy() {
    for (const rt::Split split : {rt::Split::kTrain, rt::Split::kEval}) {
      const std::string ending = std::string("_") + rt::splitName(split) + ".npy";
      std::vector<std::string> columns = matches("*" + ending);
      for (std::string &column : columns) {
        column.resize(column.size() - ending.size());
      }
      if (const Guess guess("npy", columns); !columns.empty()) {
        add(guess.dataset, split);
      }
    }
  }

  // An archive of one split, or of both.
  void describeNpz(const std::string &name) {
    rt::ZipFile archive;
    if (rt::Status status = rt::ZipFile::open(directory + "/" + name, archive); !status.ok()) {
      splits.push_back({"npz", name, status.message()});
      return;
    }
    std::vector<std::string> plain, train, eval;
    for (const rt::ZipMember &member : archive.members()) {
      const std::string column = member.name.substr(0, member.name.size() - std::min<size_t>(4, member.name.size()));
      const auto endsWith = [&](const std::string &end) { return column.size() > end.size() && rt::matchesPattern("*" + end, column); };
      if (!rt::matchesPattern("*.npy", member.name)) {
        continue;
      }
      if (endsWith("_train")) {
        train.push_back(column.substr(0, column.size() - 6));
      } else if (endsWith("_test") || endsWith("_eval")) {
        eval.push_back(column.substr(0, column.size() - 5));
      } else {
        plain.push_back(column);
      }
    }
    if (!train.empty()) {
      const Guess ofTrain("npz", train, name), ofEval("npz", eval, name);
      add(ofTrain.dataset, rt::Split::kTrain);
      if (!eval.empty()) {
        add(ofEval.dataset, rt::Split::kEval);
      }
    } else if (!plain.empty()) {
      Guess guess("npz", plain, name);
      guess.dataset.eval_files = ""; // not the same file: members have the names of columns
      add(guess.dataset, rt::Split::kTrain);
      splits.back().split = name;
    }
  }

  void describeCsv() {
    for (const rt::Split split : {rt::Split::kTrain, rt::Split::kEval}) {
      const std::string name = std::string(rt::splitName(split)) + ".csv";
      rt::CsvTable table;
      if (matches(name).empty()) {
        continue;
      }
      if (rt::Status status = rt::CsvTable::open(directory + "/" + name, table); !status.ok()) {
        splits.push_back({"csv", rt::splitName(split), status.message()});
        continue;
      }
      describeTable(table, split);
    }
  }

  // Without a job nobody knows which columns hold words: those that are no numbers.
  void describeTable(const rt::CsvTable &table, rt::Split split) {
    SplitFacts facts;
    facts.format = "csv";
    facts.split = rt::splitName(split);
    for (const std::string &name : table.names()) {
      Guess guess("csv", {name});
      SplitFacts ofColumn = describeSplit(guess.dataset, directory, split);
      const std::string noNumber = ofColumn.fault;
      if (!noNumber.empty()) {
        guess.dataset.categories = name.c_str();
        ofColumn = describeSplit(guess.dataset, directory, split);
      }
      if (!ofColumn.fault.empty()) {
        facts.fault = ofColumn.fault;
        break;
      }
      facts.samples = ofColumn.samples;
      facts.columns.push_back(ofColumn.columns[0]);
      facts.columns.back().type = noNumber.empty() ? ofColumn.columns[0].type : "words";
      facts.columns.back().reason = noNumber;
    }
    splits.push_back(std::move(facts));
  }

  // The files as they are, not resized to the sizes of a job.
  void describeImages() {
    for (const rt::Split split : {rt::Split::kTrain, rt::Split::kEval}) {
      struct stat info = {};
      if (matches("train").empty() || stat(rt::ImageFolder::pathOf(directory, split).c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
        continue;
      }
      Guess guess("images", {"label"});
      std::fill(std::begin(guess.dataset.params), std::end(guess.dataset.params), 1);
      SplitFacts facts;
      facts.format = "images";
      facts.split = rt::splitName(split);
      const rt::Status status = readImages(guess.dataset, split, facts);
      facts.fault = status.ok() ? "" : status.message();
      splits.push_back(std::move(facts));
    }
  }

  rt::Status readImages(const ashlar_rt_dataset &dataset, rt::Split split, SplitFacts &facts) {
    std::unique_ptr<rt::Dataset> opened;
    rt::ImageFolder folder;
    ASHLAR_RETURN_IF_ERROR(rt::openDataset(dataset, directory, split, opened));
    ASHLAR_RETURN_IF_ERROR(rt::ImageFolder::open(directory, split, folder));
    facts.samples = folder.files().size();
    ColumnFacts images{"image", "", "u8", {INT64_MAX, INT64_MAX, 3}, {}, {0, 0, 3}};
    rt::ElementRange range{255, 0};
    for (size_t file = 0; file < folder.files().size(); ++file) {
      ASHLAR_RETURN_IF_ERROR(folder.read(file, [&](const rt::DecodedImage &image) {
        const int64_t sizes[] = {image.height, image.width};
        for (int dim : {0, 1}) {
          images.shape[dim] = std::min(images.shape[dim], sizes[dim]);
          images.greatest[dim] = std::max(images.greatest[dim], sizes[dim]);
        }
        const auto [least, greatest] = std::minmax_element(image.pixels.begin(), image.pixels.end());
        range = {std::min<double>(range.least, *least), std::max<double>(range.greatest, *greatest)};
      }));
    }
    images.range = range;
    images.greatest = images.greatest == images.shape ? std::vector<int64_t>() : images.greatest;
    facts.columns = {std::move(images), readColumn(*opened, /*column=*/1, std::nullopt, std::nullopt)};
    return {};
  }

  void describeTokens(const std::string &name, int bytes) {
    Guess guess("tokens", {"tokens"}, name);
    guess.dataset.params[ASHLAR_RT_TOKEN_BYTES] = bytes;
    add(guess.dataset, rt::Split::kTrain);
    SplitFacts &facts = splits.back();
    facts.split = name;
    facts.tokens = facts.samples + 1; // windows of one token, and the one behind the last
    for (ColumnFacts &column : facts.columns) {
      column.shape.clear();
    }
  }

  const std::string &directory;
  std::vector<std::string> names;
  std::vector<SplitFacts> splits;
};

} // namespace

std::vector<SplitFacts> describeFolder(const std::string &directory) {
  return Folder(directory).describe();
}

} // namespace ashlar::data
