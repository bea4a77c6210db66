// SPDX-License-Identifier: Apache-2.0
//
// One shape at a time, kernels in program order. Each can stand behind what it reads and ahead of what reads it; a batch stands where all
// of its kernels can.

#include "passes/lower/fusion/join_small.h"

#include "passes/lower/kernels/gpu/gpu_fusion.h"
#include "passes/lower/kernels/kernel_size.h"
#include "passes/lower/kernels/row_passes.h"

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

// What kernels have in common that can be one: kind, domain, rank of rows, the device that alone computes them.
using Likeness = std::tuple<exec::FusionKind, std::vector<int64_t>, int64_t, std::optional<int64_t>>;

int64_t movedBytes(exec::FusionOp fusion) {
  int64_t bytes = 0;
  for (Type type : llvm::concat<const Type>(llvm::to_vector(fusion->getOperandTypes()), llvm::to_vector(fusion->getResultTypes()))) {
    bytes += byteSize(cast<RankedTensorType>(type));
  }
  return bytes;
}

KernelSize sizeOf(exec::FusionOp fusion, const KernelShape &shape) {
  Block &body = fusion.getBody().front();
  KernelSize size;
  for (Operation &op : body.without_terminator()) {
    size.code += codeOf(op);
  }
  if (fusion.getKind() == exec::FusionKind::Rows) {
    size.passes = RowPasses(body, shape.domain).lastLevel() + 1;
  }
  size.live = fusion.getNumResults();
  size.inputs.insert(fusion.getInputs().begin(), fusion.getInputs().end());
  return size;
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
    std::map<Likeness, SmallVector<exec::FusionOp>> alike;
    dist::Owners owners(block);
    for (auto fusion : block.getOps<exec::FusionOp>()) {
      bool isNest = fusion.getKind() == exec::FusionKind::Loop || fusion.getKind() == exec::FusionKind::Rows;
      if (isNest && movedBytes(fusion) <= mostBytes) {
        KernelShape shape = KernelShape::get(fusion);
        std::vector<int64_t> domain(shape.domain.begin(), shape.domain.end());
        alike[{fusion.getKind(), domain, shape.rowRank, owners.of(fusion)}].push_back(fusion);
      }
    }
    // In the order of the program, whatever the order of the map.
    std::vector<SmallVector<exec::FusionOp>> groups;
    for (auto &[likeness, kernels] : alike) {
      groups.push_back(std::move(kernels));
    }
    number();
    llvm::sort(groups, [&](const auto &a, const auto &b) { return numbers.lookup(a.front()) < numbers.lookup(b.front()); });
    llvm::for_each(groups, [&](ArrayRef<exec::FusionOp> kernels) { joinAlike(kernels); });
  }

private:
  Block &block;
  int64_t mostBytes;
  SmallVector<Operation *> ops;             // of the block, in order
  DenseMap<Operation *, int64_t> numbers;   // places in `ops`
  DenseMap<Attribute, int64_t> firstWrites; // by variable

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

  void joinAlike(ArrayRef<exec::FusionOp> kernels) {
    Batch batch;
    for (exec::FusionOp kernel : kernels) {
      if (!add(kernel, batch)) {
        join(batch);
        batch = Batch();
        add(kernel, batch);
      }
    }
    join(batch);
  }

  // Adds a kernel to a batch; false where they have no place in common, or are too much for one.
  bool add(exec::FusionOp kernel, Batch &batch) const {
    Batch more = batch;
    more.kernels.push_back(kernel);
    KernelShape shape = KernelShape::get(kernel);
    more.size.add(sizeOf(kernel, shape));
    more.bytes += movedBytes(kernel);
    for (Value operand : kernel.getInputs()) {
      Operation *def = operand.getDefiningOp();
      if (llvm::is_contained(batch.kernels, def)) {
        return false;
      }
      more.behind = std::max(more.behind, def ? numbers.lookup(def) : -1);
      auto read = dyn_cast_or_null<nn::ReadOp>(def);
      auto write = read ? firstWrites.find(read.getVariableAttr()) : firstWrites.end();
      if (write != firstWrites.end() && !isOf(ops[write->second], kernel)) { // of what another op makes
        more.ahead = std::min(more.ahead, write->second);
      }
    }
    for (Operation *user : kernel->getUsers()) {
      more.ahead = isa<nn::WriteOp>(user) ? more.ahead : std::min(more.ahead, numbers.lookup(user));
    }
    bool isMuch = more.bytes > mostBytes && countBlocks(kernel, shape) < kBusyBlocks;
    if (!batch.kernels.empty() && (more.behind >= more.ahead || isMuch || !more.size.fits())) {
      return false;
    }
    batch = std::move(more);
    return true;
  }

  // Whether the op writes a result of the kernel: it goes where the kernel goes.
  static bool isOf(Operation *write, exec::FusionOp kernel) { return write->getOperand(0).getDefiningOp() == kernel; }

  void join(const Batch &batch) {
    if (batch.kernels.size() < 2) {
      return;
    }
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
    IRMapping arguments; // of values outside
    for (exec::FusionOp kernel : batch.kernels) {
      IRMapping mapping;
      for (auto [value, argument] : llvm::zip_equal(kernel.getInputs(), kernel.getBody().getArguments())) {
        if (inputs.insert(value)) {
          arguments.map(value, body.addArgument(value.getType(), value.getLoc()));
        }
        mapping.map(argument, arguments.lookup(value));
      }
      for (Operation &op : kernel.getBody().front().without_terminator()) {
        inner.clone(op, mapping);
      }
      for (auto [value, result] : llvm::zip_equal(kernel.getBody().front().getTerminator()->getOperands(), kernel.getResults())) {
        yielded.push_back(mapping.lookupOrDefault(value));
        results.push_back(result);
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
    for (exec::FusionOp kernel : batch.kernels) {
      kernel.erase();
    }
    number();
  }
};

} // namespace

void joinSmallKernels(func::FuncOp function, exec::Target target) {
  if (exec::traitsOf(target).launchBytes > 0) {
    Joiner(function.getBody().front(), target).run();
  }
}

} // namespace ashlar::lower
