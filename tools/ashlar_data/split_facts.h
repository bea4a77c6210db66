// SPDX-License-Identifier: Apache-2.0
//
// The facts on a split of a data set that ashlar-data prints, as text and as JSON.

#ifndef ASHLAR_TOOLS_ASHLAR_DATA_SPLIT_FACTS_H
#define ASHLAR_TOOLS_ASHLAR_DATA_SPLIT_FACTS_H

#include "runtime/base/status.h"
#include "runtime/data/dataset.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ashlar::data {

// A column: its samples, and the numbers in them.
struct ColumnFacts {
  std::string name, tensor; // tensor: "" without a job
  std::string type;
  std::vector<int64_t> shape, transformed; // transformed: of a sample after the job's transforms
  std::vector<int64_t> greatest;           // the greatest sizes where they differ, of files of images; shape has the least
  std::string reason;                      // why a column without a job is one of words: its first field that is no number
  uint64_t notFinite = 0;                  // elements that are NaN or infinite, which the range leaves out
  std::optional<rt::ElementRange> range;
  std::map<int64_t, uint64_t> classes;          // samples of each label; empty: no labels
  std::optional<uint64_t> counting, boundaries; // targets that count, and tokens between documents
};

// A split, or why it cannot be read.
struct SplitFacts {
  std::string format, split, fault;
  bool isMissing = false; // its files are not there
  uint64_t samples = 0;
  std::optional<uint64_t> tokens;      // of a file of tokens
  std::optional<uint64_t> stepsOfPass; // of a job
  std::vector<uint64_t> firstBatch;    // samples of a job's first batch
  std::vector<ColumnFacts> columns;
};

// Reads all samples of a column. `ignored`: a target that does not count; `boundary`: a token between documents.
ColumnFacts readColumn(rt::Dataset &dataset, size_t column, std::optional<int64_t> ignored, std::optional<int64_t> boundary);

// Finds the data sets in a folder by the names of its files, and reads all of them.
std::vector<SplitFacts> describeFolder(const std::string &directory);

// Reads the splits of a job's data set. Fails when the job cannot be read; a split that cannot be read has a fault.
rt::Status describeJob(const std::string &directory, const std::string &job, std::vector<SplitFacts> &splits);

// Returns the facts as lines, and as JSON.
std::string textOf(const std::vector<SplitFacts> &splits);
std::string jsonOf(const std::vector<SplitFacts> &splits);

} // namespace ashlar::data

#endif // ASHLAR_TOOLS_ASHLAR_DATA_SPLIT_FACTS_H
