// SPDX-License-Identifier: Apache-2.0
//
// Decides kernel by kernel, in program order, result by result: so the operands of a result are known to be stored or not.

#include "passes/lower/fusion/compute_again.h"

#include "passes/lower/fusion/kernel_edits.h"
#include "passes/lower/kernels/fusible.h"
#include "passes/lower/kernels/kernel_shape.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/owners.h"
#include "dialects/exec/target_traits.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

// A generated kernel that can take ops in.
exec::FusionOp asKernel(Operation *op) {
  auto fusion = dyn_cast<exec::FusionOp>(op);
  return fusion && exec::isLoopNest(fusion.getKind()) ? fusion : exec::FusionOp();
}

int64_t bytesOf(Value value) {
  return byteSize(typeOf(value));
}

// Where in a program values are needed, and variables overwritten.
class Places {
public:
  explicit Places(Block &block) {
    dist::Owners known(block);
    int64_t position = 0;
    for (Operation &op : block) {
      positions[&op] = position++;
      owners[&op] = known.of(&op);
      if (auto write = dyn_cast<nn::WriteOp>(op)) {
        firstWrites.try_emplace(write.getVariableAttr(), positions[&op]);
      }
    }
  }

  int64_t of(Operation *op) const { return positions.lookup(op); }

  // Records that `made` replaces `op`, which goes.
  void replace(Operation *op, Operation *made) {
    int64_t position = positions.lookup(op);
    std::optional<int64_t> owner = owners.lookup(op);
    forget(op);
    positions[made] = position;
    owners[made] = owner;
  }

  void forget(Operation *op) {
    positions.erase(op);
    owners.erase(op);
  }

  // Returns whether the same devices compute both.
  bool haveOneOwner(Operation *a, Operation *b) const { return owners.lookup(a) == owners.lookup(b); }

  // Returns whether a value can be read at `place` without a copy: its source is not overwritten by then.
  bool isIntact(Value value, int64_t place) const {
    auto read = value.getDefiningOp<nn::ReadOp>();
    auto write = read ? firstWrites.find(read.getVariableAttr()) : firstWrites.end();
    return write == firstWrites.end() || write->second >= place;
  }

  // Returns whether a value takes memory up to `place` in any case.
  bool livesUntil(Value value, int64_t place) const {
    Operation *def = value.getDefiningOp();
    return !def || isa<nn::ReadOp, nn::ConstantOp, dist::ReceiveOp, dist::TakeOp>(def) ||
           llvm::any_of(value.getUsers(), [&](Operation *user) { return positions.lookup(user) >= place; });
  }

private:
  DenseMap<Operation *, int64_t> positions;
  DenseMap<Operation *, std::optional<int64_t>> owners; // the device that alone computes an op
  DenseMap<Attribute, int64_t> firstWrites;             // by variable
};

// A result that readers compute themselves.
struct Decision {
  unsigned number;                      // of the result
  SmallVector<Operation *> ops;         // of the body, operands first
  llvm::SetVector<Value> leaves;        // of the body: loads of the ops
  llvm::SetVector<Operation *> readers; // kernels
};

// The results of one kernel.
//
// State: `decisions`, and their consequences: `dropped`, yielded values that are no results any more; `added`, values that are results now;
// `taken`, the leaves that each reader takes.
class Maker {
public:
  Maker(exec::FusionOp fusion, exec::Target target, Places &places)
      : fusion(fusion), body(fusion.getBody().front()), mostCode(exec::traitsOf(target).mostCodeAgain), places(places),
        shape(KernelShape::get(fusion)), isOfRows(fusion.getKind() == exec::FusionKind::Rows) {}

  void run() {
    auto order = llvm::to_vector(llvm::seq<unsigned>(0, fusion.getNumResults()));
    llvm::erase_if(order, [&](unsigned number) { return !yielded(number).getDefiningOp(); });
    llvm::sort(order, [&](unsigned a, unsigned b) { return yielded(a).getDefiningOp()->isBeforeInBlock(yielded(b).getDefiningOp()); });
    for (unsigned number : order) {
      consider(number);
    }
    if (!decisions.empty() && hasOneDomain()) {
      exec::FusionOp rest = rebuild();
      for (const Decision &decision : decisions) {
        llvm::for_each(decision.readers, [&](Operation *reader) { copy(decision, rest, cast<exec::FusionOp>(reader)); });
      }
      fusion.erase();
      clean(rest);
    }
  }

private:
  exec::FusionOp fusion;
  Block &body;
  int64_t mostCode;
  Places &places;
  KernelShape shape;
  bool isOfRows;
  SmallVector<Decision> decisions;
  DenseSet<Value> dropped;
  llvm::SetVector<Value> added;
  DenseMap<Operation *, DenseSet<Value>> taken;
  SmallVector<Value> results; // of the body, the remaining kernel's

