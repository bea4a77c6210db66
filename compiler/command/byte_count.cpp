// SPDX-License-Identifier: Apache-2.0
//
// A number, and one of nine units.

#include "compiler/command/byte_count.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <optional>

namespace ashlar::command {
namespace {

std::optional<double> bytesOfUnit(llvm::StringRef unit) {
  constexpr std::pair<llvm::StringLiteral, double> kUnits[] = {
      {"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  for (const auto &[name, bytes] : kUnits) {
    if (unit.equals_insensitive(name)) {
      return bytes;
    }
  }
  return std::nullopt;
}

} // namespace

llvm::Expected<int64_t> parseByteCount(llvm::StringRef text) {
  llvm::StringRef number = text.take_while([](char c) { return llvm::isDigit(c) || c == '.'; });
  std::optional<double> unit = bytesOfUnit(text.drop_front(number.size()).trim(' '));
  double count = 0;
  bool isNumber = !number.empty() && !number.getAsDouble(count);
  double bytes = isNumber && unit ? std::floor(count * *unit) : 0;
  if (bytes < 1 || bytes > 0x1p62) {
    return llvm::createStringError("\"" + text +
                                   "\" is no size; write a number and a unit (B, kB, MB, GB, TB, KiB, MiB, GiB or TiB), as in 80GB");
  }
  return static_cast<int64_t>(bytes);
}

} // namespace ashlar::command
