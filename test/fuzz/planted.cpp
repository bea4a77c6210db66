// SPDX-License-Identifier: Apache-2.0
//
// Ops with a wrong idea of signs; see planted.h.

#include "test/fuzz/planted.h"

#include "dialects/nn/nn.h"
#include "dialects/support/integer_type.h"
#include "test/fuzz/executable.h"
#include "test/fuzz/rounding.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using ashlar::reference::Tensor;

namespace ashlar::fuzz {

namespace {

// Returns element `i` as it would be with a sign.
int64_t withSign(const Tensor &tensor, int64_t i) {
  return llvm::SignExtend64(static_cast<uint64_t>(tensor.getInt(i)), tensor.getType().getElementTypeBitWidth());
}

// Calls `body` with every element of one operand, or of two, with a sign, and takes what it returns as a result.
void setWithSigns(ArrayRef<Tensor> operands, Tensor &result, llvm::function_ref<int64_t(int64_t x, int64_t y)> body) {
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    int64_t number = body(withSign(operands.front(), i), withSign(operands.back(), i));
    result.isFloat() ? result.setFloat(i, static_cast<double>(number)) : result.setInt(i, number);
  }
}

bool holds(nn::Predicate predicate, int64_t x, int64_t y) {
  switch (predicate) {
  case nn::Predicate::Eq:
    return x == y;
  case nn::Predicate::Ne:
    return x != y;
  case nn::Predicate::Lt:
    return x < y;
  case nn::Predicate::Le:
    return x <= y;
  case nn::Predicate::Gt:
    return x > y;
  case nn::Predicate::Ge:
    return x >= y;
  }
  llvm_unreachable("unknown predicate");
}

int64_t quotient(int64_t x, int64_t y) {
  return y == 0 ? 0 : y == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(x)) : x / y;
}

// Returns the tensor with the sign bits of all elements the other way around: the order of words becomes that of numbers with a sign.
Tensor withOtherOrder(const Tensor &tensor) {
  Tensor other(tensor.getType());
  const uint64_t bit = uint64_t(1) << (tensor.getType().getElementTypeBitWidth() - 1);
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    other.setInt(i, static_cast<int64_t>(static_cast<uint64_t>(tensor.getInt(i)) ^ bit));
  }
  return other;
}

// Computes an op as if its operands had a sign. Leaves other ops alone.
void computeWithSigns(Operation *op, ArrayRef<Tensor> operands, Tensor &result) {
  if (isa<nn::AbsOp>(op)) {
    setWithSigns(operands, result, [](int64_t x, int64_t) { return x < 0 ? quotient(x, -1) : x; });
  } else if (isa<nn::SignOp>(op)) {
    setWithSigns(operands, result, [](int64_t x, int64_t) { return (x > 0) - (x < 0); });
  } else if (isa<nn::DivOp>(op)) {
    setWithSigns(operands, result, quotient);
  } else if (isa<nn::MaxOp>(op)) {
    setWithSigns(operands, result, [](int64_t x, int64_t y) { return std::max(x, y); });
  } else if (isa<nn::MinOp>(op)) {
    setWithSigns(operands, result, [](int64_t x, int64_t y) { return std::min(x, y); });
  } else if (auto compare = dyn_cast<nn::CompareOp>(op)) {
    setWithSigns(operands, result, [&](int64_t x, int64_t y) { return holds(compare.getPredicate(), x, y); });
  } else if (isa<nn::CastOp>(op) && !result.getType().getElementType().isInteger(1)) {
    setWithSigns(operands, result, [](int64_t x, int64_t) { return x; });
  } else if (auto reduce = dyn_cast<nn::ReduceOp>(op); reduce && reduce.getKind() != Reduction::Sum) {
    Tensor other = withOtherOrder(operands.front());
    result = withOtherOrder(cast<ReferenceOpInterface>(op).evaluate(other));
  }
}

// Returns the name of the fault that an op could have; "" for one that takes no words.
std::string faultOf(Operation *op, ArrayRef<Tensor> operands) {
  Type element = operands.empty() ? Type() : operands.back().getType().getElementType();
  if (!element || !isUnsigned(element) || element.isInteger(1)) {
    return "";
  }
  return (op->getName().getStringRef() + " ui" + Twine(element.getIntOrFloatBitWidth())).str();
}

// Returns the faults with which some op of a run gives another result.
std::set<std::string> reachedFaults(ModuleOp program, FailureOr<std::vector<Tensor>> &outcome) {
  std::set<std::string> reached;
  outcome = expectedOutcome(program, [&](Operation *op, ArrayRef<Tensor> operands, Tensor &result) {
    if (std::string fault = faultOf(op, operands); !fault.empty() && !reached.count(fault)) {
      Tensor other = result;
      computeWithSigns(op, operands, other);
      if (reference::maxDifference(result, other) > 0) {
        reached.insert(fault);
      }
    }
  });
  return reached;
}

} // namespace

std::set<std::string> signFaults() {
  std::set<std::string> faults;
  for (const char *op : {"nn.abs", "nn.cast", "nn.compare", "nn.div", "nn.max", "nn.min", "nn.reduce", "nn.sign"}) {
    for (int width : {8, 16, 32, 64}) {
      faults.insert(op + (" ui" + std::to_string(width)));
    }
  }
  return faults;
}

std::set<std::string> shownSignFaults(ModuleOp program) {
  FailureOr<std::vector<Tensor>> right = failure();
  std::set<std::string> shown, reached = reachedFaults(program, right);
  const double usable = tolerancesOf(precisionOf(program)).usable; // what rounding moves further is undecided, and tells nothing
  for (const std::string &fault : reached) {
    FailureOr<std::vector<Tensor>> wrong = expectedOutcome(program, [&](Operation *op, ArrayRef<Tensor> operands, Tensor &result) {
      if (faultOf(op, operands) == fault) {
        computeWithSigns(op, operands, result);
      }
    });
    for (size_t i = 0; succeeded(right) && succeeded(wrong) && i < right->size(); ++i) {
      if (reference::maxDifference((*right)[i], (*wrong)[i]) > 2 * usable) {
        shown.insert(fault);
      }
    }
  }
  return shown;
}

} // namespace ashlar::fuzz
