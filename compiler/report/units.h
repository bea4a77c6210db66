// SPDX-License-Identifier: Apache-2.0
//
// Quantities as reports print them.

#ifndef ASHLAR_COMPILER_REPORT_UNITS_H
#define ASHLAR_COMPILER_REPORT_UNITS_H

#include "dialects/support/byte_text.h"
#include "passes/lower/memory/collective_order.h"
#include "passes/lower/memory/memory_use.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ashlar::report {

using ashlar::bytesText;
using ashlar::comparedBytes;

// Returns "950 ns", "3.4 us", "1.7 ms".
std::string timeText(int64_t timePs);

// Returns "7.4 MB a rank: 2.7 MB parameters, ..., and 639.0 KB for each further thread". `limit`: a size that it is compared with.
std::string memoryText(const lower::MemoryUse &use, uint64_t limit = 0);

// Returns "collectives in one order on all 4 devices, checked: 9 of them, hash 0123456789abcdef".
std::string orderText(const lower::CollectiveOrder &order);

// Returns "the search stopped after 2 s (--search-seconds); another machine may find another result".
std::string stoppedText(double seconds);

// Joins the first three texts and the last `last` ones, and counts them where some are left out: "a, b, c, ..., y, z (26)" for last 2.
std::string firstFew(llvm::ArrayRef<std::string> texts, llvm::StringRef separator, size_t last = 0);

// Returns rows as lines with the cells of a column one under the other. Assumes that there is a row, and that all have as many cells.
std::string tableText(const std::vector<std::vector<std::string>> &rows);

// Returns "1 rank", "4 ranks".
std::string counted(int64_t count, llvm::StringRef noun);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_UNITS_H
