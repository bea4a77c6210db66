// SPDX-License-Identifier: Apache-2.0

#include "runtime/run/checkpoint/folder_sight.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

namespace ashlar::rt {

namespace {

std::string hostName() {
  char name[HOST_NAME_MAX + 1] = {};
  gethostname(name, HOST_NAME_MAX);
  return name;
}

Status makeEmpty(const std::string &path) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return unavailable("cannot make {}: {}", path, std::strerror(errno));
  }
  close(descriptor);
  return Status();
}

// Compares what this rank sees with what it should. `fileOf(host)` is the file of a host.
template <typename FileOf> Status look(const std::string &directory, bool isLocal, const Place &seat, FileOf fileOf) {
  const int self = seat.hostOfProcess[static_cast<size_t>(seat.rank)];
  const int last = isLocal ? seat.hosts() - 1 : 0;
  for (int host = 0; host <= last; ++host) {
    const bool isSeen = access(fileOf(host).c_str(), F_OK) == 0, isOwn = !isLocal || host == self;
    if (isSeen == isOwn) {
      continue;
    }
    const auto leader = std::find(seat.hostOfProcess.begin(), seat.hostOfProcess.end(), host) - seat.hostOfProcess.begin();
    if (isSeen) {
      return invalid("--checkpoint-local but the folder {} on {} is shared with the host of rank {}; leave --checkpoint-local out",
                     directory, hostName(), leader);
    }
    return invalid("the folder of checkpoints {} on {} is not the one of rank {}; name a --checkpoint-dir that all {} share{}", directory,
                   hostName(), leader, isLocal ? "ranks of a host" : "hosts",
                   isLocal ? "" : ", or give --checkpoint-local, and each host keeps its part");
  }
  return Status();
}

} // namespace

bool leadsFolder(const Communicator &communicator, bool isLocal) {
  return (isLocal ? communicator.seat().indexOnHost(communicator.rank()) : communicator.rank()) == 0;
}

Status checkFolderSight(const std::string &directory, bool isLocal, Communicator &communicator) {
  if (communicator.processes() == 1) {
    return Status();
  }
  uint64_t random = 0;
  if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
    random = static_cast<uint64_t>(getpid());
  }
  std::vector<uint64_t> all(static_cast<size_t>(communicator.processes()));
  ASHLAR_RETURN_IF_ERROR(communicator.allGather(&random, sizeof(random), all.data()));
  const Place &seat = communicator.seat();
  const auto fileOf = [&](int host) { return fmt::format("{}/.ashlar-{:016x}-{}", directory, all[0], host); };
  const std::string own = fileOf(isLocal ? seat.hostOfProcess[static_cast<size_t>(seat.rank)] : 0);
  const bool leads = leadsFolder(communicator, isLocal);
  const Status made = leads ? makeEmpty(own) : Status();
  Status status = communicator.agree(made);
  if (status.ok()) {
    status = communicator.agree(look(directory, isLocal, seat, fileOf));
  }
  if (leads && made.ok()) {
    unlink(own.c_str());
  }
  return status;
}

} // namespace ashlar::rt
