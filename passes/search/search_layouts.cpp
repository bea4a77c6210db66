// SPDX-License-Identifier: Apache-2.0
//
// ashlar-search-layouts: the decision graph of a module, solved and given back.

#include "dialects/dist/plain_text.h"
#include "passes/layout/inference/copy_sources.h"
#include "passes/layout/inference/given_layout.h"
#include "passes/search/explain_strategy.h"
#include "passes/search/passes.h"
#include "passes/search/solver/solve.h"
#include "passes/search/strategies.h"

#include "passes/search/search_enums.cpp.inc"

using namespace mlir;

namespace ashlar::search {

#define GEN_PASS_DEF_SEARCHLAYOUTSPASS
#include "passes/search/passes.h.inc"

namespace {

using dist::StrategyKind;

// A way to lay the module out.
struct Strategy {
  StrategyKind kind;
  OwningOpRef<ModuleOp> given; // with what it gives
  Prediction prediction;
  Choices choices = {};                    // of the graph, where the search made them
  std::optional<LoweredCost> lowered = {}; // of its programs, where they were lowered
};

constexpr int kMostCuts = 16;         // of a limit, each after a result that exceeds it
constexpr int64_t kWorthLowering = 2; // times the least estimate, up to which a strategy may turn out to be the fastest

struct SearchLayouts : impl::SearchLayoutsPassBase<SearchLayouts> {
  using SearchLayoutsPassBase::SearchLayoutsPassBase;
  SearchLayouts(SearchLayoutsPassOptions options, CostOfLowered costOfLowered)
      : SearchLayoutsPassBase(std::move(options)), costOfLowered(std::move(costOfLowered)) {}

  // Returns the bytes below which the state of a parameter is split as it is.
  int64_t smallBytes() const { return smallState < 0 ? INT64_MAX : smallState; }

  // Returns the bytes that the search may count on one device of each stage.
  std::optional<int64_t> limitOfStages() const {
    const __int128 counted = std::max<int64_t>(memoryLimit - uncountedBytes, 1);
    return memoryLimit > 0 ? std::optional(static_cast<int64_t>(std::min<__int128>(counted * stages, INT64_MAX))) : std::nullopt;
  }

  static int64_t stepOf(const Strategy &strategy) { return strategy.lowered ? strategy.lowered->stepPs : strategy.prediction.stepPs; }
  int64_t bytesOf(const Strategy &strategy) const {
    return strategy.lowered ? strategy.lowered->bytes : strategy.prediction.memoryBytes / stages;
  }

  bool keepsLimit(const Strategy &strategy) const {
    return strategy.lowered ? memoryLimit <= 0 || strategy.lowered->bytes <= memoryLimit
                            : !limitOfStages() || strategy.prediction.memoryBytes <= *limitOfStages();
  }

  // Whether a strategy is faster than another within the limit, or takes less where neither keeps it. What was not lowered comes last.
  bool isBetter(const Strategy &one, const Strategy &other) const {
    auto key = [&](const Strategy &each) {
      return std::tuple(!each.lowered, !keepsLimit(each), keepsLimit(each) ? stepOf(each) : bytesOf(each));
    };
    return key(one) < key(other);
  }

  // Returns the work of lowering a strategy, in units: some times that of an estimate.
  static int64_t loweringUnits(const Strategy &strategy) {
    constexpr int kTimesPrediction = 3;
    return kTimesPrediction * predictionUnits(*strategy.given);
  }

  // Lowers the programs of a strategy, all that the module has.
  std::optional<LoweredCost> lower(const Strategy &strategy) { return costOfLowered(giveOtherPrograms(getOperation(), *strategy.given)); }

  // Lowers the strategies among which the best one may be. What cannot be lowered is none, unless nothing can: then compiling it says why.
  void lowerStrategies(std::vector<Strategy> &strategies) {
    if (!costOfLowered || strategies.empty()) {
      return;
    }
    int64_t least = INT64_MAX;
    llvm::for_each(strategies, [&](const Strategy &each) { least = std::min(least, each.prediction.stepPs); });
    auto mayBeBest = [&](const Strategy &each) { return memoryLimit > 0 || each.prediction.stepPs / kWorthLowering <= least; };
    if (llvm::count_if(strategies, mayBeBest) == 1 && !getOperation()->hasAttr(kExplainAttr)) {
      return;
    }
    for (Strategy &strategy : strategies) {
      if (mayBeBest(strategy)) {
        counted += loweringUnits(strategy);
        strategy.lowered = lower(strategy);
      }
    }
    if (llvm::any_of(strategies, [](const Strategy &each) { return each.lowered.has_value(); })) {
      llvm::erase_if(strategies, [&](const Strategy &each) { return mayBeBest(each) && !each.lowered; });
    }
  }

