// SPDX-License-Identifier: Apache-2.0
//
// The values of repeats that are not computed where they stand in the program: rows, and stacks of them.

#ifndef ASHLAR_PASSES_LOWER_MEMORY_REPEAT_ROWS_H
#define ASHLAR_PASSES_LOWER_MEMORY_REPEAT_ROWS_H

#include "dialects/nn/repeat.h"
#include "passes/lower/memory/program.h"

namespace ashlar::lower {

// Returns the op with which the iterations of a repeat end.
mlir::Operation *endOf(nn::RepeatOp repeat);

// Returns whether a value is a stack that a repeat makes.
bool isStack(mlir::Value value);

// Returns the storage of a row that moves along the storage `rows`, number `index`, of all rows that a repeat reads or makes.
Storage rowOf(nn::RepeatOp repeat, unsigned index, const Storage &rows, mlir::RankedTensorType type);

// Returns whether every row begins where instructions of the target take a buffer that moves.
bool isAlignedRow(mlir::Type row, exec::Target target);

// Returns whether a collective takes or makes a value, here or in the body of a repeat: its buffers do not move.
bool meetsDevices(mlir::Value value);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_MEMORY_REPEAT_ROWS_H
