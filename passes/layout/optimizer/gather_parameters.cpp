// SPDX-License-Identifier: Apache-2.0
//
// Reads of parameters, phase by phase.

#include "passes/layout/optimizer/gather_parameters.h"

#include "dialects/nn/nn.h"
#include "dialects/nn/phases.h"
#include "dialects/support/tensor_values.h"

#include <map>

using namespace mlir;

namespace ashlar::layout {

bool isCopy(Operation *op) {
  auto compute = dyn_cast<ComputeOpInterface>(op);
  if (!compute || op->getNumOperands() != 1) {
    return false;
  }
  bool keepsElements = typeOf(op->getOperand(0)).getNumElements() == typeOf(op->getResult(0)).getNumElements();
  return keepsElements && (compute.getPrecision() == Precision::Move || compute.getPrecision() == Precision::Convert);
}

namespace {

// State: the values that are reads of what is stored split, or copies of them; and what takes their place in each phase.
class Gathering {
public:
  Gathering(func::FuncOp function, const StoredLayouts &stored, function_ref<bool(Operation *)> again)
      : function(function), stored(stored), again(again), phases(function.front()) {}

  void run() {
    SmallVector<Operation *> users;
    for (Operation &op : function.front()) {
      auto read = dyn_cast<nn::ReadOp>(op);
      bool isForParameter = read ? stored.contains(read.getVariable()) : isCopy(&op) && known.contains(op.getOperand(0));
      if (isForParameter && phases.of(&op) != nn::Phase::Update) {
        known.insert(op.getResult(0));
        copies.push_back(&op);
      } else if (!read) {
        users.push_back(&op);
      } else if (stored.contains(read.getVariable())) {
        store(read);
      }
    }
    for (Operation *op : users) {
      for (OpOperand &operand : op->getOpOperands()) {
        if (known.contains(operand.get())) {
          operand.set(provide(operand.get(), op));
        }
      }
    }
    for (Operation *op : llvm::reverse(copies)) {
      op->erase();
    }
  }

private:
  // Has a read give what is stored.
  void store(nn::ReadOp read) { read->setAttr(dist::kLayoutsAttr, ArrayAttr::get(read.getContext(), stored.lookup(read.getVariable()))); }

  // Returns what `user` takes for a value of the forward phase.
  Value provide(Value value, Operation *user) {
    nn::Phase phase = phases.of(user);
    phase = phase == nn::Phase::Backward && !again(user) ? nn::Phase::Forward : phase;
    Value &provided = given[{value.getAsOpaquePointer(), phase}];
    if (!provided) {
      provided = make(value, user, phase);
    }
    return provided;
  }

  // Makes a read, or a copy and what it is made of, again ahead of `user`; of the update, where it stood: there it is equal to that of the
  // forward phase if both are gathered. A copy is made of what is stored.
  Value make(Value value, Operation *user, nn::Phase phase) {
    SmallVector<Operation *> chain = {value.getDefiningOp()}; // down to the read
    while (!isa<nn::ReadOp>(chain.back())) {
      chain.push_back(chain.back()->getOperand(0).getDefiningOp());
    }
    auto copyOf = [&](Operation *op) { return OpBuilder(phase == nn::Phase::Update ? op : user).clone(*op); };
    Operation *made = copyOf(chain.pop_back_val());
    if (phase == nn::Phase::Update || !chain.empty()) {
      store(cast<nn::ReadOp>(made));
    }
    if (phase == nn::Phase::Backward) {
      made->setAttr(dist::kReadAgainAttr, UnitAttr::get(made->getContext()));
    }
    for (Operation *op : llvm::reverse(chain)) {
      Operation *copy = copyOf(op);
      copy->setOperand(0, made->getResult(0));
      made = copy;
    }
    return made->getResult(0);
  }

  func::FuncOp function;
  const StoredLayouts &stored;
  function_ref<bool(Operation *)> again;
  nn::Phases phases;
  DenseSet<Value> known;
  SmallVector<Operation *> copies;
  std::map<std::pair<const void *, nn::Phase>, Value> given;
};

} // namespace

void gatherAtUses(func::FuncOp function, const StoredLayouts &stored, function_ref<bool(Operation *)> again) {
  Gathering(function, stored, again).run();
}

} // namespace ashlar::layout
