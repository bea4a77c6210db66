// SPDX-License-Identifier: Apache-2.0
//
// The redistribution planner: every pair of layouts, run by the reference interpreter, and the plans one expects.

#include "dialects/dist/redistribution.h"

#include "passes/partition/passes.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

using namespace mlir;

namespace ashlar::test {

namespace {

using dist::Layout;
using Axes = std::vector<std::pair<StringRef, int64_t>>;

// Appends all layouts that extend `layout` by the axes from `next` on, in every place and order.
void appendExtensions(ArrayRef<StringAttr> axes, const Layout &layout, bool withPartial, std::vector<Layout> &all) {
  all.push_back(layout);
  for (StringAttr axis : axes) {
    if (layout.uses(axis)) {
      continue;
    }
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      Layout next = layout;
      next.dims[d].push_back(axis);
      appendExtensions(axes, next, withPartial, all);
    }
    if (withPartial) {
      Layout next = layout;
      next.partial.push_back(axis);
      appendExtensions(axes, next, withPartial, all);
    }
  }
}

std::vector<Layout> allLayouts(dist::MeshAttr mesh, int64_t rank, bool withPartial) {
  std::vector<Layout> all, unique;
  appendExtensions(mesh.getAxes(), Layout::replicated(rank), withPartial, all);
  for (const Layout &layout : all) {
    if (std::find(unique.begin(), unique.end(), layout) == unique.end()) {
      unique.push_back(layout);
    }
  }
  return unique;
}

// Returns a plan as text: "slice 0 {x}; all_gather 1 {y}".
std::string planText(dist::MeshAttr mesh, RankedTensorType type, const Layout &from, const Layout &to) {
  const char *names[] = {"slice", "all_reduce", "reduce_scatter", "all_to_all", "all_gather", "permute"};
  std::string text;
  dist::Planner planner(mesh);
  for (const dist::Step &step : planner.plan(type, from, to).steps) {
    text += (text.empty() ? "" : "; ") + std::string(names[step.kind]);
    text += step.dim >= 0 ? " " + std::to_string(step.dim) : "";
    text += step.concatDim >= 0 ? " from " + std::to_string(step.concatDim) : "";
    for (StringAttr axis : step.axes) {
      text += " " + axis.str();
    }
  }
  return text;
}

Layout layoutOf(StringRef text) {
  return cast<dist::LayoutAttr>(parseAttribute(("#dist.layout<" + text + ">").str(), &context())).getLayout();
}

} // namespace

TEST_CASE("redistribution: every layout to every layout is the identity", "[redistribution]") {
  // Sizes that divide, and sizes that leave padding: at the end of a piece, in the middle of a dim, in all of a piece.
  const std::pair<int64_t, Axes> cases[] = {{12, {{"x", 2}, {"y", 2}}}, {12, {{"x", 4}}},          {12, {{"x", 3}}},
                                            {4, {{"x", 2}, {"y", 3}}},  {5, {{"x", 3}, {"y", 2}}}, {1, {{"x", 2}}}};
  for (const auto &[size, axes] : cases) {
    dist::MeshAttr mesh = meshOf(context(), axes);
    for (int64_t rank : {0, 1, 2}) {
      auto type = RankedTensorType::get(SmallVector<int64_t>(rank, size), Float64Type::get(&context()));
      OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context()));
      OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
      Location loc = module->getLoc();
      dist::MeshOp::create(b, loc, "mesh", mesh);
      int64_t number = 0;
      for (const Layout &from : allLayouts(mesh, rank, /*withPartial=*/true)) {
        for (const Layout &to : allLayouts(mesh, rank, /*withPartial=*/true)) {
          if (!llvm::all_of(to.partial, [&](StringAttr axis) { return llvm::is_contained(from.partial, axis); })) {
            continue;
          }
          auto fromAttr = dist::LayoutAttr::get(&context(), from), toAttr = dist::LayoutAttr::get(&context(), to);
          b.setInsertionPointToEnd(module->getBody());
          auto function = func::FuncOp::create(b, loc, "f" + std::to_string(number++), b.getFunctionType(type, type));
          function.setArgAttr(0, dist::kLayoutAttr, fromAttr);
          function.setResultAttr(0, dist::kLayoutAttr, toAttr);
          b.setInsertionPointToStart(function.addEntryBlock());
          auto op = dist::RedistributeOp::create(b, loc, type, function.getArgument(0), fromAttr, toAttr, StringAttr());
          op->setAttr(dist::kLayoutsAttr, b.getArrayAttr(toAttr));
          func::ReturnOp::create(b, loc, op.getResult());
        }
      }
      PassManager passes(&context());
      passes.addPass(partition::createPartitionPass());
      passes.addPass(partition::createVerifyPartitionedPass());
      REQUIRE(succeeded(passes.run(*module)));
      std::mt19937_64 generator(testSeed());
      reference::Tensor input = reference::randomTensor(type, generator, /*intLimit=*/2);
      reference::Interpreter interpreter(*module, mesh.numDevices());
      for (int64_t i = 0; i < number; ++i) {
        auto results = reference::runGlobal(interpreter, "f" + std::to_string(i), {input});
        REQUIRE(succeeded(results));
        CHECK(reference::maxDifference(input, results->front()) == 0);
      }
    }
  }
}

