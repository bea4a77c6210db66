// SPDX-License-Identifier: Apache-2.0
//
// First loops over rows join the kernel that reduces them. Then one shape at a time, kernels in program order. Each can stand after its
// operands and before its users; a batch stands where all of its kernels can.

#include "passes/lower/fusion/join_small.h"

#include "passes/lower/fusion/kernel_edits.h"
#include "passes/lower/kernels/gpu/gpu_fusion.h"

#include "dialects/dist/owners.h"
#include "dialects/exec/target_traits.h"
#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;

namespace ashlar::lower {

namespace {

constexpr int64_t kNarrowBytes = 4 * 1000 * 1000; // at most, of a joined kernel whose blocks leave multiprocessors idle

// The common properties of kernels that can be one: kind, domain, rank of rows, the device that alone computes them.
using Likeness = std::tuple<exec::FusionKind, std::vector<int64_t>, int64_t, std::optional<int64_t>>;

int64_t movedBytes(exec::FusionOp fusion) {
  int64_t bytes = 0;
  for (Type type : llvm::concat<const Type>(llvm::to_vector(fusion->getOperandTypes()), llvm::to_vector(fusion->getResultTypes()))) {
    bytes += byteSize(cast<RankedTensorType>(type));
  }
  return bytes;
}

// Kernels that become one.
struct Batch {
  SmallVector<exec::FusionOp> kernels;
  KernelSize size;
  int64_t bytes = 0;                      // that it moves
  int64_t behind = -1, ahead = INT64_MAX; // of the ops with these numbers
};

class Joiner {
public:
  Joiner(Block &block, exec::Target target) : block(block), mostBytes(exec::traitsOf(target).launchBytes) {}

  void run() {
    number();
    dist::Owners known(block);
    for (Operation *op : ops) {
      owners[op] = known.of(op);
    }
    SmallVector<exec::FusionOp> rows;
    llvm::copy_if(block.getOps<exec::FusionOp>(), std::back_inserter(rows),
                  [](exec::FusionOp fusion) { return fusion.getKind() == exec::FusionKind::Rows; });
    llvm::for_each(rows, [&](exec::FusionOp fusion) { finishRows(fusion); });
    std::map<Likeness, SmallVector<exec::FusionOp>> alike;
    for (auto fusion : block.getOps<exec::FusionOp>()) {
      bool isNest = fusion.getKind() == exec::FusionKind::Loop || fusion.getKind() == exec::FusionKind::Rows;
      if (isNest && movedBytes(fusion) <= mostBytes) {
        KernelShape shape = KernelShape::get(fusion);
        std::vector<int64_t> domain(shape.domain.begin(), shape.domain.end());
        alike[{fusion.getKind(), domain, shape.rowRank, owners.lookup(fusion)}].push_back(fusion);
      }
    }
    // In the order of the program, whatever the order of the map.
    std::vector<SmallVector<exec::FusionOp>> groups;
    for (auto &[likeness, kernels] : alike) {
      groups.push_back(std::move(kernels));
    }
    llvm::sort(groups, [&](const auto &a, const auto &b) { return numbers.lookup(a.front()) < numbers.lookup(b.front()); });
    llvm::for_each(groups, [&](ArrayRef<exec::FusionOp> kernels) { joinAlike(kernels); });
  }

private:
  Block &block;
  int64_t mostBytes;
  SmallVector<Operation *> ops;                         // of the block, in order
  DenseMap<Operation *, int64_t> numbers;               // places in `ops`
  DenseMap<Attribute, int64_t> firstWrites;             // by variable
  DenseMap<Operation *, std::optional<int64_t>> owners; // the device that alone computes an op

  void number() {
    ops.clear();
    numbers.clear();
    firstWrites.clear();
    for (Operation &op : block) {
      numbers[&op] = ops.size();
      if (auto write = dyn_cast<nn::WriteOp>(op)) {
        firstWrites.try_emplace(write.getVariableAttr(), ops.size());
      }
      ops.push_back(&op);
    }
  }

  // Whether a result takes the place of a variable that its kernel reads. A number of a row could not: all threads of the row read it.
  static bool isUpdate(Value result) {
    return llvm::any_of(result.getUsers(), [&](Operation *user) {
      auto write = dyn_cast<nn::WriteOp>(user);
      return write && llvm::any_of(result.getDefiningOp()->getOperands(), [&](Value operand) {
               auto read = operand.getDefiningOp<nn::ReadOp>();
               return read && read.getVariableAttr() == write.getVariableAttr();
             });
    });
  }