  // Lowers the programs of a strategy that keeps the limit by its estimate. Where they do not, what they hold besides becomes a constant of
  // the search, whose effort counts the work. Returns whether it did.
  bool coverUncounted(const Strategy &strategy, Effort &effort) {
    if (!costOfLowered || memoryLimit <= 0 || !keepsLimit(strategy)) {
      return false;
    }
    effort.count(loweringUnits(strategy));
    const std::optional<LoweredCost> cost = lower(strategy);
    const int64_t uncounted = cost && cost->bytes > memoryLimit ? cost->bytes - bytesOf(strategy) : 0;
    if (uncounted <= uncountedBytes || uncounted >= memoryLimit) {
      return false;
    }
    uncountedBytes = uncounted;
    return true;
  }

  // Returns an attribute for reports. `given`: the strategy that was taken, in all programs.
  dist::SearchAttr describe(const std::vector<Strategy> &strategies, const Strategy &taken, ModuleOp given, const Found &found) {
    SmallVector<dist::StrategyAttr> list = llvm::map_to_vector(strategies, [&](const Strategy &each) {
      return dist::StrategyAttr::get(&getContext(), each.kind, each.lowered.has_value(), stepOf(each), bytesOf(each));
    });
    Explanation explanation;
    if (getOperation()->removeAttr(kExplainAttr)) {
      explanation = explainStrategy(getOperation(), given, taken.prediction, taken.choices.empty() ? nullptr : &taken.choices,
                                    {smallBytes(), limitOfStages().value_or(0), units, seconds});
    }
    wasStopped |= explanation.isStopped;
    const FloatAttr stopped = wasStopped ? Builder(&getContext()).getF64FloatAttr(seconds) : FloatAttr();
    return dist::SearchAttr::get(&getContext(), list, taken.kind, found.cost, found.bound, counted, stopped, explanation.runnersUp,
                                 explanation.rules);
  }

  // Returns a strategy, unless inference refuses it.
  std::optional<Strategy> predicted(StrategyKind kind, OwningOpRef<ModuleOp> given) {
    std::optional<Prediction> prediction = predict(given->clone(), *planner);
    return prediction ? std::optional(Strategy{kind, std::move(given), *prediction, {}}) : std::nullopt;
  }

  // Leaves the backward pass to inference where a step is not slower.
  void simplify(Strategy &strategy) {
    std::optional<Strategy> simpler = predicted(strategy.kind, leaveOutBackward(step, *strategy.given));
    if (simpler && !isBetter(strategy, *simpler)) {
      simpler->choices = std::move(strategy.choices);
      strategy = std::move(*simpler);
    }
  }

  // Returns the inferred layouts of the module as choices, with or without a sharded batch.
  std::optional<Choices> encodeInferred(const LayoutGraph &graph, bool splitsBatch) {
    OwningOpRef<ModuleOp> copy = step.clone();
    return splitsBatch && !splitBatch(*copy, batch) ? std::nullopt : search::encodeInferred(graph, *copy);
  }

