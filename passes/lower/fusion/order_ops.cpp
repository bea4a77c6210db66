// SPDX-License-Identifier: Apache-2.0
//
// Orders the ops of a program for fusion and memory. State: the ops placed so far. Library calls and collectives keep their order; every
// other op, and a broadcast from an owner, is placed when something placed needs it, with two exceptions: a reduction follows its operand
// at once, and a write follows as soon as its value can be computed and nobody needs the old value any more. Each op is placed once; linear
// but for the short chains of writes that wait.

#include "dialects/dist/dist.h"
#include "dialects/dist/owners.h"
#include "passes/lower/calls/library_call.h"
#include "passes/lower/kernels/fusible.h"
#include "passes/lower/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace ashlar::lower {

#define GEN_PASS_DEF_ORDEROPSPASS
#include "passes/lower/passes.h.inc"

namespace {

using namespace mlir;

class Orderer {
public:
  explicit Orderer(Block &block) : block(block) {}

  void run() {
    SmallVector<Operation *> original;
    for (Operation &op : block) {
      original.push_back(&op);
      countMissing(op);
      if (auto read = dyn_cast<nn::ReadOp>(op)) {
        reads[read.getVariableAttr()].push_back(read);
      }
    }
    // A read costs nothing and must see the old value: all of them first.
    for (auto &[variable, readsOfIt] : reads) {
      for (nn::ReadOp read : readsOfIt) {
        place(read);
      }
    }
    for (Operation *op : original) {
      bool isAnchor =
          isa<nn::ReduceOp>(op) || (!isFusible(op) && !isa<nn::ReadOp, nn::WriteOp, nn::ConstantOp, dist::SliceOp, dist::AfterOp>(op) &&
                                    !isFromOwner(op) && !op->hasTrait<OpTrait::IsTerminator>());
      if (isAnchor) {
        placeBias(op);
        place(op);
        placeReadyWrites();
      }
    }
    for (Operation *op : original) {
      if (isa<nn::WriteOp>(op)) {
        place(op);
      }
    }
    place(block.getTerminator());
    for (Operation *op : order) {
      op->moveBefore(&block, block.end());
    }
    // What nobody needs was never placed and now stands first: drop it, users first.
    for (Operation *op : llvm::reverse(original)) {
      if (!placed.contains(op)) {
        op->erase();
      }
    }
  }

private:
  Block &block;
  SmallVector<Operation *> order;
  DenseSet<Operation *> placed;
  DenseSet<Operation *> underway; // ops whose operands are being placed
  // For fusible ops and writes: operands that cannot be computed yet because a library call or collective before them is not placed.
  DenseMap<Operation *, int64_t> missing;
  DenseSet<Operation *> isShrunk; // element-wise ops on the result of a reduction
  SmallVector<nn::WriteOp> readyWrites;
  llvm::MapVector<Attribute, SmallVector<nn::ReadOp>> reads;

  // The last part of an update, which a write then waits for.
  static bool isFromOwner(Operation *op) { return isa<dist::BroadcastOp>(op) && dist::getOwner(op); }

  // An op that can be computed as soon as its operands can: placing it is not an event of its own.
  static bool followsOperands(Operation *op) {
    return isFusible(op) || isa<nn::ReshapeOp, dist::SliceOp, dist::AfterOp>(op) || isFromOwner(op);
  }

  bool isAvailable(Value value) {
    Operation *def = value.getDefiningOp();
    if (!def || isa<nn::ReadOp, nn::ConstantOp>(def)) {
      return true;
    }
    return followsOperands(def) ? missing.lookup(def) == 0 : placed.contains(def);
  }

  void countMissing(Operation &op) {
    if (!followsOperands(&op) && !isa<nn::WriteOp>(op)) {
      return;
    }
    int64_t count = llvm::count_if(op.getOperands(), [&](Value operand) { return !isAvailable(operand); });
    missing[&op] = count;
    if (count == 0) {
      if (auto write = dyn_cast<nn::WriteOp>(op)) {
        readyWrites.push_back(write);
      }
    }
  }