  // Makes a kernel of some results of another one, which is left without uses of them.
  exec::FusionOp takeResults(exec::FusionOp kernel, llvm::function_ref<bool(Value)> takes) {
    SmallVector<Value> taken, yielded;
    OpBuilder builder(kernel);
    Region region;
    IRMapping mapping;
    kernel.getBody().cloneInto(&region, mapping);
    Operation *yield = region.front().getTerminator();
    for (auto [value, result] : llvm::zip_equal(yield->getOperands(), kernel.getResults())) {
      if (takes(result)) {
        taken.push_back(result);
        yielded.push_back(value);
      }
    }
    yield->setOperands(yielded);
    auto part = exec::FusionOp::create(builder, kernel.getLoc(), TypeRange(ValueRange(taken)), kernel.getKind(), kernel.getInputs());
    part.getBody().takeBody(region);
    dropUnused(part);
    for (auto [result, made] : llvm::zip_equal(taken, part.getResults())) {
      result.replaceAllUsesWith(made);
    }
    owners[part] = owners.lookup(kernel);
    return part;
  }

  // Makes a kernel that reduces rows absorb loops over its results, one after the other, except updates of variables.
  void finishRows(exec::FusionOp rows) {
    while (exec::FusionOp loop = findFinish(rows)) {
      if (llvm::any_of(loop.getResults(), isUpdate)) {
        exec::FusionOp finish = takeResults(loop, [](Value result) { return !isUpdate(result); });
        takeResults(loop, isUpdate);
        owners.erase(loop);
        loop.erase();
        number();
        loop = finish;
      }
      Batch batch;
      batch.kernels = {rows, loop};
      for (Value operand : loop.getInputs()) {
        Operation *def = operand.getDefiningOp();
        batch.behind = std::max(batch.behind, def && def != rows ? numbers.lookup(def) : -1);
      }
      rows = join(batch);
    }
  }

  // Returns a loop over the rows of a kernel that reads their results, where both can be one; else null.
  exec::FusionOp findFinish(exec::FusionOp rows) const {
    KernelShape shape = KernelShape::get(rows);
    ArrayRef<int64_t> domain = ArrayRef<int64_t>(shape.domain).take_front(shape.rowRank);
    for (Operation *user : rows->getUsers()) {
      auto loop = dyn_cast<exec::FusionOp>(user);
      if (loop && loop.getKind() == exec::FusionKind::Loop && !llvm::all_of(loop.getResults(), isUpdate) &&
          ArrayRef<int64_t>(KernelShape::get(loop).domain) == domain && canFinish(rows, loop)) {
        return loop;
      }
    }
    return {};
  }

  // Whether the loop reads results of the kernel element by element, and the operands of both exist before the users of either.
  bool canFinish(exec::FusionOp rows, exec::FusionOp loop) const {
    Batch both;
    both.size = sizeOf(rows);
    both.size.add(sizeOf(loop));
    for (OpOperand &operand : loop->getOpOperands()) {
      Operation *def = operand.get().getDefiningOp();
      if (def != rows) {
        both.behind = std::max(both.behind, def ? numbers.lookup(def) : -1);
        both.ahead = std::min(both.ahead, overwrittenAt(operand.get(), {rows, loop}));
        continue;
      }
      BlockArgument argument = loop.getBody().getArgument(operand.getOperandNumber());
      if (!llvm::all_of(argument.getUsers(), [](Operation *reader) { return reader->hasTrait<OpTrait::Elementwise>(); })) {
        return false;
      }
    }
    for (Value operand : rows.getInputs()) {
      both.ahead = std::min(both.ahead, overwrittenAt(operand, {rows, loop}));
    }
    for (Operation *user : llvm::concat<Operation *const>(llvm::to_vector(rows->getUsers()), llvm::to_vector(loop->getUsers()))) {
      bool goesAlong = user == loop || isa<nn::WriteOp>(user);
      both.ahead = goesAlong ? both.ahead : std::min(both.ahead, numbers.lookup(user));
    }
    return both.behind < both.ahead && both.size.fits() && owners.lookup(rows) == owners.lookup(loop);
  }

  void joinAlike(ArrayRef<exec::FusionOp> kernels) {
    Batch batch;
    for (exec::FusionOp kernel : kernels) {
      if (!add(kernel, batch)) {
        joinIfSeveral(batch);
        batch = Batch();
        add(kernel, batch);
      }
    }
    joinIfSeveral(batch);
  }

