// SPDX-License-Identifier: Apache-2.0
//
// ashlar-fuse-collectives: collectives of parameters that the user, or a mode, puts together become one. Two steps: each collective gets
// the key of those that it may be one with; then the program is put into an order in which members of a group are one op. The subtle rule:
// a group may be impossible (one member needs another's result). Buckets that a mode makes never are, because their members have equally
// many collectives before them; ids of the user may be, and are refused.

#include "dialects/dist/reasons.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/phases.h"
#include "dialects/support/element_type.h"
#include "passes/analysis/costs.h"
#include "passes/partition/fusion_order.h"
#include "passes/partition/fusion_setting.h"
#include "passes/partition/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

#include <map>
#include <tuple>

using namespace mlir;

namespace ashlar::partition {

#define GEN_PASS_DEF_FUSECOLLECTIVESPASS
#include "passes/partition/passes.h.inc"

namespace {

using dist::CollectiveOpInterface;
using dist::FusionMode;

// The settings of the kinds that can be fused.
struct Settings {
  FusionSetting allReduce, allGather, reduceScatter;

  // Returns that of a kind; null for one that is never fused.
  const FusionSetting *of(CollectiveKind kind) const {
    switch (kind) {
    case CollectiveKind::AllReduce:
      return &allReduce;
    case CollectiveKind::AllGather:
      return &allGather;
    case CollectiveKind::ReduceScatter:
      return &reduceScatter;
    default:
      return nullptr;
    }
  }
};

// Collectives with equal keys may be one.
struct Key {
  CollectiveKind kind;
  const void *axes, *elementType;
  int reduction; // -1: none
  nn::Phase phase;
  FusionMode mode;
  int64_t level;  // of buckets: how many collectives come before, one after the other; of ids: how many of the same parameter came before
  int64_t number; // id, or number of the bucket; 0 while a bucket is looked for

  auto tie() const { return std::tie(kind, axes, elementType, reduction, phase, mode, level, number); }
  bool operator<(const Key &other) const { return tie() < other.tie(); }
};

// A collective that moves what belongs to parameters.
struct Candidate {
  CollectiveOpInterface op;
  SmallVector<nn::VariableOp> parameters;
  std::optional<int64_t> id; // of the parameters; nothing when they have none
};

// Returns the bytes of the whole tensor, summed, gathered or to be scattered.
int64_t wholeBytes(CollectiveOpInterface op) {
  return std::max(byteSize(cast<ShapedType>(op->getOperand(0).getType())), byteSize(cast<ShapedType>(op->getResult(0).getType())));
}

// Fuses the collectives of one function.
class FunctionFusion {
public:
  FunctionFusion(func::FuncOp function, dist::MeshOp mesh, const SymbolTable &symbols, const Settings &settings)
      : function(function), mesh(mesh), links(analysis::axisLinks(mesh.getMesh(), mesh.getCostsAttr())), symbols(symbols),
        settings(settings), phases(function.front()), order(function.front()) {}

  LogicalResult run() {
    collect();
    if (failed(checkModes())) {
      return failure();
    }
    countLevels();
    for (Candidate &candidate : candidates) {
      join(candidate);
    }
    std::vector<CollectiveGroup> found;
    for (auto &[key, group] : groups) {
      if (group.members.size() > 1) {
        found.push_back(group);
      } else if (group.fusion.getMode() != FusionMode::Id) {
        group.members.front()->setAttr("fusion", group.fusion); // so that reports know how full a bucket had to be
      }
    }
    return found.empty() ? success() : order.fuse(found);
  }

private:
  // Returns the variable of that name when it is a parameter.
  nn::VariableOp findParameter(StringAttr name) {
    auto variable = name ? symbols.lookup<nn::VariableOp>(name) : nn::VariableOp();
    return variable && variable.getTrainable() ? variable : nn::VariableOp();
  }

  // Returns the parameters whose gradient, value or next value a collective moves: its causes say so, or the value does.
  SmallVector<nn::VariableOp> parametersOf(CollectiveOpInterface op) {
    llvm::SmallSetVector<nn::VariableOp, 1> found;
    if (ArrayAttr cause = op.getCauseAttr()) {
      for (auto end : cause.getAsRange<dist::EndAttr>()) {
        bool isParameter =
            llvm::is_contained({dist::EndKind::Gradient, dist::EndKind::Parameter, dist::EndKind::ParameterUpdate}, end.getKind());
        if (nn::VariableOp variable = isParameter ? findParameter(end.getName()) : nn::VariableOp()) {
          found.insert(variable);
        }
      }
    }
    Value value = op->getOperand(0);
    while (value.getDefiningOp() && isView(value.getDefiningOp())) {
      value = value.getDefiningOp()->getOperand(0);
    }
    if (auto read = value.getDefiningOp<nn::ReadOp>()) {
      if (nn::VariableOp variable = findParameter(read.getVariableAttr().getAttr())) {
        found.insert(variable);
      }
    }
    if (found.empty() && !collectTakers(op->getResult(0), found)) { // a sum that is rearranged, or that several parameters take
      found.clear();
    }
    return found.takeVector();
  }

