// SPDX-License-Identifier: Apache-2.0
//
// The table of launchers, and how a row is read.

#include "runtime/comm/launch/launcher.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace ashlar::rt {
namespace {

// More ranks than any job has: more than this is a mistake.
constexpr int64_t kMostRanks = 1 << 20;

// Inner launchers first. mpirun of Open MPI draws the precondition key at random for each job. Under srun a process of mpirun or torchrun
// has srun's variables, too, with srun's numbers. MPICH's mpiexec (Hydra) speaks the protocol of srun --mpi=pmi2.
constexpr Launcher kLaunchers[] = {
    {"mpirun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     /*sign=*/nullptr,
     {"PMIX_NAMESPACE", "OMPI_MCA_orte_precondition_transports", "OMPI_MCA_orte_hnp_uri"},
     /*needed=*/"PMIX_NAMESPACE",
     /*neededBetweenHosts=*/"PMIX_RANK",
     AddressExchange::kPmix,
     "mpirun -n {}",
     /*endsWithParent=*/true},
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     /*sign=*/nullptr,
     {"MASTER_PORT", "MASTER_ADDR", "TORCHELASTIC_RUN_ID"},
     /*needed=*/"MASTER_PORT",
     /*neededBetweenHosts=*/"MASTER_ADDR",
     AddressExchange::kMaster,
     "WORLD_SIZE={}",
     /*endsWithParent=*/false},
    {"srun --mpi=pmix",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE",
     /*sign=*/"PMIX_RANK",
     {"PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"},
     /*needed=*/"PMIX_NAMESPACE",
     /*neededBetweenHosts=*/"PMIX_NAMESPACE",
     AddressExchange::kPmix,
     "srun -n {}",
     /*endsWithParent=*/true},
    {"srun --mpi=pmi2",
     "PMI_RANK",
     "PMI_SIZE",
     "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE",
     /*sign=*/"SLURM_STEP_ID",
     {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_CLUSTER_NAME"},
     /*needed=*/"PMI_FD",
     /*neededBetweenHosts=*/"PMI_FD",
     AddressExchange::kPmi2,
     "srun -n {}",
     /*endsWithParent=*/true},
    {"mpiexec of MPICH",
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     /*sign=*/nullptr,
     {nullptr, nullptr, nullptr},
     /*needed=*/"PMI_FD",
     /*neededBetweenHosts=*/"PMI_FD",
     AddressExchange::kPmi2,
     "mpiexec -n {}",
     /*endsWithParent=*/true},
    {"srun",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE",
     /*sign=*/"SLURM_STEP_ID",
     {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_CLUSTER_NAME"},
     /*needed=*/"SLURM_JOB_ID",
     /*neededBetweenHosts=*/nullptr,
     AddressExchange::kNone,
     "srun -n {}",
     /*endsWithParent=*/true},
};
constexpr const Launcher *kMpirun = &kLaunchers[0], *kTorchrun = &kLaunchers[1];

bool isSet(const char *name) {
  return name != nullptr && !environmentText(name).empty();
}

// Whether the launcher left its mark: the number of ranks, of torchrun the rank too, and of a row with a sign all.
bool isMarked(const Launcher &launcher) {
  if (launcher.sign != nullptr) {
    return isSet(launcher.sign) && isSet(launcher.ranks) && isSet(launcher.rank);
  }
  return isSet(launcher.ranks) || (&launcher == kTorchrun && isSet(launcher.rank));
}

// Reads a number that a launcher sets.
Status readNumber(const Launcher &launcher, const char *name, int64_t low, int64_t high, int &value) {
  const std::string text = environmentText(name);
  const char *end = text.data() + text.size();
  int64_t number = 0;
  std::from_chars_result result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end || number < low || number > high) {
    return invalid("{} is \"{}\", not a number from {} to {}; start the program with {}", name, text, low, high, launcher.name);
  }
  value = static_cast<int>(number);
  return Status();
}

// Whether an address of MASTER_ADDR is this host for all ranks.
bool isLoopback(const std::string &address) {
  return address.empty() || address == "localhost" || address == "::1" || address.rfind("127.", 0) == 0;
}

// Finds whether all ranks are on this host. Without a number of ranks on it they are, except where torchrun's variables name another host.
Status findHost(const Launcher &launcher, Launch &launch) {
  const std::string onHost = environmentText(launcher.ranksOnHost);
  if (onHost.empty()) {
    launch.isOnOneHost = launcher.exchange != AddressExchange::kMaster || isLoopback(environmentText("MASTER_ADDR"));
  } else if (onHost.find_first_of("(,") == std::string::npos) {
    int count = 1;
    ASHLAR_RETURN_IF_ERROR(readNumber(launcher, launcher.ranksOnHost, 1, launch.ranks, count));
    launch.isOnOneHost = count == launch.ranks;
  } else {
    launch.isOnOneHost = false;
  }
  return isSet(launcher.localRank) ? readNumber(launcher, launcher.localRank, 0, launch.ranks - 1, launch.localRank) : Status();
}

} // namespace

