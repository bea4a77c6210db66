// SPDX-License-Identifier: Apache-2.0
//
// Meshes that are cut for their redistributions: what programs send on them, and that they compute what one rank does.

#include "passes/analysis/planner/numbered_problem.h"
#include "passes/analysis/planner/redistribution_bound.h"
#include "passes/layout/redistribute/decide.h"
#include "test/unit/layout/measured_partition.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/AsmParser/AsmParser.h"

#include "llvm/ADT/StringExtras.h"

#include <catch2/catch.hpp>
#include <iostream>

namespace ashlar::test::cut_axes_test {

using namespace mlir;

namespace {

using dist::Layout;
using Axes = std::vector<std::pair<StringRef, int64_t>>;

Layout layoutOf(StringRef text) {
  return cast<dist::LayoutAttr>(parseAttribute(("#dist.layout<" + text + ">").str(), &context())).getLayout();
}

// Returns a module whose function @f takes tensors of a type, in layouts, and returns them in others.
OwningOpRef<ModuleOp> moving(dist::MeshAttr mesh, RankedTensorType type, ArrayRef<std::pair<Layout, Layout>> ends) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context()));
  OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
  dist::MeshOp::create(b, module->getLoc(), "mesh", mesh);
  SmallVector<Type> types(ends.size(), type);
  auto function = func::FuncOp::create(b, module->getLoc(), "f", b.getFunctionType(types, types));
  for (auto [i, pair] : llvm::enumerate(ends)) {
    function.setArgAttr(i, dist::kLayoutAttr, dist::LayoutAttr::get(&context(), pair.first));
    function.setResultAttr(i, dist::kLayoutAttr, dist::LayoutAttr::get(&context(), pair.second));
  }
  b.setInsertionPointToStart(function.addEntryBlock());
  func::ReturnOp::create(b, module->getLoc(), function.getArguments());
  return module;
}

MeasuredPartition partitioned(ModuleOp module) {
  return measurePartition(module, /*intLimit=*/4);
}

} // namespace

TEST_CASE("cut axes: a swap sends what it does where the axes are written as parts", "[cut_axes]") {
  struct Case {
    Axes axes, parts;
    StringRef from, to, fromParts, toParts;
    int64_t bytes; // as pieces of the whole tensor: of 48 x 48 elements of 8 bytes
  };
  const Case cases[] = {
      {{{"x", 2}, {"y", 4}},
       {{"x", 2}, {"y1", 2}, {"y2", 2}},
       R"([{"x"}, {"y"}])",
       R"([{"y"}, {"x"}])",
       R"([{"x"}, {"y1", "y2"}])",
       R"([{"y1", "y2"}, {"x"}])",
       /*bytes=*/2304 + 1152}, // a permute, and half an all-to-all
      {{{"x", 4}, {"y", 2}},
       {{"x1", 2}, {"x2", 2}, {"y", 2}},
       R"([{"x"}, {"y"}])",
       R"([{"y"}, {"x"}])",
       R"([{"x1", "x2"}, {"y"}])",
       R"([{"y"}, {"x1", "x2"}])",
       /*bytes=*/2304 + 1152},
      {{{"x", 2}, {"y", 8}},
       {{"x", 2}, {"y1", 2}, {"y2", 4}},
       R"([{"x"}, {"y"}])",
       R"([{"y"}, {"x"}])",
       R"([{"x"}, {"y1", "y2"}])",
       R"([{"y1", "y2"}, {"x"}])",
       /*bytes=*/1152 + 864},
      {{{"x", 4}, {"y", 6}},
       {{"x1", 2}, {"x2", 2}, {"y1", 2}, {"y2", 3}},
       R"([{"x"}, {"y"}])",
       R"([{"y"}, {"x"}])",
       R"([{"x1", "x2"}, {"y1", "y2"}])",
       R"([{"y1", "y2"}, {"x1", "x2"}])",
       /*bytes=*/768 + 384 + 512},
  };
  for (const Case &test : cases) {
    auto type = RankedTensorType::get({48, 48}, Float64Type::get(&context()));
    dist::MeshAttr mesh = meshOf(context(), test.axes), parts = meshOf(context(), test.parts);
    CAPTURE(test.from.str(), mesh.numDevices());
    MeasuredPartition whole = partitioned(*moving(mesh, type, {{layoutOf(test.from), layoutOf(test.to)}}));
    MeasuredPartition written = partitioned(*moving(parts, type, {{layoutOf(test.fromParts), layoutOf(test.toParts)}}));
    CHECK(whole.isCut);
    CHECK_FALSE(written.isCut);
    CHECK(whole.bytes == written.bytes);
    CHECK(whole.bytes == test.bytes);
    CHECK(whole.bytes == whole.estimatedBytes);
    CHECK(whole.difference == 0);
  }
}

