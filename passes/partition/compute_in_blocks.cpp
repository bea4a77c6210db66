// SPDX-License-Identifier: Apache-2.0
//
// A split in time instead of in space: the sharding rules, by which an op is computed on parts of its operands, define blocks of rows, too.

#include "passes/partition/passes.h"

#include "dialects/dist/dist.h"
#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"
#include "dialects/support/op_interfaces.h"
#include "dialects/support/tensor_values.h"
#include "passes/analysis/costs.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <numeric>

namespace ashlar::partition {

#define GEN_PASS_DEF_COMPUTEINBLOCKSPASS
#include "passes/partition/passes.h.inc"

namespace {

using namespace mlir;

constexpr size_t kMostOps = 128; // of a region: its search takes a bounded time a product

// Ops that make and use large values, all of which are split along one factor.
struct Region {
  llvm::SetVector<Operation *> ops;
  DenseMap<Value, int64_t> dims; // of values that have the factor, inside and outside: the dim that begins with it
  DenseSet<Value> sums;          // results that add up over it
  int64_t divisor = 0;           // of the sizes of all dims: into so many pieces they can be cut

  // Returns the type of what one of so many blocks has of a value.
  RankedTensorType typeOfPiece(Value value, int64_t pieces) const {
    SmallVector<int64_t> shape(shapeOf(value));
    if (auto dim = dims.find(value); dim != dims.end()) {
      shape[dim->second] /= pieces;
    }
    return typeOf(value).clone(shape);
  }

  bool contains(Value value) const { return value.getDefiningOp() && ops.contains(value.getDefiningOp()); }
};

// Finds the region around one product.
class RegionFinder {
public:
  explicit RegionFinder(Operation *product) : product(product), elements(typeOf(product->getResult(0)).getNumElements()) {}

  // Returns the ops that have to be computed in blocks so that no value as large as the product's exists; nothing where there is another
  // reason for one to exist.
  std::optional<Region> find() {
    if (!grow()) {
      return std::nullopt;
    }
    for (int64_t dim = 0; dim < typeOf(product->getResult(0)).getRank(); ++dim) {
      Region split = region;
      split.dims[product->getResult(0)] = dim;
      if (spread(split) && split.divisor > 1 && isClosed(split)) {
        return split;
      }
    }
    return std::nullopt;
  }

private:
  bool isLarge(Value value) const { return typeOf(value).getNumElements() >= elements; }

  static bool isSplittable(Operation *op) {
    // An attention whose log-sum-exp is elsewhere would be no call of the library.
    const bool isAttention = isa<ContractionOpInterface>(op) && isa<ExpandableOpInterface>(op);
    return isa<ShardingRuleOpInterface, dist::ShardOpInterface>(op) && isMemoryEffectFree(op) && op->getNumRegions() == 0 &&
           op->getNumOperands() > 0 && !isAttention;
  }

  // Returns the factors of an op of one device's program.
  static ShardingRule ruleOf(Operation *op) {
    auto shard = dyn_cast<dist::ShardOpInterface>(op);
    return shard ? shard.getShardRule() : cast<ShardingRuleOpInterface>(op).getShardingRule();
  }

  // Adds users of large values and, but for constants and indices, which are read in pieces, makers; and all ops that lie between: the
  // collectives of a softmax whose columns are sharded, on one number a row.
  bool grow() {
    region.ops.insert(product);
    for (SmallVector<Operation *> pending = {product}; !pending.empty(); pending = findBetween()) {
      // A product between large values is a layer of its own: the gradients of its weights would come with the last block only, and their
      // collectives could not be made beside other layers.
      if (llvm::any_of(pending, [&](Operation *op) { return op != product && isa<ContractionOpInterface>(op); }) || !follow(pending)) {
        return false;
      }
    }
    llvm::SetVector<Operation *> ordered;
    SmallVector<Operation *> ops = region.ops.takeVector();
    llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    ordered.insert(ops.begin(), ops.end());
    region.ops = std::move(ordered);
    return true;
  }

