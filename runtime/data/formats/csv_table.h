// SPDX-License-Identifier: Apache-2.0
//
// A table of comma-separated values: a line of names, then a line a sample. Quoted fields may hold commas, line ends and doubled quotes
// (RFC 4180). Files are mapped and read once, from the beginning to the end; errors name file, line and column.

#ifndef ASHLAR_RUNTIME_DATA_FORMATS_CSV_TABLE_H
#define ASHLAR_RUNTIME_DATA_FORMATS_CSV_TABLE_H

#include "runtime/base/mapped_file.h"
#include "runtime/base/status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ashlar::rt {

// The words of a column, and the number of each.
using CsvWords = std::unordered_map<std::string, uint32_t>;

// A column to be read. A column of words is numbered by `words` where they are given; else they are collected and numbered in sorted order.
struct CsvColumn {
  std::string name;
  bool hasWords = false;
  CsvWords words;
  std::vector<double> values; // a number a line; of words their numbers
};

// A file of which some columns are read.
class CsvTable {
public:
  // Maps a file and reads the names in its first line.
  static Status open(const std::string &path, CsvTable &table);

  const std::string &path() const { return filePath; }
  const std::vector<std::string> &names() const { return allNames; }

  // Reads all lines. columns[i] is the column of the file names()[places[i]], and gets its values.
  Status read(const std::vector<size_t> &places, std::vector<CsvColumn> &columns) const;

private:
  struct Cursor;
  Status readField(Cursor &at) const;
  Status readLine(Cursor &at, const std::vector<int> &wanted, std::vector<CsvColumn> &columns) const;
  Status take(uint64_t line, std::string_view field, CsvColumn &column) const;

  std::string filePath;
  MappedFile mapping;
  std::vector<std::string> allNames;
  size_t firstByte = 0; // of the samples
  uint64_t firstLine = 2;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_FORMATS_CSV_TABLE_H
