// SPDX-License-Identifier: Apache-2.0
//
// The bytes of an ONNX tensor, wherever they are: raw_data, one of the typed lists, or a file beside the model. Big ones are handed on to
// MLIR without a copy.

#ifndef ASHLAR_COMPILER_FRONTEND_TENSOR_DATA_H
#define ASHLAR_COMPILER_FRONTEND_TENSOR_DATA_H

#include "compiler/frontend/onnx_proto.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>
#include <string>

namespace ashlar::frontend {

// Returns the MLIR type of an ONNX element type; throws for types that nn does not have. `what` opens the error ("initializer "w"").
mlir::Type convertElementType(int32_t onnxType, mlir::MLIRContext *context, const llvm::Twine &what);

// Whether an ONNX element type is one of floats that nn computes in: FLOAT, DOUBLE, FLOAT16, BFLOAT16.
bool isFloat(int32_t onnxType);

// Whether data of an ONNX element type is only stored: float8, and types of 4 and 2 bits. Constants of them hold the same numbers in a type
// that nn has: f32, i8 or u8.
bool isStored(int32_t onnxType);

// Returns a tensor type; throws for negative sizes and for more bytes than a tensor may have.
mlir::RankedTensorType makeTensorType(llvm::ArrayRef<int64_t> shape, mlir::Type element, const llvm::Twine &what);

// Returns the type of a tensor, data or not; for one that is only stored the type of its numbers.
mlir::RankedTensorType tensorType(const onnx::TensorProto &tensor, mlir::MLIRContext *context, const llvm::Twine &what);

// Returns a sparse tensor with its zeros. Throws for indices that are none of it, and for one that is too large to be written out.
onnx::TensorProto makeDense(const onnx::SparseTensorProto &sparse, llvm::StringRef directory, mlir::MLIRContext *context,
                            const llvm::Twine &what);

// A tensor's type and bytes (row major, little endian, a byte a bool), with whoever owns the bytes.
class TensorData {
public:
  // Takes the bytes out of `tensor`, which is left without its raw_data. `directory` is the model's: external data is relative to it.
  static TensorData take(onnx::TensorProto &tensor, llvm::StringRef directory, mlir::MLIRContext *context, const llvm::Twine &what);

  // Returns the bytes where they lie, in `tensor` or outside; `tensor` stays as it is, and has to stay.
  static TensorData peek(const onnx::TensorProto &tensor, llvm::StringRef directory, mlir::MLIRContext *context, const llvm::Twine &what);

  mlir::RankedTensorType getType() const { return type; }
  llvm::StringRef getBytes() const { return bytes; }

  // Returns the data as a dense attribute, which copies it into the context.
  mlir::DenseElementsAttr toDense() const;

  // Moves the data into an attribute of the context: dense when it is small, a resource named `name` otherwise.
  mlir::ElementsAttr intoAttribute(llvm::StringRef name) &&;

private:
  // Throws unless there are `expected` bytes, as many as the type needs.
  void checkLength(uint64_t expected, const llvm::Twine &what) const;

  mlir::RankedTensorType type;
  llvm::StringRef bytes;
  std::unique_ptr<std::string> owned;
  std::unique_ptr<llvm::MemoryBuffer> mapped;
};

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_TENSOR_DATA_H