  Operation *yield() const { return body.getTerminator(); }
  Value yielded(unsigned number) const { return yield()->getOperand(number); }
  bool isFull(Value value) const { return shapeOf(value) == ArrayRef<int64_t>(shape.domain); }
  bool isRow(Value value) const { return isOfRows && shapeOf(value) == ArrayRef<int64_t>(shape.domain).take_front(shape.rowRank); }

  // Whether the value of the body is a result, and stays one.
  bool isStored(Value value) const { return !dropped.contains(value) && llvm::is_contained(yield()->getOperands(), value); }

  // Returns the kernels that read a result element by element; none where anything else reads it.
  llvm::SetVector<Operation *> readersOf(Value result) const {
    llvm::SetVector<Operation *> readers;
    for (OpOperand &use : result.getUses()) {
      exec::FusionOp reader = asKernel(use.getOwner());
      if (!reader || !places.haveOneOwner(reader, fusion) ||
          !readsByElement(reader, reader.getBody().getArgument(use.getOperandNumber()))) {
        return {};
      }
      readers.insert(reader);
    }
    return readers;
  }

  static bool readsByElement(exec::FusionOp reader, BlockArgument argument) {
    return shapeOf(argument) == ArrayRef<int64_t>(KernelShape::get(reader).domain) &&
           llvm::all_of(argument.getUsers(), [](Operation *user) { return isElementwise(user) || isa<nn::ReduceOp>(user); });
  }

  // Finds the ops that compute a value of the body from values that are in memory, or are small enough to be there; false where kernels
  // cannot recompute it.
  bool trace(Value value, Decision &decision) const {
    DenseSet<Value> needed = {value};
    for (Operation *op = value.getDefiningOp(); op; op = op->getPrevNode()) {
      Value result = op->getResult(0);
      if (!needed.contains(result)) {
        continue;
      }
      bool isScalar = shapeOf(result).empty() && !isRow(result); // the offset of a device's shard in an index
      bool isOwn = isFull(result) || isView(op) || isScalar;
      if ((result != value && isStored(result)) || (!isOwn && isRow(result))) {
        decision.leaves.insert(result);
      } else if (isOwn && (isView(op) || isElementwise(op))) {
        decision.ops.push_back(op);
        needed.insert(op->operand_begin(), op->operand_end());
      } else {
        return false;
      }
    }
    for (BlockArgument argument : body.getArguments()) {
      if (needed.contains(argument)) {
        decision.leaves.insert(argument);
      }
    }
    std::reverse(decision.ops.begin(), decision.ops.end());
    return true;
  }

