// SPDX-License-Identifier: Apache-2.0
//
// The redistribution planner: every pair of layouts, run by the reference interpreter, and the plans one expects.

#include "passes/analysis/planner/redistribution.h"

#include "passes/partition/passes.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>
#include <set>

namespace ashlar::test::redistribution_test {

using namespace mlir;

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

// Returns a plan as text: "slice 0 x; all_gather 1 y".
std::string textOf(const analysis::Plan &plan) {
  std::string text;
  for (const analysis::Step &step : plan.steps) {
    text += (text.empty() ? "" : "; ") + stringifyCollectiveKind(step.kind).str();
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

namespace {

// A mesh, and what its links cost; no links: all equal.
struct Machine {
  Axes axes;
  SmallVector<int64_t> latencyNs, bytesPerUs;
};

dist::CostsAttr costsOf(const Machine &machine) {
  return machine.latencyNs.empty() ? dist::CostsAttr()
                                   : dist::CostsAttr::get(&context(), machine.latencyNs, machine.bytesPerUs, /*beside=*/{}, /*kinds=*/{});
}

} // namespace

TEST_CASE("redistribution: every layout to every layout is the identity", "[redistribution]") {
  // Links that are equal and that are not; sizes that divide, and sizes that leave padding: at the end of a piece, in the middle of a dim,
  // in all of a piece.
  const std::pair<int64_t, Machine> cases[] = {{12, {{{"x", 2}, {"y", 2}}, {}, {}}},
                                               {12, {{{"x", 4}}, {}, {}}},
                                               {12, {{{"x", 3}}, {}, {}}},
                                               {12, {{{"x", 3}, {"y", 2}}, {2000, 20}, {500, 20000}}},
                                               {12, {{{"x", 2}, {"y", 2}}, {20, 2000}, {20000, 500}}},
                                               {12, {{{"x", 2}, {"y", 2}, {"z", 3}}, {2000, 20, 20}, {500, 20000, 20000}}},
                                               {4, {{{"x", 2}, {"y", 3}}, {}, {}}},
                                               {5, {{{"x", 3}, {"y", 2}}, {}, {}}},
                                               {5, {{{"x", 2}, {"y", 2}}, {20, 2000}, {20000, 500}}},
                                               {1, {{{"x", 2}}, {}, {}}}};
  std::set<CollectiveKind> kinds;
  for (const auto &[size, machine] : cases) {
    dist::MeshAttr mesh = meshOf(context(), machine.axes);
    analysis::Planner planner(mesh, costsOf(machine));
    for (int64_t rank : {0, 1, 2}) {
      auto type = RankedTensorType::get(SmallVector<int64_t>(rank, size), Float64Type::get(&context()));
      OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context()));
      OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
      Location loc = module->getLoc();
      dist::MeshOp::create(b, loc, "mesh", mesh).setCostsAttr(costsOf(machine));
      int64_t number = 0, pair = 0;
      for (const Layout &from : allLayouts(mesh, rank, /*withPartial=*/true)) {
        for (const Layout &to : allLayouts(mesh, rank, /*withPartial=*/true)) {
          if (!llvm::all_of(to.partial, [&](StringAttr axis) { return llvm::is_contained(from.partial, axis); })) {
            continue;
          }
          if (mesh.getAxes().size() > 2 && ++pair % 11 != 0) {
            continue; // three axes have too many layouts to run all
          }
          for (const analysis::Step &step : planner.plan(type, from, to).steps) {
            kinds.insert(step.kind);
          }
          auto fromAttr = dist::LayoutAttr::get(&context(), from), toAttr = dist::LayoutAttr::get(&context(), to);
          b.setInsertionPointToEnd(module->getBody());
          auto function = func::FuncOp::create(b, loc, "f" + std::to_string(number++), b.getFunctionType(type, type));
          function.setArgAttr(0, dist::kLayoutAttr, fromAttr);
          function.setResultAttr(0, dist::kLayoutAttr, toAttr);
          b.setInsertionPointToStart(function.addEntryBlock());
          auto op = dist::RedistributeOp::create(b, loc, type, function.getArgument(0), fromAttr, toAttr, ArrayAttr());
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
  CHECK(kinds.size() == 6); // every kind of step was run
}

TEST_CASE("redistribution: plans are the known ones", "[redistribution]") {
  dist::MeshAttr mesh = meshOf(context(), {{"x", 2}, {"y", 4}});
  auto type = RankedTensorType::get({16, 16}, Float32Type::get(&context()));
  analysis::Planner planner(mesh);
  auto plan = [&](StringRef from, StringRef to) { return textOf(planner.plan(type, layoutOf(from), layoutOf(to))); };

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
  // Axes that change places in a dim, or an axis that takes the place of another of its size: devices change places.
  CHECK(plan("[{\"x\", \"y\"}, {}]", "[{\"y\", \"x\"}, {}]") == "permute x y");
}

TEST_CASE("redistribution: plans count time, not bytes", "[redistribution]") {
  Machine machine{{{"slow", 4}, {"fast", 2}, {"same", 2}}, {2000, 20, 20}, {500, 20000, 20000}};
  analysis::Planner planner(meshOf(context(), machine.axes), costsOf(machine)), equal(meshOf(context(), machine.axes));
  auto large = RankedTensorType::get({64, 64}, Float32Type::get(&context()));
  Layout whole = layoutOf("[{}, {}]"), sum = layoutOf("[{}, {}], partial = sum {\"slow\"}");
  // An idle axis of fast links takes work off the slow ones, where that is worth its messages.
  CHECK(textOf(planner.plan(large, sum, whole)) == "slice 0 fast same; all_reduce slow; all_gather 0 fast same");
  CHECK(textOf(equal.plan(large, sum, whole)) == "all_reduce slow");
  // Fast links are not to wait for slow ones.
  Layout both = layoutOf("[{}, {}], partial = sum {\"slow\", \"fast\"}");
  CHECK(textOf(planner.plan(large, both, whole)) == "slice 0 same; reduce_scatter 0 fast; all_reduce slow; all_gather 0 same fast");
  CHECK(textOf(equal.plan(large, both, whole)) == "all_reduce slow fast");
  // An axis takes the place of another of its size.
  CHECK(textOf(planner.plan(large, layoutOf("[{\"fast\"}, {}]"), layoutOf("[{\"same\"}, {}]"))) == "permute fast same");
  // 2 messages and 3/4 of 4096 bytes over slow links, then as many over fast ones.
  const analysis::Plan &plan = planner.plan(large, sum, layoutOf("[{\"slow\"}, {}]"));
  CHECK(textOf(plan) == "slice 1 fast same; reduce_scatter 0 slow; all_gather 1 fast same");
  CHECK(plan.bytes == 3 * 4096 / 4 + 3 * 1024);
  CHECK(plan.timePs == 2 * 2000'000 + 3072 * int64_t(2000) + 2 * 20'000 + 3072 * int64_t(50));
  CHECK(plan.peakBytes == 16384);
}

TEST_CASE("redistribution: the runner-up is the best plan of other collectives", "[redistribution]") {
  analysis::Planner planner(meshOf(context(), {{"x", 4}, {"y", 2}}));
  auto type = RankedTensorType::get({16, 16}, Float32Type::get(&context()));
  auto runnerUp = [&](StringRef from, StringRef to) { return planner.runnerUp(type, layoutOf(from), layoutOf(to)); };
  std::optional<analysis::Plan> plan = runnerUp("[{}, {}], partial = sum {\"x\"}", "[{}, {}]");
  REQUIRE(plan);
  CHECK(textOf(*plan) == "reduce_scatter 0 x; all_gather 0 x");
  CHECK(plan->bytes == 2 * 768);
  plan = runnerUp("[{\"x\"}, {}]", "[{}, {\"x\"}]");
  REQUIRE(plan);
  CHECK(textOf(*plan) == "all_gather 0 x; slice 1 x");
  // Nothing but the sum can be done with a scalar.
  auto scalar = RankedTensorType::get({}, Float32Type::get(&context()));
  CHECK(!planner.runnerUp(scalar, layoutOf("[], partial = sum {\"x\"}"), layoutOf("[]")));
}

TEST_CASE("redistribution: rounding makes no two collectives of one", "[redistribution]") {
  // A third of a picosecond more or less must not tell a reduce-scatter and a gather from an all-reduce.
  Machine machine{{{"x", 2}}, {60}, {23000}};
  analysis::Planner planner(meshOf(context(), machine.axes), costsOf(machine));
  for (int64_t size = 2; size < 400; ++size) {
    auto type = RankedTensorType::get({size}, Float32Type::get(&context()));
    CHECK(textOf(planner.plan(type, layoutOf("[{}], partial = sum {\"x\"}"), layoutOf("[{}]"))) == "all_reduce x");
  }
}

TEST_CASE("redistribution: a device that holds its piece keeps it in a permute", "[redistribution]") {
  dist::MeshAttr mesh = meshOf(context(), {{"x", 2}, {"y", 3}, {"z", 2}});
  auto sources = [&](StringRef from, StringRef to) {
    auto type = RankedTensorType::get({36, 36}, Float32Type::get(&context()));
    analysis::Planner planner(mesh);
    const analysis::Plan &plan = planner.plan(type, layoutOf(from), layoutOf(to));
    REQUIRE(plan.steps.size() == 1);
    return analysis::permuteSources(mesh, layoutOf(from), plan.steps.front());
  };
  // Device 1 holds x = 0, y = 1: piece 1. With y major that piece is at x = 1, y = 0: device 3.
  CHECK(sources("[{\"x\", \"y\"}, {}]", "[{\"y\", \"x\"}, {}]") == SmallVector<int64_t>{0, 2, 4, 1, 3, 5});
  // Devices with equal coordinates along both axes hold what they need.
  CHECK(sources("[{\"x\"}, {}]", "[{\"z\"}, {}]") == SmallVector<int64_t>{0, 2, 1, 3});
}

TEST_CASE("redistribution: no layout on the way is larger than both ends", "[redistribution]") {
  dist::MeshAttr mesh = meshOf(context(), {{"x", 2}, {"y", 2}, {"z", 2}});
  auto type = RankedTensorType::get({8, 8}, Float32Type::get(&context()));
  auto elements = [&](const Layout &layout) { return dist::localType(mesh, type, layout).getNumElements(); };
  std::vector<Layout> layouts = allLayouts(mesh, /*rank=*/2, /*withPartial=*/false);
  analysis::Planner planner(mesh);
  for (const Layout &from : layouts) {
    for (const Layout &to : layouts) {
      Layout layout = from;
      for (const analysis::Step &step : planner.plan(type, from, to).steps) {
        layout = analysis::applyStep(layout, step);
        CHECK(elements(layout) <= std::max(elements(from), elements(to)));
      }
      CHECK(layout == to);
    }
  }
}

} // namespace ashlar::test::redistribution_test