  // Adds ops, and those that use or make large values of them.
  bool follow(SmallVector<Operation *> pending) {
    auto add = [&](Operation *op) {
      if (region.ops.insert(op)) {
        pending.push_back(op);
      }
    };
    region.ops.insert(pending.begin(), pending.end());
    while (!pending.empty()) {
      Operation *op = pending.pop_back_val();
      if (!isSplittable(op) || region.ops.size() > kMostOps) {
        return false;
      }
      for (Value result : op->getResults()) {
        if (isLarge(result)) {
          llvm::for_each(result.getUsers(), add);
        }
      }
      for (Value operand : op->getOperands()) {
        Operation *maker = operand.getDefiningOp();
        if (maker && isLarge(operand) && maker->getNumOperands() > 0) {
          add(maker);
        }
      }
    }
    return true;
  }

  // Returns the ops outside that need a result of the region, and that an op of it needs.
  SmallVector<Operation *> findBetween() const {
    auto isBefore = [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); };
    Operation *first = *llvm::min_element(region.ops, isBefore), *last = *llvm::max_element(region.ops, isBefore);
    DenseSet<Operation *> later(region.ops.begin(), region.ops.end()), needed(later);
    auto isMadeLater = [&](Value operand) { return later.contains(operand.getDefiningOp()); };
    for (Operation *op = first; op != last; op = op->getNextNode()) {
      if (llvm::any_of(op->getOperands(), isMadeLater)) {
        later.insert(op);
      }
    }
    SmallVector<Operation *> between;
    for (Operation *op = last; op != first; op = op->getPrevNode()) {
      if (!needed.contains(op)) {
        continue;
      }
      if (!region.ops.contains(op)) {
        between.push_back(op);
      }
      for (Value operand : llvm::make_filter_range(op->getOperands(), isMadeLater)) {
        needed.insert(operand.getDefiningOp());
      }
    }
    return between;
  }

  // Returns the first factor of a dim that is more than 1 long.
  static std::optional<int64_t> leadingFactor(const ShardingRule &rule, ArrayRef<int64_t> factors) {
    const auto *found = llvm::find_if(factors, [&](int64_t factor) { return rule.factors[factor].size > 1; });
    return found == factors.end() ? std::nullopt : std::optional(*found);
  }

  // Follows the split through all ops, along their factors; false where one cannot be computed so.
  static bool spread(Region &split) {
    DenseSet<Operation *> done;
    for (size_t before = SIZE_MAX; done.size() != before && done.size() < split.ops.size();) {
      before = done.size();
      for (Operation *op : split.ops) {
        if (!done.contains(op)) {
          FailureOr<bool> isSplit = spreadThrough(op, split);
          if (failed(isSplit)) {
            return false;
          }
          if (*isSplit) {
            done.insert(op);
          }
        }
      }
    }
    return done.size() == split.ops.size() && llvm::all_of(split.ops, [&](Operation *op) { return takesPieces(op, split); });
  }

  // Whether the op takes each operand that is split in pieces: it may use one whole that another op splits, or itself elsewhere.
  static bool takesPieces(Operation *op, const Region &split) {
    const ShardingRule rule = ruleOf(op);
    std::optional<int64_t> factor;
    for (const auto &[value, factors] : tensorsOf(op, rule)) {
      auto dim = split.dims.find(value);
      std::optional<int64_t> own = dim != split.dims.end() ? leadingFactor(rule, factors[dim->second]) : std::nullopt;
      if (dim != split.dims.end() && (!own || (factor && factor != own))) {
        return false;
      }
      factor = own ? own : factor;
    }
    return true;
  }

  // Returns the operands and results of an op with their dims' factors.
  static SmallVector<std::pair<Value, TensorFactors>> tensorsOf(Operation *op, const ShardingRule &rule) {
    SmallVector<std::pair<Value, TensorFactors>> tensors;
    for (auto [value, factors] : llvm::zip_equal(op->getOperands(), rule.operands)) {
      tensors.push_back({value, factors});
    }
    for (auto [value, factors] : llvm::zip_equal(op->getResults(), rule.results)) {
      tensors.push_back({value, factors});
    }
    return tensors;
  }

