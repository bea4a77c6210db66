// SPDX-License-Identifier: Apache-2.0
//
// Types without "tensor<>", layouts without quotes.

#include "dialects/dist/plain_text.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace ashlar::dist {

std::string typeText(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return StringRef(text).drop_front(StringRef("tensor<").size()).drop_back().str();
}

std::string layoutText(const Layout &layout) {
  std::string text = layout.toString();
  llvm::erase(text, '"');
  return text;
}

StringRef strategyText(StrategyKind kind) {
  switch (kind) {
  case StrategyKind::Propagation:
    return "propagation";
  case StrategyKind::DataParallel:
    return "data parallel";
  case StrategyKind::Search:
    return "search";
  case StrategyKind::SearchWithoutLimit:
    return "search without a limit";
  }
  llvm_unreachable("unknown strategy");
}

} // namespace ashlar::dist
