// SPDX-License-Identifier: Apache-2.0
//
// Texts in JSON files. Names come from models: they may hold quotes, control characters, and bytes that are no UTF-8.

#ifndef ASHLAR_RUNTIME_BASE_JSON_H
#define ASHLAR_RUNTIME_BASE_JSON_H

#include <string>
#include <string_view>

namespace ashlar::rt {

// Returns the text as a JSON string, quotes included: tab -> "\u0009". Each byte that is no part of valid UTF-8 becomes U+FFFD.
std::string jsonString(std::string_view text);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_JSON_H
