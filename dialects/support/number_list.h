// SPDX-License-Identifier: Apache-2.0
//
// Numbers in the assembly of ops, one for each operand, written without brackets so that one number reads as one: `dim = 0`, `dim = 0, 1`.

#ifndef ASHLAR_DIALECTS_SUPPORT_NUMBER_LIST_H
#define ASHLAR_DIALECTS_SUPPORT_NUMBER_LIST_H

#include "mlir/IR/OpImplementation.h"

namespace ashlar {

// Reads the output of printNumbers().
inline mlir::ParseResult parseNumbers(mlir::OpAsmParser &parser, mlir::DenseI64ArrayAttr &numbers) {
  llvm::SmallVector<int64_t> list;
  if (parser.parseCommaSeparatedList([&] { return parser.parseInteger(list.emplace_back()); })) {
    return mlir::failure();
  }
  numbers = parser.getBuilder().getDenseI64ArrayAttr(list);
  return mlir::success();
}

// Writes the numbers with commas between them.
inline void printNumbers(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::DenseI64ArrayAttr numbers) {
  llvm::interleaveComma(numbers.asArrayRef(), printer);
}

} // namespace ashlar

#endif // ASHLAR_DIALECTS_SUPPORT_NUMBER_LIST_H