TEST_CASE("redistribution: plans are the known ones", "[redistribution]") {
  dist::MeshAttr mesh = meshOf(context(), {{"x", 2}, {"y", 4}});
  auto type = RankedTensorType::get({16, 16}, Float32Type::get(&context()));
  auto plan = [&](StringRef from, StringRef to) { return planText(mesh, type, layoutOf(from), layoutOf(to)); };

  CHECK(plan("[{}, {}]", "[{}, {}]") == "");
  CHECK(plan("[{}, {}]", "[{\"x\"}, {}]") == "slice 0 x");
  CHECK(plan("[{}, {}]", "[{\"x\", \"y\"}, {}]") == "slice 0 x y");
  CHECK(plan("[{\"x\"}, {}]", "[{}, {}]") == "all_gather 0 x");
  CHECK(plan("[{\"x\", \"y\"}, {}]", "[{}, {}]") == "all_gather 0 x y");
  CHECK(plan("[{\"x\", \"y\"}, {}]", "[{\"x\"}, {}]") == "all_gather 0 y");
  CHECK(plan("[{\"x\"}, {}]", "[{}, {\"x\"}]") == "all_to_all 1 from 0 x");
  CHECK(plan("[{}, {}], partial = sum {\"x\"}", "[{}, {}]") == "all_reduce x");
  CHECK(plan("[{}, {}], partial = sum {\"x\", \"y\"}", "[{}, {}]") == "all_reduce x y");
  CHECK(plan("[{}, {}], partial = sum {\"x\"}", "[{}, {\"x\"}]") == "reduce_scatter 1 x");
  CHECK(plan("[{}, {}], partial = max {\"x\", \"y\"}", "[{\"x\", \"y\"}, {}]") == "reduce_scatter 0 x y");
  // The free slice goes first: the sum then moves half as much.
  CHECK(plan("[{}, {}], partial = sum {\"y\"}", "[{\"x\"}, {}]") == "slice 0 x; all_reduce y");
  // Two axes that change places in a dim travel through the other dim; nothing is gathered.
  CHECK_THAT(plan("[{\"x\", \"y\"}, {}]", "[{\"y\", \"x\"}, {}]"), !Catch::Matchers::Contains("all_gather"));
}

TEST_CASE("redistribution: no layout on the way is larger than both ends", "[redistribution]") {
  dist::MeshAttr mesh = meshOf(context(), {{"x", 2}, {"y", 2}, {"z", 2}});
  auto type = RankedTensorType::get({8, 8}, Float32Type::get(&context()));
  auto elements = [&](const Layout &layout) { return dist::localType(mesh, type, layout).getNumElements(); };
  std::vector<Layout> layouts = allLayouts(mesh, /*rank=*/2, /*withPartial=*/false);
  dist::Planner planner(mesh);
  for (const Layout &from : layouts) {
    for (const Layout &to : layouts) {
      Layout layout = from;
      for (const dist::Step &step : planner.plan(type, from, to).steps) {
        layout = dist::applyStep(layout, step);
        CHECK(elements(layout) <= std::max(elements(from), elements(to)));
      }
      CHECK(layout == to);
    }
  }
}

} // namespace ashlar::test
