// SPDX-License-Identifier: Apache-2.0
//
// The bound: for each rate of a link, the devices are grouped by the axes that are no faster, and what passes between groups is counted.

#include "passes/analysis/planner/redistribution_bound.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ashlar::analysis {

namespace {

using Wide = __int128;

Wide divideCeil(Wide a, Wide b) {
  return (a + b - 1) / b;
}

// Returns log2(a / b), rounded up; 0 where a <= b.
int64_t log2Ceil(Wide a, Wide b) {
  int64_t log = 0;
  for (; b < a; b *= 2) {
    ++log;
  }
  return log;
}

// Devices as groups of those that only faster links join. State: the axes between groups.
class Bound {
public:
  Bound(const SearchSpace &space, const NumberedLayout &from) : space(space), problem(space.problem), from(from) {
    uint32_t kept = problem.to.partial;
    all = space.allAxes() & ~kept; // along the others each device stays for itself
    summed = from.partial & ~kept;
    elementBytes = problem.elementBytes;
    for (int64_t size : problem.shape) {
      globalBytes *= size;
    }
    globalBytes *= elementBytes;
  }

  // Returns the time of what passes over axes that are no faster than `rate`.
  Wide timeOver(int64_t rate) const {
    uint32_t between = 0;
    int64_t latencyNs = std::numeric_limits<int64_t>::max();
    for (uint8_t axis : listOf(all)) {
      const MessageCost fastest = problem.axes[axis].link.fastest(); // whatever is sent
      if (fastest.bytesPerUs <= rate) {
        between |= 1u << axis;
        latencyNs = std::min(latencyNs, fastest.latencyNs);
      }
    }
    Wide terms = sizeOf(between & summed), devices = sizeOf(all);
    Wide wanting = sizeOf(between) / splitOf(problem.to, between), holding = sizeOf(between) / splitOf(from, between);
    Wide messages = terms > 1 ? terms - 1 + wanting - 1 : std::max<Wide>(0, wanting - holding); // an element
    Wide bytes = divideCeil(globalBytes * messages, devices);                                   // rounded up as costs are, step by step
    if (between == all) {
      bytes = std::max(bytes, bytesOfOneDevice());
    }
    if (bytes == 0 && messages == 0) {
      return 0;
    }
    constexpr Wide kPsPerNs = 1000, kPsPerUs = 1000 * kPsPerNs;
    return divideCeil(bytes * kPsPerUs, rate) + messagesInTurn(between, terms) * latencyNs * kPsPerNs;
  }

private:
  Wide sizeOf(uint32_t axes) const { return space.groupSize(listOf(axes)); }

  // Returns into how many pieces axes of a set split a tensor.
  Wide splitOf(const NumberedLayout &layout, uint32_t axes) const {
    Wide pieces = 1;
    for (const AxisNumbers &list : layout.dims) {
      for (uint8_t axis : list) {
        pieces *= axes >> axis & 1 ? problem.axes[axis].size : 1;
      }
    }
    return pieces;
  }

  int64_t messagesInTurn(uint32_t between, Wide terms) const {
    int64_t turns = std::max<int64_t>(1, log2Ceil(terms, 1));
    // Only gathers make pieces larger, and a reduce-scatter makes them smaller first. A permute may change which axes split, so this holds
    // for all axes only.
    return between == all ? std::max(turns, log2Ceil(terms * terms * splitOf(from, all), splitOf(problem.to, all))) : turns;
  }

  // Returns the bytes that the device gets which holds least of what it wants. Where a dim is split over different axes behind those that
  // are the same, some device holds nothing of it.
  Wide bytesOfOneDevice() const {
    if (!space.isEven() || from == problem.to) {
      return 0;
    }
    Wide wanted = space.localBytes(problem.to), held = wanted;
    for (auto [before, after] : llvm::zip_equal(from.dims, problem.to.dims)) {
      size_t same = 0, shorter = std::min(before.size(), after.size());
      while (same < shorter && before[same] == after[same]) {
        ++same;
      }
      if (same < shorter) {
        return wanted;
      }
      held /= space.groupSize(ArrayRef<uint8_t>(before).drop_front(same));
    }
    return wanted - held;
  }

  const SearchSpace &space;
  const SearchProblem &problem;
  const NumberedLayout &from;
  uint32_t all, summed;
  Wide elementBytes, globalBytes = 1;
};

} // namespace

int64_t leastTimePs(const SearchSpace &space, const NumberedLayout &from) {
  Bound bound(space, from);
  Wide least = 0;
  for (const SearchAxis &axis : space.problem.axes) {
    least = std::max(least, bound.timeOver(axis.link.fastest().bytesPerUs));
  }
  return static_cast<int64_t>(std::min<Wide>(least, kMostTimePs));
}

} // namespace ashlar::analysis