  // Whether an op gives the elements of its operand: rearranged, converted, or the device's piece of them.
  static bool isView(Operation *op) {
    auto compute = dyn_cast<ComputeOpInterface>(op);
    return op->getNumOperands() == 1 &&
           (op->hasTrait<MovesElements>() || isa<dist::SliceOp>(op) || (compute && compute.getPrecision() == Precision::Convert));
  }

  // Adds the parameters whose gradient a value is; returns false where it is used for something else.
  bool collectTakers(Value value, llvm::SmallSetVector<nn::VariableOp, 1> &found) {
    SmallVector<Operation *> pending(value.getUsers()); // a view has one operand, so it is met once
    while (!pending.empty()) {
      Operation *user = pending.pop_back_val();
      auto gradient = dyn_cast<nn::GradientOp>(user);
      if (nn::VariableOp variable = gradient ? findParameter(gradient.getVariableAttr().getAttr()) : nn::VariableOp()) {
        found.insert(variable);
      } else if (!gradient && isView(user)) {
        llvm::append_range(pending, user->getUsers());
      } else {
        return false;
      }
    }
    return true;
  }

  static std::optional<int64_t> idOf(nn::VariableOp variable) {
    auto id = variable->getAttrOfType<IntegerAttr>(dist::kCommFusionAttr);
    return id ? std::optional(id.getInt()) : std::nullopt;
  }

  // Lists the candidates in program order.
  void collect() {
    for (auto op : function.front().getOps<CollectiveOpInterface>()) {
      bool isAlone = op->getNumOperands() == 1 && !op->hasAttr(dist::kExplicitAttr) && settings.of(op.getCollectiveKind());
      SmallVector<nn::VariableOp> parameters = isAlone ? parametersOf(op) : SmallVector<nn::VariableOp>();
      if (parameters.empty()) {
        continue;
      }
      std::optional<int64_t> id = idOf(parameters.front());
      if (llvm::any_of(parameters, [&](nn::VariableOp other) { return idOf(other) != id; })) {
        id = 0; // one sum for two parameters, whose ids say different things
      }
      candidates.push_back({op, parameters, id});
      hasIds |= id.has_value();
    }
  }

  // A kind has ids or a mode.
  LogicalResult checkModes() {
    for (Candidate &candidate : candidates) {
      CollectiveKind kind = candidate.op.getCollectiveKind();
      const FusionSetting &setting = *settings.of(kind);
      if (setting.mode && candidate.id.value_or(0) > 0) {
        std::string text;
        llvm::raw_string_ostream(text) << setting;
        return candidate.op->emitOpError("is fused by the mode \"")
               << text << "\" of " << stringifyCollectiveKind(kind) << ", but parameter \"" << candidate.parameters.front().getSymName()
               << "\" has fusion id " << *candidate.id << "; leave out one of the two";
      }
    }
    return success();
  }

  // Returns the setting of a candidate: that of its kind. Without one, and where no parameter has an id, what goes between hosts fills
  // buckets by its costs: alone, each small gradient would wait for the way there and back.
  const FusionSetting &settingOf(Candidate &candidate) {
    static const FusionSetting kBetweenHosts{FusionMode::Auto, {}};
    const FusionSetting &given = *settings.of(candidate.op.getCollectiveKind());
    return given.mode || hasIds || !spansHosts(candidate.op) ? given : kBetweenHosts;
  }

  // Whether the groups of an op have devices on several hosts.
  bool spansHosts(CollectiveOpInterface op) {
    auto [found, isNew] = isBetweenHosts.try_emplace(op.getAxes(), false);
    if (dist::HostsAttr hosts = mesh.getHostsAttr(); isNew && hosts) {
      SmallVector<int64_t> axes = llvm::map_to_vector(
          dist::toAxisList(op.getAxes()), [&](StringAttr axis) { return static_cast<int64_t>(*mesh.getMesh().findAxis(axis)); });
      found->second = analysis::groupsOnHosts(hosts.getRanksPerHost(), hosts.getDevicesPerRank(), mesh.getMesh().getSizes(),
                                              mesh.getDeviceIds().value_or(ArrayRef<int64_t>()), axes)
                          .hosts > 1;
    }
    return found->second;
  }

  // Whether a candidate may be one with others at all.
  bool isToBeFused(Candidate &candidate) { return candidate.id ? *candidate.id > 0 : settingOf(candidate).mode.has_value(); }

