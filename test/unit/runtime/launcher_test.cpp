// SPDX-License-Identifier: Apache-2.0
//
// The environments that launchers make, read into rank, number of ranks and hosts; and those that contradict themselves.

#include "runtime/comm/launch/launcher.h"

#include "runtime/base/host.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <map>

namespace ashlar::test::launcher_test {

using namespace ashlar::rt;

namespace {

using Variables = std::map<std::string, std::string>;

// The variables that any row of the table reads.
constexpr const char *kAll[] = {"OMPI_COMM_WORLD_RANK",
                                "OMPI_COMM_WORLD_SIZE",
                                "OMPI_COMM_WORLD_LOCAL_RANK",
                                "OMPI_COMM_WORLD_LOCAL_SIZE",
                                "PMIX_NAMESPACE",
                                "PMIX_RANK",
                                "RANK",
                                "WORLD_SIZE",
                                "LOCAL_RANK",
                                "LOCAL_WORLD_SIZE",
                                "MASTER_ADDR",
                                "MASTER_PORT",
                                "SLURM_PROCID",
                                "SLURM_STEP_NUM_TASKS",
                                "SLURM_LOCALID",
                                "SLURM_STEP_TASKS_PER_NODE",
                                "SLURM_JOB_ID",
                                "SLURM_STEP_ID",
                                "PMI_RANK",
                                "PMI_SIZE",
                                "PMI_FD",
                                "MPI_LOCALRANKID",
                                "MPI_LOCALNRANKS",
                                "ASHLAR_PATIENCE",
                                "ASHLAR_REPEAT_BATCH"};

// The environment of one rank, and nothing of the one the test was started in.
class Environment {
public:
  explicit Environment(const Variables &variables) {
    for (const char *name : kAll) {
      if (const char *value = std::getenv(name)) {
        before[name] = value;
      }
      unsetenv(name);
    }
    for (const auto &[name, value] : variables) {
      setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
    }
  }
  ~Environment() {
    for (const char *name : kAll) {
      unsetenv(name);
    }
    for (const auto &[name, value] : before) {
      setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
    }
  }

private:
  Variables before;
};

// Returns what the environment is read as, "mpirun 1/4 local 1, one host", or the error.
std::string read(const Variables &variables) {
  const Environment environment(variables);
  Launch launch;
  if (const Status status = findLaunch(launch); !status.ok()) {
    return status.message();
  }
  if (launch.launcher == nullptr) {
    return "alone";
  }
  return fmt::format("{} {}/{} local {}, {}", launch.launcher->name, launch.rank, launch.ranks, launch.localRank,
                     launch.isOnOneHost ? "one host" : "several hosts");
}

// Returns the error of ranks that cannot meet, "" where they can.
std::string meeting(const Variables &variables) {
  const Environment environment(variables);
  Launch launch;
  REQUIRE(findLaunch(launch).ok());
  return launch.checkMeeting().message();
}

const Variables kMpirun = {
    {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Variables kTorchrun = {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}};
const Variables kSlurm = {
    {"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "1"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}};

Variables with(Variables variables, const Variables &more) {
  for (const auto &[name, value] : more) {
    variables[name] = value;
  }
  return variables;
}

} // namespace

TEST_CASE("launcher: each one's environment", "[runtime][launcher]") {
  CHECK(read({}) == "alone");
  CHECK(read(kMpirun) == "mpirun 1/4 local 1, one host");
  CHECK(read(with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})) == "mpirun 1/4 local 1, several hosts");
  CHECK(read(kTorchrun) == "torchrun 2/4 local 0, several hosts");
  CHECK(read(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "4"}})) == "torchrun 2/4 local 0, one host");
  CHECK(read({{"RANK", "1"}, {"WORLD_SIZE", "2"}}) == "torchrun 1/2 local 0, one host");
  CHECK(read({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}}) == "torchrun 1/2 local 0, one host");
  CHECK(read({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "job-0"}}) == "torchrun 1/2 local 0, several hosts");
  CHECK(read(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "4"}})) == "srun 3/4 local 1, one host");
  CHECK(read(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}, {"PMIX_RANK", "3"}})) == "srun --mpi=pmix 3/4 local 1, several hosts");
  CHECK(read(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "3,1"}, {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}})) ==
        "srun --mpi=pmi2 3/4 local 1, several hosts");
  CHECK(read({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}}) ==
        "mpiexec of MPICH 0/2 local 0, one host");
  // A batch script of Slurm has these; no step was started.
  CHECK(read({{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}}) == "alone");
}

