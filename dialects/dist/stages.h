// SPDX-License-Identifier: Apache-2.0
//
// Attributes of the modules of a pipeline's stages, and of their functions (docs/pipeline.md).

#ifndef ASHLAR_DIALECTS_DIST_STAGES_H
#define ASHLAR_DIALECTS_DIST_STAGES_H

#include "llvm/ADT/StringRef.h"

namespace ashlar::dist {

// Attribute of modules that are to be cut: the user's rules on stages (array of SettingAttr with the value kStageAttr, an i64).
inline constexpr llvm::StringLiteral kStageRulesAttr = "dist.stage_rules";

// Attribute of ops of the forward pass before the cut, and of their copies in the backward pass: their virtual stage (i64).
inline constexpr llvm::StringLiteral kVirtualStageAttr = "dist.virtual_stage";

// Attribute of the module of a stage: which one it is (StageAttr).
inline constexpr llvm::StringLiteral kStageAttr = "dist.stage";

// Attribute of modules, those of stages too, in which a step is several runs of programs: their order (array of RepeatAttr).
inline constexpr llvm::StringLiteral kOrderAttr = "dist.order";

// Prefix of the names in the slot of values of the model; then comes their name in the model, or the module path.
inline constexpr llvm::StringLiteral kPassedPrefix = "passed:";

// Unit attribute of arguments: an input that lies in the slot, as each micro-batch has its own.
inline constexpr llvm::StringLiteral kSlotAttr = "dist.slot";

} // namespace ashlar::dist

#endif // ASHLAR_DIALECTS_DIST_STAGES_H
