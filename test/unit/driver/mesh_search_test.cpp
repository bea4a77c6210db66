// SPDX-License-Identifier: Apache-2.0
//
// The meshes, stages and micro-batches that a search starts from, by hand.

#include "compiler/job/job.h"
#include "compiler/planning/candidate_jobs.h"
#include "compiler/planning/mesh_search.h"

#include <catch2/catch.hpp>

namespace ashlar::test::mesh_search_test {
namespace {

// Returns the names of the jobs that a search starts from.
std::vector<std::string> namesOf(const std::string &text) {
  llvm::Expected<job::Job> job = job::parseJobText("mode: AUTO global_batch: 16 " + text, "job");
  REQUIRE(static_cast<bool>(job));
  std::vector<std::string> names;
  for (const job::Job &each : planning::listMeshJobs(*job)) {
    CHECK_FALSE(each.mesh().has_devices());
    names.push_back(planning::meshName(planning::makeRow(each)));
  }
  return names;
}

const std::string kLoss = " loss { model_output { tensor: \"loss\" } }";

} // namespace

TEST_CASE("mesh search: all ways to share the devices among two axes, and stages", "[mesh_search]") {
  CHECK(namesOf("mesh { devices: 8 }" + kLoss) == std::vector<std::string>{
                                                      "outer=4,inner=2",
                                                      "outer=2,inner=2, 2 stages ONE_F_ONE_B, 8 micro-batches",
                                                      "outer=2,inner=4",
                                                      "outer=8,inner=1",
                                                      "outer=4,inner=1, 2 stages ONE_F_ONE_B, 8 micro-batches",
                                                      "outer=2,inner=1, 4 stages ONE_F_ONE_B, 16 micro-batches",
                                                      "outer=1,inner=1, 8 stages ONE_F_ONE_B, 16 micro-batches",
                                                  });
}

TEST_CASE("mesh search: what the job says stays", "[mesh_search]") {
  // A model that is only run has no stages, nor has a job that says accumulate.
  CHECK(namesOf("mesh { devices: 2 }") == std::vector<std::string>{"outer=2,inner=1"});
  CHECK(namesOf("mesh { devices: 2 } accumulate: 2" + kLoss) == std::vector<std::string>{"outer=2,inner=1, 2 micro-batches"});
  // Its own axes, its own pipeline.
  CHECK(namesOf("mesh { devices: 2 axes { name: \"dp\" } }") == std::vector<std::string>{"dp=2"});
  CHECK(namesOf("mesh { devices: 4 } pipeline { stages: 2 micro_batches: 4 schedule: GPIPE }" + kLoss) ==
        std::vector<std::string>{"outer=2,inner=1, 2 stages GPIPE, 4 micro-batches"});
}

TEST_CASE("mesh search: stages have at least a micro-batch each", "[mesh_search]") {
  // 3 does not divide the batch of 16, so there are no 3 stages.
  CHECK(namesOf("mesh { devices: 3 }" + kLoss) == std::vector<std::string>{"outer=3,inner=1"});
}

TEST_CASE("mesh search: schedules of equal programs, whichever a pipeline had", "[mesh_search]") {
  auto schedulesOf = [](const std::string &schedule) {
    llvm::Expected<job::Job> job =
        job::parseJobText("mode: AUTO global_batch: 16 mesh { axes { name: \"dp\" size: 1 } } pipeline { stages: 2 "
                          "micro_batches: 4 schedule: " +
                              schedule + " }" + kLoss,
                          "job");
    REQUIRE(static_cast<bool>(job));
    std::vector<std::pair<job::Pipeline::Schedule, int32_t>> schedules;
    for (const job::Job &each : planning::listSchedules(*job, /*layers=*/8)) {
      schedules.emplace_back(each.pipeline().schedule(), each.pipeline().chunks());
      CHECK(planning::withoutOrder(each).SerializeAsString() == planning::withoutOrder(*job).SerializeAsString());
      CHECK(planning::withZeroBubble(each).SerializeAsString() == planning::withZeroBubble(*job).SerializeAsString());
    }
    return schedules;
  };
  using Schedules = std::vector<std::pair<job::Pipeline::Schedule, int32_t>>;
  const int32_t one = job::Pipeline().chunks();
  const Schedules all = {{job::Pipeline::ONE_F_ONE_B, one}, {job::Pipeline::INTERLEAVED, 2}, {job::Pipeline::INTERLEAVED, 4}};
  CHECK(schedulesOf("INTERLEAVED chunks: 4") == all);
  CHECK(schedulesOf("ONE_F_ONE_B") == all);
  CHECK(schedulesOf("ZERO_BUBBLE") == Schedules{{job::Pipeline::ZERO_BUBBLE, one}}); // its programs are others
}

TEST_CASE("mesh search: levels of optimizer parallelism, of jobs that train", "[mesh_search]") {
  auto levelsOf = [](const std::string &text) {
    llvm::Expected<job::Job> job = job::parseJobText("mode: AUTO global_batch: 16 mesh { axes { name: \"dp\" size: 4 } }" + text, "job");
    REQUIRE(static_cast<bool>(job));
    std::vector<int32_t> levels;
    llvm::for_each(planning::listLevels(*job), [&](const job::Job &each) { levels.push_back(each.optimizer_parallel().level()); });
    return levels;
  };
  CHECK(levelsOf(kLoss + " accumulate: 2") == std::vector<int32_t>{1, 2, 3});
  CHECK(levelsOf(kLoss) == std::vector<int32_t>{1, 3}); // with one micro-batch level 2 is level 1
  CHECK(levelsOf("").empty());
}

TEST_CASE("mesh search: the last axis takes half of the devices of the one before", "[mesh_search]") {
  auto larger = [](const std::string &mesh) -> std::string {
    llvm::Expected<job::Job> job = job::parseJobText("mode: AUTO mesh { " + mesh + " }", "job");
    REQUIRE(static_cast<bool>(job));
    std::optional<job::Job> made = planning::withLargerLastAxis(*job);
    return made ? planning::meshName(planning::makeRow(*made)) : "none";
  };
  CHECK(larger("axes { name: \"a\" size: 6 } axes { name: \"b\" size: 8 }") == "a=3,b=16");
  CHECK(larger("axes { name: \"a\" size: 3 } axes { name: \"b\" size: 16 }") == "none");
  CHECK(larger("axes { name: \"a\" size: 4 }") == "none");
}

} // namespace ashlar::test::mesh_search_test
