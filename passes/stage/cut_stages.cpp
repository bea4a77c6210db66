// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-cut-stages; see passes.td.

#include "passes/stage/passes.h"

#include "compiler/file/input_file.h"
#include "dialects/nn/programs.h"
#include "passes/stage/execution.h"
#include "passes/stage/order_file.h"
#include "passes/stage/stage_modules.h"
#include "passes/stage/transfers.h"

using namespace mlir;

namespace ashlar::stage {

#define GEN_PASS_DEF_CUTSTAGESPASS
#include "passes/stage/passes.h.inc"

namespace {

struct CutStagesPass : public impl::CutStagesPassBase<CutStagesPass> {
  using CutStagesPassBase::CutStagesPassBase;

  void runOnOperation() override {
    if (failed(checkOptions()) || failed(readOrder()) || failed(run())) {
      signalPassFailure();
    }
  }

private:
  LogicalResult checkOptions() {
    policy = SchedulePolicy::get(schedule);
    const bool mayHaveChunks = !orderFile.empty() || schedule == Schedule::Interleaved;
    if (stages < 2 || microBatches < stages || chunks < 1 || (chunks > 1 && !mayHaveChunks)) {
      return getOperation().emitError(
                 "a pipeline has at least 2 stages, as many micro-batches, and several chunks only with INTERLEAVED or an order; got ")
             << stages.getValue() << " stages, " << microBatches.getValue() << " micro-batches, " << stringifySchedule(schedule) << ", "
             << chunks.getValue() << " chunks";
    }
    cut = {stages.getValue(), chunks.getValue()};
    return success();
  }

  LogicalResult fail(llvm::Error error) { return emitError(UnknownLoc::get(&getContext())) << llvm::toString(std::move(error)); }

  // Reads the user's order, if there is one.
  LogicalResult readOrder() {
    if (orderFile.empty()) {
      return success();
    }
    llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = file::readText(orderFile, file::Pipes::Refused);
    if (!buffer) {
      return fail(llvm::createStringError(orderFile + ": " + llvm::toString(buffer.takeError())));
    }
    llvm::Expected<OrderFile> read = OrderFile::parse((*buffer)->getBuffer(), orderFile, cut, microBatches);
    if (!read) {
      return fail(read.takeError());
    }
    order = std::move(*read);
    return success();
  }

  LogicalResult run() {
    ModuleOp module = getOperation();
    if (!nn::findProgram(module, nn::ProgramRole::TrainStep) || !nn::findProgram(module, nn::ProgramRole::Update)) {
      return module.emitError("no @train_step and @update to cut into stages; run ashlar-accumulate first");
    }
    if (failed(nn::verifyPrograms(module))) {
      return failure();
    }
    FailureOr<StageAssignment> assignment = StageAssignment::create(module, cut);
    if (failed(assignment)) {
      return failure();
    }
    FailureOr<ModelCut> model = ModelCut::create(module, *assignment, order ? order->splitsBackward() : policy->splitsBackward());
    if (failed(model)) {
      return failure();
    }
    FailureOr<StageOrders> orders = makeOrders(*model);
    if (succeeded(orders)) {
      emitStages(module, *model, *orders, slots);
      return verifyTransfers(module);
    }
    return orders;
  }

  // Builds or takes the orders, and proves that they end.
  FailureOr<StageOrders> makeOrders(const ModelCut &model) {
    std::vector<std::set<Part>> programs(cut.stages); // that there are
    for (int64_t stage = 0; stage < cut.stages; ++stage) {
      for (StageProgram *program : model.getStep().programsOf(stage)) {
        programs[stage].insert(*partOf(program->role));
      }
    }
    if (order) {
      if (llvm::Error error = order->checkComplete(programs)) {
        return fail(std::move(error));
      }
    }
    StageOrders orders = order ? order->getOrders() : buildOrders(*policy, cut, microBatches);
    for (int64_t stage = 0; stage < cut.stages; ++stage) {
      llvm::erase_if(orders[stage], [&](const Action &action) { return programs[stage].count(action.part()) == 0; });
    }
    std::string deadlock;
    slots = chooseSlots(orders, findDependences(model.getStep()), deadlock);
    if (!deadlock.empty()) {
      return fail(
          llvm::createStringError((order ? orderFile + ": the order" : "the order of the pipeline's stages") + " deadlocks: " + deadlock));
    }
    return orders;
  }

  // Returns what the programs of a micro-batch take of each other, and of those that receive for all of their stage.
  std::vector<Dependence> findDependences(FunctionCut &step) {
    std::set<Dependence> found;
    for (int64_t stage = 0; stage < cut.stages; ++stage) {
      DenseMap<Value, Part> received;
      for (StageProgram *program : step.programsOf(stage)) {
        const Part part = *partOf(program->role);
        for (auto [value, maker] : program->imports) {
          auto [first, isFirst] = received.try_emplace(value, part);
          if (maker->stage == stage || isFirst) {
            found.insert({maker->stage, *partOf(maker->role), stage, part});
          } else {
            found.insert({stage, first->second, stage, part});
          }
        }
      }
    }
    return {found.begin(), found.end()};
  }

  Cut cut;
  std::optional<SchedulePolicy> policy;
  std::optional<OrderFile> order; // the user's
  std::vector<int64_t> slots;     // by stage
};

} // namespace
} // namespace ashlar::stage
