// SPDX-License-Identifier: Apache-2.0
//
// Layouts as a decision graph: what it costs, that it is solved to the last unit of cost, and which strategies come out.

#include "passes/search/layout_graph.h"

#include "passes/search/passes.h"
#include "passes/search/solver/solve.h"
#include "passes/search/strategies.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "compiler/reference/equivalence.h"
#include "dialects/nn/programs.h"
#include "passes/layout/inference/copy_sources.h"
#include "passes/layout/redistribute/estimate.h"

#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

#include <set>

namespace ashlar::test::layout_graph_test {

using namespace mlir;

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
  std::optional<analysis::Planner> planner;
};

const analysis::DeviceRates kRates{/*flopsPerUs=*/80000, /*narrowFlopsPerUs=*/80000, /*bytesPerUs=*/20000};

// Returns what the choices of two nodes of a graph cost together.
Cost costOf(const DecisionGraph &graph, unsigned node, unsigned choice, unsigned other, unsigned otherChoice) {
  for (unsigned edge : graph.edgesOf(node)) {
    if (graph.otherEnd(edge, node) == other) {
      return graph.edgeCost(edge, node, choice, otherChoice);
    }
  }
  FAIL("nodes " << node << " and " << other << " have no edge");
  return 0;
}

// Returns the first choice of a decision that means a layout.
unsigned choiceOf(const LayoutGraph::Decision &decision, dist::LayoutAttr layout) {
  const auto found = llvm::find(decision.layouts, layout);
  REQUIRE(found != decision.layouts.end());
  return found - decision.layouts.begin();
}

} // namespace

