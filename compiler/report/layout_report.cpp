// SPDX-License-Identifier: Apache-2.0
//
// Reads the facts off a partitioned module.

#include "compiler/report/layout_report.h"

#include "compiler/report/sentences.h"
#include "compiler/report/step_programs.h"
#include "compiler/report/units.h"

#include "dialects/dist/owners.h"
#include "dialects/dist/plain_text.h"
#include "dialects/dist/reasons.h"
#include "dialects/exec/exec.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/repeat/repeats.h"
#include "dialects/support/element_type.h"
#include "passes/analysis/costs.h"
#include "passes/analysis/planner/redistribution.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <map>

using namespace mlir;

namespace ashlar::report {
namespace {

using dist::layoutText;
using dist::typeText;

std::string axesText(ArrayRef<StringAttr> axes) {
  return llvm::join(llvm::map_range(axes, [](StringAttr axis) { return axis.getValue(); }), "+");
}

std::string stepText(const analysis::Step &step) {
  auto dim = [](int64_t number) { return " dim " + std::to_string(number); };
  std::string over = " over " + axesText(step.axes);
  switch (step.kind) {
  case CollectiveKind::Slice:
    return "slice" + dim(step.dim) + over;
  case CollectiveKind::AllReduce:
    return "all_reduce" + over;
  case CollectiveKind::ReduceScatter:
    return "reduce_scatter" + dim(step.dim) + over;
  case CollectiveKind::AllToAll:
    return "all_to_all" + dim(step.concatDim) + " to" + dim(step.dim) + over;
  case CollectiveKind::AllGather:
    return "all_gather" + dim(step.dim) + over;
  case CollectiveKind::Permute:
    return "permute" + over;
  case CollectiveKind::Broadcast:
    return "broadcast" + over;
  case CollectiveKind::Halo:
    break; // no step of a redistribution
  }
  llvm_unreachable("unknown step");
}

PlanFact makePlan(const analysis::Plan &plan) {
  std::vector<std::string> steps;
  for (const analysis::Step &step : plan.steps) {
    steps.push_back(stepText(step));
  }
  return {llvm::join(steps, ", "), plan.bytes, plan.timePs, plan.leastPs};
}

ReasonFact makeReason(analysis::Planner &planner, const dist::Reason &reason) {
  dist::Layout from = reason.from.getLayout(), to = reason.to.getLayout();
  ReasonFact fact;
  fact.producer = endText(reason.producer);
  llvm::append_range(fact.consumers, llvm::map_range(reason.consumers, endText));
  llvm::append_range(fact.origins, llvm::map_range(reason.origins, originText));
  fact.sources = dist::sourcesOf(reason.origins);
  fact.tensor = typeText(reason.type);
  fact.from = layoutText(from);
  fact.to = layoutText(to);
  fact.plan = makePlan(planner.plan(reason.type, from, to));
  if (std::optional<analysis::Plan> other = planner.runnerUp(reason.type, from, to)) {
    fact.runnerUp = makePlan(*other);
  }
  return fact;
}

// How a collective came to its tensors; "" for one that was not to be fused.
std::string fusionText(dist::FusionAttr fusion) {
  if (!fusion) {
    return "";
  }
  std::string number = std::to_string(fusion.getNumber());
  switch (fusion.getMode()) {
  case dist::FusionMode::Id:
    return "id " + number;
  case dist::FusionMode::Auto:
    return "bucket " + number + ", full from " + bytesText(fusion.getBytes()) + " on";
  case dist::FusionMode::Size:
    return "bucket " + number + " of at most " + bytesText(fusion.getBytes());
  case dist::FusionMode::Index:
    return "part " + number;
  }
  llvm_unreachable("unknown mode");
}

// Adds the number of a module to a list that does not have it.
void addNumber(std::vector<unsigned> &list, unsigned module) {
  if (!llvm::is_contained(list, module)) {
    list.push_back(module);
  }
}

CollectiveFact makeCollective(dist::MeshAttr mesh, analysis::Planner &planner, dist::CollectiveOpInterface op, ModuleTree &modules) {
  CollectiveFact fact;
  fact.kind = stringifyCollectiveKind(op.getCollectiveKind()).str();
  if (std::optional<Reduction> reduction = op.getReductionKind()) {
    fact.reduction = stringifyReduction(*reduction).str();
  }
  dist::AxisList axes = dist::toAxisList(op.getAxes());
  for (StringAttr axis : axes) {
    fact.axes.push_back(axis.str());
  }
  fact.groupSize = mesh.groupSize(axes);
  fact.operand = llvm::join(llvm::map_range(op->getOperandTypes(), typeText), ", ");
  fact.result = llvm::join(llvm::map_range(op->getResultTypes(), typeText), ", ");
  fact.tensors = op->getNumOperands();
  fact.fusion = fusionText(op.getFusionAttr());
  fact.fusionId = op.getFusionAttr() && op.getFusionAttr().getMode() == dist::FusionMode::Id ? op.getFusionAttr().getNumber() : 0;
  fact.runs = nn::countRuns(op);
  fact.bytes = dist::collectiveBytes(op);
  fact.cause = causeText(op);
  fact.causes = causeTexts(op);
  fact.timePs = analysis::collectiveTimePs(op);
  const Type type = getElementTypeOrSelf(op->getOperand(0)); // collectives of several tensors have one type
  llvm::raw_string_ostream(fact.type) << type;
  if (constexpr unsigned kF32Bits = 32; isa<FloatType>(type) && type.getIntOrFloatBitWidth() < kF32Bits) {
    fact.f32Bytes = fact.bytes * kF32Bits / type.getIntOrFloatBitWidth();
    fact.f32Ps = analysis::collectiveTimePs(op, fact.f32Bytes);
  }
  for (const dist::Reason &reason : dist::getReasons(op.getLoc())) {
    fact.reasons.push_back(makeReason(planner, reason));
    fact.keys.push_back(reasonKey(reason));
    auto nameOf = [](dist::EndAttr end) { return end.getName() ? end.getName().getValue() : StringRef(); };
    addNumber(fact.modules, modules.add(nameOf(reason.producer)));
    for (dist::EndAttr consumer : reason.consumers) {
      addNumber(fact.modules, modules.add(nameOf(consumer)));
    }
  }
  if (fact.modules.empty()) { // of the model itself
    fact.modules.push_back(modules.add(nn::getPath(op.getLoc())));
  }
  return fact;
}

// Attribute of a collective: its place among those of its program.
constexpr StringRef kNumberAttr = "report.number";

// Returns the totals of a program, without its collectives.
ProgramFact makeTotals(func::FuncOp function) {
  ProgramFact fact;
  fact.name = function.getName().str();
  if (nn::ProgramAttr role = nn::programOf(function)) {
    fact.role = stringifyProgramRole(role.getRole()).str();
    fact.chunk = role.getChunk();
    fact.round = role.getRound();
    fact.isJoined = role.getPrepares() || role.getUpdates();
  }
  fact.sum = analysis::sumCollectives(function);
  for (auto transpose : function.front().getOps<nn::TransposeOp>()) {
    if (transpose->hasAttr(nn::kReorderedAttr)) {
      ++fact.transposes;
      fact.transposedBytes += static_cast<int64_t>(byteSize(transpose.getType()));
    }
  }
  return fact;
}

VariableFact makeVariable(nn::VariableOp op) {
  VariableFact fact;
  RankedTensorType local = op.getTensorType();
  auto global = op->getAttrOfType<TypeAttr>(dist::kGlobalTypeAttr);
  auto layout = op->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr);
  fact.name = op.getSymName().str();
  fact.isTrainable = op.getTrainable();
  fact.global = typeText(global ? global.getValue() : local);
  fact.layout = layoutText(layout ? layout.getLayout() : dist::Layout::replicated(local.getRank()));
  fact.local = typeText(local);
  auto fusionId = op->getAttrOfType<IntegerAttr>(dist::kCommFusionAttr);
  fact.fusionId = fusionId ? fusionId.getInt() : 0;
  fact.bytes = static_cast<int64_t>(byteSize(local));
  fact.origin = originText(op->getAttrOfType<ArrayAttr>(dist::kOriginAttr));
  fact.owner = dist::getOwner(op);
  fact.replicated = replicatedText(op->getAttrOfType<dist::ReplicatedAttr>(dist::kReplicatedAttr));
  return fact;
}

// Adds the programs and variables of a module.
void addModule(LayoutReport &report, ModuleOp module) {
  dist::MeshOp mesh = dist::findMesh(module);
  std::optional<analysis::Planner> planner;
  if (mesh) {
    planner.emplace(mesh);
  }
  SmallVector<func::FuncOp> mains = mainsOf(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    ProgramFact program = makeTotals(function);
    program.stage = stageOf(module);
    if (!llvm::is_contained(mains, function)) {
      report.others.push_back(std::move(program));
      continue;
    }
    function.walk([&](dist::CollectiveOpInterface collective) {
      program.collectives.push_back(makeCollective(mesh.getMesh(), *planner, collective, report.graph.modules));
    });
    for (auto send : function.front().getOps<dist::SendOp>()) {
      TransferFact &fact = program.sends.emplace_back();
      fact.type = typeText(send.getSlotValue().getType());
      for (dist::PeerAttr peer : send.getPeers()) {
        fact.to.push_back(peer.getStage());
      }
      fact.bytes = send.getBytes();
      fact.cause = causeText(send);
    }
    report.mains.push_back(std::move(program));
  }
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (!variable.getInternal()) {
      report.variables.push_back(makeVariable(variable));
      report.variables.back().stage = stageOf(module);
      report.variables.back().module = report.graph.modules.add(variable.getSymName());
    }
  }
}

