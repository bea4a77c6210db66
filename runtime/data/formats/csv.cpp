// SPDX-License-Identifier: Apache-2.0
//
// A data set of two tables, train.csv and eval.csv, read at the start. A feature names a column, or several by a list or wildcards, which
// become a vector. Wildcards stand for the columns of train.csv in both splits.

#include "runtime/data/dataset.h"
#include "runtime/data/formats/csv_table.h"
#include "runtime/data/formats/file_pattern.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {

namespace {

class CsvDataset final : public Dataset {
public:
  CsvDataset(std::vector<Column> columns, std::vector<std::vector<double>> values, uint64_t count)
      : allColumns(std::move(columns)), values(std::move(values)), count(count) {}

  uint64_t samples() const override { return count; }
  const std::vector<Column> &columns() const override { return allColumns; }
  const void *read(size_t column, const SampleRandom &which, void *scratch) override {
    return &values[column][which.sample * numElements(allColumns[column].shape)];
  }

private:
  std::vector<Column> allColumns;
  std::vector<std::vector<double>> values; // of each column, sample by sample
  uint64_t count;
};

// Returns the parts of a text between commas.
std::vector<std::string> partsOf(const std::string &text) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool hasWildcards(const std::string &column) {
  return column.find_first_of("*?") != std::string::npos;
}

Status noColumn(const CsvTable &table, const std::string &column) {
  std::string known;
  for (size_t i = 0; i < table.names().size() && i < 20; ++i) {
    known += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", table.names()[i]);
  }
  return invalid("no column of \"{}\" matches \"{}\"; it has {}{}", table.path(), column, known, table.names().size() > 20 ? ", ..." : "");
}

// Finds the columns of a table that a feature names, in the order of the list. A part with wildcards stands for columns of `train`, in its
// order: the table must have these and no others that match. `train` is the table itself for the train split.
Status findPlaces(const CsvTable &table, const CsvTable &train, const std::string &column, std::vector<size_t> &places) {
  const auto placeOf = [](const CsvTable &where, const std::string &name) {
    return std::find(where.names().begin(), where.names().end(), name) - where.names().begin();
  };
  for (const std::string &part : partsOf(column)) {
    const CsvTable &named = hasWildcards(part) ? train : table;
    const size_t before = places.size();
    for (const std::string &name : named.names()) {
      if (matchesPattern(part, name)) {
        places.push_back(placeOf(table, name));
        if (places.back() == table.names().size()) {
          return noColumn(table, name);
        }
      }
    }
    if (places.size() == before) {
      return noColumn(named, part);
    }
    for (const std::string &name : table.names()) {
      if (matchesPattern(part, name) && placeOf(named, name) == static_cast<ptrdiff_t>(named.names().size())) {
        return invalid("column \"{}\" of \"{}\" matches \"{}\" but \"{}\" has no such column; remove it or rename it", name, table.path(),
                       part, named.path());
      }
    }
  }
  return {};
}

// The columns of a table that features name.
struct FeatureColumns {
  std::vector<CsvColumn> columns;          // each once
  std::vector<std::vector<size_t>> places; // of each feature, in columns
};

// Reads the columns of a table that features name. `trained`: the columns whose words number these; null for the train split itself.
Status readColumns(const CsvTable &table, const CsvTable &train, const std::vector<std::string> &features,
                   const std::vector<std::string> &categories, const std::vector<CsvColumn> *trained, FeatureColumns &result) {
  std::vector<size_t> read, ignored;
  for (const std::string &category : categories) {
    ASHLAR_RETURN_IF_ERROR(findPlaces(table, train, category, ignored));
  }
  for (const std::string &feature : features) {
    std::vector<size_t> found;
    ASHLAR_RETURN_IF_ERROR(findPlaces(table, train, feature, found));
    for (size_t &place : found) {
      const size_t at = std::find(read.begin(), read.end(), place) - read.begin();
      if (at == read.size()) {
        CsvColumn column;
        column.name = table.names()[place];
        column.hasWords =
            std::any_of(categories.begin(), categories.end(), [&](const std::string &c) { return matchesPattern(c, column.name); });
        for (size_t i = 0; trained && i < trained->size(); ++i) {
          column.words = (*trained)[i].name == column.name ? (*trained)[i].words : column.words;
        }
        read.push_back(place);
        result.columns.push_back(std::move(column));
      }
      place = at;
    }
    result.places.push_back(std::move(found));
  }
  return table.read(read, result.columns);
}

} // namespace

Status openCsv(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset) {
  std::vector<std::string> features;
  for (uint32_t i = 0; i < description.num_features; ++i) {
    const std::string name = description.features[i].column;
    if (std::find(features.begin(), features.end(), name) == features.end()) {
      features.push_back(name);
    }
  }
  const std::vector<std::string> categories = description.categories ? partsOf(description.categories) : std::vector<std::string>();
  CsvTable train, eval;
  FeatureColumns trained, read;
  if (split == Split::kTrain || !categories.empty() || std::any_of(features.begin(), features.end(), hasWildcards)) {
    ASHLAR_RETURN_IF_ERROR(CsvTable::open(directory + "/train.csv", train));
  }
  if (split == Split::kTrain) {
    ASHLAR_RETURN_IF_ERROR(readColumns(train, train, features, categories, nullptr, read));
  } else {
    if (!categories.empty()) { // the words are the train split's
      ASHLAR_RETURN_IF_ERROR(readColumns(train, train, categories, categories, nullptr, trained));
    }
    ASHLAR_RETURN_IF_ERROR(CsvTable::open(directory + "/eval.csv", eval));
    ASHLAR_RETURN_IF_ERROR(readColumns(eval, train, features, categories, &trained.columns, read));
  }
  const std::vector<CsvColumn> &columns = read.columns;
  const std::vector<std::vector<size_t>> &places = read.places;
  const uint64_t count = columns.empty() ? 0 : columns[0].values.size();
  std::vector<Column> shapes;
  std::vector<std::vector<double>> values;
  for (size_t f = 0; f < features.size(); ++f) {
    const bool isVector = features[f].find_first_of(",*?") != std::string::npos;
    shapes.push_back(
        {features[f], ASHLAR_RT_F64, isVector ? std::vector<int64_t>{static_cast<int64_t>(places[f].size())} : std::vector<int64_t>()});
    std::vector<double> &all = values.emplace_back(count * places[f].size());
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = columns[places[f][i % places[f].size()]].values[i / places[f].size()];
    }
  }
  dataset = std::make_unique<CsvDataset>(std::move(shapes), std::move(values), count);
  return {};
}

static std::vector<std::string> csvFiles(const ashlar_rt_dataset &) {
  return {"train.csv", "eval.csv"};
}

const DataFormat ASHLAR_RT_COMPONENT(data_csv) = {"csv", openCsv, /*isGenerated=*/false, csvFiles};

} // namespace ashlar::rt
