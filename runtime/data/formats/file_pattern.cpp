// SPDX-License-Identifier: Apache-2.0
//
// Matches names against patterns and sorts them.

#include "runtime/data/formats/file_pattern.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <dirent.h>

namespace ashlar::rt {

namespace {

struct DirectoryCloser {
  void operator()(DIR *directory) const { closedir(directory); }
};

bool isDecimal(char c) {
  return c >= '0' && c <= '9';
}

// Returns the end of the digits at `at`.
size_t endOfDigits(const std::string &text, size_t at) {
  while (at < text.size() && isDecimal(text[at])) {
    ++at;
  }
  return at;
}

} // namespace

bool isNaturallyBefore(const std::string &first, const std::string &second) {
  size_t a = 0, b = 0;
  while (a < first.size() && b < second.size()) {
    if (isDecimal(first[a]) && isDecimal(second[b])) {
      const size_t endA = endOfDigits(first, a), endB = endOfDigits(second, b);
      std::string left = first.substr(a, endA - a), right = second.substr(b, endB - b);
      left.erase(0, std::min(left.find_first_not_of('0'), left.size() - 1));
      right.erase(0, std::min(right.find_first_not_of('0'), right.size() - 1));
      if (left != right) {
        return left.size() != right.size() ? left.size() < right.size() : left < right;
      }
      a = endA;
      b = endB;
    } else if (first[a] != second[b]) {
      return static_cast<unsigned char>(first[a]) < static_cast<unsigned char>(second[b]);
    } else {
      ++a;
      ++b;
    }
  }
  // Equal but for leading zeros: an order all the same, of every machine.
  return first.size() - a != second.size() - b ? first.size() - a < second.size() - b : first < second;
}

bool matchesPattern(const std::string &pattern, const std::string &name) {
  // Goes back to the last * where the rest does not match.
  size_t p = 0, n = 0, star = std::string::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string::npos;
}

Status listDirectory(const std::string &directory, std::vector<std::string> &names) {
  names.clear();
  std::unique_ptr<DIR, DirectoryCloser> opened(opendir(directory.c_str()));
  if (!opened) {
    return unavailable("cannot open the folder \"{}\": {}", directory, std::strerror(errno));
  }
  while (const dirent *entry = readdir(opened.get())) {
    if (entry->d_name[0] != '.') {
      names.emplace_back(entry->d_name);
    }
  }
  std::sort(names.begin(), names.end(), isNaturallyBefore);
  return {};
}

Status findFiles(const std::string &directory, const std::string &pattern, std::vector<std::string> &paths) {
  paths.clear();
  if (pattern.find_first_of("*?") == std::string::npos) {
    paths.push_back(directory + "/" + pattern);
    return {};
  }
  const size_t slash = pattern.rfind('/');
  const std::string folder = slash == std::string::npos ? directory : directory + "/" + pattern.substr(0, slash);
  const std::string last = slash == std::string::npos ? pattern : pattern.substr(slash + 1);
  std::vector<std::string> names;
  ASHLAR_RETURN_IF_ERROR(listDirectory(folder, names));
  for (const std::string &name : names) {
    if (matchesPattern(last, name)) {
      paths.push_back(folder + "/" + name);
    }
  }
  return paths.empty() ? unavailable("no file in \"{}\" matches \"{}\"; --data names their folder", folder, last) : Status();
}

} // namespace ashlar::rt
