// SPDX-License-Identifier: Apache-2.0
//
// The interpreter on several ranks, and the comparison of modules that passes are tested with.

#include "test/unit/reference/parsed_module.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <catch2/catch.hpp>

namespace ashlar::test::equivalence_test {

using namespace mlir;
using ashlar::reference::EquivalenceOptions;
using ashlar::reference::RankTensors;
using ashlar::reference::Tensor;

namespace {

// Returns the layout of an attribute's text: `#dist.layout<[{"dp"}, {} ]>`.
dist::Layout layout(const std::string &text) {
  OwningOpRef<ModuleOp> module = parse("module attributes {dist.test = " + text + "} {}");
  return cast<dist::LayoutAttr>((*module)->getAttr("dist.test")).getLayout();
}

dist::MeshAttr mesh(const std::string &axes) {
  OwningOpRef<ModuleOp> module = parse("dist.mesh @mesh <[" + axes + "]>");
  return dist::findMesh(*module).getMesh();
}

Tensor iota(ArrayRef<int64_t> shape) {
  Tensor result(RankedTensorType::get(shape, Float32Type::get(&context())));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    result.setFloat(i, static_cast<double>(i));
  }
  return result;
}

// Returns the first diagnostic that `body` causes.
std::string firstError(llvm::function_ref<void()> body) {
  std::string text;
  ScopedDiagnosticHandler handler(&context(), [&](Diagnostic &diagnostic) {
    text = text.empty() ? diagnostic.str() : text;
    return success();
  });
  body();
  return text;
}

} // namespace

TEST_CASE("maxDifference: a NaN differs from every number, wherever it stands", "[reference]") {
  auto difference = [](const std::string &x, const std::string &y) {
    return reference::maxDifference(tensor("dense<[" + x + "]> : tensor<3xf32>"), tensor("dense<[" + y + "]> : tensor<3xf32>"));
  };
  const std::string nan = "0x7FC00000", infinity = "0x7F800000";
  CHECK(difference("1.0, 2.0, 3.0", "1.0, 2.0, 3.5") == Approx(0.5 / 3));
  CHECK(difference("1.0, " + nan + ", 0.0", "1.0, " + nan + ", 0.0") == 0);
  CHECK(difference(infinity + ", 1.0, 1.0", infinity + ", 1.0, 1.0") == 0);
  for (std::string wrong : {nan + ", 2.0, 3.0", "1.0, 2.0, " + nan, nan + ", 2.0, 4.0", "1.0, " + infinity + ", 3.0"}) {
    INFO(wrong);
    CHECK(std::isinf(difference("1.0, 2.0, 3.0", wrong)));
    CHECK(std::isinf(difference(wrong, "1.0, 2.0, 3.0")));
  }
}

TEST_CASE("scatter and gather are inverse", "[reference][equivalence]") {
  dist::MeshAttr twoByTwo = mesh("\"dp\" = 2, \"tp\" = 2");
  Tensor global = iota({4, 4});
  for (const char *text : {"#dist.layout<[{}, {}]>", "#dist.layout<[{\"dp\"}, {}]>", "#dist.layout<[{\"tp\"}, {\"dp\"}]>",
                           "#dist.layout<[{}, {\"tp\", \"dp\"}]>", "#dist.layout<[{}, {}], partial = sum {\"dp\"}>",
                           "#dist.layout<[{\"tp\"}, {}], partial = max {\"dp\"}>"}) {
    INFO(text);
    dist::Layout l = layout(text);
    RankTensors pieces = reference::scatter(global, l, twoByTwo);
    REQUIRE(pieces.size() == 4);
    FailureOr<Tensor> back = reference::gather(pieces, global.getType(), l, twoByTwo);
    REQUIRE(succeeded(back));
    CHECK(reference::maxDifference(global, *back) == 0);
  }
}

