// SPDX-License-Identifier: Apache-2.0
//
// Reductions of inputs that lie on several hosts.

#include "runtime/comm/hosts/partial_tree.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

constexpr int kCombine = -1;

// Bytes that are handled at a time: temporaries stay in the cache.
constexpr size_t kBlockBytes = 4096;

} // namespace

PartialTree::PartialTree(const std::vector<size_t> &hostOf, bool keepsBits) {
  if (keepsBits) {
    addTree(hostOf, 0, hostOf.size());
  } else {
    std::vector<size_t> hosts = hostOf;
    std::sort(hosts.begin(), hosts.end());
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    for (size_t host : hosts) {
      leafList.push_back(Leaf{host, {}});
      for (size_t input = 0; input < hostOf.size(); ++input) {
        if (hostOf[input] == host) {
          leafList.back().inputs.push_back(static_cast<int>(input));
        }
      }
    }
    addLeaves(0, leafList.size());
  }
  size_t height = 0, most = 0;
  for (int step : code) {
    height = step == kCombine ? height - 1 : height + 1;
    most = std::max(most, height);
  }
  stack.resize(most);
  temporaries.resize(most * kBlockBytes);
}

void PartialTree::addTree(const std::vector<size_t> &hostOf, size_t begin, size_t end) {
  const bool isOfOneHost =
      std::all_of(hostOf.begin() + static_cast<std::ptrdiff_t>(begin), hostOf.begin() + static_cast<std::ptrdiff_t>(end),
                  [&](size_t host) { return host == hostOf[begin]; });
  if (isOfOneHost) {
    code.push_back(static_cast<int>(leafList.size()));
    leafList.push_back(Leaf{hostOf[begin], {}});
    for (size_t input = begin; input < end; ++input) {
      leafList.back().inputs.push_back(static_cast<int>(input));
    }
    return;
  }
  const size_t half = begin + (end - begin + 1) / 2;
  addTree(hostOf, begin, half);
  addTree(hostOf, half, end);
  code.push_back(kCombine);
}

void PartialTree::addLeaves(size_t begin, size_t end) {
  if (end - begin == 1) {
    code.push_back(static_cast<int>(begin));
    return;
  }
  const size_t half = begin + (end - begin + 1) / 2;
  addLeaves(begin, half);
  addLeaves(half, end);
  code.push_back(kCombine);
}

void PartialTree::run(const Reducer &reducer, const char *const *leaves, size_t leafOffset, char *const *outputs, size_t numOutputs,
                      size_t outputOffset, size_t bytes) {
  for (size_t begin = 0; begin < bytes; begin += kBlockBytes) {
    const size_t length = std::min(kBlockBytes, bytes - begin);
    size_t height = 0;
    for (int step : code) {
      if (step != kCombine) {
        stack[height++] = leaves[step] + leafOffset + begin;
        continue;
      }
      // A temporary that is an operand may be the result as well.
      char *result = temporaries.data() + (height - 2) * kBlockBytes;
      const char *pair[] = {stack[height - 2], stack[height - 1]};
      reducer.run(pair, 2, /*inputOffset=*/0, &result, 1, /*outputOffset=*/0, length);
      --height;
      stack[height - 1] = result;
    }
    reducer.run(stack.data(), 1, /*inputOffset=*/0, outputs, numOutputs, outputOffset + begin, length);
  }
}

} // namespace ashlar::rt