// Lists what each owner keeps alone.
std::vector<OwnerFact> makeOwners(ModuleOp module) {
  std::map<int64_t, OwnerFact> owners;
  for (auto variable : module.getOps<nn::VariableOp>()) {
    std::optional<int64_t> owner = dist::getOwner(variable);
    if (!owner) {
      continue;
    }
    OwnerFact &fact = owners[*owner];
    fact.device = *owner;
    fact.bytes += static_cast<int64_t>(byteSize(variable.getTensorType()));
    if (variable.getStateOf() && !llvm::is_contained(fact.parameters, *variable.getStateOf())) {
      fact.parameters.push_back(variable.getStateOf()->str());
    }
  }
  std::vector<OwnerFact> facts;
  for (auto &[device, fact] : owners) {
    facts.push_back(std::move(fact));
  }
  return facts;
}

} // namespace

std::string RuleFact::text() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "rules { match: \"";
  out.write_escaped(match);
  out << "\" layout: \"" << layout << "\"";
  if (priority != 0) {
    out << " priority: " << priority;
  }
  out << " }";
  return text;
}

// Returns "fc1.weight [{}, {}] instead of [{tp}, {}]" for each of the first two, and counts the others.
static std::string differencesText(ArrayRef<dist::DifferenceAttr> differences) {
  constexpr size_t kMostNamed = 2;
  auto textOf = [](dist::DifferenceAttr each) {
    return each.getName().str() + (each.getKind() == dist::EndKind::Parameter ? " " : " computed as ") +
           dist::layoutText(each.getLayout().getLayout()) + " instead of " + dist::layoutText(each.getTaken().getLayout());
  };
  std::string text = llvm::join(llvm::map_range(differences.take_front(kMostNamed), textOf), ", ");
  return differences.size() > kMostNamed ? text + " and " + std::to_string(differences.size() - kMostNamed) + " more" : text;
}

