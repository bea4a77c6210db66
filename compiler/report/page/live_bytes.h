// SPDX-License-Identifier: Apache-2.0
//
// The bytes of an arena that hold a value while each instruction runs, from the ranges that instructions read and write: plain numbers, no
// IR.

#ifndef ASHLAR_COMPILER_REPORT_PAGE_LIVE_BYTES_H
#define ASHLAR_COMPILER_REPORT_PAGE_LIVE_BYTES_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace ashlar::report {

// Bytes [begin, end).
struct ByteRange {
  uint64_t begin, end;
};

// A set of bytes. Each operation is logarithmic in the ranges, and linear in the number that it joins or cuts.
class ByteSet {
public:
  void add(ByteRange range);
  void remove(ByteRange range);

  // Returns whether the set has all bytes of a range.
  bool holds(ByteRange range) const;

  uint64_t bytes() const { return sum; }
  std::vector<ByteRange> ranges() const;

private:
  std::map<uint64_t, uint64_t> ends; // by begin; disjoint, not adjacent
  uint64_t sum = 0;
};

// The ranges that an instruction uses. `reads`: before it writes them. `touches`: all of them.
struct InstructionRanges {
  std::vector<ByteRange> reads, writes, touches;
};

// The bytes that one instruction wrote, as far as they are alive at the peak.
struct LiveValue {
  size_t writer; // index of the instruction
  uint64_t bytes;
};

struct LiveBytes {
  std::vector<uint64_t> bytes;   // by instruction: that it uses, and that later ones read before they are written again
  size_t peak = 0;               // the first instruction with the most; 0 of none
  std::vector<LiveValue> values; // at the peak, the largest first
};

// Returns the live bytes of a list of instructions that run one after the other. Bytes that are read and never written have no writer and
// are not among the values. O(n log n) for n ranges.
//
//   0 writes [0, 8), 1 reads [0, 8) and writes [8, 12), 2 reads [8, 12)  ->  8, 12, 4; peak 1: 8 by 0, 4 by 1
LiveBytes findLiveBytes(const std::vector<InstructionRanges> &instructions);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_PAGE_LIVE_BYTES_H
