// SPDX-License-Identifier: Apache-2.0
//
// One process' seat in the job: which collectives stay in the window, which go between hosts, and agreement on failures.

#include "runtime/comm/communicator.h"

#include "runtime/base/host.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace ashlar::rt {
namespace {

std::vector<uint32_t> sortedAxes(const ashlar_rt_collective_desc &desc) {
  std::vector<uint32_t> axes(desc.axes, desc.axes + desc.num_axes);
  std::sort(axes.begin(), axes.end());
  return axes;
}

WindowReport makeReport(const Status &status) {
  WindowReport report = {};
  report.code = static_cast<int32_t>(status.code());
  std::strncpy(report.message, status.message().c_str(), sizeof(report.message) - 1);
  return report;
}

} // namespace

int Place::processesOnHost(int process) const {
  return static_cast<int>(std::count(hostOfProcess.begin(), hostOfProcess.end(), hostOfProcess[static_cast<size_t>(process)]));
}

int Place::indexOnHost(int process) const {
  auto end = hostOfProcess.begin() + process;
  return static_cast<int>(std::count(hostOfProcess.begin(), end, *end));
}

int Place::hosts() const {
  return 1 + *std::max_element(hostOfProcess.begin(), hostOfProcess.end());
}

int Place::rankOnHost(int host, int index) const {
  std::vector<int> ranks;
  for (int process = 0; process < processes; ++process) {
    if (hostOfProcess[static_cast<size_t>(process)] == host) {
      ranks.push_back(process);
    }
  }
  return ranks[static_cast<size_t>(index) % ranks.size()];
}

CollectiveContext CollectiveContext::beside() const {
  CollectiveContext result = *this;
  result.pool = nullptr; // it is busy with kernels
  result.waiter = waiter.napping();
  return result;
}

std::vector<std::vector<uint32_t>> axesSets(const ashlar_rt_variant &variant) {
  std::set<std::vector<uint32_t>> found;
  for (uint32_t p = 0; p < variant.num_programs; ++p) {
    const ashlar_rt_program &program = variant.programs[p];
    for (uint32_t i = 0; i < program.num_instrs; ++i) {
      if (program.instrs[i].kind == ASHLAR_RT_COLLECTIVE) {
        found.insert(sortedAxes(*static_cast<const ashlar_rt_collective_desc *>(program.instrs[i].desc)));
      }
    }
  }
  return {found.begin(), found.end()};
}

WindowShape windowShape(const ashlar_rt_variant &variant, const std::vector<uint64_t> &arenaBytes, const Place &place) {
  WindowShape shape;
  shape.processes = place.processesOnHost(place.rank);
  shape.devicesPerProcess = static_cast<int>(std::max(1u, variant.devices_per_process));
  const Stages stages(variant);
  const int ofStage = Mesh(variant).processes();
  for (const ashlar_rt_variant &stage : stages) {
    shape.sets = std::max(shape.sets, 1 + static_cast<int>(axesSets(stage).size()));
  }
  for (int process = 0; process < place.processes; ++process) {
    if (place.hostOfProcess[static_cast<size_t>(process)] == place.hostOfProcess[static_cast<size_t>(place.rank)]) {
      const uint32_t stage = static_cast<uint32_t>(process / ofStage);
      shape.arenaBytes.push_back(arenaBytes[stage]);
      shape.channels.push_back(sentChannels(stages[stage]).size());
    }
  }
  return shape;
}

Communicator::Communicator(const ashlar_rt_variant &variant, Place seat, std::shared_ptr<Window> shared, Transport *transport)
    : variant(variant), place(std::move(seat)), deviceMesh(variant), window(std::move(shared)) {
  context.mesh = &deviceMesh;
  context.place = &place;
  context.window = window.get();
  context.transport = transport;
  context.staging = &staging;
  context.keepsBits = std::strcmp(variant.name, "deterministic") == 0;
  setThreadPool(/*pool=*/nullptr, grantedCores());
  if (transport != nullptr) {
    transport->watch([this] { return context.waiter.checkHost(); });
    openFetches();
  }
  world = makeSet(/*index=*/0, std::vector<int>(static_cast<size_t>(place.processes), 0));
  int index = 0;
  for (const std::vector<uint32_t> &axes : axesSets(variant)) {
    const std::vector<int> ofStage = deviceMesh.components(axes.data(), static_cast<uint32_t>(axes.size()));
    std::vector<int> components(static_cast<size_t>(place.processes), -1); // other stages have sets of their own
    std::copy(ofStage.begin(), ofStage.end(), components.begin() + deviceMesh.firstRank());
    sets[axes] = makeSet(++index, components);
  }
}

