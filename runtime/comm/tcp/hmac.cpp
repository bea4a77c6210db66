// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 as in FIPS 180-4, written for reading: a few hundred bytes are hashed a connection.

#include "runtime/comm/tcp/hmac.h"

#include <cerrno>
#include <cstring>

#include <sys/random.h>

namespace ashlar::rt {
namespace {

constexpr size_t kBlock = 64;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t rotate(uint32_t value, int bits) {
  return value >> bits | value << (32 - bits);
}

// The hash of what was added so far.
class Sha256 {
public:
  void add(const void *data, size_t bytes) {
    const uint8_t *next = static_cast<const uint8_t *>(data);
    for (size_t i = 0; i < bytes; ++i) {
      block[total++ % kBlock] = next[i];
      if (total % kBlock == 0) {
        mix();
      }
    }
  }

  Digest finish() {
    const uint64_t bits = 8 * total;
    const uint8_t one = 0x80, zero = 0;
    add(&one, 1);
    while (total % kBlock != kBlock - 8) {
      add(&zero, 1);
    }
    for (int shift = 56; shift >= 0; shift -= 8) {
      const uint8_t byte = static_cast<uint8_t>(bits >> shift);
      add(&byte, 1);
    }
    Digest digest;
    for (size_t i = 0; i < digest.size(); ++i) {
      digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
    }
    return digest;
  }

private:
  // Takes in a full block.
  void mix() {
    uint32_t words[64];
    for (size_t i = 0; i < 64; ++i) {
      if (i < 16) {
        words[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 | uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
        continue;
      }
      const uint32_t a = words[i - 15], b = words[i - 2];
      words[i] = words[i - 16] + words[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    uint32_t next[8];
    std::memcpy(next, state, sizeof(next));
    auto &[a, b, c, d, e, f, g, h] = next;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t first = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + kRounds[i] + words[i];
      const uint32_t second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    for (size_t i = 0; i < 8; ++i) {
      state[i] += next[i];
    }
  }

  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t block[kBlock] = {};
  uint64_t total = 0; // bytes
};

} // namespace

Status drawRandom(void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = getrandom(static_cast<char *>(data) + done, bytes - done, /*flags=*/0);
    if (got < 0 && errno != EINTR) {
      return unavailable("the system has no random numbers for the key of the job: {}", std::strerror(errno));
    }
    done += got > 0 ? static_cast<size_t>(got) : 0;
  }
  return Status();
}

Digest sha256(const void *data, size_t bytes) {
  Sha256 hash;
  hash.add(data, bytes);
  return hash.finish();
}

Digest hmac(const void *key, size_t keyBytes, const void *data, size_t bytes) {
  uint8_t padded[kBlock] = {};
  if (keyBytes > kBlock) {
    const Digest shorter = sha256(key, keyBytes);
    std::memcpy(padded, shorter.data(), shorter.size());
  } else {
    std::memcpy(padded, key, keyBytes);
  }
  uint8_t inner[kBlock], outer[kBlock];
  for (size_t i = 0; i < kBlock; ++i) {
    inner[i] = padded[i] ^ 0x36;
    outer[i] = padded[i] ^ 0x5c;
  }
  Sha256 first, second;
  first.add(inner, kBlock);
  first.add(data, bytes);
  const Digest middle = first.finish();
  second.add(outer, kBlock);
  second.add(middle.data(), middle.size());
  return second.finish();
}

bool areEqual(const Digest &left, const Digest &right) {
  uint8_t differences = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    differences |= left[i] ^ right[i];
  }
  return differences == 0;
}

} // namespace ashlar::rt
