// SPDX-License-Identifier: Apache-2.0
//
// Turns collectives into a start and a wait, where that hides some of their time, and moves ops to where the schedule has them. What the
// ops take follows from the rates of the device and the links; the order is that of overlap_schedule.h.

#include "passes/lower/memory/same_bytes.h"
#include "passes/lower/overlap/overlap_schedule.h"
#include "passes/lower/passes.h"

#include "dialects/dist/costs.h"
#include "dialects/dist/dist.h"
#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace ashlar::lower {

#define GEN_PASS_DEF_OVERLAPCOLLECTIVESPASS
#include "passes/lower/passes.h.inc"

namespace {

int64_t bytesOf(ValueRange values) {
  int64_t bytes = 0;
  for (Value value : values) {
    bytes += byteSize(cast<RankedTensorType>(value.getType()));
  }
  return bytes;
}

// Returns the time of a kernel or library call: of its arithmetic, or of the memory that it reads and writes.
int64_t computePs(exec::FusionOp fusion, const dist::DeviceRates &rates) {
  dist::Work work;
  for (Operation &op : fusion.getBody().front().without_terminator()) {
    if (auto product = dyn_cast<exec::ProductWithSumsOp>(op)) {
      int64_t rows = cast<RankedTensorType>(product.getProduct().getType()).getDimSize(0);
      int64_t depth = cast<RankedTensorType>(product.getLhs().getType()).getNumElements() / std::max<int64_t>(rows, 1);
      work += dist::Work{2 * depth * cast<RankedTensorType>(product.getProduct().getType()).getNumElements(), 0};
      continue;
    }
    auto types = [](ValueRange values) {
      return llvm::map_to_vector(values.getTypes(), [](Type type) { return cast<RankedTensorType>(type); });
    };
    work += dist::workOf(&op, types(op.getOperands()), types(op.getResults()));
  }
  return rates.timePs(work.flops, work.narrowFlops, bytesOf(fusion.getInputs()) + bytesOf(fusion.getOutputs()));
}

// Whether the links that a collective goes by move data while the device computes.
bool runsBeside(dist::CollectiveOpInterface op, dist::MeshOp mesh) {
  SmallVector<dist::Link> links = dist::axisLinks(mesh.getMesh(), mesh.getCostsAttr());
  return dist::groupLink(mesh.getMesh(), links, dist::toAxisList(op.getAxes())).movesBeside;
}

// A program as numbers. State: the instructions in order, and the op of each.
class PricedProgram {
public:
  // `handOverPs`: what it takes to hand a collective to the channel and to learn of its end; nothing of it counts as hidden.
  PricedProgram(Block &block, dist::MeshOp mesh, const dist::DeviceRates &rates, int64_t handOverPs) : handOverPs(handOverPs) {
    for (Operation &op : block) {
      if (isa<exec::FusionOp, dist::CollectiveOpInterface, dist::SliceOp>(op)) {
        numbers[&op] = instructions.size();
        instructions.push_back(&op);
        ops.push_back(price(op, mesh, rates));
      }
    }
    for (auto write : block.getOps<nn::WriteOp>()) {
      keepReadsAhead(write, block);
    }
    for (PricedOp &op : ops) {
      llvm::sort(op.needs);
      op.needs.erase(llvm::unique(op.needs), op.needs.end());
    }
  }

  // Returns the time of the program when it runs one op after the other.
  int64_t alonePs() const {
    int64_t sum = 0;
    llvm::for_each(ops, [&](const PricedOp &op) { sum += op.timePs - (op.runsBeside ? handOverPs : 0); });
    return sum;
  }

  std::vector<PricedOp> ops;
  std::vector<Operation *> instructions;
  int64_t handOverPs;

private:
  PricedOp price(Operation &op, dist::MeshOp mesh, const dist::DeviceRates &rates) {
    PricedOp priced;
    for (Value operand : op.getOperands()) {
      if (auto found = numbers.find(rootOf(operand).getDefiningOp()); found != numbers.end()) {
        priced.needs.push_back(found->second);
        priced.holdsOperand = true;
      }
    }
    if (auto fusion = dyn_cast<exec::FusionOp>(op)) {
      priced.timePs = computePs(fusion, rates);
    } else if (auto collective = dyn_cast<dist::CollectiveOpInterface>(op)) {
      priced.runsBeside = runsBeside(collective, mesh);
      priced.timePs = dist::collectiveTimePs(collective) + (priced.runsBeside ? handOverPs : 0);
      priced.bytes = bytesOf(op.getResults()) + (priced.holdsOperand ? bytesOf(op.getOperands()) : 0);
    } else {
      priced.timePs = rates.timePs(0, 0, 2 * bytesOf(op.getResults()));
    }
    return priced;
  }

