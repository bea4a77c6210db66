// SPDX-License-Identifier: Apache-2.0
//
// Numbers in names, and what names begin and end with.

#include "passes/search/name_globs.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <vector>

using namespace llvm;

namespace ashlar::search {

std::string withoutNumbers(StringRef name) {
  std::string text;
  bool isInNumber = false;
  for (char letter : name) {
    if (!isDigit(letter)) {
      text += letter;
    } else if (!isInNumber) {
      text += '*';
    }
    isInNumber = isDigit(letter);
  }
  return text;
}

SmallVector<StringRef> numbersIn(StringRef name) {
  SmallVector<StringRef> numbers;
  while (!(name = name.drop_until(isDigit)).empty()) {
    numbers.push_back(name.take_while(isDigit));
    name = name.drop_front(numbers.back().size());
  }
  return numbers;
}

std::string joinNumbers(ArrayRef<StringRef> names) {
  SmallVector<StringRef> first = numbersIn(names.front());
  std::vector<bool> differs(first.size(), false);
  for (StringRef name : names) {
    for (auto [place, number] : enumerate(numbersIn(name))) {
      differs[place] = differs[place] || number != first[place];
    }
  }
  std::string text = withoutNumbers(names.front());
  size_t at = 0;
  for (auto [number, isOther] : zip_equal(first, differs)) {
    at = text.find('*', at);
    text.replace(at, 1, isOther ? "*" : number.str());
    at += isOther ? 1 : number.size();
  }
  return text;
}

std::string joinGlobs(StringRef a, StringRef b) {
  auto isBorder = [](char letter) { return StringRef("./_*").contains(letter); };
  const size_t most = std::min(a.size(), b.size());
  size_t begin = 0, end = 0;
  while (begin < most && a[begin] == b[begin]) {
    ++begin;
  }
  while (begin > 0 && !isBorder(a[begin - 1]) && !isDigit(a[begin - 1])) {
    --begin;
  }
  while (end < most - begin && a[a.size() - 1 - end] == b[b.size() - 1 - end]) {
    ++end;
  }
  while (end > 0 && !isBorder(a[a.size() - end])) {
    --end;
  }
  StringRef front = a.take_front(begin).rtrim('*'), back = a.take_back(end).ltrim('*');
  return front.empty() && back.empty() ? "" : (front + "*" + back).str();
}

StringRef blockOf(StringRef path) {
  auto partEnd = [&](size_t from) { return std::min(path.find_first_of("/.", from), path.size()); };
  const size_t firstEnd = partEnd(path.find_first_not_of("/."));
  for (size_t begin = 0, end = firstEnd; begin < path.size(); begin = end + 1, end = partEnd(begin)) {
    if (path.slice(begin, end).find_if(isDigit) == StringRef::npos) {
      continue;
    }
    while (end < path.size() && all_of(path.slice(end + 1, partEnd(end + 1)), isDigit) && partEnd(end + 1) > end + 1) {
      end = partEnd(end + 1);
    }
    return path.take_front(end);
  }
  return path.take_front(firstEnd);
}

} // namespace ashlar::search
