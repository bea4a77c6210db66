// SPDX-License-Identifier: Apache-2.0
//
// Fluid transfers. A transfer is brought up to date when the load of one of its links changes, and only then: so the roundings of ranks
// that do the same are the same.

#include "runtime/timeline/link_loads.h"

#include <algorithm>
#include <utility>

namespace ashlar::rt {

constexpr uint64_t kParts = 1024; // of a picosecond

void LinkLoads::progress(uint64_t now, Transfer &transfer) {
  const unsigned __int128 done = static_cast<unsigned __int128>(now - transfer.sincePs) * kParts * kWholeLink / transfer.load;
  transfer.left -= static_cast<uint64_t>(std::min<unsigned __int128>(done, transfer.left));
  transfer.sincePs = now;
}

void LinkLoads::update(uint64_t now, uint32_t number) {
  Transfer &transfer = transfers[number];
  uint64_t load = kWholeLink;
  for (const LinkUse &use : transfer.uses) {
    load = std::max(load, links[use.link].load);
  }
  if (load == transfer.load) {
    return;
  }
  progress(now, transfer);
  transfer.load = load;
  const unsigned __int128 whole = static_cast<unsigned __int128>(kParts) * kWholeLink;
  const uint64_t endPs = now + static_cast<uint64_t>((static_cast<unsigned __int128>(transfer.left) * load + whole - 1) / whole);
  if (endPs != transfer.endPs) {
    transfer.endPs = endPs;
    changes.push_back(number);
  }
}

void LinkLoads::updateSharers(uint64_t now, uint32_t number) {
  for (const LinkUse &use : transfers[number].uses) {
    for (uint32_t other : links[use.link].transfers) {
      update(now, other);
    }
  }
}

uint32_t LinkLoads::begin(uint64_t now, uint64_t alonePs, std::vector<LinkUse> uses) {
  uint32_t number = static_cast<uint32_t>(transfers.size());
  if (ended.empty()) {
    transfers.emplace_back();
  } else {
    number = ended.back();
    ended.pop_back();
  }
  Transfer &transfer = transfers[number];
  transfer = {alonePs * kParts, now, now + alonePs, kWholeLink, std::move(uses)};
  changes.push_back(number);
  for (const LinkUse &use : transfer.uses) {
    links[use.link].load += use.demand;
    links[use.link].transfers.push_back(number);
  }
  updateSharers(now, number);
  return number;
}

void LinkLoads::end(uint64_t now, uint32_t number) {
  Transfer &transfer = transfers[number];
  for (const LinkUse &use : transfer.uses) {
    Link &link = links[use.link];
    link.load -= use.demand;
    link.transfers.erase(std::find(link.transfers.begin(), link.transfers.end(), number));
  }
  updateSharers(now, number);
  transfer.uses.clear();
  ended.push_back(number);
}

} // namespace ashlar::rt
