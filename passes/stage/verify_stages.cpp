// SPDX-License-Identifier: Apache-2.0
//
// ashlar-verify-stages: the border after the cut.

#include "dialects/dist/dist.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/programs.h"
#include "passes/stage/passes.h"
#include "passes/stage/transfers.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <tuple>

using namespace mlir;

namespace ashlar::stage {

#define GEN_PASS_DEF_VERIFYSTAGESPASS
#include "passes/stage/passes.h.inc"

namespace {

using dist::SlotOpInterface;
using dist::TransferOpInterface;

StringRef programOf(Operation *op) {
  return op->getParentOfType<func::FuncOp>().getSymName();
}

// Whether two programs are one for different micro-batches: alone, and joined with what a step does once.
bool areAlternatives(Operation *a, Operation *b) {
  auto roleOf = [](Operation *op) { return nn::programOf(op->getParentOfType<func::FuncOp>()); };
  nn::ProgramAttr first = roleOf(a), second = roleOf(b);
  auto placeOf = [](nn::ProgramAttr role) { return std::tuple(role.getRole(), role.getChunk(), role.getRound()); };
  return first && second && first != second && placeOf(first) == placeOf(second);
}

class Transfers {
public:
  explicit Transfers(ModuleOp module) {
    for (auto stage : module.getOps<ModuleOp>()) {
      if (auto attribute = stage->getAttrOfType<dist::StageAttr>(dist::kStageAttr)) {
        stages.emplace_back(stage, attribute);
      }
    }
  }

  LogicalResult verify() {
    for (auto [module, attribute] : stages) {
      if (failed(verifySlot(module, attribute.getIndex())) || failed(addMessages(module, attribute))) {
        return failure();
      }
    }
    for (auto &[key, op] : receives) {
      if (failed(verifyReceive(key, op))) {
        return failure();
      }
    }
    for (auto &[key, op] : sends) {
      if (receives.count(key) == 0) {
        const auto [from, to, channel] = key;
        return op.emitOpError("of stage ") << from << ", \"" << programOf(op) << "\", sends \"" << op.getSlot() << "\" on channel "
                                           << channel << " to stage " << to
                                           << ", which receives nothing there; add a dist.receive or take it out";
      }
    }
    return success();
  }

private:
  using Key = std::tuple<int64_t, int64_t, int64_t>; // sender, receiver, channel

  LogicalResult verifySlot(ModuleOp module, int64_t stage) {
    llvm::StringMap<SlotOpInterface> makers;
    SmallVector<dist::TakeOp> takes;
    for (auto program : module.getOps<func::FuncOp>()) {
      for (auto op : program.getOps<SlotOpInterface>()) {
        if (auto take = dyn_cast<dist::TakeOp>(op.getOperation())) {
          takes.push_back(take);
          continue;
        }
        auto [known, isNew] = makers.try_emplace(op.getSlot(), op);
        if (!isNew && !areAlternatives(known->second, op)) {
          return op.emitOpError("of stage ") << stage << ", \"" << program.getSymName() << "\", puts \"" << op.getSlot()
                                             << "\" into the slot, as \"" << programOf(known->second)
                                             << "\" does; give it a name of its own";
        }
      }
    }
    for (dist::TakeOp take : takes) {
      SlotOpInterface maker = makers.lookup(take.getSlot());
      if (!maker) {
        return take.emitOpError("of stage ") << stage << ", \"" << programOf(take) << "\", takes \"" << take.getSlot()
                                             << "\", which no program of the stage receives, sends or keeps; add a dist.keep";
      }
      if (maker.getSlotValue().getType() != take.getType()) {
        return take.emitOpError("of stage ") << stage << ", \"" << programOf(take) << "\", takes \"" << take.getSlot() << "\" as "
                                             << take.getType() << ", but \"" << programOf(maker) << "\" puts "
                                             << maker.getSlotValue().getType() << " there; take it with that type";
      }
    }
    return success();
  }

  LogicalResult addMessages(ModuleOp module, dist::StageAttr stage) {
    const int64_t self = stage.getIndex();
    for (auto program : module.getOps<func::FuncOp>()) {
      for (auto op : program.getOps<TransferOpInterface>()) {
        for (dist::PeerAttr peer : op.getPeers()) {
          if (peer.getStage() == self || peer.getStage() >= stage.getCount()) {
            return op.emitOpError("of stage ") << self << ", \"" << program.getSymName() << "\", has \"" << op.getSlot()
                                               << "\" from or for stage " << peer.getStage() << ", but there are " << stage.getCount()
                                               << " stages, and a message goes to another one; use dist.keep within a stage";
          }
          const Key key = op.isSource() ? Key{peer.getStage(), self, peer.getChannel()} : Key{self, peer.getStage(), peer.getChannel()};
          auto [known, isNew] = (op.isSource() ? receives : sends).try_emplace(key, op);
          if (!isNew) {
            return op.emitOpError("of stage ") << self << ", \"" << program.getSymName() << "\", has \"" << op.getSlot() << "\" on channel "
                                               << peer.getChannel() << ", which \"" << programOf(known->second) << "\" has for \""
                                               << known->second.getSlot() << "\"; give it a channel of its own";
          }
        }
      }
    }
    return success();
  }

  LogicalResult verifyReceive(const Key &key, TransferOpInterface receive) {
    const auto [from, to, channel] = key;
    auto send = sends.find(key);
    if (send == sends.end()) {
      return receive.emitOpError("of stage ") << to << ", \"" << programOf(receive) << "\", receives \"" << receive.getSlot()
                                              << "\" on channel " << channel << " from stage " << from
                                              << ", which sends nothing there; add a dist.send or take it out";
    }
    const Type sent = send->second.getSlotValue().getType(), received = receive.getSlotValue().getType();
    if (sent != received) {
      return receive.emitOpError("of stage ") << to << ", \"" << programOf(receive) << "\", receives \"" << receive.getSlot() << "\" as "
                                              << received << ", but stage " << from << ", \"" << programOf(send->second) << "\", sends "
                                              << sent << "; receive it with that type";
    }
    return success();
  }

  SmallVector<std::pair<ModuleOp, dist::StageAttr>> stages;
  std::map<Key, TransferOpInterface> sends, receives;
};

struct VerifyStagesPass : public impl::VerifyStagesPassBase<VerifyStagesPass> {
  using VerifyStagesPassBase::VerifyStagesPassBase;

  void runOnOperation() override {
    if (failed(verifyTransfers(getOperation()))) {
      return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};

} // namespace

LogicalResult verifyTransfers(ModuleOp module) {
  return Transfers(module).verify();
}

} // namespace ashlar::stage
