// SPDX-License-Identifier: Apache-2.0
//
// A layer of recurrent cells, the parts that LSTM, GRU and RNN share: inputs and attributes, the product with the input of all steps, the
// steps in one or two directions, results.

#ifndef ASHLAR_COMPILER_FRONTEND_OPS_RECURRENT_RECURRENT_LAYER_H
#define ASHLAR_COMPILER_FRONTEND_OPS_RECURRENT_RECURRENT_LAYER_H

#include "compiler/frontend/node.h"
#include "compiler/frontend/ops/recurrent/gate_functions.h"

namespace ashlar::frontend {

class RecurrentLayer {
public:
  // The places of a node's inputs that all three ops have.
  enum Input : size_t { kX, kW, kR, kB, kSequenceLens, kInitialH };

  // A cell in one direction. `states`: of the step before, (batch, hidden) each, the output first; `fromInput`: the input times W plus the
  // bias, (batch, gates * hidden). Returns the new states.
  struct Step {
    llvm::ArrayRef<mlir::Value> states;
    mlir::Value fromInput;
    llvm::ArrayRef<mlir::Value> captured;
    llvm::ArrayRef<GateFunction> functions;
  };
  using Cell = llvm::function_ref<llvm::SmallVector<mlir::Value>(const Step &)>;
  // Returns the tensors that each step of a direction reads, of R of the direction, (gates * hidden, hidden).
  using Capture = llvm::function_ref<llvm::SmallVector<mlir::Value>(int64_t direction, mlir::Value recurrence)>;

  // Reads the attributes and inputs X, W, R and B. The recurrent bias of the last `innerGates` gates is left to the cell, all others are
  // added to the input's product.
  RecurrentLayer(Node &node, int64_t gates, int64_t innerGates, llvm::ArrayRef<llvm::StringRef> functions);

  // Runs the cell on all steps and sets the results: the outputs of all steps, and each state after the last step of a row. `firstStates`:
  // the inputs that hold the first states, zeros where they are left out.
  void build(llvm::ArrayRef<std::pair<size_t, llvm::StringRef>> firstStates, Capture capture, Cell cell);

  // Returns input `index` of this shape, in f32 where it is narrower; null when it is left out. Fails for other shapes.
  mlir::Value readInput(size_t index, llvm::StringRef name, llvm::ArrayRef<int64_t> shape) const;

  // Returns row `direction` of a tensor without dim 0.
  mlir::Value rowOf(mlir::Value value, int64_t direction) const;

  // Returns columns gate * hidden to (gate + 1) * hidden - 1.
  mlir::Value gateOf(mlir::Value value, int64_t gate) const;

  // Applies a function to a value bounded by the attribute "clip".
  mlir::Value activate(const GateFunction &function, mlir::Value x) const;

  // Returns `states` times the transpose of `weights`.
  mlir::Value product(mlir::Value states, mlir::Value weights) const;

  int64_t countDirections() const { return directions; }
  int64_t getHidden() const { return hidden; }
  mlir::Value getBias() const { return bias; } // (directions, 2 * gates * hidden); null without one

private:
  void readDirections();
  void readSizes();
  void readLengths();
  // Multiplies the input of all steps by W, and adds the bias.
  void multiplyInput(int64_t innerGates);
  mlir::Value readState(size_t index, llvm::StringRef name) const;
  // Returns zeros for rows of length 0, as ONNX Runtime does, and the state for all others.
  mlir::Value finish(mlir::Value state) const;
  void setOutputs(llvm::ArrayRef<mlir::Value> ofDirections) const;
  void setState(size_t result, llvm::ArrayRef<mlir::Value> ofDirections) const;

  Node &node;
  int64_t gates, directions, steps, batch, inputs, hidden;
  bool isBatchFirst, beginsReversed;
  std::optional<double> clip;
  llvm::SmallVector<GateFunction> functions; // of all directions
  mlir::Type element;                        // of the results
  mlir::Value bias, lengths;                 // lengths: (batch) of i64; null where all rows have all steps
  // Of each direction: (steps, batch, gates * hidden).
  llvm::SmallVector<mlir::Value, 2> fromInput;
  bool mayBeEmpty = false; // a row may have no step
};

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_OPS_RECURRENT_RECURRENT_LAYER_H
