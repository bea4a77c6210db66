// SPDX-License-Identifier: Apache-2.0
//
// From left to right, the body that saves most.

#include "passes/stage/folded_order.h"

namespace ashlar::stage {
namespace {

// How many actions a repetition may have: in the steady state of p stages with v chunks each they are 2 v p.
constexpr int64_t kLongestBody = 1024;

// Returns how often the body of `length` actions at `begin` is done, and by how much its micro-batches grow.
std::pair<int64_t, int64_t> repetitions(llvm::ArrayRef<Action> order, int64_t begin, int64_t length) {
  const int64_t size = order.size();
  if (begin + 2 * length > size) {
    return {1, 0};
  }
  const int64_t stride = order[begin + length].microBatch - order[begin].microBatch;
  int64_t end = begin + length;
  while (stride >= 0 && end < size && order[end].part() == order[end - length].part() &&
         order[end].microBatch == order[end - length].microBatch + stride) {
    ++end;
  }
  return {(end - begin) / length, stride};
}

} // namespace

FoldedOrder fold(llvm::ArrayRef<Action> order) {
  FoldedOrder folded;
  bool isOpen = false; // the last block takes more actions
  for (int64_t begin = 0; begin < static_cast<int64_t>(order.size());) {
    int64_t bestLength = 1, bestSaved = 0, count = 1, stride = 0;
    for (int64_t length = 1; length <= kLongestBody; ++length) {
      auto [times, grows] = repetitions(order, begin, length);
      if (int64_t saved = (times - 1) * length; times > 1 && saved > bestSaved) {
        bestLength = length, bestSaved = saved, count = times, stride = grows;
      }
    }
    int64_t first = folded.actions.size();
    folded.actions.insert(folded.actions.end(), order.begin() + begin, order.begin() + begin + bestLength);
    if (count == 1 && isOpen) {
      folded.blocks.back().end += bestLength;
    } else {
      folded.blocks.push_back({first, first + bestLength, count, stride});
    }
    isOpen = count == 1;
    begin += bestLength * count;
  }
  return folded;
}

std::vector<Action> unfold(const FoldedOrder &order) {
  std::vector<Action> actions;
  for (const Repetition &block : order.blocks) {
    for (int64_t i = 0; i < block.count; ++i) {
      for (int64_t at = block.begin; at < block.end; ++at) {
        actions.push_back(order.actions[at]);
        actions.back().microBatch += i * block.stride;
      }
    }
  }
  return actions;
}

} // namespace ashlar::stage
