// SPDX-License-Identifier: Apache-2.0
//
// The tensor that an op's reference semantics take and return (ReferenceOpInterface): a ranked tensor type and its elements in row-major
// order. Floats are kept as doubles that were rounded to the element type, integers and bools as int64 (ui64 by its bits), so that each op
// is written once, for all element types.

#ifndef ASHLAR_DIALECTS_SUPPORT_REFERENCE_TENSOR_H
#define ASHLAR_DIALECTS_SUPPORT_REFERENCE_TENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <vector>

namespace ashlar::reference {

using Index = llvm::SmallVector<int64_t, 4>;

class Tensor {
public:
  // An empty place, to be assigned to.
  Tensor() = default;

  // A tensor of zeros.
  explicit Tensor(mlir::RankedTensorType type);

  // The elements of a dense, splat or resource attribute.
  static mlir::FailureOr<Tensor> fromAttribute(mlir::ElementsAttr attribute);

  // Returns the elements as an attribute; a splat where all are the same.
  mlir::DenseElementsAttr toAttribute() const;

  mlir::RankedTensorType getType() const { return type; }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  int64_t getNumElements() const { return static_cast<int64_t>(isFloat() ? floats.size() : ints.size()); }

  // Returns true when the elements are floats, false when they are integers or bools.
  bool isFloat() const { return floatBits != 0; }

  // Returns true when integers are to be taken as uint64: those of ui64 from 2^63 on are negative.
  bool isWord() const { return integerBits == 64 && wrapsUnsigned; }

  // Returns element `i` in row-major order. Assumes that the kind of the element type is the one asked for.
  double getFloat(int64_t i) const { return floats[i]; }
  int64_t getInt(int64_t i) const { return ints[i]; }

  // Returns element `i` as a double, whatever the element type.
  double getNumber(int64_t i) const {
    return isFloat() ? floats[i] : isWord() ? static_cast<double>(static_cast<uint64_t>(ints[i])) : static_cast<double>(ints[i]);
  }

  // Sets element `i`, rounded to the float type, or wrapped to the width of the integer type.
  void setFloat(int64_t i, double value) {
    floats[i] = floatBits == 64 ? value : floatBits == 32 ? static_cast<double>(static_cast<float>(value)) : roundToNarrow(value);
  }
  void setInt(int64_t i, int64_t value) {
    const unsigned shift = 64 - integerBits;
    const uint64_t bits = static_cast<uint64_t>(value) << shift;
    ints[i] = wrapsUnsigned ? static_cast<int64_t>(bits >> shift) : static_cast<int64_t>(bits) >> shift;
  }

  // Copies element `j` of `from`, a tensor of the same element type.
  void copyElement(int64_t i, const Tensor &from, int64_t j);

  // Returns the row-major position of an index: shape (2, 3), index (1, 2) -> 5.
  int64_t linearize(llvm::ArrayRef<int64_t> index) const;

  // Prints type and elements the way dense attributes are read: "tensor<2x2xf32> [[1, 2.5], [3, 4]]"; floats with 6 digits.
  void print(llvm::raw_ostream &os) const;

private:
  double roundToNarrow(double value) const;

  mlir::RankedTensorType type;
  // What the type says, asked for once: each element is set with it. One of the widths is 0.
  llvm::ArrayRef<int64_t> shape;
  unsigned floatBits = 0, integerBits = 0;
  bool wrapsUnsigned = false;
  std::vector<double> floats;
  std::vector<int64_t> ints;
};

// Fills a tensor with what must never be seen: NaN, or an odd number.
void spoil(Tensor &tensor);

// Calls `body` with every index of `shape` in row-major order, together with its position.
void forEachIndex(llvm::ArrayRef<int64_t> shape, llvm::function_ref<void(llvm::ArrayRef<int64_t> index, int64_t position)> body);

// Returns `value` rounded to a float type, to nearest even.
double roundTo(mlir::Type floatType, double value);

// Returns the number that the bits of a float stand for, and the bits of a number of that type. A signalling NaN becomes quiet.
double floatOfBits(mlir::FloatType type, uint64_t bits);
uint64_t bitsOfFloat(mlir::FloatType type, double value);

// Returns the largest |x - y| / max(1, |x|) over all elements; infinity when the types differ or a NaN meets a number.
double maxDifference(const Tensor &x, const Tensor &y);

} // namespace ashlar::reference

#endif // ASHLAR_DIALECTS_SUPPORT_REFERENCE_TENSOR_H
