// SPDX-License-Identifier: Apache-2.0
//
// The checked counts.

#include "dialects/support/tensor_size.h"

#include "dialects/support/element_type.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace ashlar {

std::string findSizeFault(ArrayRef<int64_t> shape, Type element) {
  int64_t bytes = element.isIntOrFloat() ? elementBytes(element) : 1; // of others the elements are counted
  for (int64_t dim : shape) {
    if (dim < 0) {
      return ("dim " + Twine(dim) + " is not a possible size").str();
    }
    if (llvm::MulOverflow(bytes, std::max<int64_t>(dim, 1), bytes) || bytes > kMostTensorBytes) {
      std::string text;
      llvm::raw_string_ostream(text) << "[" << llvm::join(llvm::map_range(shape, [](int64_t d) { return std::to_string(d); }), ", ")
                                     << "] of " << element << " has more than " << kMostTensorBytes
                                     << " bytes, the most that a tensor may have";
      return text;
    }
  }
  return {};
}

LogicalResult verifyTensorSizes(Operation *op) {
  auto check = [op](TypeRange types) -> LogicalResult {
    for (Type type : types) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      std::string fault = tensor ? findSizeFault(tensor.getShape(), tensor.getElementType()) : "";
      if (!fault.empty()) {
        return op->emitOpError(fault);
      }
    }
    return success();
  };
  return success(succeeded(check(op->getOperandTypes())) && succeeded(check(op->getResultTypes())));
}

} // namespace ashlar