  // Splits an op, once one of its values is split. Fails where it cannot be.
  static FailureOr<bool> spreadThrough(Operation *op, Region &split) {
    const ShardingRule rule = ruleOf(op);
    const SmallVector<std::pair<Value, TensorFactors>> tensors = tensorsOf(op, rule);
    std::optional<int64_t> factor;
    for (const auto &[value, factors] : tensors) {
      if (auto dim = split.dims.find(value); dim != split.dims.end()) {
        factor = leadingFactor(rule, factors[dim->second]);
        if (!factor) {
          return failure();
        }
      }
    }
    if (!factor) {
      return false;
    }
    const Factor &kind = rule.factors[*factor];
    const bool isWindowed = llvm::any_of(rule.windows, [&](const WindowedDim &window) { return rule.factorOf(window) == *factor; });
    if (!mayBeSplit(kind.kind) || isWindowed || countsAlong(op, tensors, *factor)) {
      return failure();
    }
    split.divisor = std::gcd(split.divisor, kind.size);
    for (const auto &[value, factors] : tensors) {
      bool isHeld = false;
      for (auto [dim, list] : llvm::enumerate(factors)) {
        if (!llvm::is_contained(list, *factor)) {
          continue;
        }
        auto [known, isNew] = split.dims.try_emplace(value, dim);
        if (isHeld || leadingFactor(rule, list) != factor || known->second != static_cast<int64_t>(dim)) {
          return failure();
        }
        isHeld = true;
      }
      if (!isHeld && value.getDefiningOp() == op) {
        if (kind.kind != FactorKind::Reduction || kind.reduction != Reduction::Sum) {
          return failure();
        }
        split.sums.insert(value);
      }
    }
    return true;
  }

  // Whether an op finds the elements along a factor by number, from the first one on.
  static bool countsAlong(Operation *op, ArrayRef<std::pair<Value, TensorFactors>> tensors, int64_t factor) {
    auto indexing = dyn_cast<IndexingOpInterface>(op);
    return indexing && llvm::any_of(tensors, [&](const auto &tensor) {
             return tensor.first == indexing.getIndexed() && llvm::is_contained(tensor.second[indexing.getIndexedDim()], factor);
           });
  }

  // Whether no block needs a value that is complete only behind the last one, a sum, and nothing has to move that may not: an op with
  // effects that needs results would move behind reads of its variable.
  bool isClosed(const Region &split) const {
    DenseSet<Operation *> later(split.ops.begin(), split.ops.end());
    for (Operation *op = split.ops.front(); op != split.ops.back()->getNextNode(); op = op->getNextNode()) {
      if (split.ops.contains(op)) {
        if (llvm::any_of(op->getOperands(), [&](Value operand) { return split.sums.contains(operand); })) {
          return false;
        }
      } else if (llvm::any_of(op->getOperands(), [&](Value operand) { return later.contains(operand.getDefiningOp()); })) {
        if (!isMemoryEffectFree(op)) {
          return false;
        }
        later.insert(op);
      }
    }
    return true;
  }

  Operation *product;
  int64_t elements;
  Region region;
};

// Writes a region out, block by block.
class BlockWriter {
public:
  BlockWriter(Region &region, int64_t pieces) : region(region), pieces(pieces) {}

  void run() {
    Operation *last = region.ops.back();
    OpBuilder b(last);
    llvm::MapVector<Value, SmallVector<Value>> parts; // of values that others use
    for (Operation *op : region.ops) {
      for (Value result : op->getResults()) {
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !region.ops.contains(user); })) {
          parts[result];
        }
      }
    }
    SmallVector<Value> sums; // so far
    for (int64_t piece = 0; piece < pieces; ++piece) {
      IRMapping mapping;
      for (Operation *op : region.ops) {
        writeOp(b, op, piece, sums, mapping);
      }
      sums.clear();
      for (auto &[whole, list] : parts) {
        addPart(b, whole, mapping.lookup(whole), list);
        if (region.sums.contains(whole)) {
          sums.push_back(list.front());
        }
      }
    }
    for (auto &[whole, list] : parts) {
      Value joined = join(b, whole, list);
      joined = region.sums.contains(whole) ? joined : after(b, joined, sums);
      whole.replaceUsesWithIf(joined, [&](OpOperand &use) { return !region.ops.contains(use.getOwner()); });
    }
    Block *block = last->getBlock();
    llvm::for_each(llvm::reverse(region.ops), [](Operation *op) { op->erase(); });
    sortTopologically(block); // users of results may stand before the last op
  }

