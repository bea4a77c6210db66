// SPDX-License-Identifier: Apache-2.0
//
// Prices of a whole module: its variables, inputs and outputs, and each of its programs.

#include "passes/layout/redistribute/price.h"

#include "dialects/support/element_type.h"
#include "passes/layout/inference/propagate_layouts.h"
#include "passes/layout/redistribute/cut_axes.h"
#include "passes/layout/redistribute/decide.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace ashlar::layout {

int64_t Price::memoryBytes() const {
  int64_t peak = 0;
  llvm::for_each(programs, [&](const ProgramPrice &program) { peak = std::max(peak, program.peakBytes); });
  return parameterBytes + stateBytes + inputOutputBytes + peak;
}

namespace {

// Prices an assignment on the mesh of its problem as it is.
Price priceOnMesh(const LayoutProblem &problem, const Assignment &assignment, dist::Planner &planner, const dist::DeviceRates &rates,
                  int64_t handOverPs) {
  Price price;
  llvm::DenseSet<unsigned> counted;
  auto bytesOf = [&](unsigned tensor) -> int64_t {
    const ProblemTensor &row = problem.tensors[tensor];
    return counted.insert(tensor).second ? byteSize(dist::localType(problem.mesh, row.type, row.given->layout)) : 0;
  };
  for (auto [variable, tensor] : problem.variables) {
    (variable.getTrainable() ? price.parameterBytes : price.stateBytes) += bytesOf(tensor);
  }
  for (const ProblemProgram &program : problem.programs) {
    for (BlockArgument argument : func::FuncOp(program.function).getArguments()) {
      price.inputOutputBytes += bytesOf(problem.values[problem.find(argument)].tensor);
    }
    for (unsigned index = 0; index < func::FuncOp(program.function).getNumResults(); ++index) {
      price.inputOutputBytes += bytesOf(problem.resultTensor(program, index));
    }
    price.programs.push_back(priceProgram(localProgram(problem, program, assignment, planner), rates, handOverPs));
  }
  return price;
}

} // namespace

Price price(const LayoutProblem &problem, const Assignment &assignment, dist::Planner &planner, const dist::DeviceRates &rates,
            int64_t handOverPs) {
  std::optional<MeshRefinement> cuts = findCuts(problem, assignment, planner);
  if (!cuts) {
    return priceOnMesh(problem, assignment, planner, rates, handOverPs);
  }
  LayoutProblem finer = problem;
  Assignment decided = assignment;
  refine(*cuts, finer, decided);
  return priceOnMesh(finer, decided, plannerOf(*cuts, planner), rates, handOverPs);
}

namespace {

FailureOr<Price> decideAndPrice(ModuleOp module, const LayoutProblem &problem, dist::Planner &planner) {
  FailureOr<Assignment> assignment = decide(problem, planner);
  if (failed(assignment)) {
    return failure();
  }
  return price(problem, *assignment, planner, dist::findDeviceRates(module));
}

} // namespace

FailureOr<Price> priceLayouts(ModuleOp module) {
  dist::MeshOp mesh = dist::findMesh(module);
  FailureOr<LayoutProblem> problem = LayoutProblem::create(module, mesh.getMesh());
  dist::Planner planner(mesh);
  return failed(problem) ? FailureOr<Price>() : decideAndPrice(module, *problem, planner);
}

FailureOr<Price> priceInferred(ModuleOp module, dist::Planner &planner) {
  FailureOr<Inferred> inferred = inferLayouts(module, /*splitVariables=*/true);
  if (failed(inferred)) {
    return failure();
  }
  auto &[problem, inference] = *inferred;
  for (auto [number, tensor] : llvm::enumerate(problem.tensors)) {
    tensor.given = GivenLayout{inference.getLayout(number), SmallVector<bool>(tensor.type.getRank(), false)};
  }
  return decideAndPrice(module, problem, planner);
}

} // namespace ashlar::layout
