// SPDX-License-Identifier: Apache-2.0
//
// The modules of a model: a tree of the parts of module paths and of the names of parameters.

#ifndef ASHLAR_COMPILER_REPORT_PAGE_MODULE_TREE_H
#define ASHLAR_COMPILER_REPORT_PAGE_MODULE_TREE_H

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace ashlar::report {

struct ModuleNode {
  unsigned parent;  // a smaller number
  std::string name; // "attn"
};

// Numbers of modules; 0 is the model. A path has a part for each "/" and "." in it: "h.0/attn/MatMul" is in the module "h.0.attn".
class ModuleTree {
public:
  ModuleTree() : nodes({{0, ""}}) {}

  // Returns the number of the module with a path; adds it, and the modules around it, where they are new. "" is the model.
  unsigned add(llvm::StringRef path);

  const std::vector<ModuleNode> &modules() const { return nodes; }

private:
  std::vector<ModuleNode> nodes;
  llvm::StringMap<unsigned> numbers; // by path, with "." between parts
};

// Texts, each once.
class TextTable {
public:
  // Returns the number of a text.
  unsigned add(llvm::StringRef text);

  const std::vector<std::string> &texts() const { return list; }

private:
  std::vector<std::string> list;
  llvm::StringMap<unsigned> numbers;
};

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_PAGE_MODULE_TREE_H
