// SPDX-License-Identifier: Apache-2.0
//
// Plans on more axes than the planner searches exhaustively: what they cost to make is counted in layouts, and what they lose is measured
// against the exhaustive search, which is kept for that on as many axes as it can take.

#include "dialects/support/element_type.h"
#include "passes/analysis/planner/numbered_problem.h"
#include "passes/analysis/planner/redistribution_bound.h"

#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>

#include <algorithm>

namespace ashlar::test::many_axes_test {

using namespace mlir;

namespace {

using analysis::Link;
using analysis::RedistributionSearch;
using dist::Layout;

// A mesh, its links, a tensor, and the ends of a redistribution.
struct Problem {
  dist::MeshAttr mesh;
  SmallVector<Link> links;
  RankedTensorType type;
  Layout from, to;

  std::string text() const {
    std::string text;
    llvm::raw_string_ostream(text) << mesh << " " << type << " " << from.toString() << " to " << to.toString();
    return text;
  }
};

int64_t draw(std::mt19937_64 &random, int64_t count) {
  return static_cast<int64_t>(random() % count);
}

// Draws a layout that is partial over some of `summed`, and that splits dims over some of the other axes where they divide.
Layout drawLayout(std::mt19937_64 &random, dist::MeshAttr mesh, ArrayRef<int64_t> shape, ArrayRef<StringAttr> summed, bool isUneven) {
  Layout layout = Layout::replicated(shape.size());
  SmallVector<StringAttr> axes(mesh.getAxes());
  std::shuffle(axes.begin(), axes.end(), random);
  for (StringAttr axis : axes) {
    if (llvm::is_contained(summed, axis)) {
      layout.partial.push_back(axis);
      continue;
    }
    size_t d = draw(random, shape.size() + 1);
    if (d == shape.size()) {
      continue;
    }
    dist::AxisList list = layout.dims[d];
    list.push_back(axis);
    if (isUneven ? mesh.groupSize(list) <= shape[d] : dist::isEven(mesh, shape[d], list)) {
      layout.dims[d] = list;
    }
  }
  return layout;
}

Problem drawProblem(std::mt19937_64 &random, size_t axes, bool isUneven = false) {
  static const char *const kNames[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
  std::vector<std::pair<StringRef, int64_t>> mesh;
  SmallVector<Link> links;
  const Link kLinks[] = {{0, 1000}, {2000, 1200}, {60, 23000}};
  int64_t sizes = draw(random, 3), costs = draw(random, 3);
  for (size_t axis = 0; axis < axes; ++axis) {
    int64_t size = sizes < 2 ? 2 : 2 + draw(random, 3);
    mesh.push_back({kNames[axis], size});
    links.push_back(costs == 0 ? kLinks[0] : costs == 1 ? kLinks[axis < axes / 2 ? 1 : 2] : kLinks[1 + draw(random, 2)]);
  }
  Problem problem;
  problem.mesh = meshOf(context(), mesh);
  problem.links = links;
  SmallVector<int64_t> shape;
  for (int64_t d = 1 + draw(random, 3); d > 0; --d) {
    int64_t size = int64_t(24) << draw(random, 12);
    shape.push_back(isUneven ? size + draw(random, size) : size);
  }
  problem.type = RankedTensorType::get(shape, Float32Type::get(&context()));
  SmallVector<StringAttr> summed, kept;
  for (StringAttr axis : problem.mesh.getAxes()) {
    if (draw(random, 4) == 0) {
      summed.push_back(axis);
      if (draw(random, 4) == 0) {
        kept.push_back(axis);
      }
    }
  }
  problem.from = drawLayout(random, problem.mesh, shape, summed, isUneven);
  problem.to = drawLayout(random, problem.mesh, shape, kept, isUneven);
  return problem;
}

analysis::Plan search(const analysis::NumberedProblem &problem, RedistributionSearch::Effort effort) {
  auto steps = RedistributionSearch(problem.get(), effort).run();
  REQUIRE(steps);
  return problem.name(*steps);
}

// Returns whether `plan` may have been missed by a search that found `best` looking at every way: it needs more memory, or more time.
bool isNoBetter(const analysis::Plan &plan, const analysis::Plan &best) {
  return plan.peakBytes > best.peakBytes || plan.timePs >= best.timePs;
}

dist::CostsAttr costsOf(ArrayRef<Link> links) {
  return analysis::costsOf(&context(), links);
}

// Gives some kinds of collectives costs of their own: between a fifth and five times those of the link.
void drawKinds(std::mt19937_64 &random, Link &link) {
  auto scaled = [&](int64_t number) { return std::max<int64_t>(1, number * (1 + draw(random, 25)) / 5); };
  for (CollectiveKind kind : analysis::kSendingKinds) {
    if (draw(random, 2) == 0) {
      link.set(kind, {scaled(link.latencyNs), scaled(link.bytesPerUs)});
    }
  }
}

// How much slower some ways are than others.
class Ratios {
public:
  void add(int64_t time, int64_t other) {
    double ratio = time == other ? 1 : static_cast<double>(time) / static_cast<double>(other);
    sum += ratio;
    worst = std::max(worst, ratio);
    equal += time == other;
    ++count;
  }
  double mean() const { return sum / static_cast<double>(count); }
  double shareOfEqual() const { return static_cast<double>(equal) / static_cast<double>(count); }
  double worst = 1;

private:
  double sum = 0;
  int64_t equal = 0, count = 0;
};

// Checks that the steps of a plan lead to the end, and that the plan says of itself what they cost.
void checkPlan(const Problem &problem, const analysis::Plan &plan) {
  INFO(problem.text());
  Layout layout = problem.from;
  int64_t time = 0, peak = 0;
  auto bytes = [&] { return static_cast<int64_t>(byteSize(dist::localType(problem.mesh, problem.type, layout))); };
  peak = bytes();
  for (const analysis::Step &step : plan.steps) {
    layout = analysis::applyStep(layout, step);
    time += step.timePs;
    peak = std::max(peak, bytes());
  }
  CHECK(layout == problem.to);
  CHECK(time == plan.timePs);
  CHECK(peak == plan.peakBytes);
  CHECK(plan.leastPs <= plan.timePs);
}

} // namespace

TEST_CASE("many axes: a focused search finds what an exhaustive one does, or little less", "[many_axes]") {
  for (bool isUneven : {false, true}) {
    std::mt19937_64 random(testSeed());
    Ratios ratios;
    for (int i = 0; i < 400; ++i) {
      Problem problem = drawProblem(random, /*axes=*/4, isUneven);
      INFO(problem.text());
      analysis::NumberedProblem numbered(problem.mesh, problem.links, problem.type, problem.from, problem.to);
      analysis::Plan exact = search(numbered, RedistributionSearch::Exhaustive), focused = search(numbered, RedistributionSearch::Focused);
      CHECK(isNoBetter(focused, exact));
      CHECK(analysis::leastTimePs(analysis::SearchSpace(numbered.get()), numbered.get().from) <= exact.timePs);
      ratios.add(focused.timePs, exact.timePs);
    }
    // Seen with four seeds: at most 1.03 and 1.09, at least 0.88 and 0.85.
    INFO("uneven: " << isUneven << ", worst " << ratios.worst);
    CHECK(ratios.mean() < 1.2);
    CHECK(ratios.shareOfEqual() > 0.8);
  }
}

// A machine on which kinds of collectives are not equally fast: plans are the best, never faster than the bound, and slower where a kind
// is slower.
TEST_CASE("many axes: kinds with costs of their own", "[many_axes]") {
  std::mt19937_64 random(testSeed());
  Ratios ratios;
  for (int i = 0; i < 300; ++i) {
    Problem problem = drawProblem(random, /*axes=*/4);
    llvm::DenseMap<int64_t, Link> drawn; // axes of equal links stay equal
    for (Link &link : problem.links) {
      auto [entry, isNew] = drawn.try_emplace(link.bytesPerUs, link);
      if (isNew) {
        drawKinds(random, entry->second);
      }
      link = entry->second;
    }
    INFO(problem.text());
    analysis::NumberedProblem numbered(problem.mesh, problem.links, problem.type, problem.from, problem.to);
    analysis::Plan exact = search(numbered, RedistributionSearch::Exhaustive), focused = search(numbered, RedistributionSearch::Focused);
    CHECK(isNoBetter(focused, exact));
    CHECK(analysis::leastTimePs(analysis::SearchSpace(numbered.get()), numbered.get().from) <= exact.timePs);
    ratios.add(focused.timePs, exact.timePs);
    analysis::Planner planner(problem.mesh, costsOf(problem.links));
    const analysis::Plan &plan = planner.plan(problem.type, problem.from, problem.to);
    checkPlan(problem, plan);
    SmallVector<Link> slower = problem.links;
    CollectiveKind kind = analysis::kSendingKinds[draw(random, std::size(analysis::kSendingKinds))];
    for (Link &link : slower) {
      const analysis::MessageCost cost = link.of(kind);
      link.set(kind, {2 * cost.latencyNs, std::max<int64_t>(1, cost.bytesPerUs / 2)});
    }
    analysis::Planner slowerPlanner(problem.mesh, costsOf(slower));
    CHECK(slowerPlanner.plan(problem.type, problem.from, problem.to).timePs >= plan.timePs);
  }
  INFO("worst " << ratios.worst << ", mean " << ratios.mean() << ", equal " << ratios.shareOfEqual());
  CHECK(ratios.mean() < 1.2);
}

// What joining axes rests on: of one kind, one collective over two axes of equal links takes no longer than two over one each.
TEST_CASE("many axes: one collective over two axes takes no longer than two", "[many_axes]") {
  std::mt19937_64 random(testSeed());
  for (int i = 0; i < 2000; ++i) {
    Link link{draw(random, 5000), 1 + draw(random, 30000)};
    drawKinds(random, link);
    const int64_t a = 2 + draw(random, 9), b = 2 + draw(random, 9), piece = 1 + draw(random, 1 << 20), bytes = piece * a * b;
    CAPTURE(a, b, bytes, link.latencyNs, link.bytesPerUs);
    auto time = [&](CollectiveKind kind, int64_t operand, int64_t size) { return analysis::collectiveTimePs(kind, operand, size, link); };
    CHECK(time(CollectiveKind::AllReduce, bytes, a * b) <=
          time(CollectiveKind::AllReduce, bytes, a) + time(CollectiveKind::AllReduce, bytes, b));
    CHECK(time(CollectiveKind::ReduceScatter, bytes, a * b) <=
          time(CollectiveKind::ReduceScatter, bytes, a) + time(CollectiveKind::ReduceScatter, bytes / a, b));
    CHECK(time(CollectiveKind::AllGather, piece, a * b) <=
          time(CollectiveKind::AllGather, piece, b) + time(CollectiveKind::AllGather, piece * b, a));
  }
}

TEST_CASE("many axes: axes side by side are one, which loses little", "[many_axes]") {
  std::mt19937_64 random(testSeed());
  Ratios ratios;
  int64_t count = 0;
  while (count < 40) {
    Problem problem = drawProblem(random, /*axes=*/5);
    analysis::NumberedProblem joined(problem.mesh, problem.links, problem.type, problem.from, problem.to);
    analysis::NumberedProblem whole(problem.mesh, problem.links, problem.type, problem.from, problem.to, analysis::kMostAxes);
    auto isUsed = [&](StringAttr axis) { return problem.from.uses(axis) || problem.to.uses(axis); };
    if (!llvm::all_of(problem.mesh.getAxes(), isUsed) || joined.get().axes.size() > analysis::kExactAxes || problem.type.getRank() > 2) {
      continue;
    }
    ++count;
    INFO(problem.text());
    analysis::Plan exact = search(whole, RedistributionSearch::Exhaustive);
    analysis::Planner planner(problem.mesh, costsOf(problem.links));
    const analysis::Plan &plan = planner.plan(problem.type, problem.from, problem.to);
    checkPlan(problem, plan);
    CHECK(isNoBetter(plan, exact));
    CHECK(plan.leastPs <= exact.timePs);
    ratios.add(plan.timePs, exact.timePs);
  }
  // Seen with four seeds: at most 1.015, at least 0.95.
  INFO("worst " << ratios.worst);
  CHECK(ratios.mean() < 1.05);
  CHECK(ratios.shareOfEqual() > 0.85);
}

TEST_CASE("many axes: ten cost a bounded number of layouts, and no memory that four would not", "[many_axes]") {
  // Axes moved as one and axes apart, each within the memory of the ends and without that limit; or all layouts of four axes.
  constexpr int64_t kMostCounted = 4000;
  std::mt19937_64 random(testSeed());
  for (int i = 0; i < 200; ++i) {
    bool isUneven = i % 4 == 3;
    Problem problem = drawProblem(random, /*axes=*/10, isUneven);
    analysis::Planner planner(problem.mesh, costsOf(problem.links));
    const analysis::Plan &plan = planner.plan(problem.type, problem.from, problem.to);
    checkPlan(problem, plan);
    CHECK(planner.countExpanded() <= kMostCounted);
    bool isTwos = llvm::all_of(problem.mesh.getSizes(), [](int64_t size) { return size == 2; });
    if (isTwos && !isUneven) {
      auto bytes = [&](const Layout &layout) {
        return static_cast<int64_t>(byteSize(dist::localType(problem.mesh, problem.type, layout)));
      };
      INFO(problem.text());
      CHECK(plan.peakBytes <= std::max(bytes(problem.from), bytes(problem.to)));
    }
    std::optional<analysis::Plan> other = planner.runnerUp(problem.type, problem.from, problem.to);
    if (other) {
      checkPlan(problem, *other);
    }
    CHECK(planner.countExpanded() <= 2 * kMostCounted);
  }
}

TEST_CASE("many axes: what ten axes do together costs what one does", "[many_axes]") {
  std::vector<std::pair<StringRef, int64_t>> axes;
  for (StringRef name : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}) {
    axes.push_back({name, 2});
  }
  SmallVector<Link> links(10, Link{60, 23000});
  dist::MeshAttr mesh = meshOf(context(), axes), single = meshOf(context(), {{"a", 1024}});
  analysis::Planner planner(mesh, costsOf(links)), planOne(single, costsOf(links[0]));
  auto type = RankedTensorType::get({2048, 4096}, Float32Type::get(&context()));
  Layout whole = Layout::replicated(2), rows = whole, columns = whole, terms = whole;
  rows.dims[0].append(mesh.getAxes().begin(), mesh.getAxes().end());
  columns.dims[1] = rows.dims[0];
  terms.partial = rows.dims[0];
  terms.reduction = Reduction::Sum;
  auto one = [&](const Layout &layout) {
    Layout first = layout;
    for (dist::AxisList *list : {&first.dims[0], &first.dims[1], &first.partial}) {
      list->truncate(std::min<size_t>(list->size(), 1));
    }
    return first;
  };
  const Layout *const ends[][2] = {{&terms, &whole}, {&terms, &rows}, {&rows, &whole}, {&whole, &columns}};
  for (const auto &[from, to] : ends) {
    INFO(from->toString() << " to " << to->toString());
    const analysis::Plan &plan = planner.plan(type, *from, *to);
    checkPlan({mesh, links, type, *from, *to}, plan);
    CHECK(plan.steps.size() == 1);
    CHECK(plan.timePs == planOne.plan(type, one(*from), one(*to)).timePs);
    CHECK(plan.leastPs == plan.timePs);
  }
  CHECK(planner.countExpanded() <= 20);
  // One all-to-all has 1023 messages one after the other. Apart, the axes do it in steps; nothing proves that these are the best.
  const analysis::Plan &turned = planner.plan(type, rows, columns);
  checkPlan({mesh, links, type, rows, columns}, turned);
  CHECK(turned.timePs < planOne.plan(type, one(rows), one(columns)).timePs / 2);
  CHECK(turned.leastPs < turned.timePs);
}

} // namespace ashlar::test::many_axes_test
