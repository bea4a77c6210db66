// SPDX-License-Identifier: Apache-2.0
//
// A stable sort by a key. (The standard library's takes a buffer whose function is deprecated.)

#ifndef ASHLAR_COMPILER_PLANNING_SORT_BY_H
#define ASHLAR_COMPILER_PLANNING_SORT_BY_H

#include <map>
#include <utility>
#include <vector>

namespace ashlar::planning {

// Sorts by a key; equal ones stay in their order.
template <typename T, typename KeyOf> void sortBy(std::vector<T> &items, KeyOf keyOf) {
  std::multimap<decltype(keyOf(items.front())), T> sorted;
  for (T &item : items) {
    sorted.emplace(keyOf(item), std::move(item));
  }
  items.clear();
  for (auto &[key, item] : sorted) {
    items.push_back(std::move(item));
  }
}

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_SORT_BY_H
