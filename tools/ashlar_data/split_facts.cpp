// SPDX-License-Identifier: Apache-2.0
//
// Reads columns and prints facts.

#include "tools/ashlar_data/split_facts.h"

#include "runtime/base/dtype.h"
#include "runtime/base/process.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace ashlar::data {

namespace {

constexpr size_t kMostClasses = 1000; // labels that are counted one by one
constexpr size_t kShownClasses = 20;

std::string rangeText(const rt::ElementRange &range) {
  return fmt::format("{} .. {}", range.least, range.greatest);
}

std::string classesText(const std::map<int64_t, uint64_t> &classes) {
  std::string text = fmt::format("{} classes:", classes.size());
  size_t shown = 0;
  for (const auto &[label, count] : classes) {
    if (++shown > kShownClasses) {
      return text + " ...";
    }
    text += fmt::format(" {} of {}{}", count, label, shown < classes.size() ? "," : "");
  }
  return text;
}

std::string columnText(const ColumnFacts &column) {
  const std::string greatest = column.greatest.empty() ? "" : " .. " + rt::shapeText(column.greatest);
  std::string text = fmt::format("  {:<12} {:<5} {:<14}", column.name, column.type, rt::shapeText(column.shape) + greatest);
  if (!column.tensor.empty()) {
    text += fmt::format(" -> \"{}\" {:<14}", column.tensor, rt::shapeText(column.transformed));
  }
  text += column.range ? " " + rangeText(*column.range) : "";
  text += column.notFinite != 0 ? fmt::format("; {} elements are NaN or infinite", column.notFinite) : "";
  text += column.reason.empty() ? "" : "; " + column.reason;
  text += column.counting ? fmt::format("; {} targets count", *column.counting) : "";
  text += column.boundaries ? fmt::format("; {} boundaries of documents", *column.boundaries) : "";
  return text + (column.classes.empty() ? "" : "; " + classesText(column.classes));
}

std::string numbersText(const std::vector<uint64_t> &numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size() && i < kShownClasses; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", numbers[i]);
  }
  return numbers.size() > kShownClasses ? text + ", ..." : text;
}

} // namespace

ColumnFacts readColumn(rt::Dataset &dataset, size_t column, std::optional<int64_t> ignored, std::optional<int64_t> boundary) {
  const rt::Column &info = dataset.columns()[column];
  ColumnFacts facts;
  facts.name = info.name;
  facts.type = rt::dtypeName(info.element);
  facts.shape = info.shape;
  facts.range = dataset.range(column);
  const bool hasLabels = info.shape.empty();
  if (facts.range && !hasLabels && !ignored && !boundary) {
    return facts;
  }
  std::vector<char> scratch(dataset.scratchBytes(column));
  std::vector<double> numbers(rt::numElements(info.shape));
  rt::ElementRange range{HUGE_VAL, -HUGE_VAL};
  uint64_t counting = 0, boundaries = 0;
  bool isWhole = hasLabels;
  for (uint64_t sample = 0; sample < dataset.samples(); ++sample) {
    const void *elements = dataset.read(column, rt::SampleRandom::evaluated(sample), scratch.data());
    rt::convertElements(info.element, elements, ASHLAR_RT_F64, numbers.data(), static_cast<int64_t>(numbers.size()), 1, 0);
    for (double number : numbers) {
      if (!std::isfinite(number)) {
        ++facts.notFinite;
        continue;
      }
      range.least = std::min(range.least, number);
      range.greatest = std::max(range.greatest, number);
      counting += ignored && number == static_cast<double>(*ignored) ? 0 : 1;
      boundaries += boundary && number == static_cast<double>(*boundary) ? 1 : 0;
    }
    isWhole = isWhole && numbers[0] == std::floor(numbers[0]) && std::fabs(numbers[0]) < 0x1p53 && facts.classes.size() <= kMostClasses;
    if (isWhole) {
      ++facts.classes[static_cast<int64_t>(numbers[0])];
    }
  }
  if (!isWhole || facts.classes.size() > kMostClasses) {
    facts.classes.clear();
  }
  if (!facts.range && range.least <= range.greatest) {
    facts.range = range;
  }
  facts.counting = ignored ? std::optional(counting) : std::nullopt;
  facts.boundaries = boundary ? std::optional(boundaries) : std::nullopt;
  return facts;
}

std::string textOf(const std::vector<SplitFacts> &splits) {
  std::string text;
  for (const SplitFacts &split : splits) {
    const std::string name = split.format + " " + split.split;
    if (!split.fault.empty()) {
      text += rt::oneLine(name + ": cannot be read: " + split.fault) + "\n";
      continue;
    }
    text += rt::oneLine(name) + (split.tokens ? fmt::format(": {} tokens", *split.tokens) : fmt::format(": {} samples", split.samples));
    text += split.stepsOfPass ? fmt::format(", {} steps a pass; first batch: {}", *split.stepsOfPass, numbersText(split.firstBatch)) : "";
    text += "\n";
    for (const ColumnFacts &column : split.columns) {
      text += rt::oneLine(columnText(column)) + "\n";
    }
  }
  return text;
}

std::string jsonOf(const std::vector<SplitFacts> &splits) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const SplitFacts &split : splits) {
    nlohmann::ordered_json item = {{"format", split.format}, {"split", split.split}};
    if (!split.fault.empty()) {
      item["fault"] = split.fault;
      all.push_back(std::move(item));
      continue;
    }
    item[split.tokens ? "tokens" : "samples"] = split.tokens ? *split.tokens : split.samples;
    if (split.stepsOfPass) {
      item["steps_of_pass"] = *split.stepsOfPass;
      item["first_batch"] = split.firstBatch;
    }
    item["columns"] = nlohmann::ordered_json::array();
    for (const ColumnFacts &column : split.columns) {
      nlohmann::ordered_json entry = {{"name", column.name}, {"type", column.type}, {"shape", column.shape}};
      if (!column.greatest.empty()) {
        entry["greatest_shape"] = column.greatest;
      }
      if (!column.tensor.empty()) {
        entry["tensor"] = column.tensor;
        entry["transformed"] = column.transformed;
      }
      if (column.range) {
        entry["least"] = column.range->least;
        entry["greatest"] = column.range->greatest;
      }
      if (column.notFinite != 0) {
        entry["not_finite"] = column.notFinite;
      }
      if (!column.reason.empty()) {
        entry["reason"] = column.reason;
      }
      if (column.counting) {
        entry["counting"] = *column.counting;
      }
      if (column.boundaries) {
        entry["boundaries"] = *column.boundaries;
      }
      for (const auto &[label, count] : column.classes) {
        entry["classes"][std::to_string(label)] = count;
      }
      item["columns"].push_back(std::move(entry));
    }
    all.push_back(std::move(item));
  }
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace ashlar::data
