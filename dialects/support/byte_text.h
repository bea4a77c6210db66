// SPDX-License-Identifier: Apache-2.0
//
// Sizes in bytes as messages and reports print them.

#ifndef ASHLAR_DIALECTS_SUPPORT_BYTE_TEXT_H
#define ASHLAR_DIALECTS_SUPPORT_BYTE_TEXT_H

#include <cstdint>
#include <string>
#include <utility>

namespace ashlar {

// Returns a size in the largest unit that is at most the size, with that many decimals unless in bytes: "12 B", "3.4 KB", "1.7 MB".
std::string bytesText(uint64_t bytes, int decimals = 1);

// Returns two sizes that a message compares, with at least so many decimals, and as many as it takes for unlike sizes to look unlike.
//   2999900, 3000100  ->  "2.9999 MB", "3.0001 MB"
std::pair<std::string, std::string> comparedBytes(uint64_t first, uint64_t second, int decimals = 1);

} // namespace ashlar

#endif // ASHLAR_DIALECTS_SUPPORT_BYTE_TEXT_H