std::string environmentText(const char *name) {
  const char *text = std::getenv(name);
  return text == nullptr ? "" : text;
}

Status findLaunch(Launch &launch) {
  const auto found = std::find_if(std::begin(kLaunchers), std::end(kLaunchers), isMarked);
  if (found == std::end(kLaunchers)) {
    return Status();
  }
  Launch read;
  read.launcher = found;
  ASHLAR_RETURN_IF_ERROR(readNumber(*found, found->ranks, 1, kMostRanks, read.ranks));
  ASHLAR_RETURN_IF_ERROR(readNumber(*found, found->rank, 0, read.ranks - 1, read.rank));
  ASHLAR_RETURN_IF_ERROR(findHost(*found, read));
  if (found == kMpirun && isMarked(*kTorchrun)) {
    const auto differs = [](const char *mine, const char *other) { return environmentText(mine) != environmentText(other); };
    for (auto [mine, other] : {std::pair(kMpirun->ranks, kTorchrun->ranks), std::pair(kMpirun->rank, kTorchrun->rank)}) {
      if (differs(mine, other)) {
        return invalid("{} is {} but {} is \"{}\", so two launchers started this rank; unset the variables of one of them, RANK and "
                       "WORLD_SIZE for mpirun",
                       mine, environmentText(mine), other, environmentText(other));
      }
    }
  }
  launch = read;
  return Status();
}

std::string Launch::job() const {
  std::string text;
  for (const char *variable : launcher != nullptr ? launcher->job : std::array<const char *, 3>{}) {
    text += (variable != nullptr ? environmentText(variable) : "") + "/";
  }
  return text;
}

std::string Launch::startText(int count) const {
  return fmt::format(fmt::runtime(launcher != nullptr ? launcher->start : kMpirun->start), count);
}

Status Launch::checkMeeting() const {
  if (launcher == nullptr || ranks == 1) {
    return Status();
  }
  if (!isOnOneHost && launcher->exchange == AddressExchange::kNone) {
    return invalid("srun started {} ranks on several hosts without PMIx or PMI2, so they cannot meet; add --mpi=pmix or --mpi=pmi2 to srun",
                   ranks);
  }
  const char *missing = isOnOneHost || isSet(launcher->neededBetweenHosts) ? launcher->needed : launcher->neededBetweenHosts;
  if (isSet(missing)) {
    return Status();
  }
  if (launcher->exchange == AddressExchange::kMaster) {
    return invalid(
        "{0} is {1} but {2} is not set, so ranks cannot meet; set {2}, equal on all ranks, or run the program with mpirun -n {1}",
        launcher->ranks, ranks, missing);
  }
  return invalid("{} is {} but {} is not set, so ranks were started by hand and cannot meet; run the program with {}{}", launcher->ranks,
                 ranks, missing, startText(ranks), launcher == kMpirun ? ", and --host on several hosts" : "");
}

} // namespace ashlar::rt
