// SPDX-License-Identifier: Apache-2.0
//
// Grows groups of ops in program order and outlines each into an exec.fusion.
//
// A group has a domain, the shape its loop nest runs over. Its values are *full* (the domain's shape) or, once a trailing reduction has
// fixed how many leading dims are rows, *row* values (the shape of those dims). Invariants: (I1) no op outside an open group uses a value
// of it, writes excepted; so an open group can take ops and merge with other open groups without making a cycle; (I2) a view belongs to no
// group unless it repeats a row value along its row, or must be materialized; every group that reads through it gets a copy; (I3) a group
// of more than one op is no larger than one kernel may be (kernel_size.h); (I4) the ops of a group are those of one owner, or of all
// devices. A reshape moves nothing: like a view it closes a group only where something reads it. Linear in the number of ops, n log n where
// groups merge. Longer than 500 lines: one class, whose methods all keep these invariants.

#include "passes/lower/calls/library_call.h"
#include "passes/lower/fusion/compute_again.h"
#include "passes/lower/fusion/join_small.h"
#include "passes/lower/fusion/split_reductions.h"
#include "passes/lower/fusion/view_table.h"
#include "passes/lower/kernels/fusible.h"
#include "passes/lower/kernels/kernel_size.h"
#include "passes/lower/passes.h"

#include "dialects/dist/owners.h"
#include "dialects/exec/exec.h"
#include "dialects/exec/target_traits.h"
#include "dialects/nn/repeat/repeats.h"
#include "dialects/support/aliases.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace ashlar::lower {

#define GEN_PASS_DEF_FUSEPASS
#include "passes/lower/passes.h.inc"

namespace {

using namespace mlir;

constexpr int64_t kUndecided = -1;

struct Group {
  exec::FusionKind kind = exec::FusionKind::Loop;
  SmallVector<int64_t> domain;
  int64_t rowRank = kUndecided;     // of kind Rows: the number of leading dims that are rows
  SmallVector<int64_t> reducedDims; // of kind Columns
  SmallVector<Operation *> ops;
  KernelSize size;
  Operation *consumer = nullptr; // of a materialized view: who needs it; it may stand before what it reads
  bool open = true;

  ArrayRef<int64_t> rowShape() const { return ArrayRef<int64_t>(domain).take_front(rowRank); }
  // Whether a value of this shape can be a row value of the group.
  bool hasRowsOf(ArrayRef<int64_t> shape) const { return rowRank != kUndecided && shape == rowShape(); }
  bool isCall() const { return exec::isLibraryCall(kind); }
};

class Fuser {
public:
  Fuser(Block &block, exec::Target target) : block(block), target(target), owners(block) {}

  void run() {
    int64_t position = 0;
    for (Operation &op : block) {
      positions[&op] = position++;
      assign(op);
    }
    for (auto &group : groups) {
      repeatRows(*group);
    }
    for (auto &group : groups) {
      if (!group->ops.empty()) {
        outline(*group);
      }
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
      if (isFusible(&op) && op.use_empty()) {
        op.erase();
      }
    }
  }

private:
  Block &block;
  exec::Target target;
  dist::Owners owners;
  std::vector<std::unique_ptr<Group>> groups;
  DenseMap<Operation *, Group *> groupOf;
  ViewTable views;
  DenseMap<Operation *, int64_t> usesOutside; // of ops in groups: uses by ops that are not, or not yet, in the same one
  DenseMap<Operation *, int64_t> levels;      // of ops in groups: how many of the group's reductions come before, one after the other
  DenseSet<Operation *> closed;               // views and reshapes through which groups were closed: they stay so
  DenseSet<Operation *> materialized;         // views that also have a loop of their own, for consumers outside all groups
  DenseMap<Operation *, int64_t> positions;

  Group *openGroupOf(Value value) {
    Operation *def = value.getDefiningOp();
    Group *group = def ? groupOf.lookup(def) : nullptr;
    return group && group->open ? group : nullptr;
  }

  // The same, when `op` is one of the devices that compute the group.
  Group *openGroupFor(Operation &op, Value value) {
    Group *group = openGroupOf(value);
    return group && owners.of(group->ops.front()) == owners.of(&op) ? group : nullptr;
  }

  Group &newGroup(exec::FusionKind kind, ArrayRef<int64_t> domain) {
    groups.push_back(std::make_unique<Group>());
    groups.back()->kind = kind;
    groups.back()->domain.assign(domain.begin(), domain.end());
    return *groups.back();
  }

