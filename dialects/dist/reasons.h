// SPDX-License-Identifier: Apache-2.0
//
// Why a redistribution, or a collective made from it, is there. Reasons stand in the location of the op, beside its module path: they are
// for people, so two collectives that do the same are equal whatever asked for them, and every pass that keeps locations keeps reasons.

#ifndef ASHLAR_DIALECTS_DIST_REASONS_H
#define ASHLAR_DIALECTS_DIST_REASONS_H

#include "dialects/dist/dist.h"

#include "mlir/IR/Location.h"

#include <string>
#include <vector>

namespace ashlar::dist {

// Two ends that want one tensor in two layouts.
struct Reason {
  EndAttr producer;
  std::vector<EndAttr> consumers;       // in program order
  std::vector<mlir::ArrayAttr> origins; // of the layouts on both sides (kOriginAttr)
  LayoutAttr from, to;
  mlir::RankedTensorType type; // global
};

// Returns the sources of origins, each once: for which axis, and along which ops it came, does not matter here.
std::vector<std::string> sourcesOf(llvm::ArrayRef<mlir::ArrayAttr> origins);

// Returns the reasons that a location carries; none for most ops.
std::vector<Reason> getReasons(mlir::Location location);

// Returns `location` with these reasons instead of its own.
mlir::Location withReasons(mlir::Location location, llvm::ArrayRef<Reason> reasons);

// Returns `location` with the reasons of `other` too, each once. For an op that does the work of both.
mlir::Location mergeReasons(mlir::Location location, mlir::Location other);

} // namespace ashlar::dist

#endif // ASHLAR_DIALECTS_DIST_REASONS_H