private:
  // The products of a block come when the sums of the one before have grown: they would keep its values until somebody needs them.
  static Value after(OpBuilder &b, Value value, ArrayRef<Value> sums) {
    for (Value sum : sums) {
      value = dist::AfterOp::create(b, value.getLoc(), value, sum);
    }
    return value;
  }

  void writeOp(OpBuilder &b, Operation *op, int64_t piece, ArrayRef<Value> sums, IRMapping &mapping) {
    for (Value operand : op->getOperands()) {
      if (!region.contains(operand) && region.dims.contains(operand) && !mapping.contains(operand)) {
        const Value whole = isa<ContractionOpInterface>(op) ? after(b, operand, sums) : operand;
        mapping.map(operand, pieceOf(b, op->getLoc(), whole, region.dims.lookup(operand), piece));
      }
    }
    Operation *copy = b.clone(*op, mapping);
    copy->removeAttr(nn::kOutputsAttr);             // names are of the whole
    if (auto slice = dyn_cast<nn::SliceOp>(copy)) { // a dim that is split is not cut by the op: it ends where the piece ends
      SmallVector<int64_t> limits(slice.getLimits());
      limits[region.dims.lookup(op->getResult(0))] /= pieces;
      slice.setLimits(limits);
    }
    for (auto [result, whole] : llvm::zip_equal(copy->getResults(), op->getResults())) {
      RankedTensorType type = region.typeOfPiece(whole, pieces);
      if (region.sums.contains(whole) && isNarrowFloat(type.getElementType())) { // a sum is rounded once
        type = type.clone(b.getF32Type());
      }
      result.setType(type);
    }
  }

  Value pieceOf(OpBuilder &b, Location loc, Value whole, int64_t dim, int64_t piece) const {
    SmallVector<int64_t> starts(typeOf(whole).getRank(), 0), limits(typeOf(whole).getShape()), steps(starts.size(), 1), shape = limits;
    shape[dim] /= pieces;
    starts[dim] = piece * shape[dim];
    limits[dim] = starts[dim] + shape[dim];
    return nn::SliceOp::create(b, loc, typeOf(whole).clone(shape), whole, starts, limits, steps);
  }

  // Sums grow block by block, so that a product can be added where the sum lies.
  void addPart(OpBuilder &b, Value whole, Value part, SmallVector<Value> &parts) const {
    if (region.sums.contains(whole) && !parts.empty()) {
      parts.back() = nn::AddOp::create(b, whole.getLoc(), parts.back(), part);
    } else {
      parts.push_back(part);
    }
  }

  Value join(OpBuilder &b, Value whole, ArrayRef<Value> parts) const {
    if (!region.sums.contains(whole)) {
      return nn::ConcatOp::create(b, whole.getLoc(), whole.getType(), parts, region.dims.lookup(whole));
    }
    Value sum = parts.front();
    return sum.getType() == whole.getType() ? sum : nn::CastOp::create(b, whole.getLoc(), whole.getType(), sum).getResult();
  }

  Region &region;
  const int64_t pieces;
};

struct ComputeInBlocks : impl::ComputeInBlocksPassBase<ComputeInBlocks> {
  using ComputeInBlocksPassBase::ComputeInBlocksPassBase;

  // Returns the fewest pieces whose product is small enough, or as many as there can be whose products have enough rows and columns; 1
  // where there are none.
  int64_t countPieces(const Region &region, Value product) const {
    RankedTensorType type = typeOf(product);
    const int64_t dim = region.dims.lookup(product), columns = type.getShape().back();
    const int64_t length = dim + 1 == type.getRank() ? columns : type.getNumElements() / columns;
    int64_t most = 1;
    for (int64_t pieces = 2; pieces <= std::min(region.divisor, length / std::max<int64_t>(leastRows, 1)); ++pieces) {
      most = region.divisor % pieces == 0 ? pieces : most;
      if (most == pieces && byteSize(type) / pieces <= leastBytes) {
        break;
      }
    }
    return most;
  }