Communicator::~Communicator() {
  if (context.transport != nullptr) {
    context.transport->watch({});
  }
}

void Communicator::setThreadPool(ThreadPool *pool, int coresOnHost) {
  context.pool = pool;
  int threads = pool != nullptr ? pool->threads() : 1;
  context.waiter = Waiter(*window, place, context.transport, place.processesOnHost(place.rank) * threads > coresOnHost);
}

SyncSet Communicator::makeSet(int index, const std::vector<int> &components) const {
  SyncSet set;
  set.index = index;
  set.self = place.indexOnHost(place.rank);
  auto hostOf = [&](int process) { return place.hostOfProcess[static_cast<size_t>(process)]; };
  for (int process = 0; process < place.processes; ++process) {
    if (process == place.rank || components[static_cast<size_t>(process)] != components[static_cast<size_t>(place.rank)]) {
      continue;
    }
    if (hostOf(process) == hostOf(place.rank)) {
      set.peers.push_back(place.indexOnHost(process));
    }
  }
  // Every process of a component must choose the same path, so what counts is the component, not this process' neighbours.
  std::set<int> hosts;
  for (int process = 0; process < place.processes; ++process) {
    if (components[static_cast<size_t>(process)] == components[static_cast<size_t>(place.rank)]) {
      hosts.insert(hostOf(process));
    }
  }
  set.spansHosts = hosts.size() > 1;
  return set;
}

char *Communicator::arena(int local) const {
  return window->arena(place.indexOnHost(place.rank), local);
}

uint64_t Communicator::controlBytes() const {
  uint64_t sharers = static_cast<uint64_t>(window->shape().processes);
  return (window->arenasOffset(0) + sharers - 1) / sharers;
}

Status Communicator::prepare(const ashlar_rt_instr &instr, const uint8_t *constants, std::unique_ptr<Collective> &collective) {
  if (instr.desc == nullptr) {
    return internal("{}: a collective without a description", instr.name);
  }
  const auto &desc = *static_cast<const ashlar_rt_collective_desc *>(instr.desc);
  std::vector<PlacedTensor> tensors;
  ASHLAR_RETURN_IF_ERROR(placeTensors(instr, deviceMesh.groupSize(desc.axes, desc.num_axes), tensors));
  std::vector<Group> groups = deviceMesh.groups(desc.axes, desc.num_axes);
  if (desc.kind == ASHLAR_RT_SLICE) {
    return createSlice(context, tensors, groups, reinterpret_cast<const char *>(constants), collective);
  }
  auto set = sets.find(sortedAxes(desc));
  if (set == sets.end()) {
    return internal("{}: not an instruction of this variant", instr.name);
  }
  const CollectiveContext surroundings = desc.token != 0 ? context.beside() : context;
  if (set->second.spansHosts) {
    return createHostsCollective(surroundings, set->second, desc, tensors, groups, collective);
  }
  return createWindowCollective(surroundings, set->second, desc, tensors, groups, collective);
}

std::unique_ptr<SendingEnd> Communicator::prepareSend(const ashlar_rt_transfer &transfer) const {
  return createSendingEnd(context, variant, transfer);
}

std::unique_ptr<ReceivingEnd> Communicator::prepareReceive(const ashlar_rt_transfer &transfer) const {
  return createReceivingEnd(context, variant, transfer);
}

std::unique_ptr<Exchange> Communicator::prepareExchange(const std::vector<int> &peers) const {
  return std::make_unique<Exchange>(*context.transport, peers);
}

Status Communicator::gatherReports(const WindowReport &mine, std::vector<WindowReport> &all) {
  all.resize(static_cast<size_t>(place.processes));
  if (context.transport != nullptr) {
    return context.transport->allGather(&mine, sizeof(mine), all.data());
  }
  window->report(world.self) = mine;
  ASHLAR_RETURN_IF_ERROR(ashlar::rt::barrier(*window, context.waiter, world));
  for (int process = 0; process < place.processes; ++process) {
    all[static_cast<size_t>(process)] = window->report(process);
  }
  // Nobody may write its next report before all have read this one.
  return ashlar::rt::barrier(*window, context.waiter, world);
}

Status Communicator::allGather(const void *mine, size_t bytes, void *all) {
  if (bytes > kLargestGather) {
    return internal("a gather of {} bytes a rank; at most {} fit", bytes, kLargestGather);
  }
  WindowReport report = {};
  std::memcpy(report.message, mine, bytes);
  std::vector<WindowReport> reports;
  ASHLAR_RETURN_IF_ERROR(gatherReports(report, reports));
  for (size_t process = 0; process < reports.size(); ++process) {
    std::memcpy(static_cast<char *>(all) + process * bytes, reports[process].message, bytes);
  }
  return Status();
}