TEST_CASE("pieces lie where the mesh says", "[reference][equivalence]") {
  // Columns split over (tp, dp), tp major: device 1 is at dp 0, tp 1 and holds column 1 * 2 + 0.
  RankTensors pieces = reference::scatter(iota({1, 4}), layout("#dist.layout<[{}, {\"tp\", \"dp\"}]>"), mesh("\"dp\" = 2, \"tp\" = 2"));
  CHECK(pieces[0].getFloat(0) == 0);
  CHECK(pieces[1].getFloat(0) == 2);
  CHECK(pieces[2].getFloat(0) == 1);
  CHECK(pieces[3].getFloat(0) == 3);
}

TEST_CASE("gather finds ranks that disagree", "[reference][equivalence]") {
  dist::MeshAttr two = mesh("\"dp\" = 2");
  dist::Layout whole = layout("#dist.layout<[{}]>");
  RankTensors pieces = reference::scatter(iota({4}), whole, two);
  pieces[1].setFloat(3, 7);
  CHECK(failed(reference::gather(pieces, pieces[0].getType(), whole, two)));
}

TEST_CASE("a permute on four ranks", "[reference][collectives]") {
  // Over (tp, dp) the devices 0, 1, 2, 3 are 0, 2, 1, 3 of the one group.
  OwningOpRef<ModuleOp> module = parse(R"(
    dist.mesh @mesh <["dp" = 2, "tp" = 2]>
    func.func @f(%x: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
      %0 = dist.permute %x sources = [1, 2, 3, 0] over ["tp", "dp"] : tensor<1xf32>
      %1 = dist.permute %x sources = [1, 0] over ["dp"] : tensor<1xf32>
      return %0, %1 : tensor<1xf32>, tensor<1xf32>
    })");
  RankTensors x(4, iota({1}));
  for (int64_t rank = 0; rank < 4; ++rank) {
    x[rank].setFloat(0, static_cast<double>(rank));
  }
  reference::Interpreter interpreter(*module, 4);
  FailureOr<std::vector<RankTensors>> results = interpreter.run("f", {x});
  REQUIRE(succeeded(results));
  const double expected[2][4] = {{2, 3, 1, 0}, {2, 3, 0, 1}};
  for (int64_t rank = 0; rank < 4; ++rank) {
    CHECK((*results)[0][rank].getFloat(0) == expected[0][rank]);
    CHECK((*results)[1][rank].getFloat(0) == expected[1][rank]);
  }
}

TEST_CASE("a halo on three ranks", "[reference][collectives]") {
  // 7 elements over 3 ranks: 0 1 2 | 3 4 5 | 6 - -. Windows of 3 elements at each.
  OwningOpRef<ModuleOp> module = parse(R"(
    dist.mesh @mesh <["dp" = 3]>
    func.func @f(%x: tensor<3xf32>) -> tensor<5xf32> {
      %0 = dist.halo %x dim = 0 size = 7 from <positions = 7> to <positions = 7, first = -1, last = 2> over ["dp"]
         : tensor<3xf32> -> tensor<5xf32>
      return %0 : tensor<5xf32>
    })");
  RankTensors x(3, iota({3}));
  for (int64_t rank = 0; rank < 3; ++rank) {
    for (int64_t i = 0; i < 3; ++i) {
      x[rank].setFloat(i, static_cast<double>(10 + 3 * rank + i)); // what is padding on the last one must not be seen
    }
  }
  reference::Interpreter interpreter(*module, 3);
  FailureOr<std::vector<RankTensors>> results = interpreter.run("f", {x});
  REQUIRE(succeeded(results));
  const double expected[3][5] = {{0, 10, 11, 12, 13}, {12, 13, 14, 15, 16}, {15, 16, 0, 0, 0}};
  for (int64_t rank = 0; rank < 3; ++rank) {
    for (int64_t i = 0; i < 5; ++i) {
      CHECK((*results)[0][rank].getFloat(i) == expected[rank][i]);
    }
  }
}

