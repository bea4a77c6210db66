// SPDX-License-Identifier: Apache-2.0
//
// The proofs of a greeting.

#include "runtime/comm/tcp/greeting.h"

#include <cstring>

namespace ashlar::rt {

Digest prove(const Key &key, Side side, const StreamName &stream, const Nonce &ofCaller, const Nonce &ofHost) {
  uint8_t text[sizeof(side) + sizeof(stream) + 2 * sizeof(Nonce)];
  uint8_t *next = text;
  auto add = [&](const void *data, size_t bytes) {
    std::memcpy(next, data, bytes);
    next += bytes;
  };
  add(&side, sizeof(side));
  add(&stream, sizeof(stream));
  add(ofCaller.data(), ofCaller.size());
  add(ofHost.data(), ofHost.size());
  return hmac(key.data(), key.size(), text, sizeof(text));
}

} // namespace ashlar::rt
