// SPDX-License-Identifier: Apache-2.0
//
// The groups are found from the coordinates of each device, one by one, and not from how many there should be.

#include "passes/lower/memory/collective_order.h"

#include "dialects/dist/dist.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <map>
#include <numeric>

using namespace mlir;

namespace ashlar::lower {
namespace {

// "1, 0".
std::string listText(ArrayRef<int64_t> numbers) {
  return llvm::join(llvm::map_range(numbers, [](int64_t number) { return std::to_string(number); }), ", ");
}

class OrderChecker {
public:
  explicit OrderChecker(exec::VariantOp variant) : variant(variant), sizes(variant.getAxisSizes()), out(text) {
    order.devices = std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
  }

  FailureOr<CollectiveOrder> check() {
    if (failed(checkRanks())) {
      return failure();
    }
    for (auto program : variant.getBody().getOps<exec::ProgramOp>()) {
      out << program.getSymName() << "\n";
      WalkResult result = program.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) -> WalkResult {
        if (auto repeat = dyn_cast<exec::RepeatOp>(op)) {
          // The order is that of one iteration, as often; or none, on all ranks.
          out << "repeat " << repeat.getCount() << (repeat.getCondition() ? " when" : "") << "\n";
        }
        auto collective = dyn_cast<exec::CollectiveOp>(op);
        if (collective && (failed(checkGroups(collective)) || failed(checkMembers(collective)) || failed(checkShapes(collective)))) {
          return WalkResult::interrupt();
        }
        if (collective) {
          note(collective);
        }
        return WalkResult::advance();
      });
      if (result.wasInterrupted()) {
        return failure();
      }
    }
    order.hash = llvm::xxh3_64bits(text);
    return order;
  }

private:
  // (C9) Each rank plays its own device.
  LogicalResult checkRanks() {
    if (!variant.getDeviceIds()) {
      return success();
    }
    llvm::DenseSet<int64_t> seen;
    ArrayRef<int64_t> ranks = *variant.getDeviceIds();
    for (int64_t rank : ranks) {
      if (rank < 0 || rank >= order.devices || !seen.insert(rank).second) {
        return variant.emitOpError("has rank ")
               << rank << " in device_ids, which are no order of the ranks of its " << order.devices << " devices";
      }
    }
    return success();
  }

  int64_t groupSize(ArrayRef<int64_t> axes) const {
    return std::accumulate(axes.begin(), axes.end(), int64_t(1), [&](int64_t size, int64_t axis) { return size * sizes[axis]; });
  }

  // (C9) Every device is in one group, and every coordinate of a group is that of one device.
  LogicalResult checkGroups(exec::CollectiveOp op) {
    std::vector<int64_t> axes(op.getAxes().begin(), op.getAxes().end());
    for (int64_t axis : axes) {
      if (axis < 0 || axis >= static_cast<int64_t>(sizes.size())) {
        return op.emitOpError("is over axis ") << axis << " of a mesh of " << sizes.size() << " axes";
      }
    }
    auto [known, isNew] = parts.try_emplace(axes, true);
    if (isNew) {
      known->second = partsDevices(axes);
    }
    return known->second ? success()
                         : op.emitOpError("is over axes [") << listText(axes) << "], which do not part the " << order.devices
                                                            << " devices into groups of " << groupSize(axes);
  }

  bool partsDevices(ArrayRef<int64_t> axes) const {
    const int64_t members = groupSize(axes);
    std::map<int64_t, SmallVector<bool>> groups; // by the number that a device has without its place on the axes
    for (int64_t device = 0; device < order.devices; ++device) {
      SmallVector<int64_t> at(sizes.size());
      int64_t rest = device;
      for (size_t axis = sizes.size(); axis-- > 0; rest /= sizes[axis]) {
        at[axis] = rest % sizes[axis];
      }
      int64_t coordinate = 0, group = 0;
      for (int64_t axis : axes) {
        coordinate = coordinate * sizes[axis] + at[axis];
      }
      for (auto [axis, size] : llvm::enumerate(sizes)) {
        group = group * size + (llvm::is_contained(axes, axis) ? 0 : at[axis]);
      }
      SmallVector<bool> &taken = groups.try_emplace(group, members, false).first->second;
      if (coordinate >= members || taken[coordinate]) {
        return false;
      }
      taken[coordinate] = true;
    }
    return llvm::all_of(groups, [](const auto &group) { return llvm::all_of(group.second, [](bool taken) { return taken; }); });
  }

