// SPDX-License-Identifier: Apache-2.0
//
// Numbers with their units.

#include "compiler/report/units.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <sstream>

using llvm::formatv;

namespace ashlar::report {

namespace {

// Returns the value in the largest unit of which it has at least one, with a decimal except in the smallest.
std::string scaled(double value, llvm::ArrayRef<const char *> units) {
  unsigned unit = 0;
  for (; value >= 1000 && unit + 1 < units.size(); ++unit) {
    value /= 1000;
  }
  return unit == 0 ? formatv("{0:F0} {1}", value, units[0]).str() : formatv("{0:F1} {1}", value, units[unit]).str();
}

} // namespace

std::string stoppedText(double seconds) {
  std::ostringstream text;
  text << "the search stopped after " << seconds << " s (--search-seconds); another machine may find another result";
  return text.str();
}

std::string timeText(int64_t timePs) {
  return scaled(static_cast<double>(timePs) / 1000, {"ns", "us", "ms", "s"});
}

std::string memoryText(const lower::MemoryUse &use, uint64_t limit) {
  auto parts = llvm::map_to_vector(use.parts, [](const lower::MemoryPart &part) { return bytesText(part.bytes) + " " + part.name; });
  std::string text = comparedBytes(use.bytes(), limit).first + " a rank: " + llvm::join(parts, ", ");
  return use.threadBytes == 0 ? text : text + "; " + bytesText(use.threadBytes) + " more for each further thread";
}

std::string orderText(const lower::CollectiveOrder &order) {
  return formatv("collectives in one order on all {0}, checked: {1} of them, hash {2}", counted(order.devices, "device"), order.collectives,
                 llvm::utohexstr(order.hash, /*LowerCase=*/true, /*Width=*/16));
}

std::string firstFew(llvm::ArrayRef<std::string> texts, llvm::StringRef separator, size_t last) {
  constexpr size_t kFirst = 3;
  if (texts.size() <= kFirst + last) {
    return llvm::join(texts, separator);
  }
  llvm::SmallVector<std::string> shown(texts.take_front(kFirst));
  shown.push_back("...");
  llvm::append_range(shown, texts.take_back(last));
  return formatv("{0} ({1})", llvm::join(shown, separator), texts.size());
}

std::string tableText(const std::vector<std::vector<std::string>> &rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto &row : rows) {
    for (auto [width, cell] : llvm::zip_equal(widths, row)) {
      width = std::max(width, cell.size());
    }
  }
  std::string text;
  for (const auto &row : rows) {
    std::string line;
    for (auto [width, cell] : llvm::zip_equal(widths, row)) {
      line += "  " + cell + std::string(width - cell.size(), ' ');
    }
    text += llvm::StringRef(line).rtrim().str() + "\n";
  }
  return text;
}

std::string counted(int64_t count, llvm::StringRef noun) {
  return formatv("{0} {1}{2}", count, noun, count == 1 ? "" : "s");
}

} // namespace ashlar::report
