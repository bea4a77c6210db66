// SPDX-License-Identifier: Apache-2.0
//
// Initializers that hold the same numbers: a weight that the module has once and the export twice, as it is or transposed.

#ifndef ASHLAR_COMPILER_FRONTEND_WEIGHTS_TIED_WEIGHTS_H
#define ASHLAR_COMPILER_FRONTEND_WEIGHTS_TIED_WEIGHTS_H

#include "compiler/frontend/onnx_proto.h"
#include "compiler/frontend/tensor_data.h"

#include <vector>

namespace ashlar::frontend {

enum class Copy { None, Same, Transposed };

// Returns how the numbers of `other` derive from the numbers of `first`, bit by bit; matrices may be transposed. An empty tensor has no
// copy.
Copy compareNumbers(const TensorData &first, const TensorData &other);

// Two initializers of at least kTiedElements elements; `copy` holds the numbers of `original`, which comes first in the model.
struct CopiedWeight {
  std::string original, copy;
  bool isTransposed = false;
};

// Fewer elements are equal by chance, or because they are first values: biases, scales.
inline constexpr int64_t kTiedElements = 1024;

// Returns the copies among initializers. Initializers whose elements are all equal are first values, and no copies.
std::vector<CopiedWeight> findCopies(llvm::ArrayRef<const onnx::TensorProto *> initializers, llvm::StringRef directory,
                                     mlir::MLIRContext *context);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_WEIGHTS_TIED_WEIGHTS_H