  bool isIn(const Group &group, Value value) const {
    Operation *def = value.getDefiningOp();
    return def && groupOf.lookup(def) == &group;
  }

  // Returns the level of the op if it joins the group.
  int64_t levelIn(const Group &group, Operation &op) const {
    int64_t level = 0;
    for (Value operand : op.getOperands()) {
      level = isIn(group, operand) ? std::max(level, levels.lookup(operand.getDefiningOp())) : level;
    }
    return level + (isa<nn::ReduceOp>(op) ? 1 : 0);
  }

  // Adds what a kernel reads from memory where it reads `value`.
  void collectInputs(Value value, bool isData, KernelSize &size) const {
    Operation *def = value.getDefiningOp();
    if (isData || !views.contains(def)) {
      size.inputs.insert(value);
      return;
    }
    for (Value operand : def->getOperands()) {
      collectInputs(operand, /*isData=*/false, size);
    }
  }

  // Returns what the group holds once the op has joined it.
  KernelSize sizeWith(const Group &group, Operation &op) const {
    KernelSize size = group.size;
    size.code += codeOf(op);
    size.passes = std::max(size.passes, levelIn(group, op) + 1);
    size.live += op.use_empty() ? 0 : 1;
    for (OpOperand &operand : op.getOpOperands()) {
      if (!isIn(group, operand.get())) {
        size.code += views.codeOf(operand.get());
        collectInputs(operand.get(), isRead(operand), size);
        continue;
      }
      bool isFirst = llvm::find(op.getOperands(), operand.get()).getIndex() == operand.getOperandNumber();
      bool isLast = usesOutside.lookup(operand.get().getDefiningOp()) == llvm::count(op.getOperands(), operand.get());
      size.live -= isFirst && isLast ? 1 : 0;
    }
    return size;
  }

  bool canHold(const Group &group, Operation &op) const { return sizeWith(group, op).fits(); }

  void add(Group &group, Operation &op) {
    group.size = sizeWith(group, op);
    levels[&op] = levelIn(group, op);
    usesOutside[&op] = std::distance(op.use_begin(), op.use_end());
    for (Value operand : op.getOperands()) {
      if (isIn(group, operand)) {
        --usesOutside[operand.getDefiningOp()];
      }
    }
    group.ops.push_back(&op);
    groupOf[&op] = &group;
  }

  // Closes the group that computes `value`, looking through views and other names: something outside reads it.
  void close(Value value) {
    SmallVector<Value> pending = {value};
    while (!pending.empty()) {
      Operation *def = pending.pop_back_val().getDefiningOp();
      if (Group *group = def ? groupOf.lookup(def) : nullptr) {
        group->open = false;
      } else if (def && (views.contains(def) || aliasesOperands(def)) && closed.insert(def).second) {
        llvm::append_range(pending, def->getOperands());
      }
    }
  }

  // A consumer outside all groups needs `value` in memory.
  void materialize(Value value, Operation &consumer) {
    close(value);
    Operation *def = value.getDefiningOp();
    if (def && views.contains(def) && !isa<nn::ConstantOp>(def) && materialized.insert(def).second) {
      Group &group = newGroup(exec::FusionKind::Loop, shapeOf(value));
      group.ops.push_back(def);
      group.consumer = &consumer;
      group.open = false;
    }
  }

  void assign(Operation &op) {
    if (joinsAsRow(op) || views.note(op)) {
      return;
    }
    if (isView(&op)) {
      assignLargeView(op);
    } else if (isElementwise(&op)) {
      assignElementwise(op);
    } else if (auto reduce = dyn_cast<nn::ReduceOp>(op)) {
      assignReduce(reduce);
    } else if (isa<nn::ScatterAddOp>(op)) {
      llvm::for_each(op.getOperands(), [&](Value operand) { close(operand); });
      Group &group = newGroup(exec::FusionKind::Scatter, shapeOf(op.getResult(0)));
      add(group, op);
      group.open = false;
    } else if (!isa<nn::ReadOp, nn::ConstantOp>(op)) {
      for (Value operand : op.getOperands()) {
        // A write or a reshape does not close the group: it moves behind it.
        if (!isa<nn::WriteOp, nn::ReshapeOp>(op) || !openGroupOf(operand)) {
          materialize(operand, op);
        }
      }
      if (const LibraryCall *call = findCall(&op)) {
        add(newGroup(call->kind, shapeOf(op.getResult(0))), op);
      }
    }
  }

