// SPDX-License-Identifier: Apache-2.0
//
// Backward for the live bytes, forward for their writers.

#include "compiler/report/page/live_bytes.h"

#include <algorithm>
#include <iterator>

namespace ashlar::report {
namespace {

// Who wrote each byte last.
class Writers {
public:
  void write(ByteRange range, size_t writer) {
    cut(range.begin);
    cut(range.end);
    entries.erase(entries.lower_bound(range.begin), entries.lower_bound(range.end));
    if (range.begin < range.end) {
      entries[range.begin] = {range.end, writer};
    }
  }

  // Adds the bytes of a range to the sums of their writers.
  void count(ByteRange range, std::map<size_t, uint64_t> &sums) {
    cut(range.begin);
    cut(range.end);
    for (auto it = entries.lower_bound(range.begin); it != entries.end() && it->first < range.end; ++it) {
      sums[it->second.writer] += it->second.end - it->first;
    }
  }

private:
  struct Entry {
    uint64_t end;
    size_t writer;
  };

  // Ends an entry at a byte that is inside of it.
  void cut(uint64_t at) {
    auto it = entries.upper_bound(at);
    if (it == entries.begin() || std::prev(it)->second.end <= at || std::prev(it)->first == at) {
      return;
    }
    Entry &first = std::prev(it)->second;
    entries[at] = {first.end, first.writer};
    first.end = at;
  }

  std::map<uint64_t, Entry> entries; // by begin
};

// The live bytes before an instruction, of those behind it.
void stepBack(ByteSet &live, const InstructionRanges &instruction) {
  for (ByteRange range : instruction.writes) {
    live.remove(range);
  }
  for (ByteRange range : instruction.reads) {
    live.add(range);
  }
}

} // namespace

void ByteSet::add(ByteRange range) {
  if (range.begin >= range.end) {
    return;
  }
  auto it = ends.lower_bound(range.begin);
  if (it != ends.begin() && std::prev(it)->second >= range.begin) {
    --it;
  }
  while (it != ends.end() && it->first <= range.end) {
    range.begin = std::min(range.begin, it->first);
    range.end = std::max(range.end, it->second);
    sum -= it->second - it->first;
    it = ends.erase(it);
  }
  ends[range.begin] = range.end;
  sum += range.end - range.begin;
}

void ByteSet::remove(ByteRange range) {
  if (range.begin >= range.end) {
    return;
  }
  auto it = ends.lower_bound(range.begin);
  if (it != ends.begin() && std::prev(it)->second > range.begin) {
    --it;
  }
  while (it != ends.end() && it->first < range.end) {
    const ByteRange old = {it->first, it->second};
    it = ends.erase(it);
    sum -= old.end - old.begin;
    for (ByteRange rest : {ByteRange{old.begin, range.begin}, ByteRange{range.end, old.end}}) {
      if (rest.begin < rest.end) {
        ends[rest.begin] = rest.end;
        sum += rest.end - rest.begin;
      }
    }
  }
}

bool ByteSet::holds(ByteRange range) const {
  auto it = ends.upper_bound(range.begin);
  return range.begin >= range.end || (it != ends.begin() && std::prev(it)->second >= range.end);
}

std::vector<ByteRange> ByteSet::ranges() const {
  std::vector<ByteRange> list;
  for (auto [begin, end] : ends) {
    list.push_back({begin, end});
  }
  return list;
}

LiveBytes findLiveBytes(const std::vector<InstructionRanges> &instructions) {
  LiveBytes result;
  result.bytes.resize(instructions.size());
  ByteSet live;
  for (size_t number = instructions.size(); number-- > 0;) {
    for (ByteRange range : instructions[number].touches) {
      live.add(range);
    }
    result.bytes[number] = live.bytes();
    stepBack(live, instructions[number]);
  }
  if (instructions.empty()) {
    return result;
  }
  result.peak = std::max_element(result.bytes.begin(), result.bytes.end()) - result.bytes.begin();
  ByteSet atPeak;
  for (size_t number = instructions.size(); number-- > result.peak;) {
    for (ByteRange range : instructions[number].touches) {
      atPeak.add(range);
    }
    if (number > result.peak) {
      stepBack(atPeak, instructions[number]);
    }
  }
  Writers writers;
  for (size_t number = 0; number <= result.peak; ++number) {
    for (ByteRange range : instructions[number].writes) {
      writers.write(range, number);
    }
  }
  std::map<size_t, uint64_t> sums;
  for (ByteRange range : atPeak.ranges()) {
    writers.count(range, sums);
  }
  for (auto [writer, bytes] : sums) {
    result.values.push_back({writer, bytes});
  }
  std::sort(result.values.begin(), result.values.end(),
            [](const LiveValue &a, const LiveValue &b) { return a.bytes != b.bytes ? a.bytes > b.bytes : a.writer < b.writer; });
  return result;
}

} // namespace ashlar::report
