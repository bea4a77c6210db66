// SPDX-License-Identifier: Apache-2.0
//
// The processes that a launcher started, or this process alone. Ranks on one host meet over a local socket whose name follows from the
// job's environment, and share memory from then on; ranks of several hosts find each other through an address book (launcher.h), and
// exchange messages over TCP. Two ranks are on one host when hostIdentity() is equal. ASHLAR_FORCE_HOSTS=K (for tests) spreads the ranks
// over K pretended hosts, in contiguous runs.

#ifndef ASHLAR_RUNTIME_COMM_LAUNCH_JOB_H
#define ASHLAR_RUNTIME_COMM_LAUNCH_JOB_H

#include "runtime/comm/communicator.h"
#include "runtime/comm/launch/launcher.h"
#include "runtime/comm/launch/rendezvous.h"

#include <memory>

namespace ashlar::rt {

class AddressBook;
class TcpTransport;

// This process' part of a job.
class Job {
public:
  Job();
  ~Job();

  // Checks the environment that a launcher or the user sets.
  Status check() const { return environmentStatus; }

  // Returns what that environment contains, without loading anything: rank 0 of 1 when no launcher started us.
  const Launch &launch() const { return launched; }
  int rank() const { return place.rank; }
  int processes() const { return place.processes; }

  // Ranks on this rank's host; 1 before connect().
  int ranksOnHost() const { return place.processesOnHost(place.rank); }

  // Connects to the other processes and makes the arenas, of `arenaBytes` by stage each. All ranks call it with the variant of their stage;
  // a rank with a different `programHash` is reported. Assumes that all stages together have as many processes as the job. A second call
  // ends the communicator of the first.
  Status connect(const ashlar_rt_variant &variant, const std::vector<uint64_t> &arenaBytes, uint64_t programHash,
                 std::unique_ptr<Communicator> &communicator);

  // Takes leave of the launcher, where it was asked for addresses. To be called at the end of a job that went well, after all ranks are
  // done.
  void finish();

private:
  Status openBook();
  Status findHosts();
  Status createWindow(const WindowShape &shape, const ProgramIdentity &program, std::shared_ptr<Window> &window);
  Status joinWindow(const WindowShape &shape, const ProgramIdentity &program, std::shared_ptr<Window> &window);
  Status meet(Window &window, const ProgramIdentity &program);
  Rendezvous rendezvous() const;

  Place place;
  Status environmentStatus;
  Launch launched;
  int connections = 0;
  std::string name;                  // of the job, by which ranks of one host meet
  std::unique_ptr<AddressBook> book; // null while all ranks are on one host, except for a launcher that has the name of the job
  std::unique_ptr<TcpTransport> transport;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_LAUNCH_JOB_H
