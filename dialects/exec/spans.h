// SPDX-License-Identifier: Apache-2.0
//
// The predicted place in time of each op of a fused program, and of the instruction that it becomes.

#ifndef ASHLAR_DIALECTS_EXEC_SPANS_H
#define ASHLAR_DIALECTS_EXEC_SPANS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Operation.h"

#include <cstdint>
#include <optional>

namespace ashlar::exec {

// Attribute of fusions, collectives, waits and repeats of a program, and of their instructions: begin and end in a run of the program
// (array of two i64, picoseconds). Absent inside of repeats, and where the rates of the device are unknown.
inline constexpr llvm::StringLiteral kSpanAttr = "exec.span_ps";

// Picoseconds from the begin of the run on.
struct Span {
  int64_t beginPs, endPs;
};

// Enters the span of an op.
inline void setSpan(mlir::Operation *op, Span span) {
  op->setAttr(kSpanAttr, mlir::DenseI64ArrayAttr::get(op->getContext(), {span.beginPs, span.endPs}));
}

// Returns the span of an op; nothing without one.
inline std::optional<Span> getSpan(mlir::Operation *op) {
  auto span = op->getAttrOfType<mlir::DenseI64ArrayAttr>(kSpanAttr);
  return span && span.size() == 2 ? std::optional(Span{span[0], span[1]}) : std::nullopt;
}

} // namespace ashlar::exec

#endif // ASHLAR_DIALECTS_EXEC_SPANS_H