// Reads what ashlar-search-layouts left.
static std::optional<SearchFact> makeSearchFact(ModuleOp module) {
  auto searched = module->getAttrOfType<dist::SearchAttr>(dist::kSearchAttr);
  if (!searched) {
    return std::nullopt;
  }
  SearchFact fact;
  for (auto [number, strategy] : llvm::enumerate(searched.getStrategies())) {
    fact.strategies.push_back(
        {dist::strategyText(strategy.getKind()).str(), strategy.getStepPs(), strategy.getBytes(), strategy.getIsLowered()});
    fact.taken = strategy.getKind() == searched.getTaken() ? number : fact.taken;
    fact.hasSearched |= strategy.getKind() == dist::StrategyKind::Search || strategy.getKind() == dist::StrategyKind::SearchWithoutLimit;
  }
  fact.costPs = searched.getCostPs();
  fact.boundPs = searched.getBoundPs();
  if (FloatAttr stopped = searched.getStoppedS()) {
    fact.stoppedSeconds = stopped.getValueAsDouble();
  }
  if (dist::RuleListAttr list = searched.getRules()) {
    for (dist::RuleAttr rule : list.getRules()) {
      fact.rules.push_back({rule.getMatch().str(), rule.getLayout().str(), rule.getPriority()});
    }
    fact.others = list.getOthers();
    fact.rulesAre = list.getKind();
    fact.rulesMorePs = list.getMorePs();
  }
  for (dist::RunnerUpAttr other : searched.getRunnersUp()) {
    fact.runnersUp.push_back({other.getBlock().str(), differencesText(other.getDifferences()), other.getMorePs(), other.getMoreBytes()});
  }
  return fact;
}