  // The new value of a variable is computed over the old one: what reads the old one ahead of that must stay ahead.
  void keepReadsAhead(nn::WriteOp write, Block &block) {
    auto producer = numbers.find(rootOf(write.getValue()).getDefiningOp());
    if (producer == numbers.end()) {
      return;
    }
    for (nn::ReadOp read : readsOf(write, block)) {
      SmallVector<OpOperand *> uses;
      collectUses(read.getResult(), uses);
      for (OpOperand *use : uses) {
        if (auto found = numbers.find(use->getOwner()); found != numbers.end() && found->second < producer->second) {
          ops[producer->second].needs.push_back(found->second);
        }
      }
    }
  }

  ArrayRef<nn::ReadOp> readsOf(nn::WriteOp write, Block &block) {
    if (reads.empty()) {
      for (auto read : block.getOps<nn::ReadOp>()) {
        reads[read.getVariableAttr()].push_back(read);
      }
    }
    return reads[write.getVariableAttr()];
  }

  DenseMap<Operation *, unsigned> numbers;
  DenseMap<Attribute, SmallVector<nn::ReadOp>> reads; // by variable
};

// Brings a block into the order of a schedule.
class Rewriter {
public:
  Rewriter(Block &block, const PricedProgram &program, const OverlapSchedule &schedule)
      : block(block), program(program), schedule(schedule) {}

  void run() {
    SmallVector<Operation *> others;
    for (Operation &op : block) {
      others.push_back(&op);
    }
    for (auto [place, event] : llvm::enumerate(schedule.events)) {
      Operation *op = program.instructions[event.op];
      if (event.kind == ScheduledEvent::Wait) {
        if (split.contains(op)) {
          await(op);
        }
        continue;
      }
      if (event.kind == ScheduledEvent::Start && !(schedule.events[place + 1] == ScheduledEvent{ScheduledEvent::Wait, event.op})) {
        split.insert(op);
        annotate(op, event.op);
      }
      append(op);
    }
    for (Operation *op : others) { // writes, reshapes of results, the return
      append(op);
    }
  }

private:
  // Moves an op to the end of the new order, behind the views and constants that it reads.
  void append(Operation *op) {
    if (!placed.insert(op).second) {
      return;
    }
    for (Value operand : op->getOperands()) {
      if (Operation *def = operand.getDefiningOp()) {
        append(def);
      }
    }
    op->moveBefore(&block, block.end());
  }

  // Puts a wait at the end of the new order, and lets all that uses the results use those of the wait.
  void await(Operation *collective) {
    OpBuilder builder = OpBuilder::atBlockEnd(&block);
    auto wait = exec::AwaitOp::create(builder, collective->getLoc(), collective->getResultTypes(), collective->getResults());
    for (auto [started, awaited] : llvm::zip_equal(collective->getResults(), wait.getResults())) {
      started.replaceAllUsesExcept(awaited, wait);
    }
    placed.insert(wait);
  }

  void annotate(Operation *op, unsigned number) {
    constexpr int64_t kPsPerNs = 1000;
    int64_t durationPs = program.ops[number].timePs - program.handOverPs;
    int64_t hiddenPs = std::clamp<int64_t>(schedule.hiddenPs[number] - program.handOverPs, 0, durationPs);
    op->setAttr(exec::kOverlapAttr, exec::OverlapAttr::get(op->getContext(), durationPs / kPsPerNs, hiddenPs / kPsPerNs));
  }

  Block &block;
  const PricedProgram &program;
  const OverlapSchedule &schedule;
  DenseSet<Operation *> placed, split;
};

struct OverlapCollectivesPass : public impl::OverlapCollectivesPassBase<OverlapCollectivesPass> {
  using OverlapCollectivesPassBase::OverlapCollectivesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    dist::MeshOp mesh = dist::findMesh(module);
    if (!mesh) {
      return;
    }
    dist::DeviceRates rates = dist::findDeviceRates(module);
    for (auto function : module.getOps<func::FuncOp>()) {
      if (!function.isExternal()) {
        overlap(function.getBody().front(), mesh, rates);
      }
    }
  }

private:
  void overlap(Block &block, dist::MeshOp mesh, const dist::DeviceRates &rates) {
    // On the cpu two threads wake each other: some 20 us. On a GPU collectives have a stream of their own anyway.
    constexpr int64_t kThreadHandOverPs = 20'000'000;
    PricedProgram program(block, mesh, rates, target == exec::Target::Cpu ? kThreadHandOverPs : 0);
    OverlapSchedule schedule = scheduleOverlap(program.ops);
    if (schedule.timePs < program.alonePs()) {
      Rewriter(block, program, schedule).run();
    }
  }
};

} // namespace
} // namespace ashlar::lower
