// SPDX-License-Identifier: Apache-2.0
//
// Numbers with their units.

#include "compiler/report/units.h"

#include "llvm/Support/FormatVariadic.h"

using llvm::formatv;

namespace ashlar::report {

std::string bytesText(uint64_t bytes) {
  static const char *const kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  unsigned unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? formatv("{0} B", bytes).str() : formatv("{0:F1} {1}", value, kUnits[unit]).str();
}

std::string counted(int64_t count, llvm::StringRef noun) {
  return formatv("{0} {1}{2}", count, noun, count == 1 ? "" : "s");
}

} // namespace ashlar::report
