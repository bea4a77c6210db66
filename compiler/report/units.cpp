// SPDX-License-Identifier: Apache-2.0
//
// Numbers with their units.

#include "compiler/report/units.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/FormatVariadic.h"

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

std::string bytesText(uint64_t bytes) {
  return scaled(static_cast<double>(bytes), {"B", "KB", "MB", "GB", "TB"});
}

std::string timeText(int64_t timePs) {
  return scaled(static_cast<double>(timePs) / 1000, {"ns", "us", "ms", "s"});
}

std::string counted(int64_t count, llvm::StringRef noun) {
  return formatv("{0} {1}{2}", count, noun, count == 1 ? "" : "s");
}

} // namespace ashlar::report
