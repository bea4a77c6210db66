// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of meshes and layouts, and what a collective moves.

#include "dialects/dist/costs.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>

using namespace mlir;

namespace ashlar::test {

namespace {

using dist::AxisList;
using dist::Layout;

AxisList axes(std::initializer_list<StringRef> names) {
  AxisList list;
  for (StringRef name : names) {
    list.push_back(StringAttr::get(&context(), name));
  }
  return list;
}

} // namespace

TEST_CASE("mesh: devices count row-major, the first axis is major", "[mesh]") {
  dist::MeshAttr mesh = meshOf(context(), {{"dp", 4}, {"tp", 2}});
  CHECK(mesh.numDevices() == 8);
  CHECK(mesh.groupSize(axes({"tp"})) == 2);
  CHECK(mesh.groupSize({}) == 1);
  CHECK(mesh.axisIndex(5, axes({"dp"})) == 2);
  CHECK(mesh.axisIndex(5, axes({"tp"})) == 1);
  CHECK(mesh.axisIndex(5, axes({"dp", "tp"})) == 5);
  CHECK(mesh.axisIndex(5, axes({"tp", "dp"})) == 6);
  CHECK(mesh.axisIndex(5, {}) == 0);
}

TEST_CASE("mesh: a group are the devices that differ only along its axes, in the order of the axes", "[mesh]") {
  dist::MeshAttr mesh = meshOf(context(), {{"x", 2}, {"y", 3}});
  using Groups = SmallVector<SmallVector<int64_t>>;
  CHECK(mesh.groups(axes({"x"})) == Groups{{0, 3}, {1, 4}, {2, 5}});
  CHECK(mesh.groups(axes({"y"})) == Groups{{0, 1, 2}, {3, 4, 5}});
  CHECK(mesh.groups(axes({"y", "x"})) == Groups{{0, 3, 1, 4, 2, 5}});
  CHECK(mesh.groups({}) == Groups{{0}, {1}, {2}, {3}, {4}, {5}});
}

TEST_CASE("layout: a device holds the dim divided by the product of its axes", "[layout]") {
  dist::MeshAttr mesh = meshOf(context(), {{"x", 2}, {"y", 3}});
  Layout layout{{axes({"x", "y"}), {}}, {}, {}};
  CHECK(dist::localShape(mesh, {12, 5}, layout) == SmallVector<int64_t>{2, 5});
  CHECK(dist::localShape(mesh, {0, 5}, layout) == SmallVector<int64_t>{0, 5});
}

TEST_CASE("layout: sizes that do not divide are rounded up at each axis", "[layout]") {
  dist::MeshAttr mesh = meshOf(context(), {{"x", 2}, {"y", 3}});
  AxisList both = axes({"x", "y"});
  CHECK(dist::isEven(mesh, 12, both));
  CHECK(!dist::isEven(mesh, 4, both));
  CHECK(dist::pieceSizes(mesh, 4, both) == SmallVector<int64_t>{2, 1});
  CHECK(dist::localShape(mesh, {4, 5}, {{both, {}}, {}, {}}) == SmallVector<int64_t>{1, 5});
  // Devices hold 0 | 1 | - and 2 | 3 | -: each element once, padding at the end of each half.
  SmallVector<std::pair<int64_t, int64_t>> expected{{0, 1}, {1, 1}, {2, 0}, {2, 1}, {3, 1}, {4, 0}};
  for (int64_t device = 0; device < 6; ++device) {
    dist::Range range = dist::pieceRange(mesh, 4, both, device);
    CHECK(std::pair(range.start, range.size) == expected[device]);
  }
  // Size 1: one device has it, the pieces of the others lie beyond its end.
  CHECK(dist::pieceRange(mesh, 1, both, 5).size == 0);
  CHECK(dist::pieceRange(mesh, 1, both, 0).size == 1);
}

TEST_CASE("layout: partial axes have no order, split axes have one", "[layout]") {
  Layout a = Layout::replicated(2), b = a;
  a.partial = axes({"x", "y"});
  b.partial = axes({"y", "x"});
  CHECK(a == b);
  CHECK(dist::LayoutAttr::get(&context(), a) == dist::LayoutAttr::get(&context(), b));
  b.reduction = Reduction::Max;
  CHECK(a != b);
  CHECK(b.toString() == "[{}, {}], partial = max {\"x\", \"y\"}");

  Layout c{{axes({"x", "y"})}, {}, {}}, d{{axes({"y", "x"})}, {}, {}};
  CHECK(c != d);
  CHECK(c.toString() == "[{\"x\", \"y\"}]");
  CHECK(c.isSplit());
  CHECK(!c.isPartial());
  CHECK(Layout::replicated(3).isReplicated());
  CHECK(c.uses(axes({"y"}).front()));
  CHECK(!c.uses(axes({"z"}).front()));
}

TEST_CASE("collective: bytes one rank sends by ring and pairwise algorithms", "[collective]") {
  CHECK(dist::collectiveBytes(CollectiveKind::AllReduce, 1000, 4) == 1500);
  CHECK(dist::collectiveBytes(CollectiveKind::ReduceScatter, 1000, 4) == 750);
  CHECK(dist::collectiveBytes(CollectiveKind::AllGather, 250, 4) == 750);
  CHECK(dist::collectiveBytes(CollectiveKind::AllToAll, 1000, 4) == 750);
  CHECK(dist::collectiveBytes(CollectiveKind::Permute, 1000, 4) == 1000);
  CHECK(dist::collectiveBytes(CollectiveKind::AllReduce, 1000, 1) == 0);
}

TEST_CASE("collective: time is that of the messages and that of the bytes", "[collective]") {
  dist::Link link{/*latencyNs=*/200, /*bytesPerUs=*/3000};
  CHECK(dist::collectiveTimePs(CollectiveKind::AllReduce, 1000, 4, link) == 4 * 200'000 + 500'000);
  CHECK(dist::collectiveTimePs(CollectiveKind::ReduceScatter, 1000, 4, link) == 2 * 200'000 + 250'000);
  CHECK(dist::collectiveTimePs(CollectiveKind::AllGather, 1000, 4, link) == 2 * 200'000 + 1'000'000);
  CHECK(dist::collectiveTimePs(CollectiveKind::AllToAll, 1000, 4, link) == 3 * 200'000 + 250'000);
  CHECK(dist::collectiveTimePs(CollectiveKind::Permute, 1000, 4, link) == 200'000 + 333'334);
  CHECK(dist::collectiveMessages(CollectiveKind::AllGather, 5) == 3);
  // Without costs a byte takes a nanosecond. 8 PB overflow nothing: they take as long as can be said.
  CHECK(dist::collectiveTimePs(CollectiveKind::AllReduce, 1000, 4, dist::Link()) == 1500'000);
  CHECK(dist::collectiveTimePs(CollectiveKind::Permute, int64_t(8) << 40, 2, dist::Link()) == (int64_t(8) << 40) * 1000);
  CHECK(dist::collectiveTimePs(CollectiveKind::AllReduce, int64_t(8) << 50, 64, dist::Link()) == INT64_MAX / 1024);
}

TEST_CASE("halo: devices have pieces and get what their positions need", "[collective]") {
  // 11 rows over 2 devices are 0 .. 5 | 6 .. 10 -. Windows of 3 with stride 2, one row of padding in front: 6 positions, 0 1 2 | 3 4 5,
  // which need the rows -1 .. 5 | 5 .. 11. So device 0 sends its last row, and nobody else anything.
  const dist::Halo strided{11, {11, {}}, {6, {2, -1, 2}}};
  auto isRun = [](const dist::Run &run, int64_t start, int64_t begin, int64_t end) {
    return run.start == start && run.begin == begin && run.end == end;
  };
  CHECK((isRun(dist::runAt({2}, 11, strided.from, 0), 0, 0, 6) && isRun(dist::runAt({2}, 11, strided.from, 1), 6, 6, 11)));
  CHECK((isRun(dist::runAt({2}, 11, strided.to, 0), -1, 0, 6) && isRun(dist::runAt({2}, 11, strided.to, 1), 5, 5, 11)));
  CHECK((dist::runLength({2}, strided.from) == 6 && dist::runLength({2}, strided.to) == 7));
  dist::HaloTraffic traffic = dist::haloTraffic({2}, strided);
  CHECK((traffic.mostSent == 1 && traffic.mostReceived == 1 && traffic.mostMessages == 1 && traffic.total == 1));

  // One row at either side over 4 devices: those in the middle send two.
  traffic = dist::haloTraffic({4}, {8, {8, {}}, {8, {1, -1, 2}}});
  CHECK((traffic.mostSent == 2 && traffic.mostReceived == 2 && traffic.mostMessages == 2 && traffic.total == 6));

  // Pieces of one row, which two devices at either side need.
  traffic = dist::haloTraffic({5}, {5, {5, {}}, {5, {1, -2, 3}}});
  CHECK((traffic.mostSent == 4 && traffic.mostReceived == 4 && traffic.mostMessages == 4 && traffic.total == 2 + 3 + 4 + 3 + 2));

  // 4 rows cut in 2, then in 3: 0 | 1 | - and 2 | 3 | -. Devices with nothing but padding need nothing.
  traffic = dist::haloTraffic({2, 3}, {4, {4, {}}, {4, {1, -1, 2}}});
  CHECK((isRun(dist::runAt({2, 3}, 4, {4, {1, -1, 2}}, 3), 1, 1, 4) && traffic.total == 1 + 2 + 2 + 1 && traffic.mostMessages == 2));

  // Blocks of 2 made of 13 positions, 7 and 6 a device, become pieces of 13: device 1 lacks the row that device 0 made last.
  std::optional<dist::Halo> blocks = dist::haloOfResult({2}, 26, 13, 2);
  REQUIRE(blocks);
  traffic = dist::haloTraffic({2}, *blocks);
  CHECK((dist::runLength({2}, blocks->from) == 14 && dist::runLength({2}, blocks->to) == 13 && traffic.total == 1));

  // Where pieces are what is needed there is none: windows of one element with stride 2 along an even dim.
  CHECK(!dist::haloOfOperand({2}, 8, 4, {2, 0, 1}));
  CHECK(!dist::haloOfResult({2}, 8, 4, 2));
  CHECK(dist::haloOfOperand({2}, 9, 5, {2, 0, 1})); // 0 .. 4 | 5 .. 8, but 0 2 4 | 6 8 are needed, from 6 on
  CHECK(dist::haloOfOperand({2}, 7, 4, {2, 0, 2})); // the last element is padding, so zero
}

TEST_CASE("halo: runs hold what positions read at steps that are not equal", "[collective]") {
  auto isRuns = [](const dist::Runs &runs, int64_t positions, int64_t step, int64_t first, int64_t last) {
    return runs.positions == positions && runs.access.step == step && runs.access.first == first && runs.access.last == last;
  };
  // Twice as many positions, each between two elements: 0 .. 3 read [0, 3) and 4 .. 7 read [1, 4).
  const SmallVector<ElementRange> doubled{{0, 1}, {0, 2}, {0, 2}, {1, 3}, {1, 3}, {2, 4}, {2, 4}, {3, 4}};
  CHECK(isRuns(dist::runsOfRanges({2}, doubled), 2, 1, 0, 3));
  // Over 4 devices they read from 0, 0, 1 and 2 on, up to 2, 3, 4 and 4.
  CHECK(isRuns(dist::runsOfRanges({4}, doubled), 4, 1, -1, 2));
  CHECK(isRuns(dist::runsOfRanges({2, 2}, doubled), 4, 1, -1, 2));
  // 5 positions over 4 devices are 2, 2, 1 and none; one that reads nothing needs nothing.
  CHECK(isRuns(dist::runsOfRanges({4}, SmallVector<ElementRange>{{0, 1}, {2, 3}, {4, 5}, {9, 0}, {8, 9}}), 4, 4, 0, 3));
  CHECK(isRuns(dist::runsOfRanges({2}, SmallVector<ElementRange>{{9, 0}, {9, 0}}), 2, 1, 0, 1));
  // A run is as long as that of the device which reads most.
  CHECK(isRuns(dist::runsOfRanges({2}, SmallVector<ElementRange>{{0, 1}, {1, 2}, {2, 3}, {2, 6}}), 2, 2, 0, 4));
  // A dim that is turned round: each device reads the other end.
  CHECK(isRuns(dist::runsOfRanges({2}, SmallVector<ElementRange>{{3, 4}, {2, 3}, {1, 2}, {0, 1}}), 2, 1, -1, 4));
}

TEST_CASE("collective: an op goes by the worst link of its axes", "[collective]") {
  OwningOpRef<ModuleOp> module = parse(R"(
    dist.mesh @mesh <["dp" = 2, "tp" = 2]> {costs = #dist.costs<latency_ns = [5000, 200], bytes_per_us = [2000, 1000]>}
    func.func @f(%x: tensor<250xf32>) {
      %0 = dist.permute %x sources = [0, 2, 1, 3] over ["dp", "tp"] : tensor<250xf32>
      %1 = dist.permute %x sources = [1, 0] over ["tp"] : tensor<250xf32>
      return
    }
  )");
  SmallVector<int64_t> times;
  module->walk([&](dist::CollectiveOpInterface op) { times.push_back(dist::collectiveTimePs(op)); });
  CHECK(times == SmallVector<int64_t>{5000'000 + 1000'000, 200'000 + 1000'000});
}

TEST_CASE("collective: the interface gives kind, axes, cause, fusion id and bytes of an op", "[collective]") {
  OwningOpRef<ModuleOp> module = parse(R"(
    dist.mesh @mesh <["dp" = 2, "tp" = 3]>
    func.func @f(%x: tensor<6x4xf32>) {
      %0 = dist.all_reduce max %x over ["dp", "tp"] {cause = [#dist.end<kind = op, name = "why">]} : tensor<6x4xf32>
      %1 = dist.all_gather %x dim = 0 over ["tp"] : tensor<6x4xf32> -> tensor<18x4xf32>
      %2 = dist.halo %x dim = 0 size = 18 from <positions = 18> to <positions = 18, first = -1, last = 2> over ["tp"]
         : tensor<6x4xf32> -> tensor<8x4xf32>
      return
    }
  )");
  SmallVector<dist::CollectiveOpInterface> ops;
  module->walk([&](dist::CollectiveOpInterface op) { ops.push_back(op); });
  REQUIRE(ops.size() == 3);
  CHECK((ops[2].getCollectiveKind() == CollectiveKind::Halo && dist::collectiveBytes(ops[2]) == 2 * 16)); // of the one in the middle
  CHECK(ops[0].getCollectiveKind() == CollectiveKind::AllReduce);
  CHECK(ops[0].getReductionKind() == Reduction::Max);
  CHECK(dist::toAxisList(ops[0].getAxes()) == axes({"dp", "tp"}));
  CHECK(cast<dist::EndAttr>(ops[0].getCauseAttr()[0]).getName() == "why");
  CHECK(dist::collectiveBytes(ops[0]) == 2 * 96 * 5 / 6);
  CHECK(ops[1].getCollectiveKind() == CollectiveKind::AllGather);
  CHECK(!ops[1].getReductionKind());
  CHECK(!ops[1].getCauseAttr());
  CHECK(dist::collectiveBytes(ops[1]) == 2 * 96);
  CHECK(stringifyCollectiveKind(ops[1].getCollectiveKind()) == "all_gather");
}

} // namespace ashlar::test
