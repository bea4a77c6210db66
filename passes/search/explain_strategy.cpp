// SPDX-License-Identifier: Apache-2.0
//
// The problem stated once more, with what was taken of it.

#include "passes/search/explain_strategy.h"

#include "dialects/dist/plain_text.h"
#include "passes/layout/inference/copy_sources.h"
#include "passes/layout/inference/inference.h"
#include "passes/search/rules_of_layouts.h"
#include "passes/search/runner_up.h"
#include "passes/search/solver/deadline.h"

#include <limits>

using namespace mlir;

namespace ashlar::search {

namespace {

ArrayAttr describeRules(ArrayRef<LayoutRule> rules, Builder &builder) {
  return builder.getArrayAttr(llvm::map_to_vector(rules, [&](const LayoutRule &rule) -> Attribute {
    return builder.getDictionaryAttr({builder.getNamedAttr("match", builder.getStringAttr(rule.match)),
                                      builder.getNamedAttr("layout", builder.getStringAttr(dist::layoutText(rule.layout.getLayout()))),
                                      builder.getNamedAttr("priority", builder.getI64IntegerAttr(rule.priority))});
  }));
}

// Returns what a step is predicted to take with layouts that were decided; nothing where inference refuses them. `module`: that of the
// problem, with nothing but what was given before.
std::optional<Prediction> predictDecided(ModuleOp module, const DecidedLayouts &decided, int64_t runs, dist::Planner &planner) {
  OwningOpRef<ModuleOp> copy = module.clone();
  FailureOr<layout::LayoutProblem> problem = layout::LayoutProblem::create(*copy, dist::findMesh(*copy).getMesh());
  if (failed(problem)) {
    return std::nullopt;
  }
  giveLayouts(*problem, decided);
  std::optional<Prediction> best = predict(*copy, runs, planner);
  std::optional<Prediction> simpler = predict(*leaveOutBackward(module, *copy), runs, planner); // as the search does
  return simpler && (!best || simpler->stepPs < best->stepPs) ? simpler : best;
}

// Returns the runners-up, with what each of them is predicted to take.
ArrayAttr describeRunnersUp(ModuleOp module, ModuleOp given, const Choices *choices, const ExplainOptions &options,
                            dist::Planner &planner) {
  Builder builder(module.getContext());
  OwningOpRef<ModuleOp> copy = copyStep(module);
  llvm::for_each(copy->getOps<func::FuncOp>(), layout::copySources);
  dist::MeshOp mesh = dist::findMesh(*copy);
  FailureOr<layout::LayoutProblem> problem = layout::LayoutProblem::create(*copy, mesh.getMesh());
  if (failed(problem)) {
    return builder.getArrayAttr({});
  }
  SmallVector<WeightedProgram> programs = programsOfStep(*copy, options.runs);
  LayoutGraph graph(*problem, programs, findRepeatedParts(*problem), planner, dist::findDeviceRates(*copy), options.smallBytes);
  std::optional<Choices> taken = choices ? std::optional(*choices) : encodeInferred(graph, *copyStep(given));
  const Deadline deadline(options.seconds);
  SmallVector<Attribute> list;
  const int64_t limit = options.limit > 0 ? options.limit : std::numeric_limits<int64_t>::max();
  for (const RunnerUp &other :
       taken ? findRunnersUp(*problem, graph, programs, *taken, limit, options.seconds / 2) : std::vector<RunnerUp>()) {
    if (!list.empty() && deadline.left() <= 0) {
      break;
    }
    if (std::optional<Prediction> prediction = predictDecided(*copy, graph.decode(other.choices), options.runs, planner)) {
      list.push_back(builder.getDictionaryAttr({builder.getNamedAttr("block", builder.getStringAttr(other.block)),
                                                builder.getNamedAttr("differs", builder.getStringAttr(other.differs)),
                                                builder.getNamedAttr("step_ps", builder.getI64IntegerAttr(prediction->stepPs)),
                                                builder.getNamedAttr("bytes", builder.getI64IntegerAttr(prediction->memoryBytes))}));
    }
  }
  return builder.getArrayAttr(list);
}

} // namespace

SmallVector<NamedAttribute> explainStrategy(ModuleOp module, ModuleOp given, const Choices *choices, const ExplainOptions &options) {
  Builder builder(module.getContext());
  SmallVector<NamedAttribute> fields;
  dist::Planner planner(dist::findMesh(module));
  FailureOr<RulesOfLayouts> rules = findRules(module, given);
  if (succeeded(rules)) {
    fields.push_back(builder.getNamedAttr("rules", describeRules(rules->rules, builder)));
    fields.push_back(builder.getNamedAttr("others", builder.getI64IntegerAttr(rules->numOthers)));
    if (std::optional<Prediction> prediction = predict(*copyStep(*giveRules(module, rules->rules)), options.runs, planner)) {
      fields.push_back(builder.getNamedAttr("rules_step_ps", builder.getI64IntegerAttr(prediction->stepPs)));
      fields.push_back(builder.getNamedAttr("rules_bytes", builder.getI64IntegerAttr(prediction->memoryBytes)));
    }
    fields.push_back(builder.getNamedAttr("rules_are", builder.getStringAttr(rules->isShortest  ? "shortest"
                                                                             : rules->isMinimal ? "minimal"
                                                                                                : "enough")));
  }
  fields.push_back(builder.getNamedAttr("runners_up", describeRunnersUp(module, given, choices, options, planner)));
  return fields;
}

} // namespace ashlar::search
