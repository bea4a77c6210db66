// SPDX-License-Identifier: Apache-2.0
//
// Types, layouts and kinds of strategies as people read and write them outside of the IR: in reports, strategies and rules.

#ifndef ASHLAR_DIALECTS_DIST_PLAIN_TEXT_H
#define ASHLAR_DIALECTS_DIST_PLAIN_TEXT_H

#include "dialects/dist/dist.h"
#include "dialects/dist/layout.h"

#include <string>

namespace ashlar::dist {

// Returns "256x10xf32". Assumes that the type is a tensor.
std::string typeText(mlir::Type type);

// Returns "[{dp}, {tp:(1)2}], partial = sum {pp}": as in the IR, without quotes. layout::parseLayoutText reads it when it is not partial.
std::string layoutText(const Layout &layout);

// Returns "search without a limit": the name of a strategy in reports and errors.
llvm::StringRef strategyText(StrategyKind kind);

} // namespace ashlar::dist

#endif // ASHLAR_DIALECTS_DIST_PLAIN_TEXT_H