  // Whether the library adds a sum up in its place.
  static bool growsInPlace(Value sum) {
    Type element = typeOf(sum).getElementType();
    return isa<ContractionOpInterface>(sum.getDefiningOp()) && (element.isF32() || isNarrowFloat(element));
  }

  // Returns the time of the region's ops in so many blocks: each has its launches and the latency of its messages, reads all of what is not
  // cut, and reads and writes the sums.
  static int64_t timePs(const Region &region, int64_t pieces, const analysis::DeviceRates &rates) {
    auto typesOf = [&](ValueRange values) {
      return llvm::map_to_vector(values, [&](Value value) { return region.typeOfPiece(value, pieces); });
    };
    // An addition reads two and writes one. A product that adds in place reads one and writes one, which may be hidden behind its
    // operations; but nobody knows how far, and large sums are as much traffic as blocks save.
    constexpr int64_t kAccesses = 3, kAccessesInPlace = 2;
    int64_t time = 0;
    auto add = [&](__int128 more) { time = static_cast<int64_t>(std::min<__int128>(time + more, analysis::kMostTimePs)); };
    for (Operation *op : region.ops) {
      if (auto collective = dyn_cast<dist::CollectiveOpInterface>(op)) {
        add(analysis::collectiveTimePs(collective));
        add(__int128(pieces - 1) * analysis::collectiveTimePs(collective, /*bytes=*/0));
        continue;
      }
      add(__int128(pieces) * analysis::opTimePs(op, typesOf(op->getOperands()), typesOf(op->getResults()), rates));
      for (Value result : op->getResults()) {
        if (region.sums.contains(result)) {
          const int64_t accesses = growsInPlace(result) ? kAccessesInPlace : kAccesses;
          add(__int128(pieces - 1) * rates.timePs(/*work=*/{}, accesses * byteSize(typeOf(result))));
        }
      }
    }
    return time;
  }

  // Returns the most pieces, of so many or fewer, that take no time that counts; 1 where there are none.
  int64_t affordablePieces(const Region &region, int64_t pieces) {
    const analysis::DeviceRates rates = analysis::findDeviceRates(getOperation()->getParentOfType<ModuleOp>());
    const int64_t whole = timePs(region, 1, rates);
    constexpr int64_t kPercent = 100;
    auto isCheap = [&](int64_t count) {
      return __int128(kPercent) * (timePs(region, count, rates) - whole) <= __int128(whole) * timeShare;
    };
    while (pieces > 1 && (region.divisor % pieces != 0 || !isCheap(pieces))) {
      --pieces;
    }
    return pieces;
  }

  // Whether each sum of a narrow type can be kept in f32 until the last block.
  static bool areSumsWide(const Region &region) {
    return llvm::all_of(region.sums, [](Value sum) {
      return !isNarrowFloat(typeOf(sum).getElementType()) || isa<ContractionOpInterface>(sum.getDefiningOp());
    });
  }

  void runOnOperation() override {
    if (getOperation().isExternal()) {
      return;
    }
    SmallVector<Operation *> products;
    getOperation().walk([&](ContractionOpInterface op) { products.push_back(op); });
    DenseSet<Operation *> done;
    for (Operation *product : products) {
      const int64_t bytes = done.contains(product) ? 0 : byteSize(typeOf(product->getResult(0)));
      if (bytes < leastBytes || bytes == 0) {
        continue;
      }
      std::optional<Region> region = RegionFinder(product).find();
      const int64_t pieces = region && areSumsWide(*region) ? affordablePieces(*region, countPieces(*region, product->getResult(0))) : 1;
      if (pieces > 1) {
        done.insert(region->ops.begin(), region->ops.end());
        BlockWriter(*region, pieces).run();
      }
    }
  }
};

} // namespace
} // namespace ashlar::partition
