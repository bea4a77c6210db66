// SPDX-License-Identifier: Apache-2.0
//
// Addresses: their texts, their networks, and the order in which they are tried.

#include "runtime/comm/tcp/addresses.h"

#include <catch2/catch.hpp>

namespace ashlar::test::addresses_test {

using namespace ashlar::rt;

namespace {

Address addressOf(const std::string &text) {
  Address address;
  REQUIRE(parseAddress(text, address));
  return address;
}

} // namespace

TEST_CASE("addresses: texts", "[runtime][comm][tcp]") {
  for (const char *text : {"10.77.0.1/24", "0.0.0.0/0", "fd00::1/64", "255.255.255.255/32", "::/128"}) {
    CHECK(addressOf(text).text() == text);
  }
  Address address;
  for (const char *text :
       {"", "10.77.0.1", "10.77.0.1/33", "10.77.0.1/-1", "10.77.0.1/x", "10.77.0.1/24x", "10.77.0/24", "host/24", "fd00::1/129"}) {
    INFO(text);
    CHECK(!parseAddress(text, address));
  }
}

TEST_CASE("addresses: networks", "[runtime][comm][tcp]") {
  CHECK(addressOf("10.77.0.1/24").shares(addressOf("10.77.0.9/32")));
  CHECK(!addressOf("10.77.0.1/24").shares(addressOf("10.77.1.1/32")));
  CHECK(addressOf("10.77.2.0/23").shares(addressOf("10.77.3.255/32")));
  CHECK(!addressOf("10.77.2.0/23").shares(addressOf("10.77.4.0/32")));
  CHECK(!addressOf("10.77.0.1/24").shares(addressOf("::ffff:10.77.0.1/128")));
  CHECK(addressOf("fd00::1/64").shares(addressOf("fd00::2/64")));
}

TEST_CASE("addresses: those in a shared network come first, in their order", "[runtime][comm][tcp]") {
  Card self, peer;
  self.addresses = {addressOf("192.168.1.1/24"), addressOf("10.77.0.1/24")};
  peer.addresses = {addressOf("172.17.0.1/16"), addressOf("10.77.0.2/24"), addressOf("fd00::2/64"), addressOf("192.168.1.2/24")};
  std::string order;
  for (const Address &address : orderAddresses(self, peer)) {
    order += address.host() + " ";
  }
  CHECK(order == "10.77.0.2 192.168.1.2 172.17.0.1 fd00::2 ");
}

TEST_CASE("addresses: cards", "[runtime][comm][tcp]") {
  Card card, read;
  card.machine = UINT64_MAX;
  card.port = 65535;
  card.wordPort = 1;
  for (size_t i = 0; i < card.key.size(); ++i) {
    card.key[i] = static_cast<uint8_t>(37 * i);
  }
  card.addresses = {addressOf("10.77.0.1/24"), addressOf("fd00::1/64")};
  REQUIRE(Card::parse(card.text(), read));
  CHECK((read.machine == card.machine && read.port == card.port && read.wordPort == card.wordPort && read.key == card.key));
  CHECK((read.addresses.size() == 2 && read.addresses[1].text() == "fd00::1/64"));
  for (const char *text : {"", "1 2 3", "1 2 3 00 10.77.0.1/24"}) {
    CHECK(!Card::parse(text, read));
  }
}

TEST_CASE("addresses: of this host", "[runtime][comm][tcp]") {
  std::vector<Address> found;
  REQUIRE(findAddresses("127.0.0.0/8", found).ok());
  CHECK(found[0].text() == "127.0.0.1/8");
  std::vector<Address> none;
  CHECK(findAddresses("x", none).message() == "ASHLAR_NETWORK is \"x\", not a network such as 10.77.0.0/24");
  const std::string message = findAddresses("203.0.113.0/24", none).message(); // a network for documentation
  CHECK(message.find("ASHLAR_NETWORK is \"203.0.113.0/24\" but this host has 127.0.0.1/8") == 0);
}

} // namespace ashlar::test::addresses_test