  // Returns the value outside of the kernel for one of the body; null for one that is no result yet.
  Value outside(Value value) const {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      return fusion->getOperand(argument.getArgNumber());
    }
    auto found = llvm::find(yield()->getOperands(), value);
    return found == yield()->operand_end() ? Value() : fusion->getResult(found.getIndex());
  }

  // Returns the bytes that are not moved when the readers compute the value themselves.
  int64_t gainOf(const Decision &decision) const {
    int64_t gain = bytesOf(fusion->getResult(decision.number)) * (1 + static_cast<int64_t>(decision.readers.size()));
    for (Value leaf : decision.leaves) {
      Value known = outside(leaf);
      gain -= known || added.contains(leaf) ? 0 : bytesOf(leaf);
      for (Operation *reader : decision.readers) {
        auto found = taken.find(reader);
        bool isTaken = found != taken.end() && found->second.contains(leaf);
        gain -= isTaken || (known && llvm::is_contained(reader->getOperands(), known)) ? 0 : bytesOf(leaf);
      }
    }
    return gain;
  }

  // Whether the leaves can be read where the readers are, and take no more memory until then than the result would.
  bool canKeep(const Decision &decision) const {
    int64_t last = 0, kept = 0, bytes = bytesOf(fusion->getResult(decision.number));
    for (Operation *reader : decision.readers) {
      last = std::max(last, places.of(reader));
    }
    return llvm::all_of(decision.leaves, [&](Value leaf) {
      Value known = outside(leaf);
      kept += known && places.livesUntil(known, last) ? 0 : bytesOf(leaf);
      return kept <= bytes && (!known || places.isIntact(known, last));
    });
  }

  bool isCheap(const Decision &decision) const {
    int64_t code = 0;
    for (Operation *op : decision.ops) {
      code += codeOf(*op);
    }
    return code <= mostCode &&
           llvm::all_of(decision.readers, [&](Operation *reader) { return sizeWith(cast<exec::FusionOp>(reader), decision, code).fits(); });
  }

  // Returns the size of a reader that takes the ops of a decision in.
  static KernelSize sizeWith(exec::FusionOp reader, const Decision &decision, int64_t code) {
    KernelSize size = sizeOf(reader);
    size.code += code;
    size.live += static_cast<int64_t>(decision.leaves.size());
    return size;
  }

  void consider(unsigned number) {
    Value value = yielded(number);
    if (!isFull(value) || isa<nn::ReduceOp>(value.getDefiningOp()) || llvm::count(yield()->getOperands(), value) != 1) {
      return;
    }
    Decision decision{number, {}, {}, readersOf(fusion->getResult(number))};
    if (decision.readers.empty() || !trace(value, decision) || !isCheap(decision) || gainOf(decision) <= 0 || !canKeep(decision)) {
      return;
    }
    for (Value leaf : decision.leaves) {
      if (!outside(leaf)) {
        added.insert(leaf);
      }
      for (Operation *reader : decision.readers) {
        taken[reader].insert(leaf);
      }
    }
    dropped.insert(value);
    decisions.push_back(std::move(decision));
  }

  // Whether the remaining kernel is still one nest: where no reduction is left, a loop over results of one shape.
  bool hasOneDomain() const {
    DenseSet<Value> needed(added.begin(), added.end());
    for (Value value : yield()->getOperands()) {
      if (!dropped.contains(value)) {
        needed.insert(value);
      }
    }
    bool allFull = llvm::all_of(needed, [&](Value value) { return isFull(value); });
    for (Operation &op : llvm::reverse(body.without_terminator())) {
      if (!needed.contains(op.getResult(0))) {
        continue;
      }
      if (isa<nn::ReduceOp>(op)) {
        return true;
      }
      needed.insert(op.operand_begin(), op.operand_end());
    }
    return allFull;
  }

  // Returns the kernel with its current results, which takes the body. Dropped values are still used.
  exec::FusionOp rebuild() {
    SmallVector<Value> old;
    for (auto [value, result] : llvm::zip_equal(yield()->getOperands(), fusion.getResults())) {
      if (!dropped.contains(value)) {
        results.push_back(value);
        old.push_back(result);
      }
    }
    llvm::append_range(results, added);
    OpBuilder builder(fusion);
    auto rest = exec::FusionOp::create(builder, fusion.getLoc(), TypeRange(ValueRange(results)), fusion.getKind(), fusion.getInputs());
    places.replace(fusion, rest);
    rest.getBody().takeBody(fusion.getBody());
    for (auto [value, made] : llvm::zip(old, rest.getResults())) {
      value.replaceAllUsesWith(made);
    }
    return rest;
  }

  // Puts the ops of a decision into a reader, instead of the argument that was the result.
  void copy(const Decision &decision, exec::FusionOp rest, exec::FusionOp reader) {
    Block &block = reader.getBody().front();
    IRMapping mapping;
    for (Value leaf : decision.leaves) {
      auto argument = dyn_cast<BlockArgument>(leaf);
      Value value = argument ? rest.getInputs()[argument.getArgNumber()] : rest.getResult(llvm::find(results, leaf) - results.begin());
      auto found = llvm::find(reader.getInputs(), value);
      if (found == reader.getInputs().end()) {
        mapping.map(leaf, block.addArgument(leaf.getType(), leaf.getLoc()));
        reader.getInputsMutable().append(value);
      } else {
        mapping.map(leaf, block.getArgument(found.getIndex()));
      }
    }
    OpBuilder inner = OpBuilder::atBlockBegin(&block);
    for (Operation *op : decision.ops) {
      inner.clone(*op, mapping);
    }
    Value result = fusion->getResult(decision.number);
    unsigned number = llvm::find(reader.getInputs(), result).getIndex();
    block.getArgument(number).replaceAllUsesWith(mapping.lookup(decision.ops.back()->getResult(0)));
    block.eraseArgument(number);
    reader.getInputsMutable().erase(number);
  }

  // Drops dead ops from the kernel.
  void clean(exec::FusionOp rest) {
    yield()->setOperands(results);
    dropUnused(rest);
    if (results.empty()) {
      places.forget(rest);
      rest.erase();
    } else if (body.getOps<nn::ReduceOp>().empty()) {
      rest.setKind(exec::FusionKind::Loop);
    }
  }
};

} // namespace

void computeAgain(Block &block, exec::Target target) {
  Places places(block);
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (exec::FusionOp fusion = asKernel(&op)) {
      Maker(fusion, target, places).run();
    }
  }
}

} // namespace ashlar::lower
