// SPDX-License-Identifier: Apache-2.0
//
// Orders the ops of a program for fusion and memory. State: the ops placed so far. Library calls and collectives keep their order; every
// other op, and a broadcast from an owner, is placed when a placed op needs it, with two exceptions: a reduction follows its operand at
// once, and a write follows as soon as its value can be computed and the old value is dead, but no reduction stands between others. What
// the slot gives comes first, and what goes there last. Each op is placed once; linear in the ops and in the pending needs of each write
// when its value can be computed.

#include "dialects/dist/dist.h"
#include "dialects/dist/owners.h"
#include "dialects/nn/repeat/repeats.h"
#include "dialects/support/aliases.h"
#include "dialects/support/operands_first.h"
#include "passes/lower/calls/library_call.h"
#include "passes/lower/kernels/fusible.h"
#include "passes/lower/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

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
    // What the slot holds is there before the program begins.
    for (Operation *op : original) {
      if (isSource(op)) {
        place(op);
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
          isa<nn::ReduceOp>(op) ||
          (!isFusible(op) && !isa<nn::ReadOp, nn::WriteOp, nn::ConstantOp, dist::SliceOp, dist::AfterOp, dist::SlotOpInterface>(op) &&
           !isFromOwner(op) && !op->hasTrait<OpTrait::IsTerminator>());
      if (isAnchor && isa<nn::ReduceOp, nn::ReshapeOp>(op)) { // more sums may come that one kernel makes: writes wait for all of them
        place(op);
      } else if (isAnchor) {
        placeReadyWrites();
        placeBias(op);
        place(op);
        placeReadyWrites();
      }
    }
    placeReadyWrites();
    for (Operation *op : original) {
      if (isa<nn::WriteOp>(op)) {
        place(op);
      }
    }
    for (Operation *op : original) { // it leaves when the program has run
      if (isa<dist::SlotOpInterface>(op)) {
        place(op);
      }
    }
    place(block.getTerminator());
    for (Operation *op : order) {
      op->moveBefore(&block, block.end());
    }
    // Dead ops were never placed and now stand first: drop them, users first.
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
  DenseSet<Operation *> isShrunk;                           // element-wise ops on the result of a reduction
  SmallVector<nn::WriteOp> readyWrites;                     // whose values can be computed, not looked at yet
  DenseMap<Operation *, int64_t> waits;                     // by write: the ops that need the old value and are not placed
  DenseMap<Operation *, SmallVector<nn::WriteOp>> waitsFor; // by op: the writes that wait for it
  llvm::SetVector<Operation *> freeWrites;                  // that waited, and do no longer
  llvm::MapVector<Attribute, SmallVector<nn::ReadOp>> reads;

  // An op that is being placed: first its operands, then itself, then its followers.
  struct Placing {
    Operation *op;
    unsigned operand = 0;
    SmallVector<Operation *> followers = {};
    bool isPlaced = false, isShrinking = false; // the followers join the reduction's rows
  };

  // The last part of an update, which a write then waits for.
  static bool isFromOwner(Operation *op) { return isa<dist::BroadcastOp>(op) && dist::getOwner(op); }

  // What gives the program a value of the slot.
  static bool isSource(Operation *op) { return isa<dist::ReceiveOp, dist::TakeOp>(op); }

  // An op that can be computed as soon as its operands can: placing it is not an event of its own. A reduction is one: its users would keep
  // others out of its kernel.
  static bool followsOperands(Operation *op) {
    return (isFusible(op) && !isa<nn::ReduceOp>(op)) || aliasesOperands(op) || isa<dist::SliceOp>(op) || isFromOwner(op);
  }

  bool isAvailable(Value value) {
    Operation *def = value.getDefiningOp();
    if (!def || isa<nn::ReadOp, nn::ConstantOp>(def) || isSource(def)) {
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

  // Notifies the users of `op` that its results are available.
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

  // Places the op's operands, then the op, then its followers. An op that needs one that is underway is left: it follows an operand of that
  // one too early, and is placed when it follows the next of its own operands or is needed.
  void place(Operation *root) {
    SmallVector<Placing> path; // each for the one before it
    auto begin = [&](Operation *op) {
      if (!placed.contains(op) && underway.insert(op).second) {
        path.push_back({op});
      }
    };
    begin(root);
    while (!path.empty()) {
      Placing &last = path.back();
      if (!last.isPlaced && last.operand < last.op->getNumOperands()) {
        Operation *def = last.op->getOperand(last.operand).getDefiningOp();
        if (!def || placed.contains(def)) {
          ++last.operand;
        } else if (underway.contains(def)) {
          leave(path);
        } else {
          begin(def);
        }
      } else if (!last.isPlaced) {
        last.isPlaced = true;
        underway.erase(last.op);
        finish(last.op);
        last.followers = reductionsOf(last.op);
      } else if (!last.followers.empty()) {
        Operation *follower = last.followers.pop_back_val();
        if (!last.isShrinking || shrink(follower)) {
          begin(follower); // now or later
        }
      } else if (!last.isShrinking) {
        last.isShrinking = true;
        last.followers = rowUsersOf(last.op);
      } else {
        path.pop_back();
      }
    }
  }

  // Gives up the last op of a path, and its dependents.
  void leave(SmallVectorImpl<Placing> &path) {
    do {
      underway.erase(path.pop_back_val().op);
    } while (!path.empty() && !path.back().isPlaced);
  }

  // The op stands: notifies the ops that wait for it.
  void finish(Operation *op) {
    placed.insert(op);
    order.push_back(op);
    if (!followsOperands(op) && !isa<nn::ReadOp, nn::ConstantOp>(op) && !isSource(op)) { // those were available from the start
      announce(op);
    }
    for (nn::WriteOp write : waitsFor.lookup(op)) {
      if (--waits[write] == 0) {
        freeWrites.insert(write);
      }
    }
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

  // Element-wise: the reductions of the result join its loop. The first one last.
  static SmallVector<Operation *> reductionsOf(Operation *op) {
    SmallVector<Operation *> found;
    if (isElementwise(op)) {
      llvm::copy_if(op->getUsers(), std::back_inserter(found), llvm::IsaPred<nn::ReduceOp>);
    }
    std::reverse(found.begin(), found.end());
    return found;
  }

  // Reduces the innermost dims, row by row.
  static bool reducesRows(Operation *op) {
    auto reduce = dyn_cast<nn::ReduceOp>(op);
    int64_t rank = reduce ? reduce.getInput().getType().getRank() : 0, kept = reduce ? reduce.getType().getRank() : 0;
    return reduce && llvm::equal(reduce.getDims(), llvm::seq<int64_t>(kept, rank));
  }

  // Reduction of rows: its users join them. The first one last.
  SmallVector<Operation *> rowUsersOf(Operation *op) const {
    SmallVector<Operation *> found;
    if (isElementwise(op) ? isShrunk.contains(op) : reducesRows(op)) {
      llvm::copy_if(op->getUsers(), std::back_inserter(found), isElementwise);
    }
    std::reverse(found.begin(), found.end());
    return found;
  }

  // Notes that an op is computed from a reduction's result. Returns false where it is placed, or cannot be.
  bool shrink(Operation *op) {
    if (placed.contains(op) || missing.lookup(op) != 0) {
      return false;
    }
    isShrunk.insert(op);
    return true;
  }

  // Records the ops a write waits for: ops that need the variable's old value, are not placed, and do not belong to the computation of the
  // new one.
  void findWaits(nn::WriteOp write) {
    DenseSet<Operation *> own;
    walkOperandsFirst(write, [&](Operation *op) { return !placed.contains(op) && own.insert(op).second; }, [](Operation *) {});
    llvm::SmallSetVector<Operation *, 4> others;
    for (nn::ReadOp read : reads.lookup(write.getVariableAttr())) {
      for (Operation *user : read->getUsers()) {
        if (!placed.contains(user) && !own.contains(user)) {
          others.insert(user);
        }
      }
    }
    waits[write] = static_cast<int64_t>(others.size());
    for (Operation *other : others) {
      waitsFor[other].push_back(write);
    }
  }

  void placeReadyWrites() {
    SmallVector<nn::WriteOp> ready;
    std::swap(ready, readyWrites);
    for (nn::WriteOp write : ready) {
      findWaits(write);
      if (waits.lookup(write) == 0) {
        freeWrites.insert(write);
      }
    }
    while (!freeWrites.empty()) {
      llvm::for_each(freeWrites.takeVector(), [&](Operation *write) { place(write); });
    }
  }
};

struct OrderOps : impl::OrderOpsPassBase<OrderOps> {
  using OrderOpsPassBase::OrderOpsPassBase;

  void runOnOperation() override {
    if (!getOperation().isExternal()) {
      nn::visitBlocks(getOperation().front(), [](Block &block) { Orderer(block).run(); });
    }
  }
};

} // namespace
} // namespace ashlar::lower
