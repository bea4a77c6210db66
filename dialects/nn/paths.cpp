// SPDX-License-Identifier: Apache-2.0
//
// See paths.h.

#include "dialects/nn/paths.h"

#include "dialects/nn/nn.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ashlar::nn {

SmallVector<StringRef> pathsOf(Block &body) {
  SmallVector<StringRef> paths;
  llvm::StringSet<> seen;
  body.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (StringRef path = getPath(op->getLoc()); !path.empty() && seen.insert(path).second) {
      paths.push_back(path);
    }
  });
  return paths;
}

} // namespace ashlar::nn
