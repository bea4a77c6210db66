// SPDX-License-Identifier: Apache-2.0
//
// How the two ends of a new connection prove to each other that they belong to one job, and agree on the stream that it becomes:
//
//   caller                                         host
//     | --- Hello: stream, number of the caller ---> |
//     | <-- Challenge: number of the host, proof --- |  by the key, over stream, both numbers, and the side
//     | --- proof ---------------------------------> |
//     | <-- kWelcome ------------------------------- |  from here on the bytes of the stream
//
// Numbers are random, so that a proof is of no use a second time. Nobody sends a proof before the other side named its number, and the
// side is a part of it, so that neither can be made to prove for a stranger.

#ifndef ASHLAR_RUNTIME_COMM_TCP_GREETING_H
#define ASHLAR_RUNTIME_COMM_TCP_GREETING_H

#include "runtime/comm/tcp/hmac.h"

namespace ashlar::rt {

using Nonce = std::array<uint8_t, 16>;

// The stream that a connection is to become: from rank `caller` to rank `host`, on a lane.
struct StreamName {
  int32_t caller;
  int32_t host;
  int32_t lane;
};

// The messages, as they are sent. Ranks have one byte order: they run one executable.
struct Hello {
  uint64_t magic;
  StreamName stream;
  Nonce nonce;
};
struct Challenge {
  Nonce nonce;
  Digest proof;
};
constexpr uint64_t kHelloMagic = 0x317063746c687361; // "ashltcp1"
constexpr uint8_t kWelcome = 1;

// The sides of a connection.
enum class Side : uint8_t { kCaller = 'c', kHost = 'h' };

// Returns the proof of a side that it has the key.
Digest prove(const Key &key, Side side, const StreamName &stream, const Nonce &ofCaller, const Nonce &ofHost);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TCP_GREETING_H
