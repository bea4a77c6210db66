// SPDX-License-Identifier: Apache-2.0
//
// Layouts as a decision graph: what it costs, that it is solved to the last unit of cost, and which strategies come out.

#include "passes/search/layout_graph.h"

#include "passes/search/passes.h"
#include "passes/search/solve.h"
#include "passes/search/strategies.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "compiler/reference/equivalence.h"
#include "passes/layout/copy_sources.h"

#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

#include <set>

using namespace mlir;

namespace ashlar::test {

namespace {

using namespace search;
using Cost = search::Cost; // not that of dialects/support

// Returns the least cost of all choices, by trying them node by node as long as what is chosen costs less than the best.
class Enumeration {
public:
  explicit Enumeration(const DecisionGraph &graph) : graph(graph), choices(graph.numNodes(), 0) {}

  // Nothing when there are more choices than can be tried.
  std::optional<Cost> run() {
    visit(0, 0);
    return steps < kMostSteps ? std::optional(best) : std::nullopt;
  }

private:
  static constexpr int64_t kMostSteps = 2000000;

  void visit(unsigned node, Cost cost) {
    if (cost >= best || ++steps >= kMostSteps) {
      return;
    }
    if (node == graph.numNodes()) {
      best = cost;
      return;
    }
    for (unsigned choice = 0; choice < graph.numChoices(node); ++choice) {
      Cost sum = addCosts(cost, graph.costs(node)[choice]);
      for (unsigned edge : graph.edgesOf(node)) {
        if (unsigned other = graph.otherEnd(edge, node); other < node) {
          sum = addCosts(sum, graph.edgeCost(edge, node, choice, choices[other]));
        }
      }
      choices[node] = choice;
      visit(node + 1, sum);
    }
  }

  const DecisionGraph &graph;
  Choices choices;
  Cost best = kForbidden;
  int64_t steps = 0;
};

struct Stated {
  explicit Stated(OwningOpRef<ModuleOp> owned) : module(std::move(owned)) {
    llvm::for_each(module->getOps<func::FuncOp>(), layout::copySources);
    FailureOr<layout::LayoutProblem> made = layout::LayoutProblem::create(*module, dist::findMesh(*module).getMesh());
    REQUIRE(succeeded(made));
    problem.emplace(std::move(*made));
    planner.emplace(dist::findMesh(*module));
  }

  OwningOpRef<ModuleOp> module;
  std::optional<layout::LayoutProblem> problem;
  std::optional<dist::Planner> planner;
};

const dist::DeviceRates kRates{/*flopsPerUs=*/80000, /*narrowFlopsPerUs=*/80000, /*bytesPerUs=*/20000};

} // namespace

TEST_CASE("layout graph: both methods are as good as trying all choices, to the last unit of cost", "[search]") {
  using Axes = std::vector<std::pair<StringRef, int64_t>>;
  const std::vector<Axes> meshes = {{{"x", 2}}, {{"x", 3}}, {{"x", 4}}, {{"x", 8}}, {{"x", 2}, {"y", 2}}, {{"x", 4}, {"y", 2}}};
  int tried = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    dist::MeshAttr mesh = meshOf(context(), meshes[seed % meshes.size()]);
    Stated stated(randomProgram(context(), seed, mesh, 1 + dice.roll(12)));
    WeightedProgram program{0};
    LayoutGraph graph(*stated.problem, program, RepeatedParts::allDifferent(*stated.problem), *stated.planner, kRates);
    Request request;
    Found priced = solve(graph.getGraph(), request);
    request.method = Method::IntegerProgram;
    Found exact = solve(graph.getGraph(), request);
    CHECK(priced.cost == exact.cost);
    CHECK(exact.bound == exact.cost);
    if (std::optional<Cost> best = Enumeration(graph.getGraph()).run()) {
      ++tried;
      CHECK(exact.cost == *best);
      CHECK(priced.bound <= *best);
    }
  }
  CHECK(tried > 350);
}