  // The results of `op` have become available: tells the users.
  void announce(Operation *op) {
    SmallVector<Operation *> worklist{op};
    while (!worklist.empty()) {
      Operation *available = worklist.pop_back_val();
      for (OpOperand &use : available->getUses()) {
        Operation *user = use.getOwner();
        auto found = missing.find(user);
        if (found == missing.end() || --found->second > 0) {
          continue;
        }
        if (auto write = dyn_cast<nn::WriteOp>(user)) {
          readyWrites.push_back(write);
        } else {
          worklist.push_back(user);
        }
      }
    }
  }

  // Places what the op needs, then the op, then what follows it. Returns false if the op needs one that is underway: it follows an operand
  // of that one too early, and is placed when it follows the next of its own operands or is needed.
  bool place(Operation *op) {
    if (placed.contains(op)) {
      return true;
    }
    if (!underway.insert(op).second) {
      return false;
    }
    bool canStand = llvm::all_of(op->getOperands(), [&](Value operand) {
      Operation *def = operand.getDefiningOp();
      return !def || place(def);
    });
    underway.erase(op);
    if (!canStand) {
      return false;
    }
    placed.insert(op);
    order.push_back(op);
    if (!followsOperands(op) && !isa<nn::ReadOp, nn::ConstantOp>(op)) { // those were available from the start
      announce(op);
    }
    placeFollowers(op);
    return true;
  }

  // A library call adds a bias that is there before it. One that is only converted, as in mixed precision, can be.
  void placeBias(Operation *op) {
    if (!findCall(op)) {
      return;
    }
    for (Operation *user : op->getUsers()) {
      Value bias = getBias(getAddend(user, op));
      auto conversion = bias ? bias.getDefiningOp<nn::CastOp>() : nn::CastOp();
      if (conversion && missing.lookup(conversion) == 0) {
        place(conversion);
      }
    }
  }

  // Element-wise: the reductions of the result join its loop. Reduction: what is computed from it joins its rows.
  void placeFollowers(Operation *op) {
    if (isElementwise(op)) {
      for (Operation *user : op->getUsers()) {
        if (isa<nn::ReduceOp>(user)) {
          place(user);
        }
      }
    }
    if (isElementwise(op) ? isShrunk.contains(op) : isa<nn::ReduceOp>(op)) {
      for (Operation *user : op->getUsers()) {
        if (isElementwise(user) && !placed.contains(user) && missing.lookup(user) == 0) {
          isShrunk.insert(user);
          place(user); // or later
        }
      }
    }
  }

  // Adds the ops that `op` still needs to be placed.
  void collectUnplaced(Operation *op, DenseSet<Operation *> &needed) {
    if (placed.contains(op) || !needed.insert(op).second) {
      return;
    }
    for (Value operand : op->getOperands()) {
      if (Operation *def = operand.getDefiningOp()) {
        collectUnplaced(def, needed);
      }
    }
  }

  // Returns whether every use of the variable's old value is placed or belongs to the computation of its new one.
  bool oldValueIsFree(nn::WriteOp write) {
    DenseSet<Operation *> own;
    collectUnplaced(write, own);
    for (nn::ReadOp read : reads.lookup(write.getVariableAttr())) {
      for (Operation *user : read->getUsers()) {
        if (!placed.contains(user) && !own.contains(user)) {
          return false;
        }
      }
    }
    return true;
  }

  void placeReadyWrites() {
    SmallVector<nn::WriteOp> waiting;
    std::swap(waiting, readyWrites);
    for (nn::WriteOp write : waiting) {
      if (oldValueIsFree(write)) {
        place(write);
      } else {
        readyWrites.push_back(write);
      }
    }
  }
};

struct OrderOps : impl::OrderOpsPassBase<OrderOps> {
  using OrderOpsPassBase::OrderOpsPassBase;

  void runOnOperation() override {
    if (!getOperation().isExternal()) {
      Orderer(getOperation().getBody().front()).run();
    }
  }
};

} // namespace
} // namespace ashlar::lower
