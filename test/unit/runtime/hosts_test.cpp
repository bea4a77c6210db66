// SPDX-License-Identifier: Apache-2.0
//
// Collectives between hosts: partial sums of hosts, columns of a run, and the bytes that a host sends, counted by a transport that goes
// nowhere.

#include "runtime/comm/collective.h"
#include "runtime/comm/hosts/host_group.h"
#include "runtime/comm/hosts/partial_tree.h"
#include "runtime/comm/placed_tensors.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

namespace ashlar::test::hosts_test {

using namespace ashlar::rt;

namespace {

// A transport whose messages are done at once: it counts what is sent to each rank.
class CountingTransport final : public Transport {
public:
  size_t stream(int peer, int) override {
    peers.push_back(peer);
    return peers.size() - 1;
  }
  Status seal() override { return Status(); }
  uint64_t send(size_t stream, Part part) override {
    sent[peers[stream]] += part.bytes;
    return ++number;
  }
  uint64_t receive(size_t stream, Part part) override {
    received[peers[stream]] += part.bytes;
    return ++number;
  }
  Status waitSent(size_t, uint64_t, bool) override { return Status(); }
  Status waitReceived(size_t, uint64_t, bool) override { return Status(); }
  Status allGather(const void *, size_t, void *) override { return Status(); }
  void tellWait(int, bool) override {}
  void watch(std::function<Status()>) override {}
  void abort() override {}

  std::map<int, size_t> sent, received; // by rank

private:
  std::vector<int> peers;
  uint64_t number = 0;
};

// What each rank of a group of all ranks sends to each other rank, in a collective of `elements` f32 a rank.
struct Traffic {
  std::map<std::pair<int, int>, size_t> sent, received; // by {rank, peer}

