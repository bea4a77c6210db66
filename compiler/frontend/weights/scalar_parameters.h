// SPDX-License-Identifier: Apache-2.0
//
// Which float scalars of a model are parameters (CLIP's logit_scale, ReZero's alpha) and which are constants (the 0.5 of a GELU, an
// epsilon). ONNX holds both as initializers of rank 0, so the job's rules decide, then the exporter's notes and names; docs/onnx.md has the
// order.

#ifndef ASHLAR_COMPILER_FRONTEND_WEIGHTS_SCALAR_PARAMETERS_H
#define ASHLAR_COMPILER_FRONTEND_WEIGHTS_SCALAR_PARAMETERS_H

#include "compiler/frontend/exporter_notes.h"
#include "compiler/frontend/parameter_rules.h"

#include "llvm/ADT/StringSet.h"

namespace ashlar::frontend {

enum class ScalarRole {
  Constant,  // nothing suggests more
  Candidate, // may be a parameter; a job that trains gets a note
  Parameter
};

class ScalarFinder {
public:
  // Both stay as long as the object.
  ScalarFinder(const onnx::ModelProto &model, const ParameterRules &rules);

  // Returns the role of a float scalar by the job and by its name. BufferFinder decides whether a gradient reaches it.
  ScalarRole classify(llvm::StringRef name) const;

private:
  // Whether a scalar scales or shifts a quantized tensor.
  bool isOfQuantization(llvm::StringRef name) const;

  const ParameterRules &rules;
  ExporterNotes notes;
  bool isFromTorch;
  llvm::StringSet<> initializers;
  llvm::StringSet<> scales; // inputs of ops that quantize
};

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_WEIGHTS_SCALAR_PARAMETERS_H
