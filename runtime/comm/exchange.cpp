// SPDX-License-Identifier: Apache-2.0

#include "runtime/comm/exchange.h"

#include <algorithm>

namespace ashlar::rt {

namespace {

constexpr size_t kMostAtOnce = size_t(1) << 20; // bytes

} // namespace

Exchange::Exchange(Transport &transport, const std::vector<int> &peers) : transport(transport) {
  for (const int peer : peers) {
    streams[peer] = transport.stream(peer, kExchange);
  }
}

template <typename Post> void Exchange::post(Part part, Post post) const {
  for (size_t begin = 0; begin < part.bytes; begin += kMostAtOnce) {
    post(Part{part.data + begin, std::min(kMostAtOnce, part.bytes - begin)});
  }
}

void Exchange::send(int peer, Part part) {
  const size_t stream = streams.at(peer);
  post(part, [&](Part piece) { sent.push_back({stream, transport.send(stream, piece)}); });
}

void Exchange::receive(int peer, Part part) {
  const size_t stream = streams.at(peer);
  post(part, [&](Part piece) { received.push_back({stream, transport.receive(stream, piece)}); });
}

Status Exchange::wait() {
  Status status;
  for (size_t i = 0; i < received.size() && status.ok(); ++i) {
    status = transport.waitReceived(received[i].stream, received[i].number, /*naps=*/true);
  }
  for (size_t i = 0; i < sent.size() && status.ok(); ++i) {
    status = transport.waitSent(sent[i].stream, sent[i].number, /*naps=*/true);
  }
  received.clear();
  sent.clear();
  return status;
}

} // namespace ashlar::rt
