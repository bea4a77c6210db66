// SPDX-License-Identifier: Apache-2.0
//
// Steps by hand: collectives, overlap, slots, shared links, faults.

#include "runtime/timeline/link_loads.h"
#include "test/unit/simulate/table_job.h"

#include <catch2/catch.hpp>

namespace ashlar::test::simulator_test {

TEST_CASE("simulate: a rank alone takes the sum of its instructions", "[simulate]") {
  TableJob job(1, {1});
  // 3 + 5 * (2 + 4 * 1) + 7, and 11 that no instruction has.
  job.addRun(0, job.addProgram(0, "step", {computeFor(3), repeatOf(5, 3), computeFor(2), repeatOf(4, 1), computeFor(1), computeFor(7)}, 11),
             0);
  const rt::Simulation step = job.simulate();
  CHECK(step.endPs == 3 + 5 * (2 + 4) + 7 + 11);
  CHECK(step.classes[0].computePs == step.endPs);
}

TEST_CASE("simulate: a collective takes its bytes over the worst of its links", "[simulate][collective]") {
  TableJob job(1, {2, 4});
  job.setLinks(linkOf(/*psPerByte=*/2, /*movesBeside=*/false));
  job.machine.axes[1] = linkOf(5, false);
  job.machine.axes[1].costs[ASHLAR_RT_ALL_REDUCE].latency_ns = 3;
  job.addRun(0, job.addProgram(0, "step", {allReduce({0}, 100), allReduce({1}, 100), allReduce({1, 0}, 10)}), 0);
  const rt::Simulation step = job.simulate();
  CHECK(step.endPs == 100 * 2 + (3000 + 100 * 5) + (3000 + 10 * 5));
  CHECK(step.classes.size() == 1);
  CHECK(step.ranks.classes[0].ranks == 8);
  CHECK(step.classes[0].exposedPs() == step.endPs);
}

TEST_CASE("simulate: a started collective goes beside the computation, one after the other", "[simulate][overlap]") {
  TableJob job(1, {2});
  job.setLinks(linkOf(1, /*movesBeside=*/true));
  job.machine.handOverPs = 4;
  // The channel carries 0-104 and 104-208; the device computes until 110, waits for both, and syncs at 208 for 50.
  job.addRun(0,
             job.addProgram(0, "step",
                            {allReduce({0}, 100, 1), allReduce({0}, 100, 2), computeFor(110), waitFor(1), computeFor(20), waitFor(2),
                             allReduce({0}, 50)}),
             0);
  const rt::Simulation step = job.simulate();
  CHECK(step.endPs == 208 + 50);
  const auto &exposed = step.classes[0].exposed;
  CHECK(exposed.at({0, 0}).ps == 0);
  CHECK(exposed.at({0, 1}).ps == 208 - 130);
  CHECK(exposed.at({0, 6}).ps == 50);
}

TEST_CASE("simulate: a synchronous collective waits for the started ones on links that carry both", "[simulate][overlap]") {
  auto end = [](uint32_t axis, bool movesBeside) {
    TableJob job(1, {2, 2});
    job.setLinks(linkOf(1, /*movesBeside=*/true), /*ranksPerHost=*/1, /*adapters=*/2);
    job.machine.axes[axis].moves_beside = movesBeside;
    job.addRun(0, job.addProgram(0, "step", {allReduce({0}, 100, 1), allReduce({axis}, 50), waitFor(1)}), 0);
    return job.simulate().endPs;
  };
  CHECK(end(1, /*movesBeside=*/true) == 150);
  CHECK(end(1, /*movesBeside=*/false) == 100); // the device carries one, the channel the other
  CHECK(end(0, /*movesBeside=*/false) == 150); // one group does one after the other
}

TEST_CASE("simulate: a program ends when all that it started has ended", "[simulate][overlap]") {
  TableJob job(1, {2});
  job.setLinks(linkOf(1, /*movesBeside=*/true));
  job.addRun(0, job.addProgram(0, "step", {computeFor(10), allReduce({0}, 100, 1)}, /*otherPs=*/5), 0);
  CHECK(job.simulate().endPs == 10 + 100 + 5);
}

TEST_CASE("simulate: transfers that share a link share its rate", "[simulate][links]") {
  rt::LinkLoads loads(2);
  const uint32_t first = loads.begin(0, 10, {{0, rt::kWholeLink}});
  CHECK(loads.endOf(first) == 10);
  const uint32_t second = loads.begin(5, 10, {{0, rt::kWholeLink}});
  CHECK((loads.endOf(first) == 15 && loads.endOf(second) == 25));
  loads.end(15, first);
  CHECK(loads.endOf(second) == 20); // 5 are left
  const uint32_t third = loads.begin(16, 10, {{1, rt::kWholeLink / 2}});
  const uint32_t fourth = loads.begin(16, 10, {{1, rt::kWholeLink / 2}});
  CHECK((loads.endOf(third) == 26 && loads.endOf(fourth) == 26)); // halves
  const uint32_t fifth = loads.begin(20, 10, {{0, rt::kWholeLink / 4}, {1, rt::kWholeLink}});
  CHECK((loads.endOf(third) == 32 && loads.endOf(fifth) == 40 && loads.endOf(second) == 20));
}

TEST_CASE("simulate: groups of one host share its adapters with messages, groups of others do not", "[simulate][links]") {
  // Two stages of two ranks, each rank of a stage on a host of its own; rank 0 and 2, and 1 and 3, could share one.
  auto make = [](uint64_t ranksPerHost) {
    TableJob job(2, {2});
    job.setLinks(linkOf(1, /*movesBeside=*/true), ranksPerHost);
    const uint32_t first = job.addProgram(0, "first", {computeFor(10)}), busy = job.addProgram(0, "busy", {allReduce({0}, 100)});
    const uint32_t second = job.addProgram(1, "second", {computeFor(1)});
    job.addMessage(0, first, 1, second, 40);
    job.addRun(0, first, 0);
    job.addRun(0, busy, 0);
    job.addRun(1, second, 0);
    return job.simulate();
  };
  // Hosts of one: the message leaves each host from 10 on while the group sends, at half the rate; it has ended at 90, the group at 150.
  const rt::Simulation shared = make(1);
  CHECK(shared.classes[1].receivePs == 80);
  CHECK(shared.classes[0].endPs == 10 + 100 + 40);
  // A host for all: the rank sends both over its own links.
  CHECK(make(4).classes[0].endPs == 150);
}

// Three stages of 4 ranks, a rank a host. Pods of 5 hosts: the groups of the second stage are on 1 + 3 hosts of two pods, of the third on 2
// + 2. Both use the uplinks of the pod between.
TEST_CASE("simulate: groups of several stages share the uplinks of a pod", "[simulate][links][pods]") {
  auto ends = [](uint64_t hostsPerPod, uint64_t uplinks) {
    TableJob job(3, {4});
    job.setLinks(linkOf(1, /*movesBeside=*/true), /*ranksPerHost=*/1);
    job.machine.hostsPerPod = hostsPerPod;
    job.machine.uplinksPerPod = uplinks;
    for (uint32_t stage = 0; stage < 3; ++stage) {
      job.addRun(stage, job.addProgram(stage, "step", {allReduce({0}, 100)}), 0);
    }
    const rt::Simulation step = job.simulate();
    std::vector<uint64_t> found;
    for (uint32_t rank : {0, 4, 8}) {
      found.push_back(step.classes[step.ranks.ofRank[rank]].endPs);
    }
    return found;
  };
  using Ends = std::vector<uint64_t>;
  CHECK(ends(5, 1) == Ends{100, 200, 200});
  CHECK(ends(4, 1) == Ends{100, 100, 100}); // each stage is a pod
  CHECK(ends(0, 1) == Ends{100, 100, 100});
  CHECK(ends(5, 9) == Ends{100, 100, 100}); // an uplink for each rank
}

// A stage of 2 ranks on hosts 2 and 3, of two pods, sums while its messages go to hosts 4 and 5. The uplinks have a quarter of an adapter's
// rate.
TEST_CASE("simulate: traffic between pods leaves the adapters to others", "[simulate][links][pods]") {
  auto receiving = [](uint64_t adapterRate) {
    TableJob job(3, {2});
    job.setLinks(linkOf(1, /*movesBeside=*/true), /*ranksPerHost=*/1);
    job.machine.hostsPerPod = 3;
    job.machine.adapterBytesPerUs = adapterRate;
    const uint32_t first = job.addProgram(1, "first", {}), busy = job.addProgram(1, "busy", {allReduce({0}, 100)});
    const uint32_t last = job.addProgram(2, "last", {computeFor(1)});
    job.addMessage(1, first, 2, last, 40);
    job.addRun(1, first, 0);
    job.addRun(1, busy, 0);
    job.addRun(2, last, 0);
    const rt::Simulation step = job.simulate();
    auto classOf = [&](uint32_t rank) { return step.classes[step.ranks.ofRank[rank]]; };
    return std::vector<uint64_t>{classOf(4).receivePs, classOf(5).receivePs, classOf(2).endPs};
  };
  using Times = std::vector<uint64_t>;
  CHECK(receiving(4) == Times{80, 40, 140}); // from host 2 by the uplink of the sum; from host 3 within the pod, beside the sum
  CHECK(receiving(1) == Times{80, 80, 140}); // its adapter is as slow, and has both
}

// Four stages of 2 ranks on two hosts of 4 with 2 adapters: the first and third stage are one rail, the second and fourth another.
TEST_CASE("simulate: traffic of different rails shares nothing", "[simulate][links][rails]") {
  auto receiving = [](bool hasRails, uint32_t from, uint32_t to) {
    TableJob job(4, {2});
    job.setLinks(linkOf(1, /*movesBeside=*/true), /*ranksPerHost=*/4, /*adapters=*/2);
    job.machine.hasRails = hasRails;
    for (uint32_t stage = 0; stage < 4; ++stage) {
      job.addRun(stage, job.addProgram(stage, "step", {}), 0);
    }
    job.addMessage(0, 0, 2, 0, 40);
    job.addMessage(from, 0, to, 0, 40);
    const rt::Simulation step = job.simulate();
    return std::vector<uint64_t>{step.classes[step.ranks.ofRank[4]].receivePs, step.classes[step.ranks.ofRank[6]].receivePs};
  };
  using Times = std::vector<uint64_t>;
  CHECK(receiving(true, 1, 3) == Times{40, 40});
  CHECK(receiving(false, 1, 3) == Times{80, 80}); // either could use both adapters
  CHECK(receiving(true, 0, 3) == Times{80, 80});  // the sender has one adapter for both
}

TEST_CASE("simulate: a sender waits until its slot was read", "[simulate][slots]") {
  TableJob job(2, {1});
  job.microBatches = 3;
  const uint32_t first = job.addProgram(0, "first", {computeFor(10)}), second = job.addProgram(1, "second", {computeFor(100)});
  job.addMessage(0, first, 1, second, 1);
  for (uint32_t i = 0; i < 3; ++i) {
    job.addRun(0, first, i);
    job.addRun(1, second, i);
  }
  job.setSlots(0, 3);
  CHECK(job.simulate().classes[0].endPs == 30);
  job.setSlots(0, 1); // message 1 goes out at 20 and is read at 110
  const rt::Simulation step = job.simulate();
  CHECK((step.classes[0].endPs == 120 && step.classes[0].slotPs == 90));
  CHECK((step.endPs == 310 && step.classes[1].messagePs == 10));
}

TEST_CASE("simulate: batches come at the rate of the data", "[simulate][data]") {
  TableJob job(1, {1});
  job.microBatches = 3;
  const uint32_t program = job.addProgram(0, "step", {computeFor(10)});
  for (uint32_t i = 0; i < 3; ++i) {
    job.addRun(0, program, i, /*takesBatch=*/true);
  }
  rt::SimulationOptions options;
  options.batchPs = 25;
  const rt::Simulation step = job.simulate(options);
  CHECK((step.endPs == 60 && step.classes[0].batchPs == 30));
}

TEST_CASE("simulate: an order that does not end is an error", "[simulate]") {
  TableJob job(2, {1});
  const uint32_t a = job.addProgram(0, "a", {}), b = job.addProgram(1, "b", {});
  job.addMessage(0, a, 1, b, 1);
  job.addMessage(1, b, 0, a, 1);
  job.addRun(0, a, 0);
  job.addRun(1, b, 0);
  rt::Simulation result;
  CHECK(job.trySimulate({}, result).message() == "the order of stage 0 stands still at run 0 of 1");
}

TEST_CASE("simulate: a slow rank keeps the ranks of its groups waiting", "[simulate][fault]") {
  TableJob job(1, {2, 2});
  job.setLinks(linkOf(1, false));
  job.addRun(0, job.addProgram(0, "step", {computeFor(100), allReduce({1}, 10), computeFor(100), allReduce({0}, 10)}), 0);
  CHECK(job.simulate().endPs == 220);
  rt::SimulationOptions options;
  options.faults.slowRanks[3] = 1.5;
  const rt::Simulation step = job.simulate(options);
  // Each is a class of its own: the slow rank, its partner along b, the one along a, and the fourth.
  CHECK(step.classes.size() == 4);
  CHECK(step.endPs == 150 + 10 + 150 + 10);
  auto members = [&](uint32_t rank, uint32_t instr) { return step.classes[step.ranks.ofRank[rank]].exposed.at({0, instr}).membersPs; };
  CHECK((members(2, 1) == 50 && members(0, 1) == 0 && members(3, 1) == 0 && members(3, 3) == 0));
  CHECK((members(1, 3) == 100 && members(0, 3) == 50)); // of rank 1 the partner along a is slow; of rank 0 it had waited
}

TEST_CASE("simulate: a slow link makes the collectives and messages over it longer", "[simulate][fault]") {
  TableJob job(2, {2, 2});
  job.setLinks(linkOf(1, false));
  const uint32_t first = job.addProgram(0, "first", {allReduce({0}, 100), allReduce({1}, 100), allReduce({0, 1}, 100)});
  const uint32_t second = job.addProgram(1, "second", {});
  job.addMessage(0, first, 1, second, 7);
  job.addRun(0, first, 0);
  job.addRun(1, second, 0);
  rt::SimulationOptions options;
  options.faults.slowAxes = {3, 1};
  options.faults.slowMessages = 2;
  CHECK(job.simulate(options).endPs == 300 + 100 + 300 + 14);
}

TEST_CASE("simulate: a lost rank leaves the others where they need it", "[simulate][fault]") {
  TableJob job(2, {2});
  job.setLinks(linkOf(1, false));
  const uint32_t first = job.addProgram(0, "first", {computeFor(10), allReduce({0}, 10)}),
                 second = job.addProgram(1, "second", {computeFor(1)});
  job.addMessage(0, first, 1, second, 7);
  job.addRun(0, first, 0);
  job.addRun(1, second, 0);
  rt::SimulationOptions options;
  options.faults.lostRank = 1;
  const rt::Simulation step = job.simulate(options);
  auto classOf = [&](uint32_t rank) { return step.classes[step.ranks.ofRank[rank]]; };
  CHECK((classOf(1).standsStill.empty() && classOf(1).computePs == 0));
  CHECK((classOf(0).standsStill == "instr" && classOf(0).standstill.awaits == std::vector<uint32_t>{step.ranks.ofRank[1]}));
  CHECK((classOf(2).standsStill == "message message from stage 0" &&
         classOf(2).standstill.awaits == std::vector<uint32_t>{step.ranks.ofRank[0]}));
  CHECK(classOf(3).standstill.awaits == std::vector<uint32_t>{step.ranks.ofRank[1]});
}

TEST_CASE("simulate: an instruction of one device keeps the others waiting where they meet", "[simulate]") {
  TableJob job(1, {4});
  job.setLinks(linkOf(1, false));
  job.addRun(0, job.addProgram(0, "step", {computeFor(100, /*owner=*/3), allReduce({0}, 10)}), 0);
  const rt::Simulation step = job.simulate();
  CHECK((step.endPs == 110 && step.classes.size() == 2));
  CHECK((step.ranks.ofRank == std::vector<uint32_t>{0, 0, 1, 0} && step.classes[0].computePs == 0));
}

} // namespace ashlar::test::simulator_test