TEST_CASE("launcher: of two launchers, the inner one", "[runtime][launcher]") {
  CHECK(read(with(kSlurm, kMpirun)) == "mpirun 1/4 local 1, one host");
  CHECK(read(with(kSlurm, kTorchrun)) == "torchrun 2/4 local 0, several hosts");
  // mpirun starts a script that sets PyTorch's variables from its own.
  CHECK(read(with(kMpirun, {{"RANK", "1"}, {"WORLD_SIZE", "4"}})) == "mpirun 1/4 local 1, one host");
  CHECK(
      read(with(kMpirun, {{"RANK", "1"}, {"WORLD_SIZE", "2"}})) ==
      "OMPI_COMM_WORLD_SIZE is 4 but WORLD_SIZE is \"2\", so two launchers started this rank; unset the variables of one of them, RANK and "
      "WORLD_SIZE for mpirun");
  CHECK(read(with(kMpirun, {{"RANK", "0"}, {"WORLD_SIZE", "4"}})).find("OMPI_COMM_WORLD_RANK is 1 but RANK is \"0\"") == 0);
}

TEST_CASE("environment: whole numbers within bounds", "[runtime][launcher]") {
  auto check = [](const char *name, const char *value) {
    const Environment environment({{name, value}});
    return checkEnvironment().message();
  };
  for (const char *value : {"abc", "-3", "0", "3.5", "3 ", "+3", "100001", "18446744073709551617"}) {
    CHECK(check("ASHLAR_PATIENCE", value) ==
          std::string("ASHLAR_PATIENCE is \"") + value + "\", not a number from 1 to 100000; correct it, or unset it");
  }
  CHECK(check("PMI_FD", "4294967299") == "PMI_FD is \"4294967299\", not a number from 0 to 2147483647; correct it, or unset it");
  CHECK(check("ASHLAR_REPEAT_BATCH", "yes") == "ASHLAR_REPEAT_BATCH is \"yes\", not a number from 0 to 1; correct it, or unset it");
  CHECK(check("ASHLAR_PATIENCE", "") == "");
  const Environment environment({{"ASHLAR_PATIENCE", "7"}});
  CHECK((checkEnvironment().ok() && patienceSeconds() == 7 && environmentInteger("PMI_FD") == -1));
}

TEST_CASE("launcher: environments that cannot be", "[runtime][launcher]") {
  CHECK(read(with(kTorchrun, {{"RANK", "4"}})) == "RANK is \"4\", not a number from 0 to 3; start the program with torchrun");
  CHECK(read({{"RANK", "0"}}) == "WORLD_SIZE is \"\", not a number from 1 to 1048576; start the program with torchrun");
  CHECK(read({{"WORLD_SIZE", "2"}}) == "RANK is \"\", not a number from 0 to 1; start the program with torchrun");
  CHECK(read(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "5"}})) ==
        "LOCAL_WORLD_SIZE is \"5\", not a number from 1 to 4; start the program with torchrun");
  CHECK(read(with(kTorchrun, {{"LOCAL_RANK", "-1"}})) == "LOCAL_RANK is \"-1\", not a number from 0 to 3; start the program with torchrun");
}

TEST_CASE("launcher: ranks that cannot meet", "[runtime][launcher]") {
  CHECK(meeting(with(kMpirun, {{"PMIX_NAMESPACE", "job"}})).empty());
  CHECK(meeting(kMpirun).find("OMPI_COMM_WORLD_SIZE is 4 but PMIX_NAMESPACE is not set") == 0);
  const Variables hand = {{"RANK", "1"}, {"WORLD_SIZE", "2"}};
  CHECK(meeting(hand) ==
        "WORLD_SIZE is 2 but MASTER_PORT is not set, so ranks cannot meet; set MASTER_PORT, equal on all ranks, or run the "
        "program with mpirun -n 2");
  CHECK(meeting(with(hand, {{"MASTER_PORT", "29500"}})).empty());
  CHECK(meeting(with(kTorchrun, {{"MASTER_PORT", "29500"}})).find("WORLD_SIZE is 4 but MASTER_ADDR is not set") == 0);
  CHECK(meeting(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "4"}})).empty());
  CHECK(meeting(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}})) ==
        "srun started 4 ranks on several hosts without PMIx or PMI2, so they cannot meet; add --mpi=pmix or --mpi=pmi2 to srun");
  CHECK(meeting({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}}).find("PMI_SIZE is 2 but PMI_FD is not set") == 0);
}

TEST_CASE("launcher: ranks of one host meet by the name of their job", "[runtime][launcher]") {
  auto jobOf = [](const Variables &variables) {
    const Environment environment(variables);
    Launch launch;
    REQUIRE(findLaunch(launch).ok());
    return launch.job();
  };
  const Variables first = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}};
  CHECK(jobOf(first) == jobOf(with(first, {{"RANK", "1"}})));
  CHECK(jobOf(first) != jobOf(with(first, {{"MASTER_PORT", "29501"}})));
  CHECK(jobOf(kSlurm) != jobOf(with(kSlurm, {{"SLURM_STEP_ID", "1"}})));
}

} // namespace ashlar::test::launcher_test