  // Solves the decision graph of the module with `limit` bytes a device, and adds the strategy that this leads to. The limit is a
  // constraint of the graph, stated as far as it matters: where a result exceeds it at a time without a row, the graph gets that row; where
  // its rows count less than estimate(), they get the difference as a constant, and so where an estimate is less than lowered programs
  // hold. Then the search goes on from what it knows; the best strategy counts. Returns what was found first.
  FailureOr<Found> search(std::vector<Strategy> &strategies, StrategyKind kind, std::optional<int64_t> limit) {
    OwningOpRef<ModuleOp> copy = step.clone();
    llvm::for_each(copy->getOps<func::FuncOp>(), layout::copySources);
    dist::MeshOp mesh = dist::findMesh(*copy);
    FailureOr<layout::LayoutProblem> problem = layout::LayoutProblem::create(*copy, mesh.getMesh());
    if (failed(problem)) {
      return failure();
    }
    SmallVector<WeightedProgram> programs = programsOfStep(*copy);
    LayoutGraph graph(*problem, programs, findColourClasses(*problem), *planner, analysis::findDeviceRates(*copy), smallBytes());
    Request request;
    for (bool splitsBatch : {false, true}) { // the other strategies are where it starts
      if (std::optional<Choices> known = encodeInferred(graph, splitsBatch)) {
        request.known.push_back(*known);
      }
    }
    request.usesIntegerProgram = method == Method::IntegerProgram;
    request.limit = limit.value_or(INT64_MAX);
    Effort effort(units, seconds);
    std::optional<Found> first;
    std::optional<Strategy> best;
    // Estimates the strategy of choices and keeps the best. Returns its prediction.
    auto consider = [&](const Choices &choices) -> std::optional<Prediction> {
      OwningOpRef<ModuleOp> given = copy->clone();
      FailureOr<layout::LayoutProblem> same = layout::LayoutProblem::create(*given, mesh.getMesh());
      giveLayouts(*same, graph.decode(choices));
      effort.count(predictionUnits(*given));
      std::optional<Strategy> strategy = predicted(kind, std::move(given));
      if (!strategy) {
        return std::nullopt;
      }
      const Prediction prediction = strategy->prediction;
      strategy->choices = choices;
      if (!best || isBetter(*strategy, *best)) {
        best = std::move(strategy);
      }
      return prediction;
    };
    for (int cuts = 0;; ++cuts) {
      const Found found = solve(graph.getGraph(), request, effort);
      const bool mayCut = cuts < kMostCuts && !effort.isOver();
      bool isCut = mayCut && graph.addPeakRow(found.choices, request.limit);
      if (!isCut) {
        const std::optional<Prediction> prediction = consider(found.choices);
        llvm::for_each(found.others, consider);
        first = first ? first : found;
        isCut = mayCut && found.fits && prediction && prediction->memoryBytes > request.limit &&
                graph.coverMemory(found.choices, prediction->programBytes);
      }
      if (!isCut && mayCut && limit && best && coverUncounted(*best, effort)) {
        request.limit = *limitOfStages();
        isCut = true;
      }
      if (!isCut) {
        break;
      }
      request.known.push_back(found.choices);
    }
    counted += effort.getCounted();
    wasStopped |= effort.isStopped();
    if (best) {
      simplify(*best);
      strategies.push_back(std::move(*best));
    }
    return *first;
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!layout::requirePrograms(module)) {
      return signalPassFailure();
    }
    planner = std::make_shared<analysis::Planner>(dist::findMesh(module), analysis::Cuts::Allowed);
    OwningOpRef<ModuleOp> programs = copyStep(module);
    step = *programs;
    std::vector<Strategy> strategies;
    auto consider = [&](StrategyKind kind, OwningOpRef<ModuleOp> given) {
      if (std::optional<Strategy> strategy = predicted(kind, std::move(given))) {
        strategies.push_back(std::move(*strategy));
      }
    };
    consider(StrategyKind::Propagation, step.clone());
    if (OwningOpRef<ModuleOp> copy = step.clone(); splitBatch(*copy, batch)) {
      consider(StrategyKind::DataParallel, std::move(copy));
    }
    uncountedBytes = 0;
    FailureOr<Found> found = search(strategies, StrategyKind::Search, limitOfStages());
    if (failed(found) || (!found->fits && failed(search(strategies, StrategyKind::SearchWithoutLimit, std::nullopt)))) {
      return signalPassFailure();
    }
    uncountedBytes = 0;
    const bool isTooLarge = llvm::none_of(strategies, [&](const Strategy &each) { return keepsLimit(each); });
    lowerStrategies(strategies);
    auto best =
        std::min_element(strategies.begin(), strategies.end(), [&](const Strategy &a, const Strategy &b) { return isBetter(a, b); });
    if (best == strategies.end()) {
      module.emitError("no strategy fits the mesh: inference refuses the given layouts, with a split batch and without");
      return signalPassFailure();
    }
    if (isTooLarge && !takesSmallest) { // else the memory plan names the excess
      const Prediction &least = best->prediction;
      module.emitError(stages > 1 ? "a device of each stage, all together, may hold " : "a device may hold ")
          << *limitOfStages()
          << " bytes of parameters, state, inputs, outputs and intermediate values, and the smallest strategy that was found ("
          << dist::strategyText(best->kind) << ") is predicted to take " << least.memoryBytes << ": " << least.parameterBytes
          << " of parameters, " << least.stateBytes << " of state, " << least.inputOutputBytes << " of inputs and outputs, and at most "
          << least.valueBytes << " of intermediate values; give it more devices, a smaller batch, or accumulate";
      return signalPassFailure();
    }
    OwningOpRef<ModuleOp> given = giveOtherPrograms(module, *best->given);
    dist::SearchAttr described = describe(strategies, *best, *given, *found);
    module.getBodyRegion().takeBody(given->getBodyRegion());
    module->setAttr(dist::kSearchAttr, described);
  }

  std::shared_ptr<analysis::Planner> planner; // of the mesh, for all that is looked at
  ModuleOp step;                              // the programs that a step runs, with the layouts given before
  CostOfLowered costOfLowered;                // null: estimates decide
  int64_t uncountedBytes = 0;                 // of a device, that programs hold besides what the search counts
  int64_t counted = 0;                        // units of all searches
  bool wasStopped = false;                    // by the clock, at least one of them
};

} // namespace

std::unique_ptr<Pass> createSearchLayoutsPass(SearchLayoutsPassOptions options, CostOfLowered costOfLowered) {
  return std::make_unique<SearchLayouts>(std::move(options), std::move(costOfLowered));
}

} // namespace ashlar::search
