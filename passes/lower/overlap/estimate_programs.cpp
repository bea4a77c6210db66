// SPDX-License-Identifier: Apache-2.0
//
// Simulates a fused program, in the order that it has by now, on a device and a channel beside it, and notes the time that it takes.

#include "dialects/support/aliases.h"
#include "passes/lower/overlap/costed_program.h"
#include "passes/lower/passes.h"

#include "dialects/dist/owners.h"
#include "dialects/exec/spans.h"
#include "dialects/exec/target_traits.h"
#include "dialects/nn/repeat.h"
#include "dialects/support/element_type.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ashlar::lower {

#define GEN_PASS_DEF_ESTIMATEPROGRAMSPASS
#include "passes/lower/passes.h.inc"

namespace {

// The device that is done last. State: its time, that of the channel, and when what the channel carries is done.
class ProgramSimulator {
public:
  // `countsCopies`: of values that are only stored. `notesSpans`: enters the begin and end of each op.
  ProgramSimulator(Block &block, const analysis::DeviceRates &rates, bool countsCopies, bool notesSpans)
      : owners(block), rates(rates), countsCopies(countsCopies), notesSpans(notesSpans) {}

  int64_t simulate(Block &block, const CostedProgram &program) {
    play(block, program);
    return std::max(now, channel);
  }

private:
  void play(Block &block, const CostedProgram &program) {
    llvm::DenseSet<Operation *> computed(program.instructions.begin(), program.instructions.end());
    unsigned number = 0;
    for (Operation &op : block) {
      if (auto await = dyn_cast<exec::AwaitOp>(op)) {
        meet();
        const int64_t begin = now;
        now = std::max(now, arrival.lookup(await.getStarted().front().getDefiningOp()));
        noteSpan(op, begin, now);
      } else if (number < program.instructions.size() && program.instructions[number] == &op) {
        run(op, program, number++);
      } else if (countsCopies && isa<nn::WriteOp, dist::SendOp, dist::KeepOp, func::ReturnOp>(op)) {
        for (Value value : op.getOperands()) {
          if (!computed.contains(getStorageRoot(value).getDefiningOp())) {
            (dist::getOwner(&op) ? alone[*dist::getOwner(&op)] : now) += copyPs(value);
          }
        }
      }
    }
    meet();
  }

  void run(Operation &op, const CostedProgram &program, unsigned number) {
    note(op, program.ops[number].timePs);
    if (!isa<dist::CollectiveOpInterface>(op)) {
      std::optional<int64_t> owner = owners.of(&op);
      const int64_t begin = now + (owner ? alone[*owner] : mostAlone());
      if (auto repeat = dyn_cast<nn::RepeatOp>(op); repeat && !owner) {
        runRepeat(repeat, program);
      } else {
        (owner ? alone[*owner] : now) += program.ops[number].timePs;
      }
      noteSpan(op, begin, now + (owner ? alone[*owner] : mostAlone()));
      return;
    }
    meet();
    if (op.hasAttr(exec::kOverlapAttr)) { // started: there is a wait behind it
      const int64_t begin = std::max(channel, now);
      channel = begin + program.ops[number].timePs;
      arrival[&op] = channel;
      noteSpan(op, begin, channel);
    } else { // it goes when those are through that were started
      const int64_t begin = std::max(now, program.ops[number].runsBeside ? channel : 0);
      now = begin + program.alonePs(number);
      noteSpan(op, begin, now);
    }
  }

  void noteSpan(Operation &op, int64_t beginPs, int64_t endPs) const {
    if (notesSpans) {
      exec::setSpan(&op, {beginPs, endPs});
    }
  }

