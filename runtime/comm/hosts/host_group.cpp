// SPDX-License-Identifier: Apache-2.0
//
// A group of devices as it lies on hosts.

#include "runtime/comm/hosts/host_group.h"

#include <algorithm>
#include <map>

namespace ashlar::rt {

Range Range::part(size_t index, size_t parts) const {
  const size_t lines = (size() + kLineBytes - 1) / kLineBytes;
  auto cut = [&](size_t place) { return std::min(begin + lines * place / parts * kLineBytes, end); };
  return Range{cut(index), cut(index + 1)};
}

Range Range::chunk(size_t index, size_t step) const {
  return Range{std::min(begin + index * step, end), std::min(begin + (index + 1) * step, end)};
}

HostGroup::HostGroup(const CollectiveContext &context, const Group &group) : rank(context.place->rank) {
  const Place &place = *context.place;
  auto hostOfRank = [&](int process) { return place.hostOfProcess[static_cast<size_t>(process)]; };
  std::map<int, size_t> indexOfHost; // by number of the host
  for (int member = 0; member < static_cast<int>(group.size()); ++member) {
    const int device = group[static_cast<size_t>(member)], process = context.mesh->processOf(device);
    const size_t host = indexOfHost.emplace(hostOfRank(process), indexOfHost.size()).first->second;
    hostList.resize(indexOfHost.size());
    hostOfMember.push_back(host);
    processOfMember.push_back(process);
    hostList[host].members.push_back(member);
    hostList[host].processes.push_back(process);
    const bool isHere = hostOfRank(process) == hostOfRank(rank);
    arenas.push_back(isHere ? context.window->arena(place.indexOnHost(process), device % context.mesh->devicesPerProcess()) : nullptr);
  }
  for (OneHost &host : hostList) {
    std::sort(host.processes.begin(), host.processes.end());
    host.processes.erase(std::unique(host.processes.begin(), host.processes.end()), host.processes.end());
    columnCount = std::max(columnCount, host.processes.size());
  }
  selfHost = indexOfHost.at(hostOfRank(rank));
  for (size_t column = 0; column < columnCount; ++column) {
    if (server(selfHost, column) == rank) {
      ownColumns.push_back(column);
    }
  }
}

int HostGroup::server(size_t host, size_t column) const {
  const std::vector<int> &processes = hostList[host].processes;
  return processes[column * processes.size() / columnCount];
}

size_t HostGroup::mostColumns() const {
  size_t fewest = columnCount;
  for (const OneHost &host : hostList) {
    fewest = std::min(fewest, host.processes.size());
  }
  return (columnCount + fewest - 1) / fewest;
}

bool HostGroup::isMine(int member) const {
  return processOfMember[static_cast<size_t>(member)] == rank;
}

std::vector<size_t> HostGroup::others() const {
  std::vector<size_t> result;
  for (size_t step = 1; step < hosts(); ++step) {
    result.push_back((selfHost + step) % hosts());
  }
  return result;
}

} // namespace ashlar::rt
