// SPDX-License-Identifier: Apache-2.0
//
// One program on its way from tensors to buffers: its instructions, and for each of their operands and results a storage. It decides which
// values are computed in place and which copies remain; arena offsets of temporaries come later.

#ifndef ASHLAR_PASSES_LOWER_MEMORY_PROGRAM_H
#define ASHLAR_PASSES_LOWER_MEMORY_PROGRAM_H

#include "passes/lower/memory/arena.h"
#include "passes/lower/memory/constant_pool.h"
#include "passes/lower/memory/tensor_table.h"

namespace ashlar::lower {

// Bytes that hold one value, or, when instructions work in place, several values one after the other.
struct Storage {
  exec::Space space = exec::Space::Arena;
  bool temporary = false;
  uint64_t offset = 0; // of a temporary: not known before packing; of a row: in the first iteration, from the begin of the rows
  Lifetime lifetime;   // of a temporary, in instruction indices
  // Of a row that a repeat reads or makes: the storage of all rows, and the bytes by which it moves (exec::BufferAttr).
  std::optional<unsigned> rows = {};
  llvm::SmallVector<int64_t, 1> strides = {};
};

// One instruction. Operands, results and types are parallel lists.
struct Instruction {
  // exec.fusion, exec.await, a dist collective or dist.slice; null: copies operand 0 to result 0. nn.repeat: its iterations begin, and end
  // with its nn.yield; its operand is a condition, or there is none.
  mlir::Operation *op = nullptr;
  mlir::Location loc;
  llvm::SmallVector<unsigned> operands, results; // indices of storages; the result of an insert holds its base by now
  llvm::SmallVector<mlir::Type> operandTypes, resultTypes;
  llvm::SmallVector<int64_t> alias;  // for each result the operand it overwrites, or -1
  std::optional<int64_t> owner = {}; // the one device that runs it; nothing: all do
};

struct Program {
  mlir::func::FuncOp function;
  std::vector<Storage> storages;
  std::vector<Instruction> instructions;
  std::vector<llvm::SmallVector<unsigned>> runs; // storages that an all-reduce of several tensors would have side by side
  uint64_t temporaryBytes = 0;                   // that the temporaries span

  // Returns the lifetimes of the temporaries, and the index of the storage of each.
  std::pair<std::vector<Lifetime>, std::vector<unsigned>> temporaries() const;

  // Returns the runs as indices of those lifetimes.
  std::vector<BufferRun> temporaryRuns() const;
};

// Turns a function of nn.read, nn.write, nn.constant, nn.repeat, exec.fusion, exec.await, dist collectives, ops on slots and return into a
// program.
//
// A value is computed right where it must end up if nothing is read there afterwards: in its variable, in its output, or over an operand
// that dies. Otherwise it is copied at the end: outputs first, then variables, so that every read of a variable sees the value from before
// the program. The target's kernels decide which operands may be overwritten.
//
// The body of a repeat has the same temporaries in all iterations; what the repeat reads lives until it ends. Rows of sliced tensors are
// read where they lie, and rows of stacked ones made there, if they begin at multiples of the alignment and no collective has them; others
// are copied. A carried value has one place, which its next value is computed over or copied to. Fails with an error when the function
// holds another op, or reads a variable after writing it.
mlir::FailureOr<Program> buildProgram(mlir::func::FuncOp function, const TensorTable &tensors, ConstantPool &constants, dist::MeshAttr mesh,
                                      exec::Target target);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_MEMORY_PROGRAM_H
