// SPDX-License-Identifier: Apache-2.0
//
// Estimates of a whole module: its variables, inputs and outputs, and each of its programs.

#include "passes/layout/redistribute/estimate.h"

#include "dialects/support/element_type.h"
#include "passes/layout/redistribute/cut_axes.h"
#include "passes/layout/redistribute/decide.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace ashlar::layout {

int64_t Estimate::memoryBytes() const {
  int64_t peak = 0;
  llvm::for_each(programs, [&](const ProgramEstimate &program) { peak = std::max(peak, program.peakBytes); });
  return parameterBytes + stateBytes + inputOutputBytes + peak;
}

namespace {

// Estimates an assignment on the mesh of its problem as it is.
Estimate estimateOnMesh(const LayoutProblem &problem, const Assignment &assignment, analysis::Planner &planner,
                        const analysis::DeviceRates &rates, int64_t handOverPs) {
  Estimate estimate;
  llvm::DenseSet<unsigned> counted;
  auto bytesOf = [&](unsigned tensor) -> int64_t {
    const ProblemTensor &row = problem.tensors[tensor];
    return counted.insert(tensor).second ? byteSize(dist::localType(problem.mesh, row.type, row.given->layout)) : 0;
  };
  for (auto [variable, tensor] : problem.variables) {
    (variable.getTrainable() ? estimate.parameterBytes : estimate.stateBytes) += bytesOf(tensor);
  }
  for (const ProblemProgram &program : problem.programs) {
    for (BlockArgument argument : func::FuncOp(program.function).getArguments()) {
      estimate.inputOutputBytes += bytesOf(problem.values[problem.find(argument)].tensor);
    }
    for (unsigned index = 0; index < func::FuncOp(program.function).getNumResults(); ++index) {
      estimate.inputOutputBytes += bytesOf(problem.resultTensor(program, index));
    }
    estimate.programs.push_back(estimateProgram(localProgram(problem, program, assignment, planner), rates, handOverPs));
  }
  return estimate;
}

} // namespace

Estimate estimate(const LayoutProblem &problem, const Assignment &assignment, analysis::Planner &planner,
                  const analysis::DeviceRates &rates, int64_t handOverPs) {
  if (!assignment.cuts) {
    return estimateOnMesh(problem, assignment, planner.withoutCuts(), rates, handOverPs);
  }
  LayoutProblem finer = problem;
  Assignment decided = assignment;
  refine(*assignment.cuts, finer, decided);
  return estimateOnMesh(finer, decided, planner.ofParts(*assignment.cuts), rates, handOverPs);
}

namespace {

FailureOr<Estimate> decideAndEstimate(ModuleOp module, const LayoutProblem &problem, analysis::Planner &planner) {
  FailureOr<Assignment> assignment = decide(problem, planner);
  if (failed(assignment)) {
    return failure();
  }
  return estimate(problem, *assignment, planner, analysis::findDeviceRates(module));
}

} // namespace

FailureOr<Estimate> estimateLayouts(ModuleOp module) {
  dist::MeshOp mesh = dist::findMesh(module);
  FailureOr<LayoutProblem> problem = LayoutProblem::create(module, mesh.getMesh());
  analysis::Planner planner(mesh, analysis::Cuts::Allowed);
  return failed(problem) ? FailureOr<Estimate>() : decideAndEstimate(module, *problem, planner);
}

FailureOr<Estimate> estimateInferred(ModuleOp module, Inferred &inferred, analysis::Planner &planner) {
  auto &[problem, inference] = inferred;
  std::vector<std::optional<GivenLayout>> given;
  given.reserve(problem.tensors.size());
  for (auto [number, tensor] : llvm::enumerate(problem.tensors)) {
    given.push_back(std::move(tensor.given));
    tensor.given = GivenLayout{inference.getLayout(number), SmallVector<bool>(tensor.type.getRank(), false)};
  }
  FailureOr<Estimate> estimate = decideAndEstimate(module, problem, planner);
  for (auto [tensor, before] : llvm::zip_equal(problem.tensors, given)) {
    tensor.given = std::move(before);
  }
  return estimate;
}

} // namespace ashlar::layout
