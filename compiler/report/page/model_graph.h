// SPDX-License-Identifier: Apache-2.0
//
// The ops of a step before partitioning, with the layouts of the tensors between them: the facts of the page's view of the model.

#ifndef ASHLAR_COMPILER_REPORT_PAGE_MODEL_GRAPH_H
#define ASHLAR_COMPILER_REPORT_PAGE_MODEL_GRAPH_H

#include "compiler/report/page/module_tree.h"
#include "dialects/dist/reasons.h"
#include "dialects/nn/phases.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <vector>

namespace ashlar::report {

// An op, an input, or the read of a parameter.
struct GraphOp {
  unsigned module, kind; // kind: index into the kinds
  nn::Phase phase;
  unsigned type, layout; // of its first result
};

// An op that takes a result of another one. Where both layouts differ, a redistribution lies between them.
struct GraphEdge {
  unsigned from, to;                      // ops
  unsigned made, wanted;                  // layouts
  std::optional<unsigned> redistribution; // index
};

// Constants, counters and the ops that only the update of a parameter has are left out. A loop is one op.
struct ModelGraph {
  ModuleTree modules;
  TextTable kinds, types, layouts;
  std::vector<GraphOp> ops; // in program order
  std::vector<GraphEdge> edges;
  std::vector<std::string> redistributions; // the reasonKey of each
};

// Returns a text that two reasons share only where their ends, types and layouts are equal.
std::string reasonKey(const dist::Reason &reason);

// Returns the graph of the training step, or of the model, of a module on global shapes that has its redistributions. Without a mesh
// layouts are "". Empty where a step has several programs.
ModelGraph makeModelGraph(mlir::ModuleOp programs);

// Returns for each module the first module with the same parent, of a smaller number, whose ops, types, layouts, and the edges that end in
// it, are the same; or itself. Linear in the ops times the depth of the tree.
std::vector<unsigned> findEqualModules(const ModelGraph &graph);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_PAGE_MODEL_GRAPH_H
