// SPDX-License-Identifier: Apache-2.0
//
// The addresses by which a rank can be reached, and the choice among those of a peer.

#ifndef ASHLAR_RUNTIME_COMM_TCP_ADDRESSES_H
#define ASHLAR_RUNTIME_COMM_TCP_ADDRESSES_H

#include "runtime/base/status.h"
#include "runtime/comm/tcp/hmac.h"

#include <string>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>

namespace ashlar::rt {

// An IPv4 or IPv6 address in a network: 10.77.0.1/24.
struct Address {
  int family = AF_INET;
  uint8_t bytes[16] = {}; // an IPv4 address has 4
  int prefix = 0;         // bits that the addresses of its network share

  // Returns the text of it, with the prefix or without.
  std::string text() const;
  std::string host() const;

  // Whether the other address is in this one's network.
  bool shares(const Address &other) const;

  // Returns it with a port, as sockets take it: an IPv4 address for an IPv6 socket where `family` is AF_INET6. Sets the length.
  sockaddr_storage withPort(uint16_t port, int family, socklen_t &length) const;
};

// Reads "10.77.0.1/24"; false: it is none.
bool parseAddress(const std::string &text, Address &address);

// Finds the addresses of this host in `network`, except the loopback interface's where that is empty. Fails where there are
// none. `network`: "10.77.0.0/24", the value of ASHLAR_NETWORK.
Status findAddresses(const std::string &network, std::vector<Address> &addresses);

// What a rank publishes.
struct Card {
  uint64_t machine = 0; // equal for ranks of one host
  uint16_t port = 0;    // of its listener
  uint16_t wordPort = 0;
  Key key = {}; // of the job: rank 0's counts
  std::vector<Address> addresses;

  // Returns one line, and reads it; false: it is none.
  std::string text() const;
  static bool parse(const std::string &text, Card &card);
};

// Returns the addresses of `peer` in the order in which `self` tries them: shared networks first.
std::vector<Address> orderAddresses(const Card &self, const Card &peer);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TCP_ADDRESSES_H
