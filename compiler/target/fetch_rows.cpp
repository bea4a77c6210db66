// SPDX-License-Identifier: Apache-2.0
//
// Scalar evolution says which addresses are places in rows: they step through a row, and by whole rows from one to the next.

#include "compiler/target/fetch_rows.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"

#include <vector>

namespace ashlar::target {

namespace {

// Rows of fewer bytes are fetched by the processor itself, since the instructions of two rows are in flight at once.
constexpr int64_t kLeastRow = 2048;

// A vector that a loop along a row reads or writes.
struct Access {
  llvm::Instruction *instruction;
  llvm::Value *pointer, *base; // of the whole tensor
  llvm::Loop *along;
  int64_t row; // bytes
};

// Returns the constant step of an expression along a loop, and what it begins with.
std::optional<std::pair<int64_t, const llvm::SCEV *>> stepOf(const llvm::SCEV *expression, const llvm::Loop *loop,
                                                             llvm::ScalarEvolution &evolution) {
  const auto *sum = llvm::dyn_cast<llvm::SCEVAddRecExpr>(expression);
  if (!sum || sum->getLoop() != loop || !sum->isAffine()) {
    return std::nullopt;
  }
  const auto *step = llvm::dyn_cast<llvm::SCEVConstant>(sum->getStepRecurrence(evolution));
  return step ? std::optional(std::pair(step->getAPInt().getSExtValue(), sum->getStart())) : std::nullopt;
}

// Returns the accesses of innermost loops along rows, and of such loops that were unrolled, as of the loop over rows.
std::vector<Access> findAccesses(llvm::Loop &rows, llvm::LoopInfo &loops, llvm::ScalarEvolution &evolution) {
  std::vector<Access> found;
  for (llvm::BasicBlock *block : rows.blocks()) {
    llvm::Loop *along = loops.getLoopFor(block);
    if (along != &rows && (along->getParentLoop() != &rows || !along->isInnermost())) {
      continue;
    }
    for (llvm::Instruction &instruction : *block) {
      llvm::Value *pointer = llvm::getLoadStorePointerOperand(&instruction);
      if (!pointer || !llvm::getLoadStoreType(&instruction)->isVectorTy()) {
        continue;
      }
      const llvm::SCEV *address = evolution.getSCEV(pointer);
      const auto *base = llvm::dyn_cast<llvm::SCEVUnknown>(evolution.getPointerBase(address));
      auto inRow = stepOf(address, along, evolution);
      auto betweenRows = inRow && along != &rows ? stepOf(inRow->second, &rows, evolution) : inRow;
      if (base && betweenRows && betweenRows->first >= kLeastRow) {
        found.push_back({&instruction, pointer, base->getValue(), along, betweenRows->first});
      }
    }
  }
  return found;
}

int64_t instructionsOf(const llvm::Loop &loop) {
  int64_t count = 0;
  for (const llvm::BasicBlock *block : loop.blocks()) {
    count += static_cast<int64_t>(block->size());
  }
  return count;
}

void prefetch(llvm::IRBuilder<> &builder, llvm::Value *pointer, llvm::Value *distance, bool isWritten) {
  constexpr int kKeep = 3, kData = 1; // in all caches
  llvm::Value *address = builder.CreatePtrAdd(pointer, distance);
  builder.CreateIntrinsic(llvm::Intrinsic::prefetch, {address->getType()},
                          {address, builder.getInt32(isWritten), builder.getInt32(kKeep), builder.getInt32(kData)});
}

// Adds the prefetches of one loop over rows; false where it has none.
bool fetchRows(llvm::Loop &rows, llvm::LoopInfo &info, llvm::ScalarEvolution &evolution) {
  const std::vector<Access> accesses = findAccesses(rows, info, evolution);
  llvm::Loop *longest = nullptr;
  llvm::SmallPtrSet<llvm::Loop *, 4> loops;
  for (const Access &access : accesses) {
    loops.insert(access.along);
    if (access.along != &rows && access.instruction->mayReadFromMemory() &&
        (!longest || instructionsOf(*access.along) > instructionsOf(*longest))) {
      longest = access.along;
    }
  }
  llvm::BasicBlock *before = longest ? longest->getLoopPreheader() : nullptr;
  if (!before || loops.size() < 2) {
    return false;
  }
  auto isRead = [&](const Access &access) { return access.along == longest && access.instruction->mayReadFromMemory(); };
  const Access &first = *llvm::find_if(accesses, isRead);
  llvm::IRBuilder<> outside(before->getTerminator());
  llvm::MapVector<llvm::Value *, llvm::Value *> written; // tensors, and how far they are from the one that is read first
  for (const Access &access : accesses) {
    const bool isOther = access.instruction->mayWriteToMemory() && access.along != longest && access.row == first.row;
    if (isOther && access.base != first.base && !written.contains(access.base)) {
      llvm::Type *i64 = outside.getInt64Ty();
      written[access.base] = outside.CreateSub(outside.CreatePtrToInt(access.base, i64), outside.CreatePtrToInt(first.base, i64));
    }
  }
  for (const Access &access : llvm::make_filter_range(accesses, isRead)) {
    llvm::IRBuilder<> builder(access.instruction->getNextNode());
    prefetch(builder, access.pointer, builder.getInt64(access.row), /*isWritten=*/false);
    for (auto [base, distance] : written) {
      if (access.base == first.base) {
        prefetch(builder, access.pointer, distance, /*isWritten=*/true);
      }
    }
  }
  return true;
}

} // namespace

llvm::PreservedAnalyses FetchRowsPass::run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses) {
  auto &loops = analyses.getResult<llvm::LoopAnalysis>(function);
  if (llvm::all_of(loops, [](llvm::Loop *loop) { return loop->isInnermost(); })) {
    return llvm::PreservedAnalyses::all();
  }
  auto &evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
  bool isChanged = false;
  for (llvm::Loop *loop : loops.getLoopsInPreorder()) {
    isChanged |= fetchRows(*loop, loops, evolution);
  }
  return isChanged ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
}

} // namespace ashlar::target