// From one row a program on, rows are added where what was found takes most: in the end that is as much as with a row for every time.
TEST_CASE("layout graph: rows are added where the choices take most", "[search]") {
  int added = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    dist::MeshAttr mesh = meshOf(context(), {{"x", 4}});
    Stated stated(randomProgram(context(), seed, mesh, 14));
    WeightedProgram program{0};
    auto make = [&](size_t rows) {
      return LayoutGraph(*stated.problem, program, RepeatedParts::allDifferent(*stated.problem), *stated.planner, kRates, 0, rows);
    };
    LayoutGraph all = make(1000), few = make(1);
    REQUIRE(few.getGraph().rows.size() == 1);
    Request request;
    const int64_t most = all.getGraph().largestAmount(solve(all.getGraph(), request).choices);
    for (request.limit = most; request.limit > most / 4; request.limit -= most / 4) {
      Found found = solve(few.getGraph(), request);
      while (few.addPeakRow(found.choices, request.limit)) {
        ++added;
        CHECK(DecisionGraph::amount(few.getGraph().rows.back(), found.choices) > request.limit);
        CHECK(few.getGraph().largestAmount(found.choices) >= all.getGraph().largestAmount(found.choices));
        found = solve(few.getGraph(), request);
      }
      const Found whole = solve(all.getGraph(), request);
      if (found.fits) {
        CHECK(all.getGraph().largestAmount(found.choices) <= request.limit);
      }
      const bool isProven = found.fits && whole.fits && whole.bound == whole.cost && found.bound == found.cost;
      if (isProven && few.getGraph().largestAmount(whole.choices) <= request.limit && !few.addPeakRow(whole.choices, request.limit)) {
        CHECK(found.cost == whole.cost);
      }
    }
  }
  CHECK(added > 20);
}

// Whatever is found, n ranks compute what one does: before the search, and partitioned after it, run by the interpreter.
TEST_CASE("search: programs compute the same with the layouts that are found", "[search]") {
  using Axes = std::vector<std::pair<StringRef, int64_t>>;
  const std::vector<Axes> meshes = {{{"x", 2}}, {{"x", 3}}, {{"x", 2}, {"y", 2}}};
  int searched = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    dist::MeshAttr mesh = meshOf(context(), meshes[seed % meshes.size()]);
    OwningOpRef<ModuleOp> module = randomProgram(context(), seed, mesh, 10);
    module->lookupSymbol<func::FuncOp>("f").setName(nn::kForward);
    OwningOpRef<ModuleOp> after = module->clone();
    PassManager passes(&context());
    SearchLayoutsPassOptions options;
    options.method = seed % 2 == 0 ? "dp" : "ilp";
    passes.addPass(createSearchLayoutsPass(options));
    REQUIRE(succeeded(passes.run(*after)));
    searched += cast<StringAttr>((*after)->getAttrOfType<DictionaryAttr>(kSearchAttr).get("taken")).getValue() == "search";
    REQUIRE(succeeded(partitionModule(*after)));
    reference::EquivalenceOptions compared;
    compared.functions = {nn::kForward.str()};
    compared.ranksAfter = mesh.numDevices();
    FailureOr<double> difference = reference::compareModules(*module, *after, compared);
    REQUIRE(succeeded(difference));
    CHECK(*difference <= 1e-11); // sums in another order
  }
  CHECK(searched > 10);
}

// The layers of a deep model are decided as one: four equal layers, of which the first and the last border on something else.
TEST_CASE("repeated parts: layers in the middle of a model are one", "[search]") {
  std::string body, previous = "%x";
  for (int layer = 0; layer < 16; ++layer) {
    std::string w = "@w" + std::to_string(layer), n = std::to_string(layer);
    body += "%w" + n + " = nn.read " + w + " : tensor<8x8xf32>\n%p" + n + " = nn.matmul " + previous + ", %w" + n +
            " : tensor<16x8xf32>, tensor<8x8xf32> -> tensor<16x8xf32>\n%t" + n + " = nn.tanh %p" + n + " : tensor<16x8xf32>\n";
    previous = "%t" + n;
  }
  std::string variables;
  for (int layer = 0; layer < 16; ++layer) {
    variables += "nn.variable @w" + std::to_string(layer) + " trainable : tensor<8x8xf32> = dense<0.5> : tensor<8x8xf32>\n";
  }
  Stated stated(parse("dist.mesh @mesh <[\"x\" = 2]>\n" + variables + "func.func @forward(%x: tensor<16x8xf32>) -> tensor<16x8xf32> {\n" +
                      body + "return " + previous + " : tensor<16x8xf32>\n}"));
  RepeatedParts parts = findRepeatedParts(*stated.problem);
  std::set<unsigned> different;
  for (auto [variable, tensor] : stated.problem->variables) {
    different.insert(parts.tensors[tensor]);
  }
  CHECK(different.size() < 8);
  CHECK(parts.tensors[stated.problem->variables[7].second] == parts.tensors[stated.problem->variables[8].second]);
  CHECK(parts.tensors[stated.problem->variables[0].second] != parts.tensors[stated.problem->variables[8].second]);
}

} // namespace ashlar::test