LayoutReport makeLayoutReport(ModuleOp module, StringRef model, ModelGraph graph) {
  LayoutReport report;
  report.graph = std::move(graph);
  report.model = model.str();
  report.hasRates = module->hasAttr(dist::kDeviceAttr);
  report.search = makeSearchFact(module);
  SmallVector<ModuleOp> programs = programsOf(module);
  if (dist::MeshOp op = dist::findMesh(programs.front())) { // of a stage: that of each
    for (auto [axis, size] : llvm::zip_equal(op.getMesh().getAxes(), op.getMesh().getSizes())) {
      report.mesh.emplace_back(axis.str(), size);
    }
    report.hasCosts = static_cast<bool>(op.getCostsAttr());
    report.deviceIds = op.getDeviceIds() ? op.getDeviceIds()->vec() : std::vector<int64_t>();
  }
  llvm::StringSet<> variables; // of all stages
  for (ModuleOp each : programs) {
    addModule(report, each);
    for (auto variable : each.getOps<nn::VariableOp>()) {
      variables.insert(variable.getSymName());
    }
  }
  for (ModuleOp each : programs) {
    if (stageOf(each)) {
      report.stageOps.push_back(listOps(each, variables));
    }
  }
  report.owners = makeOwners(module);
  return report;
}

void numberCollectives(ModuleOp module) {
  for (ModuleOp each : programsOf(module)) {
    for (func::FuncOp function : mainsOf(each)) {
      int64_t number = 0;
      function.walk(
          [&](dist::CollectiveOpInterface op) { op->setAttr(kNumberAttr, Builder(module.getContext()).getI64IntegerAttr(number++)); });
    }
  }
}

void addOverlap(LayoutReport &report, ModuleOp scheduled) {
  constexpr int64_t kPsPerNs = 1000;
  auto program = report.mains.begin(); // in the same order
  for (ModuleOp each : programsOf(scheduled)) {
    for (func::FuncOp function : mainsOf(each)) {
      function.walk([&](dist::CollectiveOpInterface op) {
        auto overlap = op->getAttrOfType<exec::OverlapAttr>(exec::kOverlapAttr);
        auto number = op->getAttrOfType<IntegerAttr>(kNumberAttr);
        if (overlap && number) {
          CollectiveFact &fact = program->collectives[number.getInt()];
          fact.runsBeside = true;
          fact.hiddenPs = overlap.getHiddenNs() * kPsPerNs;
        }
      });
      ++program;
    }
  }
}