TEST_CASE("collectives on four ranks", "[reference][collectives]") {
  // Rank r holds [10 r, 10 r + 1]; dp groups are {0, 2} and {1, 3}, tp groups {0, 1} and {2, 3}.
  OwningOpRef<ModuleOp> module = parse(R"(
    dist.mesh @mesh <["dp" = 2, "tp" = 2]>
    func.func @f(%x: tensor<2xf32>, %m: tensor<1x2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<4xf32>, tensor<1xf32>, tensor<2x1xf32>,
                                                             tensor<1xf32>, tensor<i64>) {
      %0 = dist.all_reduce sum %x over ["tp"] : tensor<2xf32>
      %1 = dist.all_reduce max %x over ["dp", "tp"] : tensor<2xf32>
      %2 = dist.all_gather %x dim = 0 over ["dp"] : tensor<2xf32> -> tensor<4xf32>
      %3 = dist.reduce_scatter sum %x dim = 0 over ["tp"] : tensor<2xf32> -> tensor<1xf32>
      %4 = dist.all_to_all %m split_dim = 1 concat_dim = 0 over ["tp"] : tensor<1x2xf32> -> tensor<2x1xf32>
      %5 = dist.slice %x dim = 0 over ["dp"] : tensor<2xf32> -> tensor<1xf32>
      %6 = dist.axis_index over ["tp", "dp"] : tensor<i64>
      return %0, %1, %2, %3, %4, %5, %6 : tensor<2xf32>, tensor<2xf32>, tensor<4xf32>, tensor<1xf32>, tensor<2x1xf32>,
                                         tensor<1xf32>, tensor<i64>
    })");
  RankTensors x, m;
  for (int64_t rank = 0; rank < 4; ++rank) {
    Tensor vector = iota({2}), matrix = iota({1, 2});
    for (int64_t i : {0, 1}) {
      vector.setFloat(i, static_cast<double>(10 * rank + i));
      matrix.copyElement(i, vector, i);
    }
    x.push_back(vector);
    m.push_back(matrix);
  }
  reference::Interpreter interpreter(*module, 4);
  FailureOr<std::vector<RankTensors>> results = interpreter.run("f", {x, m});
  REQUIRE(succeeded(results));
  std::vector<std::vector<std::vector<double>>> expected = {
      {{10, 12}, {10, 12}, {50, 52}, {50, 52}}, // tp sums
      {{30, 31}, {30, 31}, {30, 31}, {30, 31}}, // maximum over all
      {{0, 1, 20, 21}, {10, 11, 30, 31}, {0, 1, 20, 21}, {10, 11, 30, 31}},
      {{10}, {12}, {50}, {52}},
      {{0, 10}, {1, 11}, {20, 30}, {21, 31}},
      {{0}, {10}, {21}, {31}},
      {{0}, {2}, {1}, {3}},
  };
  for (size_t r = 0; r < expected.size(); ++r) {
    for (size_t rank = 0; rank < 4; ++rank) {
      for (size_t i = 0; i < expected[r][rank].size(); ++i) {
        INFO("result " << r << " rank " << rank << " element " << i);
        CHECK((*results)[r][rank].getNumber(i) == expected[r][rank][i]);
      }
    }
  }
}

TEST_CASE("a collective needs as many ranks as the mesh has devices", "[reference][collectives]") {
  OwningOpRef<ModuleOp> module = parse(R"(
    dist.mesh @mesh <["dp" = 2]>
    func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = dist.all_reduce sum %x over ["dp"] : tensor<2xf32>
      return %0 : tensor<2xf32>
    })");
  std::string error = firstError([&] {
    reference::Interpreter interpreter(*module, 3);
    CHECK(failed(interpreter.run("f", {RankTensors(3, iota({2}))})));
  });
  CHECK(error ==
        "'dist.all_reduce' op runs on a mesh of 2 devices but the interpreter simulates 3 ranks; set ranks to the size of the mesh");
}

