// SPDX-License-Identifier: Apache-2.0
//
// Reads the facts off a partitioned module.

#include "compiler/report/layout_report.h"

#include "dialects/dist/reasons.h"
#include "dialects/dist/redistribution.h"
#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ashlar::report {
namespace {

// "512x784xf32".
std::string typeText(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return StringRef(text).drop_front(StringRef("tensor<").size()).drop_back().str();
}

// "[{dp}, {}], partial = sum {tp}": as in the IR, without quotes.
std::string layoutText(const dist::Layout &layout) {
  std::string text = layout.toString();
  llvm::erase(text, '"');
  return text;
}

std::string axesText(ArrayRef<StringAttr> axes) {
  return llvm::join(llvm::map_range(axes, [](StringAttr axis) { return axis.getValue(); }), "+");
}

std::string stepText(const dist::Step &step) {
  auto dim = [](int64_t number) { return " dim " + std::to_string(number); };
  std::string over = " over " + axesText(step.axes);
  switch (step.kind) {
  case dist::Step::Slice:
    return "slice" + dim(step.dim) + over;
  case dist::Step::AllReduce:
    return "all_reduce" + over;
  case dist::Step::ReduceScatter:
    return "reduce_scatter" + dim(step.dim) + over;
  case dist::Step::AllToAll:
    return "all_to_all" + dim(step.concatDim) + " to" + dim(step.dim) + over;
  case dist::Step::AllGather:
    return "all_gather" + dim(step.dim) + over;
  }
  llvm_unreachable("unknown step");
}

PlanFact makePlan(dist::MeshAttr mesh, const dist::Reason &reason) {
  PlanFact fact;
  std::vector<std::string> steps;
  dist::Layout from = dist::withoutUnitAxes(mesh, reason.from.getLayout()), to = dist::withoutUnitAxes(mesh, reason.to.getLayout());
  for (const dist::Step &step : dist::planRedistribution(mesh, reason.type, from, to)) {
    steps.push_back(stepText(step));
  }
  fact.steps = llvm::join(steps, ", ");
  fact.bytes = dist::redistributionBytes(mesh, reason.type, from, to);
  return fact;
}

CollectiveFact makeCollective(dist::MeshAttr mesh, dist::CollectiveOpInterface op) {
  CollectiveFact fact;
  fact.kind = dist::stringify(op.getCollectiveKind()).str();
  if (std::optional<dist::Reduction> reduction = op.getReductionKind()) {
    fact.reduction = dist::stringifyReduction(*reduction).str();
  }
  dist::AxisList axes = dist::toAxisList(op.getAxes());
  for (StringAttr axis : axes) {
    fact.axes.push_back(axis.str());
  }
  fact.groupSize = mesh.groupSize(axes);
  fact.operand = typeText(op->getOperand(0).getType());
  fact.result = typeText(op->getResult(0).getType());
  fact.bytes = dist::collectiveBytes(op);
  fact.cause = op.getCauseText().empty() ? nn::getPath(op.getLoc()).str() : op.getCauseText().str();
  for (dist::Reason &reason : dist::getReasons(op.getLoc())) {
    PlanFact plan = makePlan(mesh, reason);
    fact.reasons.push_back({std::move(reason.producer), std::move(reason.consumers), std::move(reason.origins), typeText(reason.type),
                            layoutText(reason.from.getLayout()), layoutText(reason.to.getLayout()), std::move(plan)});
  }
  return fact;
}

ProgramFact makeProgram(dist::MeshAttr mesh, func::FuncOp function, bool inFull) {
  ProgramFact fact;
  fact.name = function.getName().str();
  for (auto op : function.front().getOps<dist::CollectiveOpInterface>()) {
    CollectiveFact collective = makeCollective(mesh, op);
    ++fact.count;
    fact.bytes += collective.bytes;
    if (inFull) {
      fact.collectives.push_back(std::move(collective));
    }
  }
  return fact;
}

VariableFact makeVariable(nn::VariableOp op) {
  VariableFact fact;
  RankedTensorType local = op.getTensorType();
  auto global = op->getAttrOfType<TypeAttr>(dist::kGlobalTypeAttr);
  auto layout = op->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr);
  auto origin = op->getAttrOfType<StringAttr>(dist::kOriginAttr);
  fact.name = op.getSymName().str();
  fact.isTrainable = op.getTrainable();
  fact.global = typeText(global ? global.getValue() : local);
  fact.layout = layoutText(layout ? layout.getLayout() : dist::Layout::replicated(local.getRank()));
  fact.local = typeText(local);
  fact.bytes = static_cast<int64_t>(byteSize(local));
  fact.origin = origin ? origin.str() : "";
  return fact;
}

} // namespace

LayoutReport makeLayoutReport(ModuleOp module, StringRef model) {
  LayoutReport report;
  report.model = model.str();
  dist::MeshAttr mesh;
  if (dist::MeshOp op = dist::findMesh(module)) {
    mesh = op.getMesh();
    for (auto [axis, size] : llvm::zip_equal(mesh.getAxes(), mesh.getSizes())) {
      report.mesh.emplace_back(axis.str(), size);
    }
  }
  StringRef main = module.lookupSymbol("train_step") ? "train_step" : "forward";
  for (auto function : module.getOps<func::FuncOp>()) {
    bool isMain = function.getName() == main;
    ProgramFact program = makeProgram(mesh, function, isMain);
    if (isMain) {
      report.main = std::move(program);
    } else {
      report.others.push_back(std::move(program));
    }
  }
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (!variable.getSymName().starts_with("ashlar.")) { // the compiler's own
      report.variables.push_back(makeVariable(variable));
    }
  }
  return report;
}

} // namespace ashlar::report
