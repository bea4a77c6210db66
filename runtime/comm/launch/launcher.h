// SPDX-License-Identifier: Apache-2.0
//
// The launchers that start ranks, one row each: the variables of the environment that they set, and the way in which their ranks exchange
// addresses.

#ifndef ASHLAR_RUNTIME_COMM_LAUNCH_LAUNCHER_H
#define ASHLAR_RUNTIME_COMM_LAUNCH_LAUNCHER_H

#include "runtime/base/status.h"

#include <array>
#include <string>

namespace ashlar::rt {

// How ranks of several hosts exchange their addresses.
enum class AddressExchange {
  kPmix,   // libpmix, with the launcher's server (pmix.h)
  kPmi2,   // the socket PMI_FD to the launcher (pmi2.h)
  kMaster, // rank 0 listens at MASTER_ADDR and MASTER_PORT (master_book.h)
  kNone    // not at all: ranks of one host only
};

// A launcher. Absent variables are null.
struct Launcher {
  const char *name;
  const char *rank, *ranks;
  const char *localRank;                   // rank within the host
  const char *ranksOnHost;                 // a number, or as Slurm lists all hosts: "4(x2),1"
  const char *sign;                        // a variable that has to be there besides, since others set `rank` and `ranks`, too
  std::array<const char *, 3> job;         // variables by whose values ranks of one host meet
  const char *needed, *neededBetweenHosts; // variables without which ranks of one host, and of several, cannot meet
  AddressExchange exchange;
  const char *start;   // "mpirun -n {}"
  bool endsWithParent; // a rank whose parent process ends is left behind
};

// This process' place in what a launcher started; rank 0 of 1 when none did.
struct Launch {
  const Launcher *launcher = nullptr;
  int rank = 0, ranks = 1, localRank = 0;
  bool isOnOneHost = true;

  // The values that name the job, for ranks of one host to meet by.
  std::string job() const;

  // Returns "mpirun -n 4", of the launcher that started this process, or else of mpirun.
  std::string startText(int count) const;

  // Fails when ranks of this launch cannot meet: a variable is missing, as where somebody set rank and number of ranks by hand.
  Status checkMeeting() const;
};

// Reads the environment. Of several launchers, one of which started another, it takes the inner one: mpirun or torchrun before srun. Fails
// where a variable is missing or wrong, or mpirun and torchrun disagree.
Status findLaunch(Launch &launch);

// Returns a variable of the environment; "" when it is not set.
std::string environmentText(const char *name);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_LAUNCH_LAUNCHER_H
