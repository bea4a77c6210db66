// SPDX-License-Identifier: Apache-2.0
//
// Addresses of the interfaces of this host, and their texts.

#include "runtime/comm/tcp/addresses.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

namespace ashlar::rt {
namespace {

int bitsOf(int family) {
  return family == AF_INET ? 32 : 128;
}

// The bits that are set in a network mask.
int countBits(const uint8_t *mask, int family) {
  int bits = 0;
  while (bits < bitsOf(family) && (mask[bits / 8] >> (7 - bits % 8) & 1) != 0) {
    ++bits;
  }
  return bits;
}

const uint8_t *bytesOf(const sockaddr *address) {
  return address->sa_family == AF_INET ? reinterpret_cast<const uint8_t *>(&reinterpret_cast<const sockaddr_in *>(address)->sin_addr)
                                       : reinterpret_cast<const uint8_t *>(&reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr);
}

// An address that only its own link understands needs the number of an interface.
bool isOfLink(const Address &address) {
  return address.family == AF_INET6 && address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0) == 0x80;
}

// Addresses of all interfaces that are up.
Status listInterfaces(std::vector<std::pair<Address, bool>> &found) {
  ifaddrs *interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) {
    return unavailable("cannot list the addresses of this host: {}", std::strerror(errno));
  }
  for (const ifaddrs *one = interfaces; one != nullptr; one = one->ifa_next) {
    const bool isKnown = one->ifa_addr != nullptr && (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6);
    if (!isKnown || (one->ifa_flags & IFF_UP) == 0 || one->ifa_netmask == nullptr) {
      continue;
    }
    Address address;
    address.family = one->ifa_addr->sa_family;
    std::memcpy(address.bytes, bytesOf(one->ifa_addr), static_cast<size_t>(bitsOf(address.family) / 8));
    one->ifa_netmask->sa_family = one->ifa_addr->sa_family;
    address.prefix = countBits(bytesOf(one->ifa_netmask), address.family);
    if (!isOfLink(address)) {
      found.emplace_back(address, (one->ifa_flags & IFF_LOOPBACK) != 0);
    }
  }
  freeifaddrs(interfaces);
  return Status();
}

std::string hexOf(const Key &key) {
  std::string text;
  for (uint8_t byte : key) {
    text += fmt::format("{:02x}", byte);
  }
  return text;
}

bool parseHex(const std::string &text, Key &key) {
  for (size_t i = 0; i < key.size(); ++i) {
    const char *begin = text.data() + 2 * i;
    if (text.size() != 2 * key.size() || std::from_chars(begin, begin + 2, key[i], 16).ptr != begin + 2) {
      return false;
    }
  }
  return true;
}

} // namespace

std::string Address::host() const {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(family, bytes, text, sizeof(text));
  return text;
}

std::string Address::text() const {
  return fmt::format("{}/{}", host(), prefix);
}

bool Address::shares(const Address &other) const {
  if (family != other.family) {
    return false;
  }
  for (int bit = 0; bit < prefix; ++bit) {
    if (((bytes[bit / 8] ^ other.bytes[bit / 8]) >> (7 - bit % 8) & 1) != 0) {
      return false;
    }
  }
  return true;
}

sockaddr_storage Address::withPort(uint16_t port, int socketFamily, socklen_t &length) const {
  sockaddr_storage result = {};
  if (socketFamily == AF_INET) {
    sockaddr_in &in = reinterpret_cast<sockaddr_in &>(result);
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, bytes, 4);
    length = sizeof(in);
    return result;
  }
  sockaddr_in6 &in = reinterpret_cast<sockaddr_in6 &>(result);
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(port);
  uint8_t *target = reinterpret_cast<uint8_t *>(&in.sin6_addr);
  if (family == AF_INET) {
    target[10] = target[11] = 0xff;
    std::memcpy(target + 12, bytes, 4);
  } else {
    std::memcpy(target, bytes, 16);
  }
  length = sizeof(in);
  return result;
}

bool parseAddress(const std::string &text, Address &address) {
  const size_t slash = text.find('/');
  const std::string host = text.substr(0, slash);
  address = {};
  address.family = host.find(':') == std::string::npos ? AF_INET : AF_INET6;
  if (slash == std::string::npos || inet_pton(address.family, host.c_str(), address.bytes) != 1) {
    return false;
  }
  const char *end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data() + slash + 1, end, address.prefix);
  return result.ec == std::errc() && result.ptr == end && address.prefix >= 0 && address.prefix <= bitsOf(address.family);
}

Status findAddresses(const std::string &network, std::vector<Address> &addresses) {
  Address wanted;
  if (!network.empty() && !parseAddress(network, wanted)) {
    return invalid("ASHLAR_NETWORK is \"{}\", not a network such as 10.77.0.0/24", network);
  }
  std::vector<std::pair<Address, bool>> found;
  ASHLAR_RETURN_IF_ERROR(listInterfaces(found));
  std::string list;
  for (const auto &[address, isLoopback] : found) {
    if (network.empty() ? !isLoopback : wanted.shares(address)) {
      addresses.push_back(address);
    }
    list += (list.empty() ? "" : ", ") + address.text();
  }
  if (!addresses.empty()) {
    return Status();
  }
  if (network.empty()) {
    return unavailable("this host has no address for the other hosts: its interfaces that are up have {}", list.empty() ? "none" : list);
  }
  return invalid("ASHLAR_NETWORK is \"{}\" but this host has {}; name a network that all hosts share", network,
                 list.empty() ? "no addresses" : list);
}

std::string Card::text() const {
  std::string list;
  for (const Address &address : addresses) {
    list += (list.empty() ? "" : ",") + address.text();
  }
  return fmt::format("{} {} {} {} {}", machine, port, wordPort, hexOf(key), list);
}

bool Card::parse(const std::string &text, Card &card) {
  std::istringstream in(text);
  std::string key, list;
  if (!(in >> card.machine >> card.port >> card.wordPort >> key >> list) || !parseHex(key, card.key)) {
    return false;
  }
  std::istringstream each(list);
  for (std::string one; std::getline(each, one, ',');) {
    card.addresses.emplace_back();
    if (!parseAddress(one, card.addresses.back())) {
      return false;
    }
  }
  return !card.addresses.empty();
}

std::vector<Address> orderAddresses(const Card &self, const Card &peer) {
  auto isShared = [&](const Address &theirs) {
    return std::any_of(self.addresses.begin(), self.addresses.end(), [&](const Address &mine) { return mine.shares(theirs); });
  };
  std::vector<Address> result;
  for (const bool shared : {true, false}) {
    std::copy_if(peer.addresses.begin(), peer.addresses.end(), std::back_inserter(result),
                 [&](const Address &theirs) { return isShared(theirs) == shared; });
  }
  return result;
}

} // namespace ashlar::rt