  // (C10) Roots and pairs are members, and nobody gets two messages.
  LogicalResult checkMembers(exec::CollectiveOp op) {
    const int64_t members = groupSize(op.getAxes()), root = op.getRoot();
    if (root < 0 || root >= members) {
      return op.emitOpError("has root ") << root << " in groups of " << members;
    }
    ArrayRef<int64_t> pairs = op.getPairs().value_or(ArrayRef<int64_t>());
    llvm::DenseSet<int64_t> targets;
    for (auto [i, member] : llvm::enumerate(pairs)) {
      if (member < 0 || member >= members) {
        return op.emitOpError("has member ") << member << " in its pairs, in groups of " << members;
      }
      if (i % 2 == 1 && !targets.insert(member).second) {
        return op.emitOpError("has two pairs with target ") << member;
      }
    }
    return pairs.size() % 2 == 0 ? success() : op.emitOpError("has ") << pairs.size() << " numbers as pairs of source and target";
  }

  // (C11) A target is what the kind makes of its source, so that members send what others wait for.
  LogicalResult checkShapes(exec::CollectiveOp op) {
    const int64_t members = groupSize(op.getAxes());
    for (auto [source, target, split, concat] :
         llvm::zip_equal(op.getSources().getAsRange<exec::BufferAttr>(), op.getTargets().getAsRange<exec::BufferAttr>(), op.getSplitDims(),
                         op.getConcatDims())) {
      SmallVector<int64_t> given(source.getType().getShape()), found(target.getType().getShape());
      const int64_t rank = static_cast<int64_t>(given.size());
      bool scatters = llvm::is_contained({CollectiveKind::ReduceScatter, CollectiveKind::AllToAll, CollectiveKind::Slice}, op.getKind());
      bool gathers = llvm::is_contained({CollectiveKind::AllGather, CollectiveKind::AllToAll}, op.getKind());
      bool hasDims = (!gathers || (concat >= 0 && concat < rank)) && (!scatters || (split >= 0 && split < rank));
      if (hasDims && gathers) {
        given[concat] *= members;
      }
      if (op.getKind() == CollectiveKind::Halo) {
        dist::Halo halo = dist::haloOf(*op.getSegments());
        SmallVector<int64_t> group = llvm::map_to_vector(op.getAxes(), [&](int64_t axis) { return sizes[axis]; });
        hasDims = split >= 0 && split < rank && dist::holdsAll(halo) && given[split] == dist::segmentLength(group, halo.from);
        if (hasDims) {
          given[split] = dist::segmentLength(group, halo.to);
        }
      }
      if (hasDims && scatters) { // compared without division
        found.resize(rank);
        found[split] *= members;
      }
      if (!hasDims || given != found) {
        return op.emitOpError("takes ") << source.getType() << " to " << target.getType() << ", split " << split << " concat " << concat
                                        << ", which is no " << stringifyCollectiveKind(op.getKind()) << " of " << members << " devices";
      }
    }
    return success();
  }

  void note(exec::CollectiveOp op) {
    if (op.getKind() == CollectiveKind::Slice) {
      return;
    }
    ++order.collectives;
    out << stringifyCollectiveKind(op.getKind()) << " " << stringifyReduction(op.getReduction()) << " over " << listText(op.getAxes())
        << " split " << listText(op.getSplitDims()) << " concat " << listText(op.getConcatDims()) << " root " << op.getRoot() << " pairs "
        << listText(op.getPairs().value_or(ArrayRef<int64_t>()));
    if (op.getSegments()) {
      out << " segments " << listText(*op.getSegments());
    }
    for (auto source : op.getSources().getAsRange<exec::BufferAttr>()) {
      out << " " << source.getType();
    }
    out << (op.getToken() ? " started\n" : "\n");
  }

  exec::VariantOp variant;
  ArrayRef<int64_t> sizes;
  CollectiveOrder order;
  std::map<std::vector<int64_t>, bool> parts; // whether axes part the devices
  std::string text;
  llvm::raw_string_ostream out;
};

} // namespace

FailureOr<CollectiveOrder> checkCollectiveOrder(exec::VariantOp variant) {
  return OrderChecker(variant).check();
}

} // namespace ashlar::lower
