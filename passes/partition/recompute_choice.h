// SPDX-License-Identifier: Apache-2.0
//
// The choice of the values of a part of the forward pass that are kept for the backward pass, from costs alone; the others are
// rematerialized. No IR.

#ifndef ASHLAR_PASSES_PARTITION_RECOMPUTE_CHOICE_H
#define ASHLAR_PASSES_PARTITION_RECOMPUTE_CHOICE_H

#include <cstdint>
#include <vector>

namespace ashlar::partition {

// An op of the part, with one value.
struct RecomputeNode {
  int64_t bytes = 0;              // that it takes to keep the value
  int64_t timePs = 0;             // to recompute it
  bool isNeeded = false;          // the backward pass takes it
  bool isKept = false;            // it is there anyway
  bool mayRematerialize = true;   // else it can only be kept
  std::vector<unsigned> operands; // earlier nodes; operands from elsewhere are kept anyway
  std::vector<unsigned> together; // nodes that are rematerialized where this one is: one call computes them
};

// A choice: the bytes that it keeps, and its time.
struct RecomputePoint {
  std::vector<bool> isRecomputed; // by node
  int64_t keptBytes = 0;
  int64_t timePs = 0;

  bool operator==(const RecomputePoint &other) const { return keptBytes == other.keptBytes && timePs == other.timePs; }
};

// Returns the choices that are best for some cost of a byte, from the one with the least time to the one that keeps least. Each is a
// minimum cut: a needed value is kept, which costs its bytes, or recomputed, which costs its time and needs its operands.
//
//   x of 8 bytes and 10 ps, y = f(x) of 8 bytes and 1 ps, both needed: keep both (16 bytes, 0 ps); keep x (8 bytes, 1 ps); none (0, 11)
std::vector<RecomputePoint> recomputeChoices(const std::vector<RecomputeNode> &nodes);

} // namespace ashlar::partition

#endif // ASHLAR_PASSES_PARTITION_RECOMPUTE_CHOICE_H