TEST_CASE("the interpreter refuses what it cannot run", "[reference][interpreter]") {
  OwningOpRef<ModuleOp> module = parse(R"(
    nn.variable @w trainable : tensor<f32>
    func.func @reads() -> tensor<f32> {
      %0 = nn.read @w : tensor<f32>
      return %0 : tensor<f32>
    }
    func.func @takes(%x: tensor<2xf32>) {
      return
    }
    func.func @calls() {
      func.call @calls() : () -> ()
      return
    })");
  auto error = [&](StringRef function, ArrayRef<RankTensors> inputs) {
    return firstError([&] {
      reference::Interpreter interpreter(*module);
      CHECK(failed(interpreter.run(function, inputs)));
    });
  };
  CHECK(error("none", {}) == "no function @none to interpret");
  CHECK(error("reads", {}) == "'nn.read' op reads variable @w, which has no value yet; run @init first");
  CHECK(error("takes", {}) == "takes 1 inputs, 0 were given");
  CHECK(error("takes", {{iota({3})}}) == "argument 0 has type 'tensor<2xf32>' but was given 'tensor<3xf32>'");
  CHECK(error("calls", {}) == "'func.call' op has no reference semantics");
}

TEST_CASE("comparison sees layouts, states and differences", "[reference][equivalence]") {
  // y = 2 x + w; w += 1. The second is the first on two devices with x split and w whole.
  OwningOpRef<ModuleOp> before = parse(R"(
    nn.variable @w : tensor<4xf32>
    func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nn.program = #nn.program<run>} {
      %one = nn.constant dense<1.0> : tensor<4xf32>
      %w = nn.read @w : tensor<4xf32>
      %0 = nn.add %x, %x : tensor<4xf32>
      %1 = nn.add %0, %w : tensor<4xf32>
      %2 = nn.add %w, %one : tensor<4xf32>
      nn.write @w, %2 : tensor<4xf32>
      return %1 : tensor<4xf32>
    })");
  auto after = [](const std::string &step) {
    return parse(R"(
    dist.mesh @mesh <["dp" = 2]>
    nn.variable @w : tensor<4xf32> {dist.layout = #dist.layout<[{}]>, dist.global_type = tensor<4xf32>}
    func.func @forward(%x: tensor<2xf32> {dist.layout = #dist.layout<[{"dp"}]>, dist.global_type = tensor<4xf32>})
        -> (tensor<2xf32> {dist.layout = #dist.layout<[{"dp"}]>, dist.global_type = tensor<4xf32>}) attributes {nn.program = #nn.program<run>} {
      %step = nn.constant dense<)" +
                 step + R"(> : tensor<4xf32>
      %w = nn.read @w : tensor<4xf32>
      %mine = dist.slice %w dim = 0 over ["dp"] : tensor<4xf32> -> tensor<2xf32>
      %0 = nn.add %x, %x : tensor<2xf32>
      %1 = nn.add %0, %mine : tensor<2xf32>
      %2 = nn.add %w, %step : tensor<4xf32>
      nn.write @w, %2 : tensor<4xf32>
      return %1 : tensor<2xf32>
    })");
  };
  EquivalenceOptions options;
  options.functions = {"forward", "forward"};
  options.ranksAfter = 2;
  CHECK(*reference::compareModules(*before, *after("1.0"), options) == 0);
  CHECK(*reference::compareModules(*before, *after("1.5"), options) > 0.1);
}

TEST_CASE("ops with a block of their own are interpreted", "[reference][interpreter]") {
  OwningOpRef<ModuleOp> module = parse(R"(
    func.func @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>) {
      %0:2 = exec.fusion rows(%x) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>) {
      ^bb0(%a: tensor<2xf32>):
        %1 = nn.add %a, %a : tensor<2xf32>
        %2 = nn.reduce sum %1 dims = [0] : tensor<2xf32> -> tensor<f32>
        exec.yield %1, %2 : tensor<2xf32>, tensor<f32>
      }
      return %0#0, %0#1 : tensor<2xf32>, tensor<f32>
    })");
  std::vector<Tensor> results = run(*module, "f", {tensor("dense<[1.0, 2.5]> : tensor<2xf32>")});
  CHECK(reference::maxDifference(results[0], tensor("dense<[2.0, 5.0]> : tensor<2xf32>")) == 0);
  CHECK(results[1].getFloat(0) == 7);
}

