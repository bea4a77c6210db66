// SPDX-License-Identifier: Apache-2.0
//
// Reads fields one after the other. A field without quotes is looked at where it lies; only quoted ones are copied.

#include "runtime/data/formats/csv_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

namespace ashlar::rt {

namespace {

constexpr double kExactIntegers = 9007199254740992; // 2^53: those below
constexpr size_t kShownCharacters = 40;

// Returns a field as errors show it: its beginning, with a question mark for each byte that is not printable ASCII.
std::string shownField(std::string_view field) {
  std::string text(field.substr(0, kShownCharacters));
  std::replace_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return field.size() > kShownCharacters ? text + "..." : text;
}

std::string_view withoutBlanks(std::string_view text) {
  const auto isBlank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && isBlank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && isBlank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

// Reads a finite number that is all of a text.
bool parseNumber(std::string_view text, double &value) {
  if (!text.empty() && text.front() == '+') {
    text.remove_prefix(1);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
}

// Whether a number is written as an integer.
bool isWrittenWhole(std::string_view text) {
  return text.find_first_of(".eE") == std::string_view::npos;
}

// Numbers the words in their sorted order, and the values with them.
void sortWords(CsvColumn &column) {
  std::vector<const std::string *> sorted;
  for (const auto &[word, number] : column.words) {
    sorted.push_back(&word);
  }
  std::sort(sorted.begin(), sorted.end(), [](const std::string *a, const std::string *b) { return *a < *b; });
  std::vector<double> numbers(sorted.size());
  for (uint32_t i = 0; i < sorted.size(); ++i) {
    uint32_t &number = column.words[*sorted[i]];
    numbers[number] = i;
    number = i;
  }
  for (double &value : column.values) {
    value = numbers[static_cast<size_t>(value)];
  }
}

} // namespace

// The place in a file, and the field that was read last.
struct CsvTable::Cursor {
  const char *at, *end;
  uint64_t line, column; // column: fields of the line so far
  std::string_view field;
  bool endsLine = false;
  std::string quoted; // the memory of a field with quotes
};

// Reads a field and the comma or line end behind it.
Status CsvTable::readField(Cursor &cursor) const {
  const uint64_t line = cursor.line;
  if (cursor.at != cursor.end && *cursor.at == '"') {
    cursor.quoted.clear();
    ++cursor.at;
    while (true) {
      const void *quote = std::memchr(cursor.at, '"', cursor.end - cursor.at);
      if (quote == nullptr) {
        return invalid("{}:{}: the quotes around field {} have no end; correct the file", filePath, line, cursor.column + 1);
      }
      const char *stop = static_cast<const char *>(quote);
      cursor.line += std::count(cursor.at, stop, '\n');
      cursor.quoted.append(cursor.at, stop);
      cursor.at = stop + 1;
      if (cursor.at == cursor.end || *cursor.at != '"') {
        break;
      }
      cursor.quoted += *cursor.at++;
    }
    cursor.field = cursor.quoted;
  } else {
    const char *begin = cursor.at;
    while (cursor.at != cursor.end && *cursor.at != ',' && *cursor.at != '\n' && *cursor.at != '\r') {
      ++cursor.at;
    }
    cursor.field = {begin, static_cast<size_t>(cursor.at - begin)};
  }
  ++cursor.column;
  if (cursor.at != cursor.end && *cursor.at == '\r' && cursor.at + 1 != cursor.end && cursor.at[1] == '\n') {
    ++cursor.at;
  }
  cursor.endsLine = cursor.at == cursor.end || *cursor.at == '\n';
  if (!cursor.endsLine && *cursor.at != ',') {
    return invalid("{}:{}: field {} goes on behind its end with \"{}\"; put all of it into quotes", filePath, line, cursor.column,
                   shownField({cursor.at, 1}));
  }
  cursor.line += cursor.at != cursor.end && cursor.endsLine ? 1 : 0;
  cursor.at += cursor.at != cursor.end ? 1 : 0;
  return {};
}

Status CsvTable::open(const std::string &path, CsvTable &table) {
  CsvTable opened;
  opened.filePath = path;
  ASHLAR_RETURN_IF_ERROR(MappedFile::open(path, opened.mapping));
  Cursor cursor{opened.mapping.data(), opened.mapping.data() + opened.mapping.size(), 1, 0, {}, false, {}};
  if (opened.mapping.size() >= 3 && std::memcmp(cursor.at, "\xef\xbb\xbf", 3) == 0) { // a mark of UTF-8
    cursor.at += 3;
  }
  while (!cursor.endsLine) {
    ASHLAR_RETURN_IF_ERROR(opened.readField(cursor));
    const std::string name(withoutBlanks(cursor.field));
    if (std::any_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; })) {
      return invalid("{}:1: the name \"{}\" of column {} has a line end or another control character; rename it", path, shownField(name),
                     cursor.column);
    }
    if (std::find(opened.allNames.begin(), opened.allNames.end(), name) != opened.allNames.end()) {
      return invalid("{}:1: two columns have the name \"{}\"; rename one of them", path, shownField(name));
    }
    opened.allNames.push_back(name);
  }
  opened.firstByte = cursor.at - opened.mapping.data();
  opened.firstLine = cursor.line;
  table = std::move(opened);
  return {};
}

// Takes a field of the sample that begins at `line`.
Status CsvTable::take(uint64_t line, std::string_view field, CsvColumn &column) const {
  const std::string_view text = withoutBlanks(field);
  if (text.empty()) {
    return invalid("{}:{}: column \"{}\" has no value; fill it in, or leave out the line", filePath, line, column.name);
  }
  double value = 0;
  if (column.hasWords) {
    const auto next = static_cast<uint32_t>(column.words.size());
    value = column.words.try_emplace(std::string(text), next).first->second;
  } else if (!parseNumber(text, value)) {
    return invalid("{}:{}: column \"{}\" has \"{}\", which is no number; if it holds words, add csv {{ categories: \"{}\" }} to the job",
                   filePath, line, column.name, shownField(text), column.name);
  } else if (std::fabs(value) >= kExactIntegers && isWrittenWhole(text)) {
    return invalid(
        "{}:{}: column \"{}\" has {}, and integers from 2^53 on are not exact; for identifiers, add csv {{ categories: \"{}\" }} to the "
        "job",
        filePath, line, column.name, shownField(text), column.name);
  }
  column.values.push_back(value);
  return {};
}

// Reads a line, whose fields go to columns[wanted[field]] where that is not negative. Lines without a character are left out.
Status CsvTable::readLine(Cursor &cursor, const std::vector<int> &wanted, std::vector<CsvColumn> &columns) const {
  const uint64_t line = cursor.line;
  cursor.column = 0;
  do {
    ASHLAR_RETURN_IF_ERROR(readField(cursor));
    if (cursor.column == 1 && cursor.endsLine && cursor.field.empty() && wanted.size() > 1) {
      return {};
    }
    const int column = cursor.column <= wanted.size() ? wanted[cursor.column - 1] : -1;
    if (column >= 0) {
      ASHLAR_RETURN_IF_ERROR(take(line, cursor.field, columns[column]));
    }
  } while (!cursor.endsLine);
  return cursor.column == wanted.size() ? Status()
                                        : invalid("{}:{}: the line has {} fields but the first line has {} names; correct it", filePath,
                                                  line, cursor.column, wanted.size());
}

Status CsvTable::read(const std::vector<size_t> &places, std::vector<CsvColumn> &columns) const {
  std::vector<int> wanted(allNames.size(), -1);
  std::vector<size_t> known;
  for (size_t i = 0; i < places.size(); ++i) {
    wanted[places[i]] = static_cast<int>(i);
    known.push_back(columns[i].words.size());
  }
  Cursor cursor{mapping.data() + firstByte, mapping.data() + mapping.size(), firstLine, 0, {}, false, {}};
  while (cursor.at != cursor.end) {
    const uint64_t line = cursor.line;
    ASHLAR_RETURN_IF_ERROR(readLine(cursor, wanted, columns));
    for (size_t i = 0; i < columns.size(); ++i) {
      if (known[i] != 0 && columns[i].words.size() != known[i]) {
        const auto added =
            std::find_if(columns[i].words.begin(), columns[i].words.end(), [&](const auto &word) { return word.second == known[i]; });
        return invalid("{}:{}: column \"{}\" has \"{}\", which is none of its {} words in the train split; leave out the line", filePath,
                       line, columns[i].name, shownField(added->first), known[i]);
      }
    }
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].hasWords && known[i] == 0) {
      sortWords(columns[i]);
    }
  }
  return mapping.check();
}

} // namespace ashlar::rt
