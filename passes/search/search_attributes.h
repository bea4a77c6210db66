// SPDX-License-Identifier: Apache-2.0
//
// Attributes of modules that a search for layouts leaves besides dist.search: what bounded it (solver/effort.h).

#ifndef ASHLAR_PASSES_SEARCH_SEARCH_ATTRIBUTES_H
#define ASHLAR_PASSES_SEARCH_SEARCH_ATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace ashlar::search {

// The units of work that the search counted (i64).
inline constexpr llvm::StringLiteral kUnitsAttr = "dist.search_units";

// The seconds after which the clock ended the search (f64), if it did: then another machine may find other layouts.
inline constexpr llvm::StringLiteral kStoppedAttr = "dist.search_stopped_s";

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_SEARCH_ATTRIBUTES_H