TEST_CASE("layout graph: both methods are as good as trying all choices, to the last unit of cost", "[search][slow]") {
  using Axes = std::vector<std::pair<StringRef, int64_t>>;
  const std::vector<Axes> meshes = {{{"x", 2}}, {{"x", 3}}, {{"x", 4}}, {{"x", 8}}, {{"x", 2}, {"y", 2}}, {{"x", 4}, {"y", 2}}};
  int tried = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    dist::MeshAttr mesh = meshOf(context(), meshes[seed % meshes.size()]);
    Stated stated(randomProgram(context(), seed, mesh, 1 + dice.roll(12)));
    WeightedProgram program{0};
    LayoutGraph graph(*stated.problem, program, ColourClasses::allDifferent(*stated.problem), *stated.planner, kRates);
    Request request;
    Effort effort;
    Found estimated = solve(graph.getGraph(), request, effort);
    request.usesIntegerProgram = true;
    Found exact = solve(graph.getGraph(), request, effort);
    CHECK(estimated.cost == exact.cost);
    CHECK(exact.bound == exact.cost);
    if (std::optional<Cost> best = Enumeration(graph.getGraph()).run()) {
      ++tried;
      CHECK(exact.cost == *best);
      CHECK(estimated.bound <= *best);
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
      return LayoutGraph(*stated.problem, program, ColourClasses::allDifferent(*stated.problem), *stated.planner, kRates, 0, rows);
    };
    LayoutGraph all = make(1000), few = make(1);
    REQUIRE(few.getGraph().rows.size() == 1);
    Request request;
    Effort effort;
    const int64_t most = all.getGraph().largestAmount(solve(all.getGraph(), request, effort).choices);
    for (request.limit = most; request.limit > most / 4; request.limit -= most / 4) {
      Found found = solve(few.getGraph(), request, effort);
      while (few.addPeakRow(found.choices, request.limit)) {
        ++added;
        CHECK(DecisionGraph::amount(few.getGraph().rows.back(), found.choices) > request.limit);
        CHECK(few.getGraph().largestAmount(found.choices) >= all.getGraph().largestAmount(found.choices));
        found = solve(few.getGraph(), request, effort);
      }
      const Found whole = solve(all.getGraph(), request, effort);
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

// What a program is known to take beyond its rows is a constant of all of them: of those that there are and of those that come.
TEST_CASE("layout graph: rows cover what a program is known to take", "[search]") {
  constexpr int64_t kUnseen = 100;
  int refused = 0, added = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    dist::MeshAttr mesh = meshOf(context(), {{"x", 4}});
    Stated stated(randomProgram(context(), seed, mesh, 14));
    WeightedProgram program{0};
    LayoutGraph graph(*stated.problem, program, ColourClasses::allDifferent(*stated.problem), *stated.planner, kRates, 0, /*firstRows=*/1);
    Request request;
    Effort effort;
    const Choices choices = solve(graph.getGraph(), request, effort).choices;
    graph.addPeakRow(choices, /*limit=*/0);
    const int64_t counted = graph.getGraph().largestAmount(choices);
    CHECK_FALSE(graph.coverMemory(choices, counted)); // as much as they count
    CHECK(graph.getGraph().largestAmount(choices) == counted);
    CHECK(graph.coverMemory(choices, counted + kUnseen));
    CHECK(graph.getGraph().largestAmount(choices) == counted + kUnseen);
    CHECK_FALSE(graph.coverMemory(choices, counted + kUnseen));
    CHECK_FALSE(graph.coverMemory(choices, counted)); // the largest one seen stays
    CHECK(graph.getGraph().largestAmount(choices) == counted + kUnseen);
    for (unsigned choice = 0; choice < 3; ++choice) { // other choices take most at other times
      Choices other;
      for (unsigned node = 0; node < graph.getGraph().numNodes(); ++node) {
        other.push_back(std::min<unsigned>(choice, graph.getGraph().numChoices(node) - 1));
      }
      if (graph.addPeakRow(other, /*limit=*/0)) {
        ++added;
        CHECK(graph.getGraph().rows.back().fixed == kUnseen);
      }
    }
    request.limit = counted + kUnseen - 1;
    const Found found = solve(graph.getGraph(), request, effort);
    refused += found.fits;
    CHECK((!found.fits || found.choices != choices));
  }
  CHECK(refused > 10); // others were found that take less
  CHECK(added > 0);
}

// On a mesh of one device there is nothing to choose, and the ops take what the program takes, but for rounding: where memory decides,
// which is what kernels read and write, where arithmetic does, and where it depends on the kernel.
TEST_CASE("layout graph: on one device the ops take what the program takes", "[search]") {
  const analysis::DeviceRates ofMemory{/*flopsPerUs=*/1000000000, /*narrowFlopsPerUs=*/1000000000, /*bytesPerUs=*/1000};
  const analysis::DeviceRates ofArithmetic{/*flopsPerUs=*/1000, /*narrowFlopsPerUs=*/1000, /*bytesPerUs=*/1000000000};
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    for (const analysis::DeviceRates &rates : {ofMemory, ofArithmetic, kRates}) {
      INFO("seed " << seed << ", " << rates.flopsPerUs << " operations a microsecond");
      Stated stated(randomProgram(context(), seed, meshOf(context(), {{"x", 1}}), 12));
      LayoutGraph graph(*stated.problem, WeightedProgram{0}, ColourClasses::allDifferent(*stated.problem), *stated.planner, rates);
      Cost sum = 0;
      for (unsigned node = 0; node < graph.getGraph().numNodes(); ++node) {
        sum += graph.getGraph().costs(node).front();
      }
      const layout::LocalProgram program = layout::localProgram(stated.problem->programs.front().function);
      CHECK(std::abs(sum - layout::estimateProgram(program, rates).computePs) <= static_cast<int64_t>(program.ops.size())); // one each
    }
  }
}