Status Communicator::agree(const Status &mine) {
  // Once a rank gave up nobody gathers any more, and a failure of this one is the one to tell: that another died, perhaps.
  if (aborted()) {
    return mine.ok() ? abortedStatus() : mine;
  }
  std::vector<WindowReport> all;
  if (Status gathered = gatherReports(makeReport(mine), all); !gathered.ok()) {
    return gathered.code() == StatusCode::kAborted && !mine.ok() ? mine : gathered;
  }
  for (int process = 0; process < place.processes; ++process) {
    const WindowReport &found = all[static_cast<size_t>(process)];
    if (found.code != 0) {
      bool alike = std::all_of(all.begin(), all.end(), [&](const WindowReport &r) { return std::strcmp(r.message, found.message) == 0; });
      std::string text = alike ? std::string(found.message) : fmt::format("rank {}: {}", process, found.message);
      return Status(static_cast<StatusCode>(found.code), text).share();
    }
  }
  return Status();
}

// The first rank of each host sends what lies on it: it sees the arenas of all.
Status Communicator::fetch(uint32_t stage, uint64_t offset, uint64_t bytes, const std::function<void(int device, const char *data)> &sink) {
  const int perProcess = deviceMesh.devicesPerProcess();
  const int shift = static_cast<int>(stage) * deviceMesh.processes() - deviceMesh.firstRank(); // from ranks of this stage
  std::vector<char> received;
  for (int device = 0; device < deviceMesh.devices(); ++device) {
    const int owner = deviceMesh.processOf(device) + shift, host = place.hostOfProcess[static_cast<size_t>(owner)];
    const bool isHere = host == place.hostOfProcess[static_cast<size_t>(place.rank)];
    char *data = isHere ? window->arena(place.indexOnHost(owner), device % perProcess) + offset : nullptr;
    if (place.rank == 0 && isHere) {
      sink(device, data);
    } else if (place.rank == 0) {
      received.resize(bytes);
      const size_t stream = context.transport->stream(place.rankOnHost(host, /*index=*/0), kCollectives);
      ASHLAR_RETURN_IF_ERROR(context.transport->waitReceived(stream, context.transport->receive(stream, Part{received.data(), bytes})));
      sink(device, received.data());
    } else if (isHere && place.rank == place.rankOnHost(host, /*index=*/0) && host != place.hostOfProcess[0]) {
      const size_t stream = context.transport->stream(/*peer=*/0, kCollectives);
      ASHLAR_RETURN_IF_ERROR(context.transport->waitSent(stream, context.transport->send(stream, Part{data, bytes})));
    }
  }
  return Status();
}

Status Communicator::seal() {
  return context.transport != nullptr ? context.transport->seal() : Status();
}

// Makes the streams of fetch().
void Communicator::openFetches() {
  const int mine = place.hostOfProcess[static_cast<size_t>(place.rank)], ofFirst = place.hostOfProcess[0];
  for (int host = 0; host < place.hosts() && place.rank == 0; ++host) {
    if (host != ofFirst) {
      context.transport->stream(place.rankOnHost(host, /*index=*/0), kCollectives);
    }
  }
  if (mine != ofFirst && place.rank == place.rankOnHost(mine, /*index=*/0)) {
    context.transport->stream(/*peer=*/0, kCollectives);
  }
}

bool Communicator::aborted() const {
  return window->header().aborted.load(std::memory_order_relaxed) != 0;
}

int Communicator::deadRank() const {
  int dead = deadProcess(*window);
  for (int rank = 0; rank < place.processes && dead >= 0; ++rank) {
    if (place.hostOfProcess[static_cast<size_t>(rank)] == place.hostOfProcess[static_cast<size_t>(place.rank)] &&
        place.indexOnHost(rank) == dead) {
      return rank;
    }
  }
  return -1;
}

void Communicator::noteProgress() {
  window->presence(place.indexOnHost(place.rank)).beats.fetch_add(1, std::memory_order_relaxed);
}

bool Communicator::giveUp() {
  return window->header().aborted.exchange(kGaveUp, std::memory_order_acq_rel) != kGaveUp;
}

void Communicator::giveUpToo() {
  int32_t running = 0;
  window->header().aborted.compare_exchange_strong(running, kPeerEnded, std::memory_order_relaxed);
}

void Communicator::abort() {
  giveUp();
  if (context.transport != nullptr) {
    context.transport->abort();
  }
}

} // namespace ashlar::rt
