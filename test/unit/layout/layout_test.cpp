// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of meshes and layouts, and what a collective moves.

#include "passes/analysis/costs.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>

namespace ashlar::test::layout_test {

using namespace mlir;

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
  // 2 (n-1)/n and (n-1)/n of the whole tensor.
  constexpr int64_t kWhole = 9261 * 4096;
  for (int64_t n : {2, 3, 4, 7, 8, 48, 64, 1024}) {
    const int64_t part = kWhole * (n - 1) / n, share = kWhole / n;
    if (kWhole % n == 0) {
      CHECK(dist::collectiveBytes(CollectiveKind::AllReduce, kWhole, n) == 2 * part);
      CHECK(dist::collectiveBytes(CollectiveKind::ReduceScatter, kWhole, n) == part);
      CHECK(dist::collectiveBytes(CollectiveKind::AllGather, share, n) == part);
      CHECK(dist::collectiveBytes(CollectiveKind::AllToAll, kWhole, n) == part);
    }
  }
}

TEST_CASE("collective: time is that of the messages and that of the bytes", "[collective]") {
  analysis::Link link{/*latencyNs=*/200, /*bytesPerUs=*/3000};
  CHECK(analysis::collectiveTimePs(CollectiveKind::AllReduce, 1000, 4, link) == 4 * 200'000 + 500'000);
  CHECK(analysis::collectiveTimePs(CollectiveKind::ReduceScatter, 1000, 4, link) == 2 * 200'000 + 250'000);
  CHECK(analysis::collectiveTimePs(CollectiveKind::AllGather, 1000, 4, link) == 2 * 200'000 + 1'000'000);
  CHECK(analysis::collectiveTimePs(CollectiveKind::AllToAll, 1000, 4, link) == 3 * 200'000 + 250'000);
  CHECK(analysis::collectiveTimePs(CollectiveKind::Permute, 1000, 4, link) == 200'000 + 333'334);
  CHECK(analysis::collectiveMessages(CollectiveKind::AllGather, 5) == 3);
  // Without costs a byte takes a nanosecond. 8 PB overflow nothing: they take as long as can be said.
  CHECK(analysis::collectiveTimePs(CollectiveKind::AllReduce, 1000, 4, analysis::Link()) == 1500'000);
  CHECK(analysis::collectiveTimePs(CollectiveKind::Permute, int64_t(8) << 40, 2, analysis::Link()) == (int64_t(8) << 40) * 1000);
  CHECK(analysis::collectiveTimePs(CollectiveKind::AllReduce, int64_t(8) << 50, 64, analysis::Link()) == INT64_MAX / 1024);
}

// By hand: 3000 bytes a microsecond and 200 ns a message, but for all-gathers 100 bytes and 5000 ns.
TEST_CASE("collective: a kind with a cost of its own takes that, and others what the link says", "[collective]") {
  analysis::Link link{/*latencyNs=*/200, /*bytesPerUs=*/3000};
  link.set(CollectiveKind::AllGather, {/*latencyNs=*/5000, /*bytesPerUs=*/100});
  CHECK(analysis::collectiveTimePs(CollectiveKind::AllGather, 1000, 4, link) == 2 * 5'000'000 + 30'000'000);
  CHECK(analysis::collectiveTimePs(CollectiveKind::ReduceScatter, 1000, 4, link) == 2 * 200'000 + 250'000);
  // 19 times what is sent in the time of the messages: 2 * 5000 ns, 1000 bytes; an all-gather sends 3/4 of the whole.
  CHECK(analysis::bucketBytes(CollectiveKind::AllGather, 4, link) == 19 * 1000 * 4 / 3);
  CHECK((link.fastest() == analysis::MessageCost{200, 3000}));

  // A group over two axes takes the worse of both for each kind; a link without a cost of its own has that of all kinds.
  analysis::Link other{/*latencyNs=*/900, /*bytesPerUs=*/2000};
  other.set(CollectiveKind::Permute, {/*latencyNs=*/10, /*bytesPerUs=*/50});
  analysis::Link both = link.worse(other);
  CHECK((both.of(CollectiveKind::AllReduce) == analysis::MessageCost{900, 2000}));
  CHECK((both.of(CollectiveKind::AllGather) == analysis::MessageCost{5000, 100}));
  CHECK((both.of(CollectiveKind::Permute) == analysis::MessageCost{200, 50}));

  // Faster is what is slower for no kind.
  analysis::Link plain{/*latencyNs=*/200, /*bytesPerUs=*/3000}, same = plain;
  same.set(CollectiveKind::AllGather, {200, 3000});
  CHECK((plain == same && !(plain == link)));
  CHECK((plain.isFasterThan(link) && !link.isFasterThan(plain) && !plain.isFasterThan(same)));
  CHECK((!plain.isFasterThan(other) && !other.isFasterThan(plain))); // its permutes start sooner

  // On the mesh and back, with those that move beside computing.
  other.movesBeside = true;
  dist::MeshAttr mesh = meshOf(context(), {{"a", 2}, {"b", 2}});
  dist::CostsAttr costs = analysis::costsOf(&context(), {link, other});
  SmallVector<analysis::Link> read = analysis::axisLinks(mesh, costs);
  CHECK((read[0] == link && read[1] == other && !read[0].movesBeside && read[1].movesBeside));
  CHECK(costs.getKinds().size() == 2);
}

// By hand, at 100 operations a nanosecond and 10 bytes.
TEST_CASE("rates: a library call is as fast as calls of its class", "[rates]") {
  analysis::DeviceRates rates{/*flopsPerUs=*/100000, /*narrowFlopsPerUs=*/200000, /*bytesPerUs=*/10000, /*launchNs=*/30};
  const analysis::Work large{1000000, 0, RateClass{RateClass::Product, 64}}, small{1000000, 0, RateClass{RateClass::Product, 15}};
  CHECK(rates.timePs(small, 0) == 10'000'000); // without a table all are as fast
  rates.products = {{4, 10000, 20000}, {16, 50000, 50000}, {64, 100000, 200000}};
  rates.convolutions = {{1, 1000, 1000}};
  CHECK(rates.timePs({1000000, 0, RateClass{RateClass::Attention, 64}}, 0) == 10'000'000); // as a product
  rates.attentions = {{32, 5000, 40000}};
  CHECK(rates.timePs({1000000, 0, RateClass{RateClass::Attention, 64}}, 0) == 200'000'000);
  CHECK(rates.timePs({0, 1000000, RateClass{RateClass::Attention, 8}}, 0) == 25'000'000); // narrow, below the first entry
  auto product = [&](int64_t size) { return rates.timePs({1000000, 0, RateClass{RateClass::Product, size}}, 0); };
  CHECK(rates.timePs(large, 0) == 10'000'000);
  CHECK((product(63) == 20'000'000 && product(16) == 20'000'000 && product(15) == 100'000'000 && product(4) == 100'000'000));
  CHECK(product(1) == 100'000'000);                                                     // as the first entry
  CHECK(rates.timePs({0, 1000000, RateClass{RateClass::Product, 64}}, 0) == 5'000'000); // narrow
  CHECK(rates.timePs({1000000, 0, RateClass{RateClass::Convolution, 64}}, 0) == 1'000'000'000);
  CHECK(rates.timePs({1000000, 0, std::nullopt}, 0) == 10'000'000);
  CHECK(rates.timePs(small, 2'000'000) == 200'000'000); // memory takes longer
  CHECK(rates.callPs(small, 2'000'000) == 200'030'000);
  CHECK(rates.callPs({}, 0) == 0); // nothing to do
  analysis::Work full = rates.atFullRate(small);
  CHECK((full.flops == 10000000 && full.narrowFlops == 0 && !full.rateClass));
  CHECK(rates.atFullRate({INT64_MAX / 2, 0, RateClass{RateClass::Product, 4}}).flops == INT64_MAX);

  OwningOpRef<ModuleOp> module = parse("module {}");
  (*module)->setAttr(dist::kDeviceAttr, analysis::deviceOf(&context(), rates));
  analysis::DeviceRates read = analysis::findDeviceRates(*module);
  CHECK((read.flopsPerUs == 100000 && read.narrowFlopsPerUs == 200000 && read.bytesPerUs == 10000 && read.launchNs == 30));
  CHECK((read.products.size() == 3 && read.products[1].from == 16 && read.products[1].flopsPerUs == 50000));
  CHECK((read.attentions.size() == 1 && read.attentions[0].from == 32 && read.attentions[0].narrowFlopsPerUs == 40000));
  CHECK((read.products[0].narrowFlopsPerUs == 20000 && read.convolutions.size() == 1 && read.convolutions[0].flopsPerUs == 1000));
}

TEST_CASE("rates: the class of a product or convolution is that of the types it is asked for", "[rates]") {
  OwningOpRef<ModuleOp> module = parse(R"(
    func.func @f(%a: tensor<3x32x48xf32>, %b: tensor<3x64x48xf32>, %x: tensor<8x12x32xf32>, %w: tensor<6x4x3xf32>, %y: tensor<8x6x30xf32>,
                 %last: tensor<8x32x12xf32>) {
      %0 = nn.matmul %a, %b transpose_b : tensor<3x32x48xf32>, tensor<3x64x48xf32> -> tensor<3x32x64xf32>
      %1 = nn.conv %x, %w windows = [#nn.window<3>] : tensor<8x12x32xf32>, tensor<6x4x3xf32> -> tensor<8x6x30xf32>
      %2 = nn.conv_data %y, %w windows = [#nn.window<3>] : tensor<8x6x30xf32>, tensor<6x4x3xf32> -> tensor<8x12x32xf32>
      %3 = nn.conv_weights %x, %y windows = [#nn.window<3>] : tensor<8x12x32xf32>, tensor<8x6x30xf32> -> tensor<6x4x3xf32>
      %4 = nn.conv %last, %w channels_last windows = [#nn.window<3>] : tensor<8x32x12xf32>, tensor<6x4x3xf32> -> tensor<8x30x6xf32>
      return
    }
  )");
  // 3 groups of 4 channels in and 2 out.
  int convolutions = 0;
  module->walk([&](ContractionOpInterface op) {
    auto types = [](TypeRange range) { return llvm::map_to_vector(range, [](Type type) { return cast<RankedTensorType>(type); }); };
    RateClass found = op.getRateClass(types(op->getOperandTypes()), types(op->getResultTypes()));
    if (found.kind == RateClass::Convolution) {
      ++convolutions;
      CHECK(found.size == 2);
    }
  });
  CHECK(convolutions == 4);
  auto type = [](llvm::ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, Float32Type::get(&context())); };
  module->walk([&](nn::MatMulOp op) {
    auto sizeOf = [&](RankedTensorType a, RankedTensorType b, RankedTensorType y) {
      RateClass found = op.getRateClass({a, b}, {y});
      CHECK(found.kind == RateClass::Product);
      return found.size;
    };
    CHECK(sizeOf(op.getLhs().getType(), op.getRhs().getType(), op.getType()) == 32); // rows; the batch of 3 is no size
    CHECK(sizeOf(type({3, 32, 6}), type({3, 64, 6}), type({3, 32, 64})) == 6);       // the inner size, split 8 times
    CHECK(sizeOf(type({1, 32, 48}), type({1, 8, 48}), type({1, 32, 8})) == 8);       // columns
    CHECK(analysis::workOf(op, {type({3, 32, 6}), type({3, 64, 6})}, {type({3, 32, 64})}).rateClass->size == 6);
  });
}

TEST_CASE("halo: devices have pieces and get what their positions need", "[collective]") {
  // 11 rows over 2 devices are 0 .. 5 | 6 .. 10 -. Windows of 3 with stride 2, one row of padding in front: 6 positions, 0 1 2 | 3 4 5,
  // which need the rows -1 .. 5 | 5 .. 11. So device 0 sends its last row, and nobody else anything.
  const dist::Halo strided{11, {11, {}}, {6, {2, -1, 2}}};
  auto isSegment = [](const dist::Segment &run, int64_t start, int64_t begin, int64_t end) {
    return run.start == start && run.begin == begin && run.end == end;
  };
  CHECK((isSegment(dist::segmentAt({2}, 11, strided.from, 0), 0, 0, 6) && isSegment(dist::segmentAt({2}, 11, strided.from, 1), 6, 6, 11)));
  CHECK((isSegment(dist::segmentAt({2}, 11, strided.to, 0), -1, 0, 6) && isSegment(dist::segmentAt({2}, 11, strided.to, 1), 5, 5, 11)));
  CHECK((dist::segmentLength({2}, strided.from) == 6 && dist::segmentLength({2}, strided.to) == 7));
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
  CHECK(
      (isSegment(dist::segmentAt({2, 3}, 4, {4, {1, -1, 2}}, 3), 1, 1, 4) && traffic.total == 1 + 2 + 2 + 1 && traffic.mostMessages == 2));

  // Blocks of 2 made of 13 positions, 7 and 6 a device, become pieces of 13: device 1 lacks the row that device 0 made last.
  std::optional<dist::Halo> blocks = dist::haloOfResult({2}, 26, 13, 2);
  REQUIRE(blocks);
  traffic = dist::haloTraffic({2}, *blocks);
  CHECK((dist::segmentLength({2}, blocks->from) == 14 && dist::segmentLength({2}, blocks->to) == 13 && traffic.total == 1));

  // Where pieces are what is needed there is none: windows of one element with stride 2 along an even dim.
  CHECK(!dist::haloOfOperand({2}, 8, 4, {2, 0, 1}));
  CHECK(!dist::haloOfResult({2}, 8, 4, 2));
  CHECK(dist::haloOfOperand({2}, 9, 5, {2, 0, 1})); // 0 .. 4 | 5 .. 8, but 0 2 4 | 6 8 are needed, from 6 on
  CHECK(dist::haloOfOperand({2}, 7, 4, {2, 0, 2})); // the last element is padding, so zero
}

TEST_CASE("halo: segments hold what positions read at steps that are not equal", "[collective]") {
  auto isRuns = [](const dist::Segments &segments, int64_t positions, int64_t step, int64_t first, int64_t last) {
    return segments.positions == positions && segments.access.step == step && segments.access.first == first &&
           segments.access.last == last;
  };
  // Twice as many positions, each between two elements: 0 .. 3 read [0, 3) and 4 .. 7 read [1, 4).
  const SmallVector<ElementRange> doubled{{0, 1}, {0, 2}, {0, 2}, {1, 3}, {1, 3}, {2, 4}, {2, 4}, {3, 4}};
  CHECK(isRuns(dist::segmentsOfRanges({2}, doubled), 2, 1, 0, 3));
  // Over 4 devices they read from 0, 0, 1 and 2 on, up to 2, 3, 4 and 4.
  CHECK(isRuns(dist::segmentsOfRanges({4}, doubled), 4, 1, -1, 2));
  CHECK(isRuns(dist::segmentsOfRanges({2, 2}, doubled), 4, 1, -1, 2));
  // 5 positions over 4 devices are 2, 2, 1 and none; one that reads nothing needs nothing.
  CHECK(isRuns(dist::segmentsOfRanges({4}, SmallVector<ElementRange>{{0, 1}, {2, 3}, {4, 5}, {9, 0}, {8, 9}}), 4, 4, 0, 3));
  CHECK(isRuns(dist::segmentsOfRanges({2}, SmallVector<ElementRange>{{9, 0}, {9, 0}}), 2, 1, 0, 1));
  // A run is as long as that of the device which reads most.
  CHECK(isRuns(dist::segmentsOfRanges({2}, SmallVector<ElementRange>{{0, 1}, {1, 2}, {2, 3}, {2, 6}}), 2, 2, 0, 4));
  // A dim that is turned round: each device reads the other end.
  CHECK(isRuns(dist::segmentsOfRanges({2}, SmallVector<ElementRange>{{3, 4}, {2, 3}, {1, 2}, {0, 1}}), 2, 1, -1, 4));
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
  module->walk([&](dist::CollectiveOpInterface op) { times.push_back(analysis::collectiveTimePs(op)); });
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

} // namespace ashlar::test::layout_test