// By hand. A product of 1024 bytes that two others use, on two devices: a gather of its halves takes 100 ns and 512 bytes at 1 a
// nanosecond, a slice the 1536 bytes that it reads and writes at 20 a nanosecond. Held in halves and as a whole beside them, it is gathered
// once, or sliced once where it is made as a whole, and takes the memory of both.
TEST_CASE("layout graph: what is held in two layouts", "[search]") {
  constexpr Cost kGatherPs = 612'000, kSlicePs = 76'800;
  Stated stated(parse(R"(
    dist.mesh @mesh <["x" = 2]> {costs = #dist.costs<latency_ns = [100], bytes_per_us = [1000]>}
    func.func @forward(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) attributes {nn.program = #nn.program<run>} {
      %v = nn.matmul %a, %b : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
      %y = nn.matmul %v, %b : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
      %z = nn.matmul %v, %a : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
      return %y, %z : tensor<16x16xf32>, tensor<16x16xf32>
    }
  )"));
  const layout::LayoutProblem &problem = *stated.problem;
  const LayoutGraph layouts(problem, WeightedProgram{0}, ColourClasses::allDifferent(problem), *stated.planner, kRates, 0, 1000);
  const DecisionGraph &graph = layouts.getGraph();
  SmallVector<unsigned> products;
  for (auto [number, op] : llvm::enumerate(problem.ops)) {
    if (isa<nn::MatMulOp>(op.op)) {
      products.push_back(number);
    }
  }
  const auto made = layouts.decisionOfOp(products[0]), used = layouts.decisionOfOp(products[1]);
  const auto held = layouts.decisionOfTensor(problem.values[problem.ops[products[0]].results.front()].tensor);
  REQUIRE((made && used && held));
  dist::Layout split = dist::Layout::replicated(2);
  const auto whole = dist::LayoutAttr::get(&context(), split);
  split.dims[0] = {StringAttr::get(&context(), "x")};
  const auto rows = dist::LayoutAttr::get(&context(), split);
  // Halves stand among the choices alone, and again with the whole beside them.
  REQUIRE(llvm::count(held->layouts, rows) == 2);
  const unsigned ofWhole = choiceOf(*held, whole), ofRows = choiceOf(*held, rows);
  const unsigned ofBoth = ofRows + 1 + choiceOf({0, {held->layouts.begin() + ofRows + 1, held->layouts.end()}, {}}, rows);
  auto toHeld = [&](dist::LayoutAttr layout, unsigned choice) {
    return costOf(graph, made->node, choiceOf(*made, layout), held->node, choice);
  };
  CHECK(toHeld(whole, ofWhole) == 0);
  CHECK(toHeld(whole, ofRows) == kSlicePs);
  CHECK(toHeld(whole, ofBoth) == kSlicePs);
  CHECK(toHeld(rows, ofWhole) == kGatherPs);
  CHECK(toHeld(rows, ofRows) == 0);
  CHECK(toHeld(rows, ofBoth) == kGatherPs);
  auto toUser = [&](unsigned choice, dist::LayoutAttr layout) {
    return costOf(graph, used->node, choiceOf(*used, layout), held->node, choice);
  };
  CHECK(toUser(ofRows, whole) == kGatherPs);
  CHECK(toUser(ofWhole, rows) == kSlicePs);
  CHECK(toUser(ofBoth, whole) == 0);
  CHECK(toUser(ofBoth, rows) == 0);
  int times = 0;
  for (const Row &row : graph.rows) {
    for (const Row::Term &term : row.terms) {
      if (term.node == held->node) {
        ++times;
        CHECK(term.amounts[ofWhole] == 1024);
        CHECK(term.amounts[ofRows] == 512);
        CHECK(term.amounts[ofBoth] == 512 + 1024);
      }
    }
  }
  CHECK(times > 0);
}

// By hand. Terms of a gradient of 1024 bytes on two devices, added up over four runs: one all-reduce of them takes 2 messages of 100 ns and
// 1024 bytes at 1 a nanosecond, a reduce-scatter 100 ns and 512 bytes. The product is stored, what follows is not: what is made elsewhere
// is written and read for it, 1536 or 2048 bytes at 20 a nanosecond.
TEST_CASE("layout graph: a sum that a variable adds up is combined once, unless the variable holds less than the terms", "[search]") {
  constexpr Cost kAllReducePs = 1'224'000, kScatterPs = 612'000, kStoredPs = 76'800, kRuns = 4;
  Stated stated(parse(R"(
    dist.mesh @mesh <["x" = 2]> {costs = #dist.costs<latency_ns = [100], bytes_per_us = [1000]>}
    nn.variable @w.gradient : tensor<16x16xf32> {nn.scratch}
    func.func @train_step(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>) attributes {nn.program = #nn.program<train_step>} {
      %g = nn.matmul %a, %b transpose_a : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
      %n = nn.neg %g : tensor<16x16xf32>
      %old = nn.read @w.gradient : tensor<16x16xf32>
      %new = nn.add %old, %n : tensor<16x16xf32>
      nn.write @w.gradient, %new : tensor<16x16xf32>
      return
    }
  )"));
  const layout::LayoutProblem &problem = *stated.problem;
  const LayoutGraph layouts(problem, WeightedProgram{0, kRuns}, ColourClasses::allDifferent(problem), *stated.planner, kRates);
  auto decisionOf = [&](StringRef name) {
    const auto op = llvm::find_if(problem.ops, [&](const layout::ProblemOp &each) { return each.op->getName().getStringRef() == name; });
    REQUIRE(op != problem.ops.end());
    return *layouts.decisionOfOp(op - problem.ops.begin());
  };
  const LayoutGraph::Decision product = decisionOf("nn.matmul"), negated = decisionOf("nn.neg"), sum = decisionOf("nn.add");
  dist::Layout layout = dist::Layout::replicated(2);
  const auto whole = dist::LayoutAttr::get(&context(), layout);
  layout.partial = {StringAttr::get(&context(), "x")};
  const auto terms = dist::LayoutAttr::get(&context(), layout);
  std::swap(layout.partial, layout.dims[0]);
  const auto rows = dist::LayoutAttr::get(&context(), layout);
  auto between = [&](const LayoutGraph::Decision &from, dist::LayoutAttr is, const LayoutGraph::Decision &to, dist::LayoutAttr becomes) {
    return costOf(layouts.getGraph(), from.node, choiceOf(from, is), to.node, choiceOf(to, becomes));
  };
  CHECK(between(product, terms, negated, whole) == kAllReducePs);
  CHECK(between(product, terms, negated, rows) == kRuns * kScatterPs);
  CHECK(between(negated, whole, sum, whole) == 0);
  CHECK(between(negated, rows, sum, rows) == 0);
  CHECK(between(negated, whole, sum, rows) == kRuns * (kScatterPs + kStoredPs)); // after all
}

// By hand, as above: a parameter that is held in halves and gathered for two users is gathered in each run of the program.
TEST_CASE("layout graph: a parameter is gathered in each run", "[search]") {
  constexpr Cost kGatherPs = 612'000, kRuns = 4;
  Stated stated(parse(R"(
    dist.mesh @mesh <["x" = 2]> {costs = #dist.costs<latency_ns = [100], bytes_per_us = [1000]>}
    nn.variable @w trainable : tensor<16x16xf32>
    func.func @train_step(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) attributes {nn.program = #nn.program<train_step>} {
      %w = nn.read @w : tensor<16x16xf32>
      %y = nn.matmul %a, %w : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
      %z = nn.matmul %b, %w : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
      return %y, %z : tensor<16x16xf32>, tensor<16x16xf32>
    }
  )"));
  const layout::LayoutProblem &problem = *stated.problem;
  const LayoutGraph layouts(problem, WeightedProgram{0, kRuns}, ColourClasses::allDifferent(problem), *stated.planner, kRates);
  const LayoutGraph::Decision parameter = *layouts.decisionOfTensor(problem.variables[0].second);
  std::set<Cost> costs(layouts.getGraph().costs(parameter.node).begin(), layouts.getGraph().costs(parameter.node).end());
  CHECK(costs.count(0) == 1);                 // held in one layout
  CHECK(costs.count(kRuns * kGatherPs) == 1); // in halves, and whole
  CHECK(costs.count(kGatherPs) == 0);
}

// On two devices. Terms of products stay terms in linear ops, for which both operands of an add have to be terms, up to what several ops
// use.
TEST_CASE("layout graph: linear ops compute on the terms of a sum", "[search]") {
  Stated stated(parse(R"(
    dist.mesh @mesh <["x" = 2]> {costs = #dist.costs<latency_ns = [100], bytes_per_us = [1000]>}
    func.func @forward(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) attributes {nn.program = #nn.program<run>} {
      %p = nn.matmul %a, %b : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
      %q = nn.matmul %b, %a : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
      %n = nn.neg %q : tensor<16x16xf32>
      %s = nn.add %p, %n : tensor<16x16xf32>
      %e = nn.exp %s : tensor<16x16xf32>
      %m = nn.neg %s : tensor<16x16xf32>
      %o = nn.matmul %a, %a : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
      %t = nn.add %o, %a : tensor<16x16xf32>
      return %e, %m, %t : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>
    }
  )"));
  const layout::LayoutProblem &problem = *stated.problem;
  const LayoutGraph layouts(problem, WeightedProgram{0}, ColourClasses::allDifferent(problem), *stated.planner, kRates);
  std::map<std::string, SmallVector<LayoutGraph::Decision>> decisions;
  for (auto [number, op] : llvm::enumerate(problem.ops)) {
    if (auto decision = layouts.decisionOfOp(number)) {
      decisions[op.op->getName().getStringRef().str()].push_back(*decision);
    }
  }
  dist::Layout layout = dist::Layout::replicated(2);
  const auto whole = dist::LayoutAttr::get(&context(), layout);
  layout.partial = {StringAttr::get(&context(), "x")};
  const auto terms = dist::LayoutAttr::get(&context(), layout);
  const auto &[p, q, o] = std::tie(decisions["nn.matmul"][0], decisions["nn.matmul"][1], decisions["nn.matmul"][2]);
  const auto &[n, m] = std::tie(decisions["nn.neg"][0], decisions["nn.neg"][1]);
  const auto &[s, t] = std::tie(decisions["nn.add"][0], decisions["nn.add"][1]);
  auto between = [&](const LayoutGraph::Decision &from, dist::LayoutAttr is, const LayoutGraph::Decision &to, dist::LayoutAttr becomes) {
    return costOf(layouts.getGraph(), from.node, choiceOf(from, is), to.node, choiceOf(to, becomes));
  };
  CHECK(between(q, terms, n, terms) == 0);
  CHECK(between(q, terms, n, whole) > 0);
  CHECK(between(q, whole, n, terms) == kForbidden); // a sum has no terms
  CHECK(between(p, terms, s, terms) == 0);
  CHECK(between(n, terms, s, terms) == 0);
  CHECK(llvm::is_contained(o.layouts, terms));
  for (const LayoutGraph::Decision *other : {&m, &t, &decisions["nn.exp"][0]}) {
    CHECK(!llvm::is_contained(other->layouts, terms));
  }
}

// The scalar is repeated by the kernels that read it, in the layouts that they have: it ties no parameter to another.
TEST_CASE("layout graph: nothing is decided about a scalar that ops repeat", "[search]") {
  Stated stated(parse(R"(
    dist.mesh @mesh <["x" = 2]>
    func.func @forward(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %rate: tensor<f32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {nn.program = #nn.program<run>} {
      %r = nn.broadcast %rate dims = [] : tensor<f32> -> tensor<8x8xf32>
      %y = nn.mul %a, %r : tensor<8x8xf32>
      %z = nn.mul %b, %r : tensor<8x8xf32>
      return %y, %z : tensor<8x8xf32>, tensor<8x8xf32>
    }
  )"));
  const LayoutGraph layouts(*stated.problem, WeightedProgram{0}, ColourClasses::allDifferent(*stated.problem), *stated.planner, kRates);
  for (auto [number, op] : llvm::enumerate(stated.problem->ops)) {
    CHECK(layouts.decisionOfOp(number).has_value() == isa<nn::MulOp>(op.op));
  }
}

// By hand, as above: where the sums of rows are combined their kernel ends, and the next one reads the rows again, 512 bytes of each device
// at 20 a nanosecond, and the sums, which are written for it: 64 bytes, twice. An all-reduce of them takes 2 messages of 100 ns and 64
// bytes.
TEST_CASE("layout graph: a sum that is combined within a kernel has its operands read again", "[search]") {
  constexpr Cost kAllReducePs = 264'000, kReadPs = (512 + 2 * 64) * 50;
  Stated stated(parse(R"(
    dist.mesh @mesh <["x" = 2]> {costs = #dist.costs<latency_ns = [100], bytes_per_us = [1000]>}
    func.func @forward(%a: tensor<16x16xf32>) -> tensor<16x16xf32> attributes {nn.program = #nn.program<run>} {
      %s = nn.reduce sum %a dims = [1] : tensor<16x16xf32> -> tensor<16xf32>
      %b = nn.broadcast %s dims = [0] : tensor<16xf32> -> tensor<16x16xf32>
      %y = nn.sub %a, %b : tensor<16x16xf32>
      return %y : tensor<16x16xf32>
    }
  )"));
  const layout::LayoutProblem &problem = *stated.problem;
  const LayoutGraph layouts(problem, WeightedProgram{0}, ColourClasses::allDifferent(problem), *stated.planner, kRates);
  std::map<StringRef, LayoutGraph::Decision> decisions;
  for (auto [number, op] : llvm::enumerate(problem.ops)) {
    if (auto decision = layouts.decisionOfOp(number)) {
      decisions[op.op->getName().getStringRef()] = *decision;
    }
  }
  const LayoutGraph::Decision &sum = decisions["nn.reduce"], &repeated = decisions["nn.broadcast"];
  dist::Layout layout = dist::Layout::replicated(1);
  layout.partial = {StringAttr::get(&context(), "x")};
  const auto terms = dist::LayoutAttr::get(&context(), layout);
  const auto whole = dist::LayoutAttr::get(&context(), dist::Layout::replicated(2));
  CHECK(costOf(layouts.getGraph(), sum.node, choiceOf(sum, terms), repeated.node, choiceOf(repeated, whole)) == kAllReducePs + kReadPs);
}

// A parameter of 32 bytes on two devices: below 33 bytes its state is laid out as it is, whole or in halves; below 32 only as halves are.
TEST_CASE("layout graph: the state of small parameters is laid out as they are", "[search]") {
  Stated stated(parse(R"(
    dist.mesh @mesh <["x" = 2]>
    nn.variable @w trainable : tensor<8xf32>
    nn.variable @w.m state_of @w : tensor<8xf32>
    func.func @train_step(%g: tensor<8xf32>) attributes {nn.program = #nn.program<train_step>} {
      %w = nn.read @w : tensor<8xf32>
      %m = nn.read @w.m : tensor<8xf32>
      %n = nn.add %m, %g : tensor<8xf32>
      %v = nn.sub %w, %n : tensor<8xf32>
      nn.write @w.m, %n : tensor<8xf32>
      nn.write @w, %v : tensor<8xf32>
      return
    }
  )"));
  const layout::LayoutProblem &problem = *stated.problem;
  dist::Layout split = dist::Layout::replicated(1);
  const auto whole = dist::LayoutAttr::get(&context(), split);
  split.dims[0] = {StringAttr::get(&context(), "x")};
  const auto halves = dist::LayoutAttr::get(&context(), split);
  for (int64_t smallBytes : {33, 32}) {
    INFO(smallBytes);
    const LayoutGraph layouts(problem, WeightedProgram{0}, ColourClasses::allDifferent(problem), *stated.planner, kRates, smallBytes);
    const auto parameter = layouts.decisionOfTensor(problem.variables[0].second),
               state = layouts.decisionOfTensor(problem.variables[1].second);
    REQUIRE((parameter && state));
    auto costOfPair = [&](dist::LayoutAttr one, dist::LayoutAttr other) {
      return costOf(layouts.getGraph(), parameter->node, choiceOf(*parameter, one), state->node, choiceOf(*state, other));
    };
    CHECK(costOfPair(whole, whole) == 0);
    CHECK(costOfPair(halves, halves) == 0);
    CHECK(costOfPair(halves, whole) == kForbidden);
    CHECK(costOfPair(whole, halves) == (smallBytes == 33 ? kForbidden : 0));
  }
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
    nn::setProgram(module->lookupSymbol<func::FuncOp>("f"), nn::ProgramRole::Run);
    OwningOpRef<ModuleOp> after = module->clone();
    PassManager passes(&context());
    SearchLayoutsPassOptions options;
    options.method = seed % 2 == 0 ? Method::DynamicProgramming : Method::IntegerProgram;
    passes.addPass(createSearchLayoutsPass(options));
    REQUIRE(succeeded(passes.run(*after)));
    searched += (*after)->getAttrOfType<dist::SearchAttr>(dist::kSearchAttr).getTaken() == dist::StrategyKind::Search;
    REQUIRE(succeeded(partitionModule(*after)));
    reference::EquivalenceOptions compared;
    compared.functions = {"forward"};
    compared.ranksAfter = mesh.numDevices();
    FailureOr<double> difference = reference::compareModules(*module, *after, compared);
    REQUIRE(succeeded(difference));
    CHECK(*difference <= 1e-11); // sums in another order
  }
  CHECK(searched > 10);
}

// The layers of a deep model are decided as one: four equal layers, of which the first and the last border on something else.
TEST_CASE("colour classes: layers in the middle of a model are one", "[search]") {
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
  Stated stated(parse("dist.mesh @mesh <[\"x\" = 2]>\n" + variables +
                      "func.func @forward(%x: tensor<16x8xf32>) -> tensor<16x8xf32> attributes {nn.program = #nn.program<run>} {\n" + body +
                      "return " + previous + " : tensor<16x8xf32>\n}"));
  ColourClasses classes = findColourClasses(*stated.problem);
  std::set<unsigned> different;
  for (auto [variable, tensor] : stated.problem->variables) {
    different.insert(classes.tensors[tensor]);
  }
  CHECK(different.size() < 8);
  CHECK(classes.tensors[stated.problem->variables[7].second] == classes.tensors[stated.problem->variables[8].second]);
  CHECK(classes.tensors[stated.problem->variables[0].second] != classes.tensors[stated.problem->variables[8].second]);
}

} // namespace ashlar::test::layout_graph_test