  // Counts for each op the candidates to be fused on the longest path to it.
  void countLevels() {
    llvm::DenseSet<Operation *> counted;
    for (Candidate &candidate : candidates) {
      if (isToBeFused(candidate)) {
        counted.insert(candidate.op);
      }
    }
    for (Operation &op : function.front()) {
      int64_t level = 0;
      for (Operation *before : order.predecessors(&op)) {
        level = std::max(level, levels.lookup(before) + counted.contains(before));
      }
      levels[&op] = level;
    }
  }

  Key keyOf(Candidate &candidate, FusionMode mode) {
    CollectiveOpInterface op = candidate.op;
    std::optional<Reduction> reduction = op.getReductionKind();
    return {op.getCollectiveKind(), op.getAxes().getAsOpaquePointer(), getElementTypeOrSelf(op->getOperand(0)).getAsOpaquePointer(),
            reduction ? static_cast<int>(*reduction) : -1,
            // A gather for the backward pass is not to be made ahead of it.
            phases.of(op), mode, /*level=*/mode == FusionMode::Id ? 0 : levels.lookup(op), /*number=*/0};
  }

  // Puts a candidate into its group, unless it stays alone.
  void join(Candidate &candidate) {
    const FusionSetting &setting = settingOf(candidate);
    if (candidate.id.value_or(0) > 0) {
      Key key = keyOf(candidate, FusionMode::Id);
      key.number = *candidate.id;
      // A way from one layout to another may have two steps of a kind: they are no parts of one collective.
      key.level = occurrences[{candidate.parameters.front().getOperation(), key}]++;
      add(key, key.number, /*bytes=*/0, candidate);
    } else if (setting.mode && !candidate.id) {
      setting.mode == FusionMode::Index ? joinPart(candidate, setting) : joinBucket(candidate, setting);
    }
  }

  void add(const Key &key, int64_t number, int64_t bytes, Candidate &candidate) {
    CollectiveGroup &group = groups[key];
    group.fusion = dist::FusionAttr::get(function.getContext(), key.mode, number, bytes);
    group.members.push_back(candidate.op);
    group.names.push_back(candidate.parameters.front().getSymName().str());
  }

  // Counts the collectives of a kind, and finds between which bounds this one is.
  void joinPart(Candidate &candidate, const FusionSetting &setting) {
    int64_t place = counts[candidate.op.getCollectiveKind()]++;
    Key key = keyOf(candidate, FusionMode::Index);
    key.number = 1 + llvm::count_if(setting.numbers, [&](int64_t bound) { return bound <= place; });
    add(key, key.number, /*bytes=*/0, candidate);
  }

  // Fills a bucket after the other: up to a size that the user gives, or from one on that makes latency small.
  void joinBucket(Candidate &candidate, const FusionSetting &setting) {
    CollectiveOpInterface op = candidate.op;
    Key key = keyOf(candidate, *setting.mode);
    dist::AxisList axes = dist::toAxisList(op.getAxes());
    bool isAuto = setting.mode == FusionMode::Auto;
    int64_t limit = isAuto ? analysis::bucketBytes(op.getCollectiveKind(), mesh.getMesh().groupSize(axes),
                                                   analysis::groupLink(mesh.getMesh(), links, axes))
                           : setting.numbers.front();
    Bucket &bucket = buckets[key];
    int64_t bytes = wholeBytes(op);
    bool isFull = isAuto ? bucket.bytes >= limit || bucket.bytes + bytes > analysis::kMostBucketBytes : bucket.bytes + bytes > limit;
    if (bucket.number == 0 || isFull) {
      bucket = {++counts[op.getCollectiveKind()], 0};
    }
    bucket.bytes += bytes;
    key.number = bucket.number;
    add(key, key.number, limit, candidate);
  }

  // The bucket that is being filled.
  struct Bucket {
    int64_t number = 0, bytes = 0;
  };

  func::FuncOp function;
  dist::MeshOp mesh;
  SmallVector<analysis::Link> links;
  const SymbolTable &symbols;
  const Settings &settings;
  nn::Phases phases;
  FusionOrder order;
  std::vector<Candidate> candidates;
  bool hasIds = false;                      // any candidate
  DenseMap<Attribute, bool> isBetweenHosts; // by axes
  DenseMap<Operation *, int64_t> levels;
  std::map<Key, CollectiveGroup> groups;
  std::map<std::pair<Operation *, Key>, int64_t> occurrences; // of ids, by parameter and key
  std::map<Key, Bucket> buckets;                              // by key without a number
  std::map<CollectiveKind, int64_t> counts;                   // of buckets, or of collectives
};

struct FuseCollectives : impl::FuseCollectivesPassBase<FuseCollectives> {
  using FuseCollectivesPassBase::FuseCollectivesPassBase;

  void runOnOperation() override {
    const Settings settings{allReduce, allGather, reduceScatter};
    dist::MeshOp mesh = dist::findMesh(getOperation());
    SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (mesh && failed(FunctionFusion(function, mesh, symbols, settings).run())) {
        return signalPassFailure();
      }
    }
  }
};

} // namespace

} // namespace ashlar::partition
