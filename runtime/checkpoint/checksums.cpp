// SPDX-License-Identifier: Apache-2.0

#include "runtime/checkpoint/checksums.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ashlar::rt {

namespace {

constexpr size_t kDigits = 16;

} // namespace

uint64_t checksumOf(const void *data, size_t bytes) {
  return XXH64(data, bytes, /*seed=*/0);
}

std::vector<uint64_t> checksumsOf(const void *data, size_t bytes) {
  std::vector<uint64_t> checksums;
  for (size_t begin = 0; begin < bytes; begin += kChecksumBytes) {
    checksums.push_back(checksumOf(static_cast<const char *>(data) + begin, std::min(kChecksumBytes, bytes - begin)));
  }
  return checksums;
}

std::string checksumText(const std::vector<uint64_t> &checksums) {
  std::string text;
  for (uint64_t checksum : checksums) {
    text += fmt::format("{:016x}", checksum);
  }
  return text;
}

bool readChecksums(std::string_view text, std::vector<uint64_t> &checksums) {
  checksums.clear();
  for (size_t begin = 0; begin < text.size(); begin += kDigits) {
    uint64_t checksum = 0;
    const char *first = text.data() + begin, *last = first + std::min(kDigits, text.size() - begin);
    const std::from_chars_result result = std::from_chars(first, last, checksum, 16);
    if (result.ec != std::errc() || result.ptr != first + kDigits) {
      return false;
    }
    checksums.push_back(checksum);
  }
  return true;
}

} // namespace ashlar::rt