TEST_CASE("cut axes: random programs compute on cut meshes what one rank does", "[cut_axes][random]") {
  int64_t cut = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Axes axes = seed % 2 == 0 ? Axes{{"x", 2}, {"y", 4}} : Axes{{"x", 4}, {"y", 2}};
    CAPTURE(seed);
    OwningOpRef<ModuleOp> module = randomProgram(context(), seed, meshOf(context(), axes), /*numOps=*/12);
    MeasuredPartition found = partitioned(*module);
    if (found.isCut) {
      ++cut;
      CHECK(found.bytes == found.estimatedBytes);
      CHECK(found.difference < 1e-11); // sums are added in another order
    }
  }
  CAPTURE(cut);
  CHECK(cut >= 6);
}

TEST_CASE("cut axes: all redistributions together take less time", "[cut_axes]") {
  int64_t cut = 0, none = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Dice dice(seed);
    const Axes axes = seed % 2 == 0 ? Axes{{"x", 2}, {"y", 4}, {"z", 8}} : Axes{{"x", 2}, {"y", 4}, {"z", 6}, {"w", 2}};
    dist::MeshAttr mesh = meshOf(context(), axes);
    auto type = RankedTensorType::get({96, 192, 96}, Float32Type::get(&context()));
    SmallVector<std::pair<Layout, Layout>> ends;
    for (int64_t i = 1 + dice.roll(4); i > 0; --i) {
      Layout from = randomLayout(dice, mesh, type.getShape()), to = randomLayout(dice, mesh, type.getShape());
      ends.push_back({from, to});
    }
    OwningOpRef<ModuleOp> module = moving(mesh, type, ends);
    FailureOr<layout::LayoutProblem> problem = layout::LayoutProblem::create(*module, mesh);
    REQUIRE(succeeded(problem));
    analysis::Planner planner(mesh, dist::CostsAttr(), analysis::Cuts::Allowed);
    FailureOr<layout::Assignment> assignment = layout::decide(*problem, planner);
    REQUIRE(succeeded(assignment));
    const std::optional<analysis::MeshRefinement> &cuts = assignment->cuts;
    if (!cuts) {
      ++none;
      continue;
    }
    ++cut;
    analysis::Planner finer(cuts->refinedMesh());
    int64_t before = 0, after = 0;
    for (const auto &[from, to] : ends) {
      before += planner.withoutCuts().plan(type, from, to).timePs;
      after += finer.plan(type, cuts->refine(from), cuts->refine(to)).timePs;
    }
    CAPTURE(seed);
    CHECK(after < before);
  }
  CAPTURE(cut, none);
  CHECK(cut >= 50);
  CHECK(none >= 50);
}