  // A row value repeated along its row becomes a full value of its group.
  bool joinsAsRow(Operation &op) {
    auto broadcast = dyn_cast<nn::BroadcastOp>(op);
    Group *group = broadcast ? openGroupFor(op, broadcast.getInput()) : nullptr;
    if (!group || !group->hasRowsOf(shapeOf(broadcast.getInput())) || shapeOf(broadcast) != ArrayRef<int64_t>(group->domain) ||
        !llvm::equal(broadcast.getDims(), llvm::seq<int64_t>(0, group->rowRank)) || !canHold(*group, op)) {
      return false;
    }
    add(*group, op);
    return true;
  }

  // A row value that a group repeats along its row is repeated again by other kernels that read it so: they get the row value, which is
  // smaller.
  void repeatRows(Group &group) {
    for (size_t i = 0; i < group.ops.size(); ++i) {
      auto broadcast = dyn_cast<nn::BroadcastOp>(group.ops[i]);
      if (!broadcast || !isIn(group, broadcast.getInput())) {
        continue;
      }
      llvm::SmallSetVector<Group *, 2> readers;
      for (Operation *user : broadcast->getUsers()) {
        readers.insert(groupOf.lookup(user));
      }
      readers.remove(&group);
      auto takes = [&](Group *reader) {
        KernelSize size = reader ? reader->size : KernelSize();
        size.code += lower::codeOf(*broadcast);
        return reader && !reader->isCall() && size.fits();
      };
      if (readers.empty() || !llvm::all_of(readers, takes)) {
        continue;
      }
      OpBuilder builder(broadcast);
      Operation *copy = builder.clone(*broadcast);
      views.note(*copy);
      broadcast.getResult().replaceUsesWithIf(copy->getResult(0), [&](OpOperand &use) { return groupOf.lookup(use.getOwner()) != &group; });
      for (Group *reader : readers) {
        reader->size.code += lower::codeOf(*broadcast);
      }
    }
  }

  // What is too large to be copied into its readers begins a loop.
  void assignLargeView(Operation &op) {
    llvm::for_each(op.getOperands(), [&](Value operand) { close(operand); });
    add(newGroup(exec::FusionKind::Loop, shapeOf(op.getResult(0))), op);
  }

  // Whether an op of this shape fits the group as a full or a row value, reading `operand` of the group at the same place.
  static bool fits(const Group &group, Value operand, ArrayRef<int64_t> shape) {
    return shapeOf(operand) == shape && (shape == ArrayRef<int64_t>(group.domain) || group.hasRowsOf(shape));
  }

  // Merges two groups if one loop nest can hold both, `from` with the domain of `into` or holding nothing but row values of it. Returns the
  // one that holds all ops now, null when they do not fit.
  Group *merge(Group &into, Group &from) {
    if (into.isCall() || from.isCall()) {
      return nullptr;
    }
    bool sameDomain =
        into.domain == from.domain && (into.rowRank == from.rowRank || into.rowRank == kUndecided || from.rowRank == kUndecided) &&
        (into.reducedDims == from.reducedDims || into.reducedDims.empty() || from.reducedDims.empty()) &&
        !(into.rowRank != kUndecided && !from.reducedDims.empty()) && !(from.rowRank != kUndecided && !into.reducedDims.empty());
    bool rowsOfInto = into.hasRowsOf(from.domain) && from.kind == exec::FusionKind::Loop;
    KernelSize size = into.size;
    size.add(from.size);
    if ((!sameDomain && !rowsOfInto) || !size.fits()) {
      return nullptr;
    }
    if (sameDomain && into.kind == exec::FusionKind::Loop) {
      into.kind = from.kind;
      into.rowRank = from.rowRank;
      into.reducedDims = from.reducedDims;
    }
    // The longer list stays where it is, so that n merges move n log n ops at most.
    Group &kept = from.ops.size() > into.ops.size() ? from : into, &emptied = &kept == &into ? from : into;
    kept.kind = into.kind;
    kept.domain = into.domain;
    kept.rowRank = into.rowRank;
    kept.reducedDims = into.reducedDims;
    kept.size = std::move(size);
    for (Operation *op : emptied.ops) {
      kept.ops.push_back(op);
      groupOf[op] = &kept;
    }
    emptied.ops.clear();
    emptied.open = false;
    return &kept;
  }