  // Notes the numbers of an op that its instruction will have.
  static void note(Operation &op, int64_t timePs) {
    Builder builder(op.getContext());
    if (auto collective = dyn_cast<dist::CollectiveOpInterface>(op)) {
      const analysis::Traffic traffic = analysis::trafficOf(collective);
      op.setAttr(exec::kMessagesAttr, builder.getI64IntegerAttr(traffic.messages));
      op.setAttr(exec::kSentAttr, builder.getI64IntegerAttr(traffic.bytes));
    } else if (!isa<nn::RepeatOp>(op)) {
      op.setAttr(exec::kTimeAttr, builder.getI64IntegerAttr(timePs));
    }
  }

  // Waits lie in the same iteration as what they wait for, so the channel is free at its end, and from the second iteration on all take
  // the same time.
  void runRepeat(nn::RepeatOp repeat, const CostedProgram &around) {
    Block &body = repeat.getBody().front();
    CostedProgram program(body, rates, around.handOverPs, around.sends);
    ProgramSimulator inside(body, rates, countsCopies, /*notesSpans=*/false);
    inside.now = now;
    inside.channel = channel;
    const int64_t count = static_cast<int64_t>(repeat.getCount());
    for (int64_t iteration = 0; iteration < std::min<int64_t>(count, 2); ++iteration) {
      now = inside.now;
      inside.play(body, program);
    }
    now = count > 2 ? inside.now + (count - 2) * (inside.now - now) : inside.now;
    channel = inside.channel;
  }

  // Returns the time of putting a value where it is kept that no instruction computes there. A splat is not read.
  int64_t copyPs(Value value) const {
    DenseElementsAttr elements;
    bool isSplat = matchPattern(value, m_Constant(&elements)) && elements.isSplat();
    return rates.callPs({}, (isSplat ? 1 : 2) * static_cast<int64_t>(byteSize(cast<RankedTensorType>(value.getType()))));
  }

  // Where devices meet, all have the time of the one that had most to do alone.
  void meet() {
    now += mostAlone();
    alone.clear();
  }

  int64_t mostAlone() const {
    int64_t most = 0;
    for (auto [owner, time] : alone) {
      most = std::max(most, time);
    }
    return most;
  }

  dist::Owners owners;
  const analysis::DeviceRates &rates;
  const bool countsCopies, notesSpans;
  int64_t now = 0, channel = 0;
  DenseMap<int64_t, int64_t> alone; // since the devices met: the time of ops that only one of them runs, by its number
  DenseMap<Operation *, int64_t> arrival;
};

struct EstimateProgramsPass : public impl::EstimateProgramsPassBase<EstimateProgramsPass> {
  using EstimateProgramsPassBase::EstimateProgramsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!module->hasAttr(dist::kDeviceAttr)) {
      return; // rates that nobody gave make no prediction
    }
    constexpr int64_t kPsPerNs = 1000;
    analysis::DeviceRates rates = analysis::findDeviceRates(module);
    for (auto function : module.getOps<func::FuncOp>()) {
      if (!function.isExternal()) {
        Block &block = function.getBody().front();
        Builder builder(&getContext());
        auto simulate = [&](bool sends, bool countsCopies) {
          CostedProgram program(block, rates, exec::traitsOf(target).handOverPs, sends);
          return ProgramSimulator(block, rates, countsCopies, /*notesSpans=*/sends && countsCopies).simulate(block, program);
        };
        const int64_t computingNs = llvm::divideCeil(simulate(/*sends=*/false, /*countsCopies=*/true), kPsPerNs);
        const int64_t timeNs = llvm::divideCeil(simulate(/*sends=*/true, /*countsCopies=*/true), kPsPerNs);
        const int64_t ofInstructions = simulate(/*sends=*/true, /*countsCopies=*/false);
        function->setAttr(exec::kComputingAttr, builder.getI64IntegerAttr(computingNs));
        function->setAttr(exec::kPredictedAttr, builder.getI64IntegerAttr(timeNs));
        function->setAttr(exec::kOtherTimeAttr, builder.getI64IntegerAttr(timeNs * kPsPerNs - ofInstructions));
      }
    }
  }
};

} // namespace
} // namespace ashlar::lower