// Returns the instructions of a program. Its collectives are found by kind and cause; equal ones are in one order in both forms.
static ProgramInstructions instructionsOf(exec::VariantOp variant, exec::ProgramOp op, const ProgramFact &program, ModuleTree &modules) {
  std::map<std::pair<std::string, std::vector<std::string>>, std::vector<size_t>> numbers; // the first one last
  for (size_t number = program.collectives.size(); number-- > 0;) {
    numbers[{program.collectives[number].kind, program.collectives[number].causes}].push_back(number);
  }
  return readInstructions(variant, op, modules, [&](exec::CollectiveOp collective) -> std::optional<size_t> {
    std::vector<size_t> &left = numbers[{stringifyCollectiveKind(collective.getKind()).str(), causeTexts(collective)}];
    if (left.empty()) {
      return std::nullopt;
    }
    const size_t number = left.back();
    left.pop_back();
    return number;
  });
}

// Returns the runs of a step, one after the other; of programs whose times are known.
static std::vector<StepRunFact> listStepRuns(exec::VariantOp variant, const LayoutReport &report) {
  std::vector<StepRunFact> runs;
  int64_t nowPs = 0;
  auto add = [&](StringRef name, int64_t microBatch) {
    auto program = llvm::find_if(report.mains, [&](const ProgramFact &each) { return each.name == name; });
    if (program != report.mains.end() && program->lowered && program->lowered->timePs) {
      runs.push_back({name.str(), microBatch, nowPs, nowPs + *program->lowered->timePs});
      nowPs = runs.back().endPs;
    }
  };
  if (!variant.getOrderAttr()) {
    llvm::for_each(report.mains, [&](const ProgramFact &program) { add(program.name, 0); });
    return runs;
  }
  for (auto part : variant.getOrderAttr().getAsRange<exec::RepeatAttr>()) {
    for (int64_t round = 0; round < part.getCount(); ++round) {
      for (auto run : part.getRuns().getAsRange<exec::RunAttr>()) {
        add(run.getProgram().getValue(), run.getMicroBatch() + round * part.getStride());
      }
    }
  }
  return runs;
}

void addPredictions(LayoutReport &report, ArrayRef<exec::VariantOp> variants) {
  constexpr int64_t kPsPerNs = 1000;
  for (exec::VariantOp variant : variants) {
    const bool isStage = variant.getNumStages() > 1;
    for (ProgramFact &program : llvm::concat<ProgramFact>(report.mains, report.others)) {
      if (isStage && program.stage != static_cast<int64_t>(variant.getStage())) {
        continue;
      }
      if (auto op = dyn_cast_or_null<exec::ProgramOp>(SymbolTable::lookupSymbolIn(variant, program.name))) {
        auto picoseconds = [](std::optional<uint64_t> time) {
          return time ? std::optional(static_cast<int64_t>(*time) * kPsPerNs) : std::nullopt;
        };
        program.lowered = {static_cast<int64_t>(op.getTemporaryBytes().value_or(0)), picoseconds(op.getComputingNs()),
                           picoseconds(op.getPredictedNs())};
      }
    }
    for (ProgramFact &program : report.mains) {
      auto op = dyn_cast_or_null<exec::ProgramOp>(SymbolTable::lookupSymbolIn(variant, program.name));
      if (op && (!isStage || program.stage == static_cast<int64_t>(variant.getStage()))) {
        program.instructions = instructionsOf(variant, op, program, report.graph.modules);
      }
    }
    if (!isStage) {
      report.stepRuns = listStepRuns(variant, report);
    }
  }
}

} // namespace ashlar::report