  // Returns the operands. Of two library calls whose results are added the later one comes first: it adds to what the other one made, and
  // neither waits with the values that it reads.
  SmallVector<Value> laterCallFirst(Operation &op) {
    auto positionOf = [&](Value operand) -> int64_t {
      Group *group = openGroupFor(op, operand);
      return group && group->isCall() ? positions.lookup(group->ops.back()) : -1;
    };
    SmallVector<Value> operands = llvm::to_vector(op.getOperands());
    if (operands.size() == 2 && positionOf(operands[0]) >= 0 && positionOf(operands[1]) > positionOf(operands[0])) {
      std::swap(operands[0], operands[1]);
    }
    return operands;
  }

  void assignElementwise(Operation &op) {
    ArrayRef<int64_t> shape = shapeOf(op.getResult(0));
    Group *joined = nullptr;
    for (Value operand : laterCallFirst(op)) {
      Group *group = openGroupFor(op, operand);
      if (!group || group == joined) {
        if (!group) {
          close(operand);
        }
        continue;
      }
      if (group->isCall()) {
        if (!joined && joinsCall(op, *group)) {
          joined = group;
        } else {
          group->open = false;
        }
        continue;
      }
      if (!fits(*group, operand, shape)) {
        group->open = false;
      } else if (!joined) {
        joined = group;
      } else if (Group *bigger = mergeEither(*joined, *group)) {
        joined = bigger;
      } else {
        group->open = false;
      }
    }
    // An operand read through a view may have closed the very group that another operand belongs to.
    bool joins = joined && joined->open && (joined->isCall() || canHold(*joined, op));
    if (joined && !joins) {
      joined->open = false;
    }
    add(joins ? *joined : newGroup(exec::FusionKind::Loop, shape), op);
  }

  Group *mergeEither(Group &a, Group &b) {
    Group *merged = merge(a, b);
    return merged ? merged : merge(b, a);
  }

  // Whether the value is in no memory: the library cannot read it.
  bool isOnlyView(Value value) const { return views.contains(value.getDefiningOp()); }

  // Whether the op is the next part of the library call, the only one that reads what was last.
  bool joinsCall(Operation &op, const Group &group) {
    Operation *last = group.ops.back();
    const LibraryCall &call = *findCall(group.kind);
    if (!last->hasOneUse() || !call.follows(&op, last, target)) {
      return false;
    }
    if (Value factor = getFactor(&op, last)) {
      return joinsAsBias(factor);
    }
    Value addend = getAddend(&op, last);
    return !addend || joinsAsBias(addend) || (call.addsTensor && call.addsTensor(addend) && joinsAsTensor(addend));
  }

  // The group that computes what is added can be closed: a result of a call that is read once only is read by nobody in it.
  bool joinsAsTensor(Value value) {
    if (isOnlyView(value)) {
      return false;
    }
    close(value);
    return true;
  }

  bool joinsAsBias(Value value) {
    Value bias = getBias(value);
    if (!bias || !isOnlyView(value) || isOnlyView(bias)) {
      return false;
    }
    close(bias);
    return true;
  }

  void assignReduce(nn::ReduceOp reduce) {
    Value input = reduce.getInput();
    ArrayRef<int64_t> shape = shapeOf(input);
    int64_t rank = shape.size();
    int64_t keptRank = rank - static_cast<int64_t>(reduce.getDims().size());
    bool trailing = llvm::equal(reduce.getDims(), llvm::seq<int64_t>(keptRank, rank));

    Group *group = openGroupFor(*reduce, input);
    bool joins = group && !group->isCall() && shape == ArrayRef<int64_t>(group->domain) &&
                 (trailing ? (group->rowRank == kUndecided || group->rowRank == keptRank) && group->reducedDims.empty()
                           : group->rowRank == kUndecided &&
                                 (group->reducedDims.empty() || ArrayRef<int64_t>(group->reducedDims) == reduce.getDims())) &&
                 canHold(*group, *reduce);
    if (!joins) {
      close(input);
      group = &newGroup(exec::FusionKind::Loop, shape);
    }
    group->kind = trailing ? exec::FusionKind::Rows : exec::FusionKind::Columns;
    if (trailing) {
      group->rowRank = keptRank;
    } else {
      group->reducedDims.assign(reduce.getDims().begin(), reduce.getDims().end());
    }
    add(*group, *reduce);
  }

