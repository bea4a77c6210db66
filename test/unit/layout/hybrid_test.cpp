// SPDX-License-Identifier: Apache-2.0
//
// Models that place their collectives themselves: lifted and partitioned again they are the program that they were, collectives included,
// and they train like the model that a single device runs.

#include "compiler/reference/equivalence.h"
#include "passes/analysis/planner/single_step.h"
#include "passes/layout/passes.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <catch2/catch.hpp>

namespace ashlar::test::hybrid_test {

using namespace mlir;

namespace {

using reference::RankTensors;
using reference::Tensor;

// The same sums in another order, three f64 steps of them.
constexpr double kTolerance = 1e-10;

// A pair of layers with the parts added, one with sequence parallelism (rows gathered before, scattered after), and a copy of one device.
constexpr const char *kLocal = R"(
  dist.mesh @mesh <["dp" = 2, "tp" = 2]>
  nn.variable @w1 trainable : tensor<8x4xf64> = #nn.uniform<-1.0 : f64, 1.0 : f64> {dist.layout = #dist.layout<[{"tp"}, {}]>}
  nn.variable @b1 trainable : tensor<8xf64> = #nn.fill<0.1 : f64> {dist.layout = #dist.layout<[{"tp"}]>}
  nn.variable @w2 trainable : tensor<6x8xf64> = #nn.uniform<-1.0 : f64, 1.0 : f64> {dist.layout = #dist.layout<[{}, {"tp"}]>}
  nn.variable @b2 trainable : tensor<6xf64> = #nn.normal<0.0 : f64, 0.5 : f64>
  nn.variable @w3 trainable : tensor<5x6xf64> = #nn.uniform<-1.0 : f64, 1.0 : f64> {dist.layout = #dist.layout<[{"tp"}, {}]>}
  nn.variable @w4 trainable : tensor<4x5xf64> = #nn.uniform<-1.0 : f64, 1.0 : f64> {dist.layout = #dist.layout<[{}, {"tp"}]>}
  func.func @forward(%x: tensor<6x4xf64> {nn.name = "input", dist.layout = #dist.layout<[{"dp"}, {}]>})
      -> (tensor<6x4xf64> {nn.name = "logits"}) attributes {nn.program = #nn.program<run>} {
    %w1 = nn.read @w1 : tensor<8x4xf64>
    %b1 = nn.read @b1 : tensor<8xf64>
    %w2 = nn.read @w2 : tensor<6x8xf64>
    %b2 = nn.read @b2 : tensor<6xf64>
    %w3 = nn.read @w3 : tensor<5x6xf64>
    %w4 = nn.read @w4 : tensor<4x5xf64>
    %0 = nn.matmul %x, %w1 transpose_b : tensor<6x4xf64>, tensor<8x4xf64> -> tensor<6x8xf64>
    %1 = nn.broadcast %b1 dims = [1] : tensor<8xf64> -> tensor<6x8xf64>
    %2 = nn.add %0, %1 : tensor<6x8xf64>
    %3 = nn.tanh %2 : tensor<6x8xf64>
    %4 = nn.matmul %3, %w2 transpose_b : tensor<6x8xf64>, tensor<6x8xf64> -> tensor<6x6xf64>
    %half = nn.constant dense<0.5> : tensor<6x6xf64>
    %5 = nn.mul %4, %half : tensor<6x6xf64>
    %6 = dist.reduce_scatter sum %5 dim = 0 over ["tp"] : tensor<6x6xf64> -> tensor<3x6xf64>
    %b2b = dist.broadcast %b2 root = 1 over ["dp"] : tensor<6xf64>
    %7 = nn.broadcast %b2b dims = [1] : tensor<6xf64> -> tensor<3x6xf64>
    %8 = nn.add %6, %7 : tensor<3x6xf64>
    %9 = nn.softmax %8 : tensor<3x6xf64>
    %10 = dist.all_gather %9 dim = 0 over ["tp"] : tensor<3x6xf64> -> tensor<6x6xf64>
    %11 = nn.matmul %10, %w3 transpose_b : tensor<6x6xf64>, tensor<5x6xf64> -> tensor<6x5xf64>
    %12 = nn.tanh %11 : tensor<6x5xf64>
    %13 = nn.matmul %12, %w4 transpose_b : tensor<6x5xf64>, tensor<4x5xf64> -> tensor<6x4xf64>
    %14 = dist.all_reduce sum %13 over ["tp"] : tensor<6x4xf64>
    return %14 : tensor<6x4xf64>
  }
)";

// The same for one device.
constexpr const char *kWhole = R"(
  nn.variable @w1 trainable : tensor<16x4xf64> = #nn.uniform<-1.0 : f64, 1.0 : f64>
  nn.variable @b1 trainable : tensor<16xf64> = #nn.fill<0.1 : f64>
  nn.variable @w2 trainable : tensor<6x16xf64> = #nn.uniform<-1.0 : f64, 1.0 : f64>
  nn.variable @b2 trainable : tensor<6xf64> = #nn.normal<0.0 : f64, 0.5 : f64>
  nn.variable @w3 trainable : tensor<10x6xf64> = #nn.uniform<-1.0 : f64, 1.0 : f64>
  nn.variable @w4 trainable : tensor<4x10xf64> = #nn.uniform<-1.0 : f64, 1.0 : f64>
  func.func @forward(%x: tensor<12x4xf64> {nn.name = "input"}) -> (tensor<12x4xf64> {nn.name = "logits"}) attributes {nn.program = #nn.program<run>} {
    %w1 = nn.read @w1 : tensor<16x4xf64>
    %b1 = nn.read @b1 : tensor<16xf64>
    %w2 = nn.read @w2 : tensor<6x16xf64>
    %b2 = nn.read @b2 : tensor<6xf64>
    %w3 = nn.read @w3 : tensor<10x6xf64>
    %w4 = nn.read @w4 : tensor<4x10xf64>
    %0 = nn.matmul %x, %w1 transpose_b : tensor<12x4xf64>, tensor<16x4xf64> -> tensor<12x16xf64>
    %1 = nn.broadcast %b1 dims = [1] : tensor<16xf64> -> tensor<12x16xf64>
    %2 = nn.add %0, %1 : tensor<12x16xf64>
    %3 = nn.tanh %2 : tensor<12x16xf64>
    %4 = nn.matmul %3, %w2 transpose_b : tensor<12x16xf64>, tensor<6x16xf64> -> tensor<12x6xf64>
    %half = nn.constant dense<0.5> : tensor<12x6xf64>
    %5 = nn.mul %4, %half : tensor<12x6xf64>
    %7 = nn.broadcast %b2 dims = [1] : tensor<6xf64> -> tensor<12x6xf64>
    %8 = nn.add %5, %7 : tensor<12x6xf64>
    %9 = nn.softmax %8 : tensor<12x6xf64>
    %11 = nn.matmul %9, %w3 transpose_b : tensor<12x6xf64>, tensor<10x6xf64> -> tensor<12x10xf64>
    %12 = nn.tanh %11 : tensor<12x10xf64>
    %13 = nn.matmul %12, %w4 transpose_b : tensor<12x10xf64>, tensor<4x10xf64> -> tensor<12x4xf64>
    return %13 : tensor<12x4xf64>
  }
)";

LogicalResult lift(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.addPass(layout::createLiftHybridPass());
  return passes.run(module);
}

// Returns the collectives of a function in order: "reduce_scatter [\"tp\"]".
std::vector<std::string> collectivesOf(ModuleOp module, StringRef function) {
  std::vector<std::string> list;
  module.lookupSymbol<func::FuncOp>(function).walk([&](dist::CollectiveOpInterface op) {
    std::string axes;
    llvm::raw_string_ostream(axes) << op.getAxes();
    list.push_back(stringifyCollectiveKind(op.getCollectiveKind()).str() + " " + axes);
  });
  return list;
}

// Runs @forward of a local program on all ranks, each with its pieces of random inputs and variables.
RankTensors runLocal(ModuleOp module, const Tensor &input, const std::map<std::string, Tensor> &variables) {
  dist::MeshAttr mesh = dist::findMesh(module).getMesh();
  reference::Interpreter interpreter(module, mesh.numDevices());
  auto pieces = [&](const Tensor &whole, Attribute layout) {
    auto given = dyn_cast_or_null<dist::LayoutAttr>(layout);
    return reference::scatter(whole, given ? given.getLayout() : dist::Layout::replicated(whole.getType().getRank()), mesh);
  };
  for (auto variable : module.getOps<nn::VariableOp>()) {
    interpreter.setVariable(variable.getSymName(), pieces(variables.at(variable.getSymName().str()), variable->getAttr(dist::kLayoutAttr)));
  }
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  auto results = interpreter.run("forward", {pieces(input, forward.getArgAttr(0, dist::kLayoutAttr))});
  REQUIRE(succeeded(results));
  return results->front();
}

} // namespace

TEST_CASE("hybrid: lifted and partitioned, a model is the program that it was", "[hybrid]") {
  OwningOpRef<ModuleOp> local = parse(kLocal), lifted = parse(kLocal);
  REQUIRE(succeeded(lift(*lifted)));
  std::mt19937_64 generator(testSeed());
  std::map<std::string, Tensor> variables;
  for (auto variable : lifted->getOps<nn::VariableOp>()) {
    variables.emplace(variable.getSymName().str(), reference::randomTensor(variable.getTensorType(), generator, 4));
    variable.removeInitAttr();
  }
  auto forward = lifted->lookupSymbol<func::FuncOp>("forward");
  Tensor input = reference::randomTensor(cast<RankedTensorType>(forward.getArgumentTypes()[0]), generator, 4);
  auto type = cast<RankedTensorType>(forward.getResultTypes()[0]);
  CHECK(type.getShape() == ArrayRef<int64_t>{12, 4});
  REQUIRE(succeeded(partitionModule(*lifted)));
  CHECK(collectivesOf(*lifted, "forward") == collectivesOf(*local, "forward"));
  REQUIRE(collectivesOf(*lifted, "forward").size() == 4);

  reference::Interpreter interpreter(*lifted, 4);
  for (const auto &[name, value] : variables) {
    reference::setGlobalVariable(interpreter, name, value);
  }
  FailureOr<std::vector<Tensor>> global = reference::runGlobal(interpreter, "forward", {input});
  REQUIRE(succeeded(global));
  dist::MeshAttr mesh = dist::findMesh(*local).getMesh();
  dist::Layout layout = dist::Layout::replicated(2);
  layout.dims[0] = {StringAttr::get(&context(), "dp")};
  FailureOr<Tensor> expected = reference::gather(runLocal(*local, input, variables), type, layout, mesh);
  REQUIRE(succeeded(expected));
  CHECK(reference::maxDifference(global->front(), *expected) == 0); // the same ops on the same pieces
}

TEST_CASE("hybrid: a model trains as that of a single device", "[hybrid]") {
  OwningOpRef<ModuleOp> whole = parse(kWhole), hybrid = parse(kLocal);
  REQUIRE(succeeded(addTraining(*whole)));
  REQUIRE(succeeded(lift(*hybrid)));
  REQUIRE(succeeded(addTraining(*hybrid)));
  REQUIRE(succeeded(partitionModule(*hybrid, /*splitVariables=*/true)));
  reference::EquivalenceOptions options;
  options.functions = {"init", "train_step", "train_step", "eval_step"};
  options.ranksAfter = 4;
  options.intLimit = 4;
  FailureOr<double> difference = reference::compareModules(*whole, *hybrid, options);
  REQUIRE(succeeded(difference));
  CHECK(*difference < kTolerance);
  // Evaluation has no backward part: the model's collectives, and those of the loss and of the count of hits.
  std::vector<std::string> expected = collectivesOf(*parse(kLocal), "forward"), all = collectivesOf(*hybrid, "eval_step");
  REQUIRE(all.size() == expected.size() + 2);
  CHECK(std::equal(expected.begin(), expected.end(), all.begin()));
}

// Every op that passes parts on, between the op that makes the parts and the collective that combines them.
constexpr const char *kParts = R"(
  dist.mesh @mesh <["dp" = 2, "tp" = 3]>
  func.func @forward(%x: tensor<4x2xf64> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>},
                     %y: tensor<2x3xf64> {dist.layout = #dist.layout<[{"tp"}, {}]>}, %s: tensor<4x3xf64> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                     %w: tensor<3x5xf64>) -> (tensor<4x15xf64>, tensor<4x4xf64>, tensor<12xf64>, tensor<f64>) attributes {nn.program = #nn.program<run>} {
    %p = nn.matmul %x, %y : tensor<4x2xf64>, tensor<2x3xf64> -> tensor<4x3xf64>
    %r = nn.reduce sum %x dims = [1] : tensor<4x2xf64> -> tensor<4xf64>
    %q = nn.broadcast %r dims = [0] : tensor<4xf64> -> tensor<4x3xf64>
    %0 = nn.add %p, %q : tensor<4x3xf64>
    %1 = nn.sub %0, %p : tensor<4x3xf64>
    %2 = nn.neg %1 : tensor<4x3xf64>
    %3 = nn.mul %s, %2 : tensor<4x3xf64>
    %4 = nn.div %3, %s : tensor<4x3xf64>
    %5 = nn.matmul %4, %w : tensor<4x3xf64>, tensor<3x5xf64> -> tensor<4x5xf64>
    %6 = nn.concat %5, %5, %5 dim = 1 : (tensor<4x5xf64>, tensor<4x5xf64>, tensor<4x5xf64>) -> tensor<4x15xf64>
    %7 = dist.all_reduce sum %6 over ["tp"] : tensor<4x15xf64>
    %8 = nn.slice %5 [0, 1] to [4, 3] by [1, 1] : tensor<4x5xf64> -> tensor<4x2xf64>
    %9 = nn.pad %8 low = [0, 1] interior = [0, 0] : tensor<4x2xf64> -> tensor<4x4xf64>
    %zero = nn.constant dense<0.0> : tensor<4x4xf64>
    %b = nn.slice %s [0, 0] to [4, 1] by [1, 1] : tensor<4x3xf64> -> tensor<4x1xf64>
    %b1 = nn.reshape %b : tensor<4x1xf64> -> tensor<4xf64>
    %b2 = nn.broadcast %b1 dims = [0] : tensor<4xf64> -> tensor<4x4xf64>
    %c = nn.compare gt %b2, %zero : tensor<4x4xf64> -> tensor<4x4xi1>
    %10 = nn.neg %9 : tensor<4x4xf64>
    %11 = nn.select %c, %9, %10 : tensor<4x4xi1>, tensor<4x4xf64>
    %12 = dist.all_reduce sum %11 over ["tp"] : tensor<4x4xf64>
    %13 = nn.reduce max %x dims = [1] : tensor<4x2xf64> -> tensor<4xf64>
    %14 = nn.broadcast %13 dims = [1] : tensor<4xf64> -> tensor<3x4xf64>
    %15 = nn.transpose %14 [1, 0] : tensor<3x4xf64> -> tensor<4x3xf64>
    %16 = nn.max %15, %15 : tensor<4x3xf64>
    %17 = nn.reshape %16 : tensor<4x3xf64> -> tensor<12xf64>
    %18 = dist.all_reduce max %17 over ["tp"] : tensor<12xf64>
    %19 = nn.reduce sum %p dims = [0, 1] : tensor<4x3xf64> -> tensor<f64>
    %20 = dist.all_reduce sum %19 over ["tp"] : tensor<f64>
    %21 = dist.all_reduce sum %20 over ["dp"] : tensor<f64>
    return %7, %12, %18, %21 : tensor<4x15xf64>, tensor<4x4xf64>, tensor<12xf64>, tensor<f64>
  }
)";

