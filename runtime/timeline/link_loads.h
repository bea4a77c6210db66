// SPDX-License-Identifier: Apache-2.0
//
// Transfers that share links: each takes its time alone, and longer while a link that it uses has more to carry than it can.

#ifndef ASHLAR_RUNTIME_TIMELINE_LINK_LOADS_H
#define ASHLAR_RUNTIME_TIMELINE_LINK_LOADS_H

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// The rate of a link, in the unit of demands.
constexpr uint64_t kWholeLink = uint64_t{1} << 20;

// A transfer's part in a link: the share of its rate that the transfer takes alone.
struct LinkUse {
  uint32_t link;
  uint64_t demand;
};

// The transfers on their way. The sum of the demands on a link is its load; a transfer moves on at the rate 1 / load of its fullest link,
// where a load below kWholeLink counts as that. Times are picoseconds, exact where no load is above kWholeLink, else to 1/1024 ps.
// O(transfers on the same links) a change. Example: two transfers of 10 with a whole link each, the second one from 5 on: the first has 5
// left at half the rate, to 15; the second then has 5 left, to 20.
class LinkLoads {
public:
  explicit LinkLoads(uint32_t links) : links(links) {}

  // Begins a transfer, and returns its number. Numbers of ended ones are used again. No link twice.
  uint32_t begin(uint64_t now, uint64_t alonePs, std::vector<LinkUse> uses);

  // Ends a transfer. Assumes that it is `now` what endOf() returned for it.
  void end(uint64_t now, uint32_t transfer);

  // Returns when a transfer ends if nothing else begins or ends.
  uint64_t endOf(uint32_t transfer) const { return transfers[transfer].endPs; }

  // Returns the transfers whose ends have changed since the last call, new ones included; each maybe several times.
  const std::vector<uint32_t> &changed() const { return changes; }
  void clearChanged() { changes.clear(); }

private:
  struct Transfer {
    uint64_t left = 0;               // ps alone, times 1024
    uint64_t sincePs = 0, endPs = 0; // when `left` was that
    uint64_t load = kWholeLink;
    std::vector<LinkUse> uses;
  };
  struct Link {
    uint64_t load = 0;
    std::vector<uint32_t> transfers;
  };

  void progress(uint64_t now, Transfer &transfer);
  void updateSharers(uint64_t now, uint32_t transfer);
  void update(uint64_t now, uint32_t transfer);

  std::vector<Link> links;
  std::vector<Transfer> transfers;
  std::vector<uint32_t> ended, changes;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_TIMELINE_LINK_LOADS_H