  // Whether anything outside the group reads `value`.
  bool isOutput(Value value, const Group &group) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) { return groupOf.lookup(user) != &group; });
  }

  // Whether the operand is read from memory even if it is a constant: no two tensors have one stream, but all can share a kernel.
  static bool isRead(OpOperand &operand) {
    auto random = dyn_cast<nn::RandomOp>(operand.getOwner());
    return random && operand.get() == random.getStream();
  }

  // Returns the value inside the region for `value` outside: a copy of a view, or, for other values and for data, a block argument.
  Value import(Value value, bool isData, const Group &group, IRMapping &mapping, OpBuilder &inner, Block &body, SetVector<Value> &inputs) {
    if (Value known = mapping.lookupOrNull(value)) {
      return known;
    }
    Operation *def = value.getDefiningOp();
    isData |= group.isCall() && isa_and_nonnull<nn::ConstantOp>(def); // the library reads memory
    if (views.contains(def) && !isData) {
      importOperands(*def, group, mapping, inner, body, inputs);
      return inner.clone(*def, mapping)->getResult(0);
    }
    inputs.insert(value);
    Value argument = body.addArgument(value.getType(), value.getLoc());
    mapping.map(value, argument);
    return argument;
  }

  void importOperands(Operation &op, const Group &group, IRMapping &mapping, OpBuilder &inner, Block &body, SetVector<Value> &inputs) {
    for (OpOperand &operand : op.getOpOperands()) {
      import(operand.get(), isRead(operand), group, mapping, inner, body, inputs);
    }
  }

  // Moves the writes and reshapes of `value` that stand before `end` behind the fusion.
  void moveUsersBehind(Value value, Operation *fusion, int64_t end) {
    SmallVector<std::pair<Value, Operation *>> pending = {{value, fusion}}; // with what its users move behind
    while (!pending.empty()) {
      auto [moved, place] = pending.pop_back_val();
      for (Operation *user : moved.getUsers()) {
        if (isa<nn::WriteOp, nn::ReshapeOp>(user) && positions.lookup(user) < end) {
          user->moveAfter(place);
          if (isa<nn::ReshapeOp>(user)) {
            pending.push_back({user->getResult(0), user});
          }
        }
      }
    }
  }

  void outline(Group &group) {
    llvm::sort(group.ops, [&](Operation *a, Operation *b) { return positions[a] < positions[b]; });
    Operation *last = group.ops.back();
    SetVector<Value> inputs;
    IRMapping mapping;
    Region region;
    Block &body = region.emplaceBlock();
    OpBuilder inner(last->getContext());
    inner.setInsertionPointToEnd(&body);
    SmallVector<Value> outputs, yielded;
    SmallVector<Location> locations;
    for (Operation *op : group.ops) {
      importOperands(*op, group, mapping, inner, body, inputs);
      inner.clone(*op, mapping);
      locations.push_back(op->getLoc());
      for (Value result : op->getResults()) {
        if (isOutput(result, group) || op->getNumResults() > 1) { // the library computes all results of its ops
          outputs.push_back(result);
          yielded.push_back(mapping.lookup(result));
        }
      }
    }
    exec::YieldOp::create(inner, last->getLoc(), yielded);

    OpBuilder builder(group.consumer ? group.consumer : last);
    auto fusion = exec::FusionOp::create(builder, FusedLoc::get(builder.getContext(), locations), TypeRange(ValueRange(outputs)),
                                         group.kind, inputs.getArrayRef());
    fusion.getBody().takeBody(region);
    if (group.consumer) {
      // Fusions keep reading through the view.
      outputs.front().replaceUsesWithIf(fusion.getOutputs().front(), [](OpOperand &use) { return !isFusible(use.getOwner()); });
      return;
    }
    int64_t end = positions[last];
    for (auto [output, result] : llvm::zip_equal(outputs, fusion.getOutputs())) {
      moveUsersBehind(output, fusion, end);
      output.replaceAllUsesWith(result);
    }
    for (Operation *op : llvm::reverse(group.ops)) {
      op->dropAllUses();
      groupOf.erase(op);
      op->erase();
    }
  }
};

struct Fuse : impl::FusePassBase<Fuse> {
  using FusePassBase::FusePassBase;

  void runOnOperation() override {
    if (getOperation().isExternal()) {
      return;
    }
    nn::visitBlocks(getOperation().front(), [&](Block &block) {
      Fuser(block, target).run();
      computeAgain(block, target);
      splitReductions(block, target);
      joinSmallKernels(block, target);
    });
  }
};

} // namespace
} // namespace ashlar::lower
