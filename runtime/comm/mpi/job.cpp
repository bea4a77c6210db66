// SPDX-License-Identifier: Apache-2.0
//
// The processes that mpirun started: who they are, which share a host, and how those on one host meet in a window.

#include "runtime/comm/mpi/job.h"

#include "runtime/base/clock.h"
#include "runtime/base/host.h"
#include "runtime/comm/mpi/mpi_transport.h"
#include "runtime/comm/mpi/rendezvous.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include <unistd.h>

namespace ashlar::rt {
namespace {

constexpr double kMeetingSeconds = 30;
std::string environment(const char *name) {
  const char *text = std::getenv(name);
  return text == nullptr ? "" : text;
}

} // namespace

Job::Job() {
  int64_t size = environmentInteger("OMPI_COMM_WORLD_SIZE", 0);
  launched = size > 0;
  if (launched) {
    place.processes = static_cast<int>(size);
    place.rank = static_cast<int>(environmentInteger("OMPI_COMM_WORLD_RANK", 0));
  }
  place.hostOfProcess.assign(static_cast<size_t>(place.processes), 0);
}

Job::~Job() = default;

Status Job::connect(const ashlar_rt_variant &variant, uint64_t arenaBytes, uint64_t programHash,
                    std::unique_ptr<Communicator> &communicator, bool &known) {
  known = false;
  ASHLAR_RETURN_IF_ERROR(findHosts());
  ++connections;
  WindowShape shape = windowShape(variant, arenaBytes, ranksOnHost());
  std::shared_ptr<Window> window;
  bool first = place.indexOnHost(place.rank) == 0;
  ASHLAR_RETURN_IF_ERROR(first ? createWindow(shape, programHash, window) : joinWindow(shape, programHash, window));
  Status status = meet(*window, programHash);
  if (status.code() == StatusCode::kAborted) {
    return status;
  }
  communicator = std::make_unique<Communicator>(variant, place, window, transport.get());
  status = communicator->agree(status);
  known = true;
  return status;
}

void Job::finish() {
  if (transport) {
    transport->finish();
  }
}

Status Job::findHosts() {
  if (hostsKnown) {
    return Status();
  }
  hostsKnown = true;
  int64_t forced = std::min<int64_t>(environmentInteger("ASHLAR_FORCE_HOSTS", 0), place.processes);
  bool oneHost = environmentInteger("OMPI_COMM_WORLD_LOCAL_SIZE", place.processes) == place.processes;
  if (forced <= 1 && oneHost) {
    return Status();
  }
  transport = std::make_unique<MpiTransport>();
  if (Status status = transport->start(); !status.ok()) {
    transport.reset();
    return status;
  }
  if (forced > 1) {
    for (int process = 0; process < place.processes; ++process) {
      place.hostOfProcess[static_cast<size_t>(process)] = static_cast<int>(process * forced / place.processes);
    }
    return Status();
  }
  uint64_t mine = hashText(hostIdentity());
  std::vector<uint64_t> all(static_cast<size_t>(place.processes));
  ASHLAR_RETURN_IF_ERROR(transport->allGather(&mine, sizeof(mine), all.data()));
  std::map<uint64_t, int> numbers;
  for (size_t process = 0; process < all.size(); ++process) {
    place.hostOfProcess[process] = numbers.emplace(all[process], static_cast<int>(numbers.size())).first->second;
  }
  return Status();
}

std::string Job::meetingName() const {
  // The precondition key is drawn at random by every mpirun.
  std::string job = environment("PMIX_NAMESPACE") + "/" + environment("OMPI_MCA_orte_precondition_transports") + "/" +
                    environment("OMPI_MCA_orte_hnp_uri");
  return fmt::format("ashlar-{:016x}-{}-{}", hashText(job), place.hostOfProcess[static_cast<size_t>(place.rank)], connections);
}

Status Job::createWindow(const WindowShape &shape, uint64_t programHash, std::shared_ptr<Window> &window) {
  Mapping mapping;
  size_t bytes = Window::bytes(shape);
  ASHLAR_RETURN_IF_ERROR(shape.processes == 1 ? Mapping::createPrivate(bytes, mapping) : Mapping::createShared(bytes, mapping));
  window = std::make_shared<Window>(shape, std::move(mapping));
  ASHLAR_RETURN_IF_ERROR(window->mapping().reserve(0, window->arenasOffset(0)));
  WindowHeader &header = window->header();
  header.programHash = programHash;
  header.bytes = bytes;
  if (shape.processes == 1) {
    return Status();
  }
  return offerDescriptor(meetingName(), window->mapping().file(), shape.processes - 1, kMeetingSeconds);
}

Status Job::joinWindow(const WindowShape &shape, uint64_t programHash, std::shared_ptr<Window> &window) {
  int file = -1;
  ASHLAR_RETURN_IF_ERROR(receiveDescriptor(meetingName(), kMeetingSeconds, file));
  // The header first: a rank of another program would expect another size.
  Mapping control;
  ASHLAR_RETURN_IF_ERROR(Mapping::attachShared(file, sizeof(WindowHeader), control));
  WindowHeader &header = *reinterpret_cast<WindowHeader *>(control.data());
  if (header.programHash != programHash || header.bytes != Window::bytes(shape)) {
    header.aborted.store(1);
    return invalid("rank {} runs program {:016x} ({} bytes of shared memory) but the first rank of its host runs {:016x} ({} bytes); start "
                   "the same executable with the same options on all ranks",
                   place.rank, programHash, Window::bytes(shape), header.programHash, header.bytes);
  }
  Mapping mapping;
  ASHLAR_RETURN_IF_ERROR(Mapping::attachShared(dup(file), Window::bytes(shape), mapping));
  window = std::make_shared<Window>(shape, std::move(mapping));
  return Status();
}

Status Job::meet(Window &window, uint64_t programHash) {
  int self = place.indexOnHost(place.rank);
  window.line(/*set=*/0, self).pid.store(getpid(), std::memory_order_relaxed);
  Status status = window.mapping().reserve(window.arenasOffset(self), window.arenasOffset(self + 1));
  WindowHeader &header = window.header();
  if (header.aborted.load() != 0) {
    return abortedStatus();
  }
  if (transport) {
    std::vector<uint64_t> hashes(static_cast<size_t>(place.processes));
    ASHLAR_RETURN_IF_ERROR(transport->allGather(&programHash, sizeof(programHash), hashes.data()));
    for (size_t other = 0; other < hashes.size(); ++other) {
      if (hashes[other] != hashes[0]) {
        status.update(invalid("rank {} runs program {:016x} but rank 0 runs {:016x}; start the same executable on all ranks", other,
                              hashes[other], hashes[0]));
      }
    }
  }
  return status;
}

} // namespace ashlar::rt