  // Adds a kernel to a batch; false where they have no place in common, or are too much for one.
  bool add(exec::FusionOp kernel, Batch &batch) const {
    Batch more = batch;
    more.kernels.push_back(kernel);
    KernelShape shape = KernelShape::get(kernel);
    more.size.add(sizeOf(kernel));
    more.bytes += movedBytes(kernel);
    for (Value operand : kernel.getInputs()) {
      Operation *def = operand.getDefiningOp();
      if (llvm::is_contained(batch.kernels, def)) {
        return false;
      }
      more.behind = std::max(more.behind, def ? numbers.lookup(def) : -1);
      more.ahead = std::min(more.ahead, overwrittenAt(operand, {kernel}));
    }
    for (Operation *user : kernel->getUsers()) {
      more.ahead = isa<nn::WriteOp>(user) ? more.ahead : std::min(more.ahead, numbers.lookup(user));
    }
    bool isMuch = more.bytes > kNarrowBytes && countBlocks(kernel, shape) < kBusyBlocks;
    if (!batch.kernels.empty() && (more.behind >= more.ahead || isMuch || !more.size.fits())) {
      return false;
    }
    batch = std::move(more);
    return true;
  }

  // Returns the number of the op that overwrites the source of a value; ops that write results of the kernels go where these go.
  int64_t overwrittenAt(Value value, ArrayRef<Operation *> kernels) const {
    auto read = value.getDefiningOp<nn::ReadOp>();
    auto write = read ? firstWrites.find(read.getVariableAttr()) : firstWrites.end();
    bool isOther = write != firstWrites.end() && !llvm::is_contained(kernels, ops[write->second]->getOperand(0).getDefiningOp());
    return isOther ? write->second : INT64_MAX;
  }

  void joinIfSeveral(const Batch &batch) {
    if (batch.kernels.size() > 1) {
      join(batch);
    }
  }

  // Returns the kernel that does the work of a batch's kernels, one after the other.
  exec::FusionOp join(const Batch &batch) {
    exec::FusionOp first = batch.kernels.front();
    OpBuilder builder(first);
    if (batch.behind > numbers.lookup(first)) {
      builder.setInsertionPointAfter(ops[batch.behind]);
    }
    llvm::SetVector<Value> inputs;
    SmallVector<Value> results, yielded;
    SmallVector<Location> locations;
    Region region;
    Block &body = region.emplaceBlock();
    OpBuilder inner(builder.getContext()); // the region has no op yet
    inner.setInsertionPointToEnd(&body);
    IRMapping known; // values outside
    for (exec::FusionOp kernel : batch.kernels) {
      IRMapping mapping;
      for (auto [value, argument] : llvm::zip_equal(kernel.getInputs(), kernel.getBody().getArguments())) {
        if (!known.contains(value)) {
          inputs.insert(value);
          known.map(value, body.addArgument(value.getType(), value.getLoc()));
        }
        mapping.map(argument, known.lookup(value));
      }
      for (Operation &op : kernel.getBody().front().without_terminator()) {
        inner.clone(op, mapping);
      }
      for (auto [value, result] : llvm::zip_equal(kernel.getBody().front().getTerminator()->getOperands(), kernel.getResults())) {
        known.map(result, mapping.lookupOrDefault(value));
        bool isUsed = llvm::any_of(result.getUsers(), [&](Operation *user) { return !llvm::is_contained(batch.kernels, user); });
        if (isUsed) {
          yielded.push_back(known.lookup(result));
          results.push_back(result);
        }
      }
      locations.push_back(kernel.getLoc());
    }
    Location loc = FusedLoc::get(builder.getContext(), locations);
    exec::YieldOp::create(inner, loc, yielded);
    auto joined = exec::FusionOp::create(builder, loc, TypeRange(ValueRange(results)), first.getKind(), inputs.getArrayRef());
    joined.getBody().takeBody(region);
    Operation *last = joined;
    for (auto [result, made] : llvm::zip_equal(results, joined.getResults())) {
      for (Operation *user : llvm::make_early_inc_range(result.getUsers())) {
        if (user->isBeforeInBlock(joined)) { // a write
          user->moveAfter(last);
          last = user;
        }
      }
      result.replaceAllUsesWith(made);
    }
    owners[joined] = owners.lookup(first);
    for (exec::FusionOp kernel : llvm::reverse(batch.kernels)) {
      owners.erase(kernel);
      kernel.erase();
    }
    number();
    return joined;
  }
};

} // namespace

void joinSmallKernels(Block &block, exec::Target target) {
  if (exec::traitsOf(target).launchBytes > 0) {
    Joiner(block, target).run();
  }
}

} // namespace ashlar::lower
