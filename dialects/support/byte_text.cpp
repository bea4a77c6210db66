// SPDX-License-Identifier: Apache-2.0
//
// Powers of 1000, as --memory reads them.

#include "dialects/support/byte_text.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <iterator>

namespace ashlar {

std::string bytesText(uint64_t bytes, int decimals) {
  static const char *const kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  unsigned unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) {
    value /= 1000;
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.*f %s", unit == 0 ? 0 : decimals, value, kUnits[unit]);
  return text;
}

std::pair<std::string, std::string> comparedBytes(uint64_t first, uint64_t second, int decimals) {
  constexpr int kMostDecimals = 12; // of a byte of a TB
  std::pair<std::string, std::string> texts(bytesText(first, decimals), bytesText(second, decimals));
  while (first != second && texts.first == texts.second && decimals < kMostDecimals) {
    ++decimals;
    texts = {bytesText(first, decimals), bytesText(second, decimals)};
  }
  return texts;
}

} // namespace ashlar
