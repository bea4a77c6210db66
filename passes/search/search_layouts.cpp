// SPDX-License-Identifier: Apache-2.0
//
// ashlar-search-layouts: the decision graph of a module, solved and given back.

#include "passes/layout/copy_sources.h"
#include "passes/layout/given_layout.h"
#include "passes/layout/inference.h"
#include "passes/layout/propagate_layouts.h"
#include "passes/search/passes.h"
#include "passes/search/solve.h"
#include "passes/search/strategies.h"

using namespace mlir;

namespace ashlar::search {

#define GEN_PASS_DEF_SEARCHLAYOUTSPASS
#include "passes/search/passes.h.inc"

namespace {

// A way to lay the module out.
struct Strategy {
  std::string name;
  OwningOpRef<ModuleOp> given; // with what it gives
  Prediction prediction;
};

struct SearchLayouts : impl::SearchLayoutsPassBase<SearchLayouts> {
  using SearchLayoutsPassBase::SearchLayoutsPassBase;

  // Returns the bytes below which the state of a parameter is split as it is.
  int64_t smallBytes() const { return smallState < 0 ? INT64_MAX : smallState; }

  bool keepsLimit(const Strategy &strategy) const { return memoryLimit <= 0 || strategy.prediction.memoryBytes <= memoryLimit; }

  // Returns the fastest strategy that keeps the limit, or the smallest; null when there is none.
  const Strategy *pickBest(const std::vector<Strategy> &strategies) const {
    const Strategy *best = nullptr;
    auto key = [&](const Strategy &each) {
      return std::pair(!keepsLimit(each), keepsLimit(each) ? each.prediction.stepPs : each.prediction.memoryBytes);
    };
    for (const Strategy &strategy : strategies) {
      best = !best || key(strategy) < key(*best) ? &strategy : best;
    }
    return best;
  }

  // Returns what reports say of the search (kSearchAttr).
  DictionaryAttr describe(const std::vector<Strategy> &strategies, const Strategy &taken, const Found &found) {
    Builder builder(&getContext());
    SmallVector<Attribute> list;
    for (const Strategy &strategy : strategies) {
      list.push_back(
          builder.getDictionaryAttr({builder.getNamedAttr("name", builder.getStringAttr(strategy.name)),
                                     builder.getNamedAttr("step_ps", builder.getI64IntegerAttr(strategy.prediction.stepPs)),
                                     builder.getNamedAttr("bytes", builder.getI64IntegerAttr(strategy.prediction.memoryBytes))}));
    }
    return builder.getDictionaryAttr({builder.getNamedAttr("strategies", builder.getArrayAttr(list)),
                                      builder.getNamedAttr("taken", builder.getStringAttr(taken.name)),
                                      builder.getNamedAttr("cost_ps", builder.getI64IntegerAttr(found.cost)),
                                      builder.getNamedAttr("bound_ps", builder.getI64IntegerAttr(found.bound))});
  }

  // Adds a strategy, unless inference refuses it: what a user would not have asked for either.
  void consider(std::vector<Strategy> &strategies, StringRef name, OwningOpRef<ModuleOp> given) {
    OwningOpRef<ModuleOp> placed = given->clone();
    ScopedDiagnosticHandler quiet(&getContext(), [](Diagnostic &) { return success(); });
    if (failed(layout::propagateLayouts(*placed, /*splitVariables=*/true))) {
      return;
    }
    FailureOr<Prediction> prediction = predict(*placed, runs);
    if (succeeded(prediction)) {
      strategies.push_back({name.str(), std::move(given), *prediction});
    }
  }

