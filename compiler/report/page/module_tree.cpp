// SPDX-License-Identifier: Apache-2.0
//
// Paths -> numbers.

#include "compiler/report/page/module_tree.h"

#include "llvm/ADT/StringExtras.h"

namespace ashlar::report {

unsigned ModuleTree::add(llvm::StringRef path) {
  unsigned module = 0;
  std::string whole;
  while (!path.empty()) {
    const size_t end = std::min(path.find_first_of("/."), path.size());
    const llvm::StringRef part = path.take_front(end);
    path = path.drop_front(std::min(end + 1, path.size()));
    if (part.empty()) {
      continue;
    }
    whole += (whole.empty() ? "" : ".") + part.str();
    auto [found, isNew] = numbers.try_emplace(whole, static_cast<unsigned>(nodes.size()));
    if (isNew) {
      nodes.push_back({module, part.str()});
    }
    module = found->second;
  }
  return module;
}

unsigned TextTable::add(llvm::StringRef text) {
  auto [found, isNew] = numbers.try_emplace(text, static_cast<unsigned>(list.size()));
  if (isNew) {
    list.push_back(text.str());
  }
  return found->second;
}

} // namespace ashlar::report