  size_t fromHost(const std::vector<int> &hosts, int host) const {
    size_t bytes = 0;
    for (const auto &[ranks, count] : sent) {
      bytes += hosts[static_cast<size_t>(ranks.first)] == host ? count : 0;
    }
    return bytes;
  }
};

Traffic measure(uint32_t kind, const std::vector<int> &hosts, int64_t elements, bool keepsBits = false) {
  const int ranks = static_cast<int>(hosts.size());
  ashlar_rt_axis axis = {"dp", static_cast<uint32_t>(ranks)};
  ashlar_rt_variant variant = {};
  variant.name = "default";
  variant.num_axes = 1;
  variant.axes = &axis;
  variant.devices_per_process = 1;
  const Mesh mesh(variant);
  const uint32_t axes[] = {0};
  const int64_t shape[] = {elements};
  ashlar_rt_collective_tensor tensor = {1, shape, 0, 0};
  ashlar_rt_collective_desc desc = {};
  desc.kind = kind;
  desc.dtype = ASHLAR_RT_F32;
  desc.num_axes = 1;
  desc.axes = axes;
  desc.num_tensors = 1;
  desc.tensors = &tensor;
  const uint64_t in = static_cast<uint64_t>(elements) * 4;
  const uint64_t out = kind == ASHLAR_RT_ALL_GATHER       ? in * static_cast<uint64_t>(ranks)
                       : kind == ASHLAR_RT_REDUCE_SCATTER ? in / static_cast<uint64_t>(ranks)
                                                          : in;
  Traffic traffic;
  for (int rank = 0; rank < ranks; ++rank) {
    Place place{rank, ranks, hosts};
    WindowShape windowShape;
    windowShape.processes = place.processesOnHost(rank);
    windowShape.devicesPerProcess = 1;
    windowShape.sets = 1;
    windowShape.arenaBytes.assign(static_cast<size_t>(windowShape.processes), in + out);
    windowShape.channels.assign(static_cast<size_t>(windowShape.processes), 0);
    Mapping mapping;
    REQUIRE(Mapping::createPrivate(Window::bytes(windowShape), mapping).ok());
    Window window(windowShape, std::move(mapping));
    window.prepare();
    CountingTransport transport;
    Staging staging;
    CollectiveContext context;
    context.mesh = &mesh;
    context.place = &place;
    context.window = &window;
    context.transport = &transport;
    context.waiter = Waiter(window, place, &transport, /*oversubscribed=*/true);
    context.staging = &staging;
    context.keepsBits = keepsBits;
    PlacedTensor placed;
    REQUIRE(CollectiveShape::create(desc, tensor, ranks, in, out, placed.shape).ok());
    placed.in = ashlar_rt_buffer{ASHLAR_RT_ARENA, 0, 0, in};
    placed.out = ashlar_rt_buffer{ASHLAR_RT_ARENA, 0, in, out};
    SyncSet alone; // nobody to wait for: what the others of the host would do is not looked at
    std::unique_ptr<Collective> collective;
    REQUIRE(createHostsCollective(context, alone, desc, {placed}, mesh.groups(axes, 1), collective).ok());
    REQUIRE(collective->run().ok());
    for (const auto &[peer, bytes] : transport.sent) {
      traffic.sent[{rank, peer}] = bytes;
    }
    for (const auto &[peer, bytes] : transport.received) {
      traffic.received[{peer, rank}] = bytes;
    }
  }
  return traffic;
}

} // namespace

TEST_CASE("hosts: a host sends what it has once, whatever its ranks", "[comm][hosts]") {
  constexpr int64_t kElements = 96000;
  constexpr size_t kBytes = 4 * kElements;
  const std::vector<std::vector<int>> places = {{0, 1},
                                                {0, 0, 1, 1},
                                                {0, 1, 1, 1},
                                                {0, 0, 1, 1, 2, 2},
                                                {0, 1, 0, 1},
                                                {0, 0, 0, 1, 2, 2},
                                                {0, 1, 2, 3, 0, 1, 2, 3},
                                                {0, 0, 0, 0, 1, 1, 1, 1}};
  for (const std::vector<int> &hosts : places) {
    const size_t ranks = hosts.size(), numHosts = static_cast<size_t>(*std::max_element(hosts.begin(), hosts.end())) + 1;
    for (uint32_t kind :
         {ASHLAR_RT_ALL_REDUCE, ASHLAR_RT_REDUCE_SCATTER, ASHLAR_RT_ALL_GATHER, ASHLAR_RT_BROADCAST, ASHLAR_RT_ALL_TO_ALL}) {
      CAPTURE(kind, hosts);
      const Traffic traffic = measure(kind, hosts, kElements);
      CHECK(traffic.sent == traffic.received); // what one side expects the other one sends
      for (size_t host = 0; host < numHosts; ++host) {
        CAPTURE(host);
        const size_t own = static_cast<size_t>(std::count(hosts.begin(), hosts.end(), static_cast<int>(host)));
        const size_t sent = traffic.fromHost(hosts, static_cast<int>(host));
        switch (kind) {
        case ASHLAR_RT_ALL_REDUCE: // cut at multiples of 64 bytes
          CHECK(sent <= 2 * kBytes * (numHosts - 1) / numHosts + 64 * numHosts * ranks);
          CHECK(sent + 64 * numHosts * ranks >= 2 * kBytes * (numHosts - 1) / numHosts);
          break;
        case ASHLAR_RT_REDUCE_SCATTER:
          CHECK(sent == kBytes / ranks * (ranks - own));
          break;
        case ASHLAR_RT_ALL_GATHER:
          CHECK(sent == kBytes * own * (numHosts - 1));
          break;
        case ASHLAR_RT_BROADCAST:
          CHECK(sent <= (numHosts == 2 ? kBytes : 2 * kBytes * (numHosts - 1) / numHosts + 64 * numHosts * ranks));
          break;
        default:
          CHECK(sent == kBytes / ranks * own * (ranks - own));
        }
      }
    }
  }
}

TEST_CASE("hosts: all ranks of a host share what it sends", "[comm][hosts]") {
  const Traffic traffic = measure(ASHLAR_RT_ALL_REDUCE, {0, 1, 1, 1}, /*elements=*/48000);
  for (int rank : {1, 2, 3}) {
    CHECK(traffic.sent.at({rank, 0}) == 64000);
    CHECK(traffic.sent.at({0, rank}) == 64000);
  }
  const Traffic pairs = measure(ASHLAR_RT_ALL_REDUCE, {0, 0, 1, 1}, /*elements=*/48000);
  CHECK(pairs.sent == std::map<std::pair<int, int>, size_t>{{{0, 2}, 96000}, {{1, 3}, 96000}, {{2, 0}, 96000}, {{3, 1}, 96000}});
}

TEST_CASE("hosts: with its bits kept, a sum is sent in the subtrees that a host has", "[comm][hosts]") {
  constexpr size_t kBytes = 4 * 48000;
  CHECK(measure(ASHLAR_RT_ALL_REDUCE, {0, 0, 1, 1}, 48000, /*keepsBits=*/true).fromHost({0, 0, 1, 1}, 0) == kBytes);
  // (0 + 1) + 2 and 3 + 4 of five: the first host has 0 + 1, the second one 2 and 3 + 4.
  const std::vector<int> uneven = {0, 0, 1, 1, 1};
  CHECK(measure(ASHLAR_RT_ALL_REDUCE, uneven, 48000, /*keepsBits=*/true).fromHost(uneven, 0) == kBytes);
  CHECK(measure(ASHLAR_RT_ALL_REDUCE, uneven, 48000, /*keepsBits=*/true).fromHost(uneven, 1) == 2 * kBytes);
  CHECK(measure(ASHLAR_RT_ALL_REDUCE, uneven, 48000).fromHost(uneven, 1) == kBytes);
}

TEST_CASE("hosts: a tree of partial sums is that of all inputs, or one of hosts", "[comm][hosts]") {
  std::mt19937 random(7);
  Reducer reducer;
  REQUIRE(Reducer::create(ASHLAR_RT_F32, ASHLAR_RT_SUM, reducer).ok());
  for (int round = 0; round < 200; ++round) {
    const size_t inputs = 1 + random() % 17, hosts = 1 + random() % 4, elements = 1 + random() % 3000;
    std::vector<size_t> hostOf;
    std::vector<std::vector<float>> values(inputs, std::vector<float>(elements));
    std::vector<const char *> places;
    for (std::vector<float> &value : values) {
      hostOf.push_back(random() % hosts);
      for (float &one : value) {
        one = static_cast<float>(static_cast<int32_t>(random())) * 1e-9F;
      }
      places.push_back(reinterpret_cast<const char *>(value.data()));
    }
    std::vector<float> expected(elements);
    char *expectedPlace = reinterpret_cast<char *>(expected.data());
    reducer.run(places.data(), inputs, 0, &expectedPlace, 1, 0, 4 * elements);
    for (bool keepsBits : {false, true}) {
      PartialTree tree(hostOf, keepsBits);
      std::vector<std::vector<float>> leaves;
      std::vector<const char *> leafPlaces;
      std::vector<int> met(inputs);
      for (const PartialTree::Leaf &leaf : tree.leaves()) {
        std::vector<const char *> own;
        for (int input : leaf.inputs) {
          CHECK(hostOf[static_cast<size_t>(input)] == leaf.host);
          ++met[static_cast<size_t>(input)];
          own.push_back(places[static_cast<size_t>(input)]);
        }
        leaves.emplace_back(elements);
        char *place = reinterpret_cast<char *>(leaves.back().data());
        reducer.run(own.data(), own.size(), 0, &place, 1, 0, 4 * elements);
      }
      for (const std::vector<float> &leaf : leaves) {
        leafPlaces.push_back(reinterpret_cast<const char *>(leaf.data()));
      }
      CHECK(met == std::vector<int>(inputs, 1));
      std::vector<float> first(elements), second(elements);
      char *outputs[] = {reinterpret_cast<char *>(first.data()), reinterpret_cast<char *>(second.data())};
      tree.run(reducer, leafPlaces.data(), 0, outputs, 2, 0, 4 * elements);
      CHECK(first == second);
      if (keepsBits) {
        CHECK(first == expected);
      } else {
        CHECK(tree.leaves().size() == std::set<size_t>(hostOf.begin(), hostOf.end()).size());
        for (size_t i = 0; i < elements; ++i) {
          REQUIRE(std::abs(first[i] - expected[i]) <= 1e-5F);
        }
      }
    }
  }
}

} // namespace ashlar::test::hosts_test
