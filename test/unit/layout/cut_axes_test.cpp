// SPDX-License-Identifier: Apache-2.0
//
// Meshes that are cut for their redistributions: what programs send on them, and that they compute what one rank does.

#include "compiler/reference/equivalence.h"
#include "passes/layout/inference/propagate_layouts.h"
#include "passes/layout/redistribute/cut_axes.h"
#include "passes/layout/redistribute/decide.h"
#include "passes/layout/redistribute/estimate.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/AsmParser/AsmParser.h"

#include <catch2/catch.hpp>

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

// What became of @f of a module.
struct Partitioned {
  int64_t bytes = 0;          // that a device sends
  int64_t estimatedBytes = 0; // and what it was predicted to
  bool isCut = false;         // the mesh has parts of axes
  double difference = 0;      // the largest, of what all devices and one rank compute
};

Partitioned partitioned(ModuleOp module) {
  Partitioned found;
  OwningOpRef<ModuleOp> inferred = module.clone(), after = module.clone();
  REQUIRE(succeeded(layout::propagateLayouts(*inferred, /*splitVariables=*/false)));
  FailureOr<layout::Estimate> estimate = layout::estimateLayouts(*inferred);
  REQUIRE(succeeded(estimate));
  found.estimatedBytes = estimate->programs.front().bytesSent;
  REQUIRE(succeeded(partitionModule(*after)));
  after->walk([&](dist::CollectiveOpInterface op) { found.bytes += dist::collectiveBytes(op); });
  found.isCut = dist::findMesh(*after).getMesh() != dist::findMesh(module).getMesh();
  reference::EquivalenceOptions options;
  options.functions = {"f"};
  options.intLimit = 4;
  options.ranksAfter = dist::findMesh(module).getMesh().numDevices();
  FailureOr<double> difference = reference::compareModules(module, *after, options);
  REQUIRE(succeeded(difference));
  found.difference = *difference;
  return found;
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
    Partitioned whole = partitioned(*moving(mesh, type, {{layoutOf(test.from), layoutOf(test.to)}}));
    Partitioned written = partitioned(*moving(parts, type, {{layoutOf(test.fromParts), layoutOf(test.toParts)}}));
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
    Partitioned found = partitioned(*module);
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
    analysis::Planner planner(mesh);
    FailureOr<layout::Assignment> assignment = layout::decide(*problem, planner);
    REQUIRE(succeeded(assignment));
    std::optional<layout::MeshRefinement> cuts = layout::findCuts(*problem, *assignment, planner);
    if (!cuts) {
      ++none;
      continue;
    }
    ++cut;
    analysis::Planner finer(cuts->refinedMesh());
    int64_t before = 0, after = 0;
    for (const auto &[from, to] : ends) {
      before += planner.plan(type, from, to).timePs;
      after += finer.plan(type, cuts->refine(from), cuts->refine(to)).timePs;
    }
    CAPTURE(seed);
    CHECK(after < before);
  }
  CAPTURE(cut, none);
  CHECK(cut >= 50);
  CHECK(none >= 50);
}

} // namespace ashlar::test::cut_axes_test