  // Returns what inference makes of the module as choices, with or without a split batch.
  std::optional<Choices> encodeInferred(const LayoutGraph &graph, bool splitsBatch) {
    OwningOpRef<ModuleOp> copy = getOperation().clone();
    llvm::for_each(copy->getOps<func::FuncOp>(), layout::copySources);
    if (splitsBatch && !splitBatch(*copy, batch)) {
      return std::nullopt;
    }
    FailureOr<layout::LayoutProblem> problem = layout::LayoutProblem::create(*copy, dist::findMesh(*copy).getMesh());
    if (failed(problem)) {
      return std::nullopt;
    }
    layout::Inference inference(*problem);
    inference.run();
    for (auto [number, tensor] : llvm::enumerate(problem->tensors)) {
      tensor.given = layout::GivenLayout{inference.getLayout(number), SmallVector<bool>(tensor.type.getRank(), false)};
    }
    return graph.encode(*problem);
  }

  // Solves the decision graph of the module and gives a copy of it what was decided.
  FailureOr<OwningOpRef<ModuleOp>> search(Found &found, bool isLimited) {
    OwningOpRef<ModuleOp> copy = getOperation().clone();
    llvm::for_each(copy->getOps<func::FuncOp>(), layout::copySources);
    dist::MeshOp mesh = dist::findMesh(*copy);
    FailureOr<layout::LayoutProblem> problem = layout::LayoutProblem::create(*copy, mesh.getMesh());
    if (failed(problem)) {
      return failure();
    }
    dist::Planner planner(mesh);
    SmallVector<WeightedProgram> programs = programsOfStep(*copy, runs);
    LayoutGraph graph(*problem, programs, findRepeatedParts(*problem), planner, dist::findDeviceRates(*copy), smallBytes());
    Request request;
    for (bool splitsBatch : {false, true}) { // the other strategies are where it starts
      if (std::optional<Choices> known = encodeInferred(graph, splitsBatch)) {
        request.known.push_back(*known);
      }
    }
    request.method = method == "ilp" ? Method::IntegerProgram : Method::DynamicProgramming;
    request.limit = isLimited ? int64_t(memoryLimit) : INT64_MAX;
    request.seconds = seconds;
    found = solve(graph.getGraph(), request);
    giveLayouts(*problem, graph.decode(found.choices));
    return std::move(copy);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!layout::requirePrograms(module)) {
      return signalPassFailure();
    }
    if (method != "dp" && method != "ilp") {
      module.emitError("the method of the search is \"") << method.getValue() << "\"; there are dp and ilp";
      return signalPassFailure();
    }
    std::vector<Strategy> strategies;
    consider(strategies, "propagation", module.clone());
    if (OwningOpRef<ModuleOp> copy = module.clone(); splitBatch(*copy, batch)) {
      consider(strategies, "data parallel", std::move(copy));
    }
    Found found;
    const bool isLimited = memoryLimit > 0;
    FailureOr<OwningOpRef<ModuleOp>> searched = search(found, isLimited);
    if (failed(searched)) {
      return signalPassFailure();
    }
    consider(strategies, "search", std::move(*searched));
    if (!found.fits) { // by rows, which are more careful than price()
      Found unlimited;
      searched = search(unlimited, /*isLimited=*/false);
      if (succeeded(searched)) {
        consider(strategies, "search without a limit", std::move(*searched));
      }
    }
    const Strategy *best = pickBest(strategies);
    if (!best) {
      module.emitError("no strategy fits the mesh: inference refuses the given layouts, with a split batch and without");
      return signalPassFailure();
    }
    if (!keepsLimit(*best)) {
      module.emitError("a device may hold ")
          << memoryLimit.getValue()
          << " bytes of parameters, state, inputs, outputs and intermediate values, and the smallest strategy that was found ("
          << best->name << ") is predicted to take " << best->prediction.memoryBytes
          << "; give it more devices, a smaller batch, or accumulate";
      return signalPassFailure();
    }
    OwningOpRef<ModuleOp> given = best->given.get().clone();
    module.getBodyRegion().takeBody(given->getBodyRegion());
    module->setAttr(kSearchAttr, describe(strategies, *best, found));
  }
};

} // namespace

} // namespace ashlar::search
