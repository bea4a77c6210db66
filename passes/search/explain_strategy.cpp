// SPDX-License-Identifier: Apache-2.0
//
// The problem stated once more, with what was taken of it.

#include "passes/search/explain_strategy.h"

#include "dialects/dist/plain_text.h"
#include "passes/layout/inference/copy_sources.h"
#include "passes/layout/inference/inference.h"
#include "passes/search/rules_of_layouts.h"
#include "passes/search/runner_up.h"

#include <limits>

using namespace mlir;

namespace ashlar::search {

namespace {

SmallVector<dist::RuleAttr> describeRules(ArrayRef<LayoutRule> rules, MLIRContext *context) {
  return llvm::map_to_vector(rules, [&](const LayoutRule &rule) {
    auto layout = StringAttr::get(context, dist::layoutText(rule.layout.getLayout()));
    return dist::RuleAttr::get(context, StringAttr::get(context, rule.match), layout, /*in=*/{}, /*out=*/{}, rule.priority, /*origin=*/{});
  });
}

dist::RuleListKind kindOf(const RulesOfLayouts &rules) {
  return rules.isShortest ? dist::RuleListKind::Shortest : rules.isMinimal ? dist::RuleListKind::Minimal : dist::RuleListKind::Enough;
}

// Returns what a step is predicted to take with layouts that were decided; nothing where inference refuses them. `module`: that of the
// problem, with nothing but what was given before.
std::optional<Prediction> predictDecided(ModuleOp module, const DecidedLayouts &decided, analysis::Planner &planner) {
  OwningOpRef<ModuleOp> copy = module.clone();
  FailureOr<layout::LayoutProblem> problem = layout::LayoutProblem::create(*copy, dist::findMesh(*copy).getMesh());
  if (failed(problem)) {
    return std::nullopt;
  }
  giveLayouts(*problem, decided);
  std::optional<Prediction> simpler = predict(leaveOutBackward(module, *copy), planner); // as the search does
  std::optional<Prediction> best = predict(std::move(copy), planner);
  return simpler && (!best || simpler->stepPs < best->stepPs) ? simpler : best;
}

// Adds the runners-up, with what each of them takes more. Half of the effort goes into finding them.
void addRunnersUp(Explanation &explanation, ModuleOp module, ModuleOp given, const Prediction &estimate, const Choices *choices,
                  const ExplainOptions &options, analysis::Planner &planner) {
  MLIRContext *context = module.getContext();
  OwningOpRef<ModuleOp> copy = copyStep(module);
  llvm::for_each(copy->getOps<func::FuncOp>(), layout::copySources);
  dist::MeshOp mesh = dist::findMesh(*copy);
  FailureOr<layout::LayoutProblem> problem = layout::LayoutProblem::create(*copy, mesh.getMesh());
  if (failed(problem)) {
    return;
  }
  SmallVector<WeightedProgram> programs = programsOfStep(*copy);
  LayoutGraph graph(*problem, programs, findColourClasses(*problem), planner, analysis::findDeviceRates(*copy), options.smallBytes);
  std::optional<Choices> taken = choices ? std::optional(*choices) : encodeInferred(graph, *copyStep(given));
  Effort finding(options.units / 2, options.seconds / 2), predicting(options.units / 2, options.seconds / 2);
  SmallVector<dist::RunnerUpAttr> &list = explanation.runnersUp;
  const int64_t limit = options.limit > 0 ? options.limit : std::numeric_limits<int64_t>::max();
  for (const RunnerUp &other : taken ? findRunnersUp(*problem, graph, programs, *taken, limit, finding) : std::vector<RunnerUp>()) {
    if (!list.empty() && predicting.isOver()) {
      break;
    }
    predicting.count(2 * predictionUnits(*copy)); // with the layouts of the backward pass, and without
    if (std::optional<Prediction> prediction = predictDecided(*copy, graph.decode(other.choices), planner)) {
      list.push_back(dist::RunnerUpAttr::get(context, StringAttr::get(context, other.block), prediction->stepPs - estimate.stepPs,
                                             prediction->memoryBytes - estimate.memoryBytes, other.differences));
    }
  }
  explanation.isStopped = finding.isStopped() || predicting.isStopped();
}

} // namespace

Explanation explainStrategy(ModuleOp module, ModuleOp given, const Prediction &taken, const Choices *choices,
                            const ExplainOptions &options) {
  MLIRContext *context = module.getContext();
  Explanation explanation;
  analysis::Planner planner(dist::findMesh(module), analysis::Cuts::Allowed);
  FailureOr<RulesOfLayouts> rules = findRules(module, given);
  if (succeeded(rules)) {
    std::optional<Prediction> prediction = predict(copyStep(*giveRules(module, rules->rules)), planner);
    explanation.rules = dist::RuleListAttr::get(context, describeRules(rules->rules, context), kindOf(*rules), rules->numOthers,
                                                prediction ? std::optional(prediction->stepPs - taken.stepPs) : std::nullopt);
  }
  addRunnersUp(explanation, module, given, taken, choices, options, planner);
  return explanation;
}

} // namespace ashlar::search
