// SPDX-License-Identifier: Apache-2.0
//
// Escapes of JSON.

#include "runtime/base/json.h"

#include <cstdint>

#include <fmt/format.h>

namespace ashlar::rt {
namespace {

// Returns the number of bytes of the UTF-8 character that the text begins with; 0: it begins with none. Overlong forms, surrogates and
// what lies above U+10FFFF are none.
size_t characterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  const size_t bytes = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (bytes > text.size()) {
    return 0;
  }
  for (size_t i = 1; i < bytes; ++i) {
    const uint8_t least = i > 1 ? 0x80 : first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const uint8_t most = i > 1 ? 0xbf : first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (byte(i) < least || byte(i) > most) {
      return 0;
    }
  }
  return bytes;
}

} // namespace

std::string jsonString(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const size_t bytes = characterBytes(text);
    const char first = text[0];
    if (bytes == 0) {
      result += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      result += {'\\', first};
    } else if (bytes == 1 && static_cast<uint8_t>(first) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<uint8_t>(first));
    } else {
      result += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return result + "\"";
}

} // namespace ashlar::rt
