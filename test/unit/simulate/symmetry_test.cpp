// SPDX-License-Identifier: Apache-2.0
//
// Random jobs: ranks that are simulated once for their class have, to the picosecond, the times that they have each alone.

#include "test/unit/simulate/table_job.h"

#include <catch2/catch.hpp>

#include <random>
#include <utility>

namespace ashlar::test::symmetry_test {

namespace {

// A random pipeline that all micro-batches pass forward, then backward, with collectives of all kinds in its programs.
class RandomJob {
public:
  explicit RandomJob(unsigned seed) : random(seed) {}

  TableJob make() {
    const uint32_t stages = pick(1, 3), axes = pick(1, 2), microBatches = pick(1, 4);
    std::vector<uint32_t> sizes;
    for (uint32_t i = 0; i < axes; ++i) {
      sizes.push_back(pick(1, 4));
    }
    TableJob job(stages, sizes);
    job.microBatches = microBatches;
    job.setLinks(linkOf(pick(1, 4), pick(0, 1) == 1), pick(1, 9), pick(1, 3));
    job.machine.axes[0] = linkOf(pick(1, 4), pick(0, 1) == 1);
    job.machine.handOverPs = pick(0, 20);
    if (pick(0, 1) == 1) {
      job.machine.hasRails = true;
      while (job.machine.ranksPerHost % job.machine.adaptersPerHost != 0) {
        --job.machine.adaptersPerHost;
      }
    }
    job.machine.hostsPerPod = pick(0, 3);
    job.machine.uplinksPerPod = pick(1, 4);
    job.machine.adapterBytesPerUs = pick(1, 4);
    job.machine.uplinkBytesPerUs = pick(1, 4);
    for (uint32_t stage = 0; stage < stages; ++stage) {
      job.addProgram(stage, "forward", instrs(axes));
      job.addProgram(stage, "backward", instrs(axes), pick(0, 50));
      job.addProgram(stage, "update", instrs(axes));
      job.setSlots(stage, microBatches);
    }
    for (uint32_t stage = 0; stage + 1 < stages; ++stage) {
      job.addMessage(stage, 0, stage + 1, 0, pick(1, 200));
      job.addMessage(stage + 1, 1, stage, 1, pick(1, 200));
    }
    for (uint32_t stage = 0; stage < stages; ++stage) {
      for (uint32_t program : {0u, 1u}) {
        for (uint32_t i = 0; i < microBatches; ++i) {
          job.addRun(stage, program, i, program == 0);
        }
      }
      job.addRun(stage, 2, microBatches - 1);
    }
    return job;
  }

  rt::SimulationOptions options(uint32_t ranks) {
    rt::SimulationOptions options;
    options.steps = pick(1, 2);
    options.batchPs = pick(0, 100);
    for (uint32_t i = 0; i < pick(0, 2); ++i) {
      options.faults.slowRanks[pick(0, ranks - 1)] = 1 + pick(1, 9) / 10.0;
    }
    return options;
  }

private:
  uint32_t pick(uint32_t from, uint32_t to) { return std::uniform_int_distribution<uint32_t>(from, to)(random); }

  std::vector<TableInstr> instrs(uint32_t axes) {
    std::vector<TableInstr> list;
    std::vector<uint32_t> started; // tokens
    for (uint32_t i = 0, token = 0; i < pick(2, 8); ++i) {
      const std::vector<uint32_t> over =
          axes == 2 && pick(0, 2) == 0 ? std::vector<uint32_t>{0, 1} : std::vector<uint32_t>{pick(0, axes - 1)};
      switch (pick(0, 4)) {
      case 0:
        list.push_back(allReduce(over, pick(0, 300)));
        break;
      case 1:
        list.push_back(allReduce(over, pick(0, 300), ++token));
        started.push_back(token);
        break;
      case 2:
        list.push_back(repeatOf(pick(0, 3), 2));
        list.push_back(computeFor(pick(0, 100)));
        list.push_back(allReduce(over, pick(0, 100)));
        break;
      case 3:
        if (!started.empty()) {
          list.push_back(waitFor(started.back()));
          started.pop_back();
        }
        break;
      default:
        list.push_back(computeFor(pick(0, 300)));
      }
    }
    for (uint32_t token : started) {
      list.push_back(waitFor(token));
    }
    return list;
  }

  std::mt19937 random;
};

} // namespace

TEST_CASE("simulate: classes of ranks have the times of each of their ranks", "[simulate][symmetry]") {
  uint64_t shared = 0, contended = 0, inPods = 0, onRails = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    INFO("seed " << seed);
    RandomJob random(seed);
    TableJob job = random.make();
    rt::SimulationOptions options = random.options(job.ranks());
    const rt::Simulation classes = job.simulate(options);
    options.usesSymmetry = false;
    const rt::Simulation alone = job.simulate(options);
    CHECK(classes.endPs == alone.endPs);
    REQUIRE(alone.classes.size() == job.ranks());
    shared += job.ranks() - classes.classes.size();
    for (uint32_t rank = 0; rank < job.ranks(); ++rank) {
      INFO("rank " << rank);
      const rt::SimulatedClass &ofClass = classes.classes[classes.ranks.ofRank[rank]], &own = alone.classes[rank];
      CHECK((ofClass.computePs == own.computePs && ofClass.receivePs == own.receivePs && ofClass.messagePs == own.messagePs));
      CHECK((ofClass.slotPs == own.slotPs && ofClass.batchPs == own.batchPs && ofClass.endPs == own.endPs));
      REQUIRE(ofClass.exposed.size() == own.exposed.size());
      for (const auto &[place, time] : own.exposed) {
        const rt::ExposedTime &other = ofClass.exposed.at(place);
        CHECK((other.ps == time.ps && other.membersPs == time.membersPs && other.times == time.times));
      }
      REQUIRE(ofClass.runs.size() == own.runs.size());
      for (size_t i = 0; i < own.runs.size(); ++i) {
        CHECK((ofClass.runs[i].begin == own.runs[i].begin && ofClass.runs[i].end == own.runs[i].end));
      }
    }
    job.machine.hostsPerPod = 0;
    const uint64_t withoutPods = job.simulate(options).endPs;
    inPods += withoutPods != alone.endPs;
    onRails += std::exchange(job.machine.hasRails, false) && job.simulate(options).endPs != withoutPods;
    job.machine.ranksPerHost = UINT64_MAX; // without adapters to share
    for (auto &link : job.machine.axes) {
      link.moves_beside = 0;
    }
    contended += job.simulate(options).endPs != alone.endPs;
  }
  CHECK(shared > 1000);   // ranks that stood for no class
  CHECK(contended > 100); // jobs in which links are shared, or overlap
  CHECK(inPods > 10);     // in which uplinks are shared
  CHECK(onRails > 5);     // and adapters by rails
}

} // namespace ashlar::test::symmetry_test
