// SPDX-License-Identifier: Apache-2.0
//
// A reduction of n inputs that lie on several hosts: each host combines inputs of its own to partial results, its leaves, and one host
// combines the leaves of all. Example, the inputs 0 and 1 on host 0, 2 to 5 on host 1: two leaves, (0+1) and (2+3)+(4+5). Where the bits
// of Reducer::run over all inputs are to be kept, leaves are the largest subtrees of its tree on one host: its halves are 0..2 and 3..5, so
// there are three leaves, ((0+1) + 2) + ((3+4)+5) with 0+1, 2 and (3+4)+5.

#ifndef ASHLAR_RUNTIME_COMM_HOSTS_PARTIAL_TREE_H
#define ASHLAR_RUNTIME_COMM_HOSTS_PARTIAL_TREE_H

#include "runtime/comm/reduce.h"

#include <vector>

namespace ashlar::rt {

class PartialTree {
public:
  struct Leaf {
    size_t host;
    std::vector<int> inputs; // combined in the fixed tree over so many
  };

  PartialTree() = default;

  // `hostOf`: host of each input, counted from 0. `keepsBits`: the result has the bits of a Reducer over all inputs in order.
  PartialTree(const std::vector<size_t> &hostOf, bool keepsBits);

  const std::vector<Leaf> &leaves() const { return leafList; }

  // Combines `bytes` bytes, `leafOffset` after each of the leaves, into the bytes `outputOffset` after each of the outputs, which may be a
  // leaf's. Allocates nothing.
  void run(const Reducer &reducer, const char *const *leaves, size_t leafOffset, char *const *outputs, size_t numOutputs,
           size_t outputOffset, size_t bytes);

private:
  // Adds the code for the inputs [begin, end) of the fixed tree; inputs of one host are a leaf.
  void addTree(const std::vector<size_t> &hostOf, size_t begin, size_t end);

  // Adds the code that combines the leaves [begin, end).
  void addLeaves(size_t begin, size_t end);

  std::vector<Leaf> leafList;
  std::vector<int> code; // in postfix order: a leaf, or -1 for what combines the two before
  std::vector<const char *> stack;
  std::vector<char> temporaries; // a block for each place of the stack
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_HOSTS_PARTIAL_TREE_H
