// SPDX-License-Identifier: Apache-2.0
//
// HMAC-SHA256 (RFC 2104, FIPS 180-4): by it processes that share a key prove to each other that they have it.

#ifndef ASHLAR_RUNTIME_COMM_TCP_HMAC_H
#define ASHLAR_RUNTIME_COMM_TCP_HMAC_H

#include "runtime/base/status.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace ashlar::rt {

using Digest = std::array<uint8_t, 32>;

// The secret of a job.
using Key = std::array<uint8_t, 32>;

// Fills `bytes` from the system's source of random numbers.
Status drawRandom(void *data, size_t bytes);

// Returns SHA-256 of the bytes.
Digest sha256(const void *data, size_t bytes);

// Returns HMAC-SHA256 of the bytes under a key of `keyBytes` bytes.
Digest hmac(const void *key, size_t keyBytes, const void *data, size_t bytes);

// Whether two digests are equal, in a time that does not depend on where they differ.
bool areEqual(const Digest &left, const Digest &right);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TCP_HMAC_H