namespace {

// A mesh, and the same devices on axes of prime sizes: axis i of the mesh is the axes `parts[i]` of the other, major to minor.
struct PrimeMesh {
  explicit PrimeMesh(ArrayRef<int64_t> sizes) {
    std::vector<std::string> names, primeNames;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      names.push_back("x" + std::to_string(axis));
      parts.emplace_back();
      int64_t left = sizes[axis];
      for (int64_t factor = 2; left > 1; left % factor == 0 ? left /= factor : ++factor) {
        if (left % factor == 0) {
          primeNames.push_back(names.back() + "_" + std::to_string(parts.back().size()));
          primes.push_back(factor);
          parts.back().push_back(StringAttr::get(&context(), primeNames.back()));
        }
      }
    }
    auto toMesh = [](ArrayRef<std::string> axes, ArrayRef<int64_t> lengths) {
      std::vector<std::pair<StringRef, int64_t>> list;
      for (auto [name, length] : llvm::zip_equal(axes, lengths)) {
        list.push_back({name, length});
      }
      return meshOf(context(), list);
    };
    mesh = toMesh(names, sizes);
    prime = toMesh(primeNames, primes);
  }

  // Returns a layout on the axes of prime sizes.
  Layout refine(const Layout &layout) const {
    Layout refined = layout;
    auto replace = [&](dist::AxisList &axes) {
      dist::AxisList all;
      for (StringAttr axis : axes) {
        llvm::append_range(all, parts[*mesh.findAxis(axis)]);
      }
      axes = all;
    };
    llvm::for_each(refined.dims, replace);
    replace(refined.partial);
    return refined;
  }

  // Returns the links of the axes of prime sizes.
  std::vector<analysis::Link> refine(ArrayRef<analysis::Link> links) const {
    std::vector<analysis::Link> refined;
    for (auto [link, axes] : llvm::zip_equal(links, parts)) {
      refined.insert(refined.end(), axes.size(), link);
    }
    return refined;
  }

  dist::MeshAttr mesh, prime;
  std::vector<dist::AxisList> parts;
  std::vector<int64_t> primes;
};

// Adds all layouts that extend `layout` by axes from number `next` on: at any place of a dim, over which it is partial, or nowhere.
void addLayouts(dist::MeshAttr mesh, Layout layout, size_t next, std::vector<Layout> &all) {
  if (next == mesh.getAxes().size()) {
    all.push_back(layout);
    return;
  }
  StringAttr axis = mesh.getAxes()[next];
  addLayouts(mesh, layout, next + 1, all);
  for (dist::AxisList &dim : layout.dims) {
    for (size_t place = 0; place <= dim.size(); ++place) {
      dim.insert(dim.begin() + place, axis);
      addLayouts(mesh, layout, next + 1, all);
      dim.erase(dim.begin() + place);
    }
  }
  layout.partial.push_back(axis);
  addLayouts(mesh, layout, next + 1, all);
}

// How plans compare with the best ones on axes of prime sizes, in numbers of plans.
struct Comparison {
  int64_t plans = 0, cut = 0, slower = 0; // than the best one
  int64_t aboveBound = 0;                 // of those that are as fast as the best one
  double worst = 1;                       // the time of a plan, in times of the best one
};

// Compares all pairs of layouts of a matrix, and prints each plan that is slower than the best one, with the bound.
Comparison comparePlans(const PrimeMesh &meshes, ArrayRef<analysis::Link> links) {
  Comparison found;
  const std::vector<analysis::Link> primeLinks = meshes.refine(links);
  analysis::Planner planner(meshes.mesh, analysis::costsOf(&context(), links), analysis::Cuts::Allowed);
  analysis::Planner best(meshes.prime, analysis::costsOf(&context(), primeLinks));
  auto type = RankedTensorType::get({96, 192}, Float32Type::get(&context()));
  std::vector<Layout> layouts;
  addLayouts(meshes.mesh, Layout::replicated(type.getRank()), 0, layouts);
  for (const Layout &from : layouts) {
    for (const Layout &to : layouts) {
      if (from == to || !llvm::all_of(to.partial, [&](StringAttr axis) { return llvm::is_contained(from.partial, axis); })) {
        continue;
      }
      const analysis::Plan &plan = planner.plan(type, from, to), &shortest = best.plan(type, meshes.refine(from), meshes.refine(to));
      analysis::NumberedProblem problem(meshes.prime, primeLinks, type, meshes.refine(from), meshes.refine(to));
      const int64_t bound = analysis::leastTimePs(analysis::SearchSpace(problem.get()), problem.get().from);
      CAPTURE(from.toString(), to.toString());
      CHECK(plan.timePs <= plan.wholePs);
      CHECK(plan.timePs >= shortest.timePs);
      CHECK(shortest.timePs >= bound);
      ++found.plans;
      found.cut += plan.cuts ? 1 : 0;
      if (plan.timePs > shortest.timePs) {
        ++found.slower;
        found.worst = std::max(found.worst, static_cast<double>(plan.timePs) / static_cast<double>(shortest.timePs));
        std::cout << "  " << from.toString() << " to " << to.toString() << ": " << plan.timePs << " ps, the best " << shortest.timePs
                  << " ps, at least " << bound << " ps\n";
      } else {
        found.aboveBound += plan.timePs > bound ? 1 : 0;
      }
    }
  }
  return found;
}

} // namespace