namespace {

// Returns a random program on 4x6 tensors, with many chances for folding: neutral elements, shape ops there and back, common expressions.
std::string randomProgram(std::mt19937_64 &generator) {
  std::string text =
      "func.func @forward(%v0: tensor<4x6xf64>, %v1: tensor<4x6xf64>) -> tensor<4x6xf64> attributes {nn.program = #nn.program<run>} {\n"
      "  %zero = nn.constant dense<0.0> : tensor<4x6xf64>\n  %one = nn.constant dense<1.0> : tensor<4x6xf64>\n"
      "  %half = nn.constant dense<0.5> : tensor<6xf64>\n";
  int64_t count = 2;
  auto pick = [&] { return "%v" + std::to_string(generator() % count); };
  for (int64_t step = 0; step < 30; ++step) {
    std::string v = "  %v" + std::to_string(count) + " = ", t = "%t" + std::to_string(count), type = " : tensor<4x6xf64>\n";
    switch (generator() % 9) {
    case 0:
      text += v + "nn.add " + pick() + ", %zero" + type;
      break;
    case 1:
      text += v + "nn.mul %one, " + pick() + type;
      break;
    case 2:
      text += v + "nn.sub " + pick() + ", " + pick() + type;
      break;
    case 3:
      text += v + "nn.max " + pick() + ", " + pick() + type;
      break;
    case 4:
      text += v + "nn.tanh " + pick() + type;
      break;
    case 5: // there and back
      text += "  " + t + " = nn.transpose " + pick() + " [1, 0] : tensor<4x6xf64> -> tensor<6x4xf64>\n" + v + "nn.transpose " + t +
              " [1, 0] : tensor<6x4xf64> -> tensor<4x6xf64>\n";
      break;
    case 6:
      text += "  " + t + " = nn.reshape " + pick() + " : tensor<4x6xf64> -> tensor<24xf64>\n" + v + "nn.reshape " + t +
              " : tensor<24xf64> -> tensor<4x6xf64>\n";
      break;
    case 7:
      text += v + "nn.broadcast %half dims = [1] : tensor<6xf64> -> tensor<4x6xf64>\n";
      break;
    default:
      text += v + "nn.div " + pick() + ", %one" + type;
      break;
    }
    ++count;
  }
  // Everything counts.
  std::string sum = "%v0";
  for (int64_t i = 1; i < count; ++i) {
    std::string next = "%s" + std::to_string(i);
    text += "  " + next + " = nn.add " + sum + ", %v" + std::to_string(i) + " : tensor<4x6xf64>\n";
    sum = next;
  }
  return text + "  return " + sum + " : tensor<4x6xf64>\n}\n";
}

} // namespace

TEST_CASE("canonicalizing and CSE change no number", "[reference][equivalence]") {
  uint64_t seed = testSeed();
  std::mt19937_64 generator(seed);
  int64_t opsBefore = 0, opsAfter = 0;
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::string text = randomProgram(generator);
    INFO("seed " << seed << ", program " << repeat << "\n" << text);
    OwningOpRef<ModuleOp> before = parse(text), after = parse(text);
    PassManager passes(&context());
    passes.addPass(createCanonicalizerPass());
    passes.addPass(createCSEPass());
    REQUIRE(succeeded(passes.run(*after)));
    before->walk([&](Operation *) { ++opsBefore; });
    after->walk([&](Operation *) { ++opsAfter; });
    FailureOr<double> difference = reference::compareModules(*before, *after, EquivalenceOptions());
    REQUIRE(succeeded(difference));
    CHECK(*difference == 0); // bit for bit: only identities are folded
  }
  CHECK(opsAfter < opsBefore * 9 / 10);
}

} // namespace ashlar::test::equivalence_test
