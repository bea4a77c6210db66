// SPDX-License-Identifier: Apache-2.0
//
// The processes that a launcher started: who they are, which share a host, and how those on one host meet in a window.

#include "runtime/comm/launch/job.h"

#include "runtime/base/host.h"
#include "runtime/comm/launch/master_book.h"
#include "runtime/comm/launch/pmi2.h"
#include "runtime/comm/launch/pmix.h"
#include "runtime/comm/tcp/tcp_transport.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <unistd.h>

namespace ashlar::rt {
namespace {

// The network of pretended hosts.
constexpr const char *kLoopback = "127.0.0.0/8";

ProgramIdentity identify(uint64_t hash, const ashlar_rt_variant &variant) {
  ProgramIdentity program = {};
  program.hash = hash;
  std::strncpy(program.variant, variant.name, sizeof(program.variant) - 1);
  return program;
}

// Checks that two ranks run the same variant of the same program.
Status compare(const ProgramIdentity &mine, int rank, const ProgramIdentity &other, int otherRank) {
  if (mine.hash != other.hash) {
    return invalid("rank {} runs program {:016x} but rank {} runs {:016x}; start the same executable on all ranks", rank, mine.hash,
                   otherRank, other.hash);
  }
  if (std::strcmp(mine.variant, other.variant) != 0) {
    return invalid("rank {} runs the {} variant of the program but rank {} the {} one; start all ranks with --deterministic, or none", rank,
                   mine.variant, otherRank, other.variant);
  }
  return Status();
}

} // namespace

Job::Job() {
  environmentStatus = findLaunch(launched);
  environmentStatus.update(checkEnvironment());
  place.processes = launched.ranks;
  place.rank = launched.rank;
  place.hostOfProcess.assign(static_cast<size_t>(place.processes), 0);
}

Job::~Job() = default;

Status Job::connect(const ashlar_rt_variant &variant, const std::vector<uint64_t> &arenaBytes, uint64_t programHash,
                    std::unique_ptr<Communicator> &communicator) {
  communicator.reset(); // an earlier one, before its transport
  ASHLAR_RETURN_IF_ERROR(findHosts());
  ++connections;
  WindowShape shape = windowShape(variant, arenaBytes, place);
  std::shared_ptr<Window> window;
  bool first = place.indexOnHost(place.rank) == 0;
  const ProgramIdentity program = identify(programHash, variant);
  ASHLAR_RETURN_IF_ERROR(first ? createWindow(shape, program, window) : joinWindow(shape, program, window));
  Status status = meet(*window, program);
  if (status.code() == StatusCode::kAborted) {
    return status;
  }
  communicator = std::make_unique<Communicator>(variant, place, window, transport.get());
  return communicator->agree(status);
}

void Job::finish() {
  if (book) {
    book->close();
  }
}

// Opens the address book of the launcher.
Status Job::openBook() {
  const AddressExchange way = launched.launcher != nullptr ? launched.launcher->exchange : AddressExchange::kNone;
  if (way == AddressExchange::kPmix) {
    auto pmix = std::make_unique<PmixBook>();
    ASHLAR_RETURN_IF_ERROR(pmix->open(place.rank, place.processes));
    book = std::move(pmix);
  } else if (way == AddressExchange::kPmi2) {
    auto pmi2 = std::make_unique<Pmi2Book>();
    ASHLAR_RETURN_IF_ERROR(pmi2->open(static_cast<int>(environmentInteger("PMI_FD")), place.rank, place.processes));
    name += pmi2->job();
    book = std::move(pmi2);
  } else if (way == AddressExchange::kMaster) {
    MasterPlace where;
    // Equal on all ranks: one speaks.
    if (Status found = findMaster(where); !found.ok()) {
      return found.share();
    }
    auto master = std::make_unique<MasterBook>();
    ASHLAR_RETURN_IF_ERROR(master->open(place.rank, place.processes, where));
    book = std::move(master);
  }
  return book ? Status()
              : unavailable("ASHLAR_FORCE_HOSTS needs a launcher by which ranks exchange addresses; start the program with mpirun");
}

// Finds the ranks of other hosts, where there are any, and makes a transport to them.
Status Job::findHosts() {
  const int64_t forced = std::min<int64_t>(environmentInteger("ASHLAR_FORCE_HOSTS"), place.processes);
  const bool oneHost = launched.isOnOneHost;
  const bool namesJob = launched.launcher != nullptr && launched.launcher->exchange == AddressExchange::kPmi2 && place.processes > 1;
  if (!book) {
    name = launched.job();
    ASHLAR_RETURN_IF_ERROR(forced > 1 || !oneHost || namesJob ? openBook() : Status());
  }
  if (forced <= 1 && oneHost) {
    return Status();
  }
  transport = std::make_unique<TcpTransport>(place.rank, place.processes);
  std::string network = environmentText("ASHLAR_NETWORK");
  if (network.empty() && oneHost) { // nobody else is to reach it
    network = kLoopback;
  }
  if (Status started = transport->start(*book, hashText(hostIdentity()), network); !started.ok()) {
    // Not every host may be unable to: the first rank of each that is speaks.
    return launched.localRank != 0 ? started.share() : started;
  }
  if (forced > 1) {
    for (int process = 0; process < place.processes; ++process) {
      place.hostOfProcess[static_cast<size_t>(process)] = static_cast<int>(process * forced / place.processes);
    }
    return Status();
  }
  std::map<uint64_t, int> numbers;
  const std::vector<uint64_t> machines = transport->machines();
  for (size_t process = 0; process < machines.size(); ++process) {
    place.hostOfProcess[process] = numbers.emplace(machines[process], static_cast<int>(numbers.size())).first->second;
  }
  return Status();
}

Rendezvous Job::rendezvous() const {
  int host = place.hostOfProcess[static_cast<size_t>(place.rank)];
  Rendezvous rendezvous;
  rendezvous.name = fmt::format("ashlar-{:016x}-{}-{}", hashText(name), host, connections);
  rendezvous.token = hashText(name + "/" + rendezvous.name); // another hash than the one in the name, which everybody can see
  for (int process = 0; process < place.processes; ++process) {
    if (place.hostOfProcess[static_cast<size_t>(process)] == host) {
      rendezvous.ranks.push_back(process);
    }
  }
  rendezvous.self = static_cast<size_t>(place.indexOnHost(place.rank));
  rendezvous.patience = patienceSeconds();
  if (launched.launcher != nullptr && launched.launcher->exchange == AddressExchange::kMaster) {
    rendezvous.remedy += ", and give each job of a host a MASTER_PORT of its own";
  }
  return rendezvous;
}

Status Job::createWindow(const WindowShape &shape, const ProgramIdentity &program, std::shared_ptr<Window> &window) {
  Mapping mapping;
  size_t bytes = Window::bytes(shape);
  ASHLAR_RETURN_IF_ERROR(shape.processes == 1 ? Mapping::createPrivate(bytes, mapping) : Mapping::createShared(bytes, mapping));
  window = std::make_shared<Window>(shape, std::move(mapping));
  ASHLAR_RETURN_IF_ERROR(window->mapping().reserve(0, window->arenasOffset(0)));
  window->prepare();
  WindowHeader &header = window->header();
  header.program = program;
  header.bytes = bytes;
  if (shape.processes == 1) {
    return Status();
  }
  Status offered = offerDescriptor(rendezvous(), window->mapping().file());
  if (!offered.ok()) { // those that have the memory already wait in it
    header.aborted.store(kGaveUp);
  }
  return offered;
}

Status Job::joinWindow(const WindowShape &shape, const ProgramIdentity &program, std::shared_ptr<Window> &window) {
  int file = -1;
  const Rendezvous others = rendezvous();
  ASHLAR_RETURN_IF_ERROR(receiveDescriptor(others, file));
  // The header first: a rank of another program would expect another size.
  Mapping control;
  ASHLAR_RETURN_IF_ERROR(Mapping::attachShared(file, sizeof(WindowHeader), control));
  WindowHeader &header = *reinterpret_cast<WindowHeader *>(control.data());
  Status same = compare(program, place.rank, header.program, others.ranks[0]);
  if (same.ok() && header.bytes != Window::bytes(shape)) {
    same = internal("rank {} shares {} bytes of memory but rank {} {}", place.rank, Window::bytes(shape), others.ranks[0], header.bytes);
  }
  if (!same.ok()) {
    header.aborted.store(kGaveUp);
    return same;
  }
  Mapping mapping;
  ASHLAR_RETURN_IF_ERROR(Mapping::attachShared(dup(file), Window::bytes(shape), mapping));
  window = std::make_shared<Window>(shape, std::move(mapping));
  return Status();
}

Status Job::meet(Window &window, const ProgramIdentity &program) {
  int self = place.indexOnHost(place.rank);
  window.enter(self);
  Status status = window.mapping().reserve(window.arenasOffset(self), window.arenasOffset(self + 1));
  WindowHeader &header = window.header();
  if (header.aborted.load() != 0) {
    return abortedStatus();
  }
  if (transport) {
    std::vector<ProgramIdentity> programs(static_cast<size_t>(place.processes));
    ASHLAR_RETURN_IF_ERROR(transport->allGather(&program, sizeof(program), programs.data()));
    for (int rank = 1; rank < place.processes; ++rank) {
      status.update(compare(programs[static_cast<size_t>(rank)], rank, programs[0], 0));
    }
  }
  return status;
}

} // namespace ashlar::rt