TEST_CASE("hybrid: what is computed on parts is what the whole gives", "[hybrid]") {
  OwningOpRef<ModuleOp> lifted = parse(kParts);
  REQUIRE(succeeded(lift(*lifted)));
  OwningOpRef<ModuleOp> partitioned = lifted->clone();
  REQUIRE(succeeded(partitionModule(*partitioned)));
  CHECK(collectivesOf(*partitioned, "forward") == collectivesOf(*parse(kParts), "forward"));
  reference::EquivalenceOptions options;
  options.ranksAfter = 6;
  FailureOr<double> difference = reference::compareModules(*lifted, *partitioned, options);
  REQUIRE(succeeded(difference));
  CHECK(*difference < 1e-12); // six terms in another order
}

TEST_CASE("hybrid: the step between two layouts is the one that was applied", "[hybrid]") {
  using analysis::Step;
  auto layoutOf = [](StringRef text) {
    return cast<dist::LayoutAttr>(parseAttribute(("#dist.layout<" + text + ">").str(), &context())).getLayout();
  };
  auto step = [](CollectiveKind kind, std::initializer_list<StringRef> axes, int64_t dim = -1, int64_t concatDim = -1) {
    Step made;
    made.kind = kind;
    made.dim = dim;
    made.concatDim = concatDim;
    for (StringRef axis : axes) {
      made.axes.push_back(StringAttr::get(&context(), axis));
    }
    return made;
  };
  const std::pair<const char *, Step> cases[] = {
      {R"([{}, {}], partial = sum {"x", "y"})", step(CollectiveKind::AllReduce, {"x"})},
      {R"([{}, {}], partial = max {"x", "y"})", step(CollectiveKind::AllReduce, {"x", "y"})},
      {R"([{"y"}, {}], partial = sum {"x"})", step(CollectiveKind::ReduceScatter, {"x"}, 0)},
      {R"([{}, {"y"}], partial = sum {"x"})", step(CollectiveKind::ReduceScatter, {"x"}, 0)},
      {R"([{"x"}, {"y"}])", step(CollectiveKind::AllGather, {"y"}, 1)},
      {R"([{"x", "y"}, {}])", step(CollectiveKind::AllGather, {"y"}, 0)},
      {R"([{"x", "y"}, {}])", step(CollectiveKind::AllToAll, {"y"}, 1, 0)},
      {R"([{"x", "y"}, {}])", step(CollectiveKind::AllToAll, {"x", "y"}, 1, 0)},
      {R"([{"x"}, {}])", step(CollectiveKind::Slice, {"y"}, 1)},
  };
  for (const auto &[text, applied] : cases) {
    dist::Layout from = layoutOf(text), to = analysis::applyStep(from, applied);
    CAPTURE(from.toString(), to.toString());
    std::optional<Step> found = analysis::findSingleStep(from, to);
    REQUIRE(found);
    CHECK(found->kind == applied.kind);
    CHECK(found->axes == applied.axes);
    CHECK(found->dim == applied.dim);
    CHECK(found->concatDim == applied.concatDim);
  }
  // Two steps, or none.
  CHECK_FALSE(analysis::findSingleStep(layoutOf(R"([{"x"}, {"y"}])"), layoutOf("[{}, {}]")));
  CHECK_FALSE(analysis::findSingleStep(layoutOf(R"([{"x"}, {"y"}])"), layoutOf(R"([{"y"}, {"x"}])")));
  CHECK_FALSE(analysis::findSingleStep(layoutOf(R"([{"x"}, {}])"), layoutOf(R"([{"x"}, {}])")));
}

} // namespace ashlar::test::hybrid_test
