// SPDX-License-Identifier: Apache-2.0
//
// Ops -> times: fusions by their arithmetic and the memory that they read and write, collectives by their messages and links.

#include "passes/lower/overlap/costed_program.h"

#include "dialects/nn/repeat.h"
#include "dialects/support/aliases.h"
#include "passes/lower/memory/storage_uses.h"

#include "dialects/support/element_type.h"

using namespace mlir;

namespace ashlar::lower {
namespace {

// Returns the work of a product that computes something else in the same call. Its operands lhs and rhs and its product come first.
analysis::Work workOfJointProduct(Operation &op) {
  auto type = cast<RankedTensorType>(op.getResult(0).getType()), lhs = cast<RankedTensorType>(op.getOperand(0).getType());
  const int64_t rows = type.getDimSize(0), depth = lhs.getNumElements() / std::max<int64_t>(rows, 1);
  const int64_t flops = 2 * depth * type.getNumElements();
  const RateClass rateClass{RateClass::Product, std::min({rows, type.getDimSize(1), depth})};
  return lhs.getElementTypeBitWidth() == 16 ? analysis::Work{0, flops, rateClass} : analysis::Work{flops, 0, rateClass};
}

// Returns the time of a kernel or library call: of its arithmetic, or of the memory that it reads and writes, and its launch.
int64_t computePs(exec::FusionOp fusion, const analysis::DeviceRates &rates) {
  analysis::Work work;
  for (Operation &op : fusion.getBody().front().without_terminator()) {
    if (isa<exec::ProductWithAuxiliaryOp, exec::ProductWithSlopeOp, exec::ProductWithSumsOp>(op)) {
      work += rates.atFullRate(workOfJointProduct(op));
      continue;
    }
    auto types = [](ValueRange values) {
      return llvm::map_to_vector(values.getTypes(), [](Type type) { return cast<RankedTensorType>(type); });
    };
    work += rates.atFullRate(analysis::workOf(&op, types(op.getOperands()), types(op.getResults())));
  }
  Operation &first = fusion.getBody().front().front();
  if (analysis::findUpdated(&first)) { // an instruction of its own, which reads and writes the other operands
    return rates.callPs(work, 2 * (totalByteSize(first.getOperandTypes()) - totalByteSize(first.getResultTypes())));
  }
  return rates.callPs(work, totalByteSize(fusion.getInputs().getTypes()) + totalByteSize(fusion.getOutputs().getTypes()));
}

} // namespace

CostedProgram::CostedProgram(Block &block, const analysis::DeviceRates &rates, int64_t handOverPs, bool sends)
    : handOverPs(handOverPs), sends(sends) {
  for (Operation &op : block) {
    if (isa<exec::FusionOp, dist::CollectiveOpInterface, dist::SliceOp, nn::RepeatOp>(op)) {
      numbers[&op] = instructions.size();
      instructions.push_back(&op);
      ops.push_back(estimate(op, rates));
    }
  }
  for (auto write : block.getOps<nn::WriteOp>()) {
    keepReadsAhead(write, block);
  }
  for (analysis::CostedOp &op : ops) {
    llvm::sort(op.needs);
    op.needs.erase(llvm::unique(op.needs), op.needs.end());
  }
}

int64_t CostedProgram::alonePs() const {
  int64_t sum = 0;
  for (unsigned number = 0; number < ops.size(); ++number) {
    sum += alonePs(number);
  }
  return sum;
}

// Whether a value becomes that of a variable, whose bytes are there anyway.
static bool isKept(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) { return isa<nn::WriteOp>(user); });
}

// Returns the bytes of those of the values that are temporaries.
static uint64_t temporaryBytes(ValueRange values) {
  uint64_t bytes = 0;
  for (Value value : values) {
    bytes += isKept(value) ? 0 : totalByteSize(value.getType());
  }
  return bytes;
}

analysis::CostedOp CostedProgram::estimate(Operation &op, const analysis::DeviceRates &rates) {
  analysis::CostedOp estimated;
  for (Value operand : op.getOperands()) {
    estimated.holdsOperand |= numbers.contains(getStorageRoot(operand).getDefiningOp()) && !isKept(operand);
    addNeeds(operand, estimated.needs);
  }
  if (auto fusion = dyn_cast<exec::FusionOp>(op)) {
    estimated.timePs = computePs(fusion, rates);
  } else if (auto repeat = dyn_cast<nn::RepeatOp>(op)) {
    estimated.timePs =
        static_cast<int64_t>(repeat.getCount()) * CostedProgram(repeat.getBody().front(), rates, handOverPs, sends).alonePs();
  } else if (auto collective = dyn_cast<dist::CollectiveOpInterface>(op)) {
    estimated.runsBeside = sends && analysis::movesBeside(collective);
    estimated.timePs = !sends ? 0 : analysis::collectiveTimePs(collective) + (estimated.runsBeside ? handOverPs : 0);
    estimated.bytes = temporaryBytes(op.getResults()) + (estimated.holdsOperand ? temporaryBytes(op.getOperands()) : 0);
  } else {
    estimated.timePs = rates.callPs({}, 2 * totalByteSize(op.getResultTypes()));
  }
  return estimated;
}

// Adds what makes a value, and the events that it comes after.
void CostedProgram::addNeeds(Value value, SmallVectorImpl<unsigned> &needs) const {
  SmallVector<Value> pending = {value};
  DenseSet<Value> seen;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    Operation *def = next.getDefiningOp();
    if (!def || !seen.insert(next).second) {
      continue;
    }
    if (auto found = numbers.find(def); found != numbers.end()) {
      needs.push_back(found->second);
    } else if (aliasesOperands(def)) {
      pending.push_back(def->getOperand(cast<OpResult>(next).getResultNumber()));
      if (auto after = dyn_cast<dist::AfterOp>(def)) {
        pending.push_back(after.getEvent());
      }
    }
  }
}

// The new value of a variable is computed over the old one: what reads the old one ahead of that must stay ahead.
void CostedProgram::keepReadsAhead(nn::WriteOp write, Block &block) {
  auto producer = numbers.find(getStorageRoot(write.getValue()).getDefiningOp());
  if (producer == numbers.end()) {
    return;
  }
  for (nn::ReadOp read : readsOf(write, block)) {
    SmallVector<OpOperand *> uses;
    collectStorageUses(read.getResult(), uses);
    for (OpOperand *use : uses) {
      if (auto found = numbers.find(use->getOwner()); found != numbers.end() && found->second < producer->second) {
        ops[producer->second].needs.push_back(found->second);
      }
    }
  }
}

ArrayRef<nn::ReadOp> CostedProgram::readsOf(nn::WriteOp write, Block &block) {
  if (reads.empty()) {
    for (auto read : block.getOps<nn::ReadOp>()) {
      reads[read.getVariableAttr()].push_back(read);
    }
  }
  return reads[write.getVariableAttr()];
}

} // namespace ashlar::lower
