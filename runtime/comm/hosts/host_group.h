// SPDX-License-Identifier: Apache-2.0
//
// A group of devices as it lies on hosts, and the work of each process in a collective between them. The traffic from one host to another
// is a run of bytes, cut into columns: column c goes from the process of the one host that serves it to the one of the other, so that all
// processes of a host share the work, and nothing is sent twice. There are as many columns as processes on the host that has most:
//   host A: ranks 0, 1; host B: ranks 2, 3     ->  columns 0: {0, 2}, 1: {1, 3}
//   host A: rank 0;     host B: ranks 1, 2, 3  ->  columns 0: {0, 1}, 1: {0, 2}, 2: {0, 3}

#ifndef ASHLAR_RUNTIME_COMM_HOSTS_HOST_GROUP_H
#define ASHLAR_RUNTIME_COMM_HOSTS_HOST_GROUP_H

#include "runtime/comm/collective.h"

#include <vector>

namespace ashlar::rt {

// The bytes [begin, end) of a run.
struct Range {
  size_t begin = 0, end = 0;

  size_t size() const { return end - begin; }

  // Returns part `index` of `parts`, of about equal size, cut at multiples of 64.
  Range part(size_t index, size_t parts) const;

  // Returns chunk `index` of chunks of `step` bytes; empty behind the last one.
  Range chunk(size_t index, size_t step) const;
};

// One group, seen from this process, which plays a member of it. Hosts are counted in the order of their first member.
class HostGroup {
public:
  HostGroup(const CollectiveContext &context, const Group &group);

  size_t hosts() const { return hostList.size(); }

  // This host.
  size_t self() const { return selfHost; }

  // Members on a host, rising; and the host of a member.
  const std::vector<int> &members(size_t host) const { return hostList[host].members; }
  size_t hostOf(int member) const { return hostOfMember[static_cast<size_t>(member)]; }
  size_t numMembers() const { return hostOfMember.size(); }

  // The columns that this process serves.
  const std::vector<size_t> &columns() const { return ownColumns; }

  // Columns of the group, the most of them that one process serves, and the rank of a host that serves one.
  size_t numColumns() const { return columnCount; }
  size_t mostColumns() const;
  int server(size_t host, size_t column) const;

  // Whether this process plays the member.
  bool isMine(int member) const;

  // Returns the arena of a member on this host.
  char *arena(int member) const { return arenas[static_cast<size_t>(member)]; }

  // Returns the other hosts, beginning with the one behind this one, so that not all send to the same one first.
  std::vector<size_t> others() const;

private:
  struct OneHost {
    std::vector<int> processes; // ranks, rising
    std::vector<int> members;
  };

  std::vector<OneHost> hostList;
  std::vector<size_t> hostOfMember;
  std::vector<int> processOfMember;
  std::vector<char *> arenas; // null on other hosts
  std::vector<size_t> ownColumns;
  size_t selfHost = 0, columnCount = 0;
  int rank = 0;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_HOSTS_HOST_GROUP_H
