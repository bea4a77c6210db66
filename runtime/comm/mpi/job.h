// SPDX-License-Identifier: Apache-2.0
//
// The processes that mpirun started, or this process alone. Ranks on one host meet over a local socket whose name follows from the
// job's environment, and share memory from then on; libmpi is loaded only when there are several hosts. Two ranks are on one host when
// hostIdentity() is equal. ASHLAR_FORCE_HOSTS=K (for tests) spreads the ranks over K pretended hosts, in contiguous runs.

#ifndef ASHLAR_RUNTIME_COMM_MPI_JOB_H
#define ASHLAR_RUNTIME_COMM_MPI_JOB_H

#include "runtime/comm/communicator.h"
#include "runtime/comm/mpi/rendezvous.h"

#include <memory>

namespace ashlar::rt {

class MpiTransport;

// This process' part of a job.
class Job {
public:
  Job();
  ~Job();

  // Checks the environment that mpirun sets.
  Status check() const { return environmentStatus; }

  // Reads rank and number of processes from that environment: rank 0 of 1 when mpirun did not start us. Loads nothing.
  int rank() const { return place.rank; }
  int processes() const { return place.processes; }

  // Whether mpirun started this process.
  bool underMpirun() const { return launched; }

  // Ranks on this rank's host; 1 before connect().
  int ranksOnHost() const { return place.processesOnHost(place.rank); }

  // Connects to the other processes and makes the arenas, of `arenaBytes` by stage each. All ranks call it with the variant of their stage;
  // a rank with a different `programHash` is reported. Assumes that all stages together have as many processes as the job.
  Status connect(const ashlar_rt_variant &variant, const std::vector<uint64_t> &arenaBytes, uint64_t programHash,
                 std::unique_ptr<Communicator> &communicator);

  // Leaves MPI in good order, when it was loaded. To be called at the end of a job that went well, after all ranks are done.
  void finish();

private:
  Status findHosts();
  Status createWindow(const WindowShape &shape, const ProgramIdentity &program, std::shared_ptr<Window> &window);
  Status joinWindow(const WindowShape &shape, const ProgramIdentity &program, std::shared_ptr<Window> &window);
  Status meet(Window &window, const ProgramIdentity &program);
  Rendezvous rendezvous() const;

  Place place;
  Status environmentStatus;
  bool launched = false;
  bool hostsKnown = false;
  int connections = 0;
  std::unique_ptr<MpiTransport> transport;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_MPI_JOB_H
