// SPDX-License-Identifier: Apache-2.0
//
// A program that computes some positions of a model, from one that is given at run time, and takes what it needs of the others from
// variables.

#ifndef ASHLAR_PASSES_DECODE_POSITION_PROGRAM_H
#define ASHLAR_PASSES_DECODE_POSITION_PROGRAM_H

#include "passes/decode/position_places.h"

#include "llvm/ADT/MapVector.h"

#include <string>

namespace ashlar::decode {

// The variables that keep tensors of the model with all positions, by tensor, in the order of the ops.
using Caches = llvm::MapVector<mlir::Value, nn::VariableOp>;

struct ProgramOptions {
  nn::ProgramRole role;
  int64_t positions;
  std::string tokens; // name of the argument; another one in each program
};

// Adds a program to the module of a model, with the arguments `tokens` and position. It inserts its positions into the caches, which it
// adds where there are none yet, and returns its positions of the tensors in `results`, which have places.
mlir::func::FuncOp addPositionProgram(mlir::func::FuncOp model, const PositionPlaces &places, llvm::ArrayRef<mlir::OpOperand *> results,
                                      const ProgramOptions &options, Caches &caches);

} // namespace ashlar::decode

#endif // ASHLAR_PASSES_DECODE_POSITION_PROGRAM_H
