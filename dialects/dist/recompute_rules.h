// SPDX-License-Identifier: Apache-2.0
//
// The rules of rematerialization in the backward pass (docs/recompute.md).

#ifndef ASHLAR_DIALECTS_DIST_RECOMPUTE_RULES_H
#define ASHLAR_DIALECTS_DIST_RECOMPUTE_RULES_H

#include "dialects/dist/rules.h"

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace ashlar::dist {

// Attribute of modules: the number of moves by cost (i64; ashlar-recompute).
inline constexpr llvm::StringLiteral kRecomputeMovesAttr = "dist.recompute_moves";

// Attribute of modules: how many loops without a rule are computed again in segments, and behind ashlar-segment-repeats the number of them
// that there are (i64). There is none where rules alone decide.
inline constexpr llvm::StringLiteral kSegmentedLoopsAttr = "dist.segmented_loops";

// Attribute of modules: the rules (array of SettingAttr with values of the names below, each a BoolAttr).
inline constexpr llvm::StringLiteral kRecomputeRulesAttr = "dist.recompute_rules";
inline constexpr llvm::StringLiteral kRecomputeAttr = "recompute";
inline constexpr llvm::StringLiteral kRecomputeCommAttr = "recompute_comm";
inline constexpr llvm::StringLiteral kRecomputeParamGatherAttr = "recompute_param_gather";

// The settings of the op of a module path.
struct RecomputeSetting {
  std::optional<bool> recompute; // nothing without a rule
  std::string module;            // that the rule names and the op is in, "layer3"; "" where it names the op itself
  bool comm = true;              // collectives between devices of a tensor-parallel op are repeated
  bool paramGather = true;       // parameters that are stored split are gathered again
};

class RecomputeRules {
public:
  // Reads the rules of a module.
  explicit RecomputeRules(mlir::ModuleOp module);

  // Checks the rules against the paths of the model's ops. Fails with an error that names the rule that matches none, or the two that
  // contradict each other.
  mlir::LogicalResult check(llvm::ArrayRef<llvm::StringRef> paths) const;

  // Returns the settings of a path. Among several rules the lowest priority wins, then one that names the op, then the innermost module
  // (matchModule).
  RecomputeSetting of(llvm::StringRef path) const;

  bool empty() const { return recompute.empty() && comm.empty() && paramGather.empty(); }

private:
  mlir::MLIRContext *context;
  RuleSet<mlir::Attribute> recompute, comm, paramGather;
};

} // namespace ashlar::dist

#endif // ASHLAR_DIALECTS_DIST_RECOMPUTE_RULES_H
