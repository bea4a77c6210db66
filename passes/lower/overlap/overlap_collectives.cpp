// SPDX-License-Identifier: Apache-2.0
//
// Turns collectives into a start and a wait, where that hides some of their time, and moves ops to where the schedule has them. What the
// ops take is that of costed_program.h; the order is that of overlap_schedule.h.

#include "passes/analysis/schedule/overlap_schedule.h"
#include "passes/lower/overlap/costed_program.h"
#include "passes/lower/passes.h"

#include "dialects/dist/dist.h"
#include "dialects/exec/target_traits.h"
#include "dialects/nn/repeat/repeats.h"
#include "dialects/support/operands_first.h"
#include "passes/analysis/costs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ashlar::lower {

#define GEN_PASS_DEF_OVERLAPCOLLECTIVESPASS
#include "passes/lower/passes.h.inc"

namespace {

// Brings a block into the order of a schedule.
class Rewriter {
public:
  Rewriter(Block &block, const CostedProgram &program, const analysis::OverlapSchedule &schedule)
      : block(block), program(program), schedule(schedule) {}

  void run() {
    SmallVector<Operation *> others;
    for (Operation &op : block) {
      others.push_back(&op);
    }
    for (auto [place, event] : llvm::enumerate(schedule.events)) {
      Operation *op = program.instructions[event.op];
      if (event.kind == analysis::ScheduledEvent::Wait) {
        if (split.contains(op)) {
          await(op);
        }
        continue;
      }
      if (event.kind == analysis::ScheduledEvent::Start &&
          !(schedule.events[place + 1] == analysis::ScheduledEvent{analysis::ScheduledEvent::Wait, event.op})) {
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
    walkOperandsFirst(
        op, [&](Operation *each) { return placed.insert(each).second; }, [&](Operation *each) { each->moveBefore(&block, block.end()); });
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
  const CostedProgram &program;
  const analysis::OverlapSchedule &schedule;
  DenseSet<Operation *> placed, split;
};

struct OverlapCollectivesPass : public impl::OverlapCollectivesPassBase<OverlapCollectivesPass> {
  using OverlapCollectivesPassBase::OverlapCollectivesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!dist::findMesh(module)) {
      return;
    }
    analysis::DeviceRates rates = analysis::findDeviceRates(module);
    for (auto function : module.getOps<func::FuncOp>()) {
      if (!function.isExternal()) {
        nn::visitBlocks(function.front(), [&](Block &block) { overlap(block, rates); });
      }
    }
  }

private:
  void overlap(Block &block, const analysis::DeviceRates &rates) {
    CostedProgram program(block, rates, exec::traitsOf(target).handOverPs);
    analysis::OverlapSchedule schedule = analysis::scheduleOverlap(program.ops);
    if (schedule.timePs < program.alonePs()) {
      Rewriter(block, program, schedule).run();
    }
  }
};

} // namespace
} // namespace ashlar::lower