// On axes of prime sizes, at most four of them, the search is exhaustive. Where only bytes count, no plan is slower than its best. Where
// messages have a latency, a few are: of a single all-to-all, which is never cut, and of sums that a part of an axis could scatter.
TEST_CASE("cut axes: plans are as fast as the best ones on axes of prime sizes", "[cut_axes][oracle][slow]") {
  for (const std::vector<int64_t> &sizes : std::vector<std::vector<int64_t>>{{2, 4}, {4, 4}, {2, 8}, {3, 4}, {6}, {2, 3}}) {
    PrimeMesh meshes(sizes);
    REQUIRE(meshes.primes.size() <= analysis::kExactAxes);
    std::vector<analysis::Link> equal(sizes.size()), unequal(sizes.size(), analysis::Link{20, 20000}),
        latency(sizes.size(), analysis::Link{200, 1000});
    unequal.front() = {2000, 500};
    for (const std::vector<analysis::Link> &links : {equal, unequal, latency}) {
      std::cout << "mesh " << llvm::join(llvm::map_range(sizes, [](int64_t size) { return std::to_string(size); }), " x ") << ", links of "
                << links.front().latencyNs << " ns, " << links.front().bytesPerUs << " bytes/us:\n";
      Comparison found = comparePlans(meshes, links);
      std::cout << "  " << found.plans << " plans, " << found.cut << " cut axes, " << found.slower
                << " are slower than the best one, by up to " << found.worst << ", " << found.aboveBound << " others do not reach the bound"
                << std::endl;
      CAPTURE(sizes, links.front().latencyNs);
      CHECK(found.slower <= (links.front().latencyNs == 0 ? 0 : 4));
      CHECK(found.worst < 1.5);
    }
  }
}

// 8192 x 8192 f32 on 2 x 4: each of 8 devices holds 33.6 MB. An all-to-all over a part of 2 sends half of that, a permute all.
TEST_CASE("cut axes: a swap of 8192 x 8192 sends 50.3 MB a device", "[cut_axes]") {
  dist::MeshAttr mesh = meshOf(context(), {{"dp", 2}, {"tp", 4}});
  auto type = RankedTensorType::get({8192, 8192}, Float32Type::get(&context()));
  const Layout from = layoutOf(R"([{"dp"}, {"tp"}])"), to = layoutOf(R"([{"tp"}, {"dp"}])");
  analysis::Planner planner(mesh, dist::CostsAttr(), analysis::Cuts::Allowed);
  const int64_t held = int64_t(8192) * 8192 * 4 / 8;
  CHECK(planner.plan(type, from, to).bytes == held + held / 2);
  CHECK(planner.withoutCuts().plan(type, from, to).bytes == held + held * 7 / 8);
  REQUIRE(planner.plan(type, from, to).cuts);
  CHECK(planner.plan(type, from, to).cuts->refinedMesh() == meshOf(context(), {{"dp", 2}, {"tp:(1)2", 2}, {"tp:(2)2", 2}}));
}

} // namespace ashlar::test::cut_axes_test
