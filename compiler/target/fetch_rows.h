// SPDX-License-Identifier: Apache-2.0
//
// Prefetches of the next row, for kernels that pass over each row several times.

#ifndef ASHLAR_COMPILER_TARGET_FETCH_ROWS_H
#define ASHLAR_COMPILER_TARGET_FETCH_ROWS_H

#include "llvm/IR/PassManager.h"

namespace ashlar::target {

// In a loop over rows with several loops along them, as of a softmax, memory is idle while the longest one computes: the processor sees no
// address of the next row. There each read of this row is followed by a prefetch of the same place in the next row, and of the place in the
// row that is written. Runs behind the vectoriser, which takes no loop with prefetches.
struct FetchRowsPass : llvm::PassInfoMixin<FetchRowsPass> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);
};

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_FETCH_ROWS_H
