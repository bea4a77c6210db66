// SPDX-License-Identifier: Apache-2.0
//
// The test matrix: every way an operand can be held times every op that moves or combines elements. Each cell is a place where some
// partitioner has been silently wrong. docs/layouts.md has the table.

#include "compiler/reference/equivalence.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"

#include "llvm/Support/FormatVariadic.h"

#include <catch2/catch.hpp>

namespace ashlar::test::matrix_test {

using namespace mlir;

namespace {

constexpr double kTolerance = 1e-11; // sums in another order, f64

// What is done with %x, a tensor<6x8xf64>; the result is %y, of the type given.
struct Use {
  const char *name, *body, *type;
};

constexpr Use kUses[] = {
    {"merge dims", "%y = nn.reshape %x : tensor<6x8xf64> -> tensor<48xf64>", "48xf64"},
    {"split dims", "%y = nn.reshape %x : tensor<6x8xf64> -> tensor<2x3x4x2xf64>", "2x3x4x2xf64"},
    {"regroup dims", "%y = nn.reshape %x : tensor<6x8xf64> -> tensor<4x12xf64>", "4x12xf64"},
    {"transpose", "%y = nn.transpose %x [1, 0] : tensor<6x8xf64> -> tensor<8x6xf64>", "8x6xf64"},
    {"slice rows", "%y = nn.slice %x [1, 0] to [6, 8] by [2, 1] : tensor<6x8xf64> -> tensor<3x8xf64>", "3x8xf64"},
    {"slice columns", "%y = nn.slice %x [0, 4] to [6, 8] by [1, 1] : tensor<6x8xf64> -> tensor<6x4xf64>", "6x4xf64"},
    {"pad", "%y = nn.pad %x low = [1, 0] interior = [1, 0] : tensor<6x8xf64> -> tensor<13x9xf64>", "13x9xf64"},
    {"concat rows", "%y = nn.concat %x, %x dim = 0 : (tensor<6x8xf64>, tensor<6x8xf64>) -> tensor<12x8xf64>", "12x8xf64"},
    {"concat columns", "%y = nn.concat %x, %x dim = 1 : (tensor<6x8xf64>, tensor<6x8xf64>) -> tensor<6x16xf64>", "6x16xf64"},
    {"split in two",
     R"(%left = nn.slice %x [0, 0] to [6, 4] by [1, 1] : tensor<6x8xf64> -> tensor<6x4xf64>
        %right = nn.slice %x [0, 4] to [6, 8] by [1, 1] : tensor<6x8xf64> -> tensor<6x4xf64>
        %y = nn.mul %left, %right : tensor<6x4xf64>)",
     "6x4xf64"},
    {"broadcast", "%y = nn.broadcast %x dims = [0, 2] : tensor<6x8xf64> -> tensor<6x3x8xf64>", "6x3x8xf64"},
    {"sum of rows", "%y = nn.reduce sum %x dims = [0] : tensor<6x8xf64> -> tensor<8xf64>", "8xf64"},
    {"maximum of columns", "%y = nn.reduce max %x dims = [1] : tensor<6x8xf64> -> tensor<6xf64>", "6xf64"},
    {"minimum of all", "%y = nn.reduce min %x dims = [0, 1] : tensor<6x8xf64> -> tensor<f64>", "f64"},
    {"softmax", "%y = nn.softmax %x : tensor<6x8xf64>", "6x8xf64"},
    {"log softmax", "%y = nn.log_softmax %x : tensor<6x8xf64>", "6x8xf64"},
    {"cross entropy",
     R"(%i = nn.index [1] : tensor<6xi64>
        %y = nn.softmax_cross_entropy %x, %i : tensor<6x8xf64>, tensor<6xi64> -> tensor<6xf64>)",
     "6xf64"},
    {"norm over rows",
     R"(%s = nn.reduce sum %x dims = [1] : tensor<6x8xf64> -> tensor<6xf64>
        %n = nn.constant dense<8.0> : tensor<6xf64>
        %m = nn.div %s, %n : tensor<6xf64>
        %mb = nn.broadcast %m dims = [0] : tensor<6xf64> -> tensor<6x8xf64>
        %d = nn.sub %x, %mb : tensor<6x8xf64>
        %q = nn.mul %d, %d : tensor<6x8xf64>
        %v = nn.reduce sum %q dims = [1] : tensor<6x8xf64> -> tensor<6xf64>
        %root = nn.sqrt %v : tensor<6xf64>
        %rb = nn.broadcast %root dims = [0] : tensor<6xf64> -> tensor<6x8xf64>
        %y = nn.div %d, %rb : tensor<6x8xf64>)",
     "6x8xf64"},
    {"product, contracted over columns",
     R"(%w = nn.index [3, 1] : tensor<8x5xi64>
        %wf = nn.cast %w : tensor<8x5xi64> -> tensor<8x5xf64>
        %y = nn.matmul %x, %wf : tensor<6x8xf64>, tensor<8x5xf64> -> tensor<6x5xf64>)",
     "6x5xf64"},
    {"rows by number",
     R"(%i = nn.constant dense<[[3, -1, 0, 5], [6, 2, 7, 3]]> : tensor<2x4xi64>
        %y = nn.gather %x, %i : tensor<6x8xf64>, tensor<2x4xi64> -> tensor<2x4x8xf64>)",
     "2x4x8xf64"},
    {"rows of a batch by number",
     R"(%i = nn.constant dense<[[3, -1], [0, 5], [6, 2], [7, 3], [8, 1], [1, 1]]> : tensor<6x2xi64>
        %y = nn.gather %x, %i batch_dims = 1 : tensor<6x8xf64>, tensor<6x2xi64> -> tensor<6x2xf64>)",
     "6x2xf64"},
    {"rows of a batch added up by number",
     R"(%k = nn.constant dense<[[-1, 4, 2, 0, 5, 3, 1, -1], [2, 0, 5, 3, 1, -1, 4, 2], [5, 3, 1, -1, 4, 2, 0, 5],
                              [1, -1, 4, 2, 0, 5, 3, 1], [4, 2, 0, 5, 3, 1, -1, 4], [0, 5, 3, 1, -1, 4, 2, 0]]> : tensor<6x8xi64>
        %y = nn.scatter_add %k, %x batch_dims = 1 : tensor<6x8xi64>, tensor<6x8xf64> -> tensor<6x4xf64>)",
     "6x4xf64"},
    {"rows added up by number",
     R"(%i = nn.constant dense<[4, -1, 0, 5, 4, 4]> : tensor<6xi32>
        %y = nn.scatter_add %i, %x : tensor<6xi32>, tensor<6x8xf64> -> tensor<5x8xf64>)",
     "5x8xf64"},
    {"product with itself", "%y = nn.matmul %x, %x transpose_a : tensor<6x8xf64>, tensor<6x8xf64> -> tensor<8x8xf64>", "8x8xf64"},
    {"embedding",
     R"(%i = nn.index [3, 1] : tensor<2x3xi64>
        %y = nn.gather %x, %i : tensor<6x8xf64>, tensor<2x3xi64> -> tensor<2x3x8xf64>)",
     "2x3x8xf64"},
    {"gradient of an embedding",
     R"(%i = nn.index [1] : tensor<6xi64>
        %y = nn.scatter_add %i, %x : tensor<6xi64>, tensor<6x8xf64> -> tensor<9x8xf64>)",
     "9x8xf64"},
    {"attention of queries",
     R"(%i = nn.index [1, 2] : tensor<5x8xi64>
        %k = nn.cast %i : tensor<5x8xi64> -> tensor<5x8xf64>
        %j = nn.index [2, 1] : tensor<5x4xi64>
        %v = nn.cast %j : tensor<5x4xi64> -> tensor<5x4xf64>
        %sums = nn.attention_log_sum %x, %k scale = 0.01 : (tensor<6x8xf64>, tensor<5x8xf64>) -> tensor<6xf64>
        %y = nn.attention %x, %k, %v, %sums scale = 0.01 : (tensor<6x8xf64>, tensor<5x8xf64>, tensor<5x4xf64>, tensor<6xf64>) -> tensor<6x4xf64>)",
     "6x4xf64"},
    {"attention of keys, masked",
     R"(%i = nn.index [1, 2] : tensor<5x8xi64>
        %q = nn.cast %i : tensor<5x8xi64> -> tensor<5x8xf64>
        %j = nn.index [2, 1] : tensor<6x4xi64>
        %v = nn.cast %j : tensor<6x4xi64> -> tensor<6x4xf64>
        %m = nn.constant dense<[[true, false, true, true, false, true]]> : tensor<1x6xi1>
        %sums = nn.attention_log_sum %q, %x mask = %m scale = 0.01 : (tensor<5x8xf64>, tensor<6x8xf64>, tensor<1x6xi1>) -> tensor<5xf64>
        %y = nn.attention %q, %x, %v, %sums mask = %m scale = 0.01
           : (tensor<5x8xf64>, tensor<6x8xf64>, tensor<6x4xf64>, tensor<5xf64>, tensor<1x6xi1>) -> tensor<5x4xf64>)",
     "5x4xf64"},
    {"attention of values",
     R"(%i = nn.index [1, 2] : tensor<5x3xi64>
        %q = nn.cast %i : tensor<5x3xi64> -> tensor<5x3xf64>
        %j = nn.index [2, 1] : tensor<6x3xi64>
        %k = nn.cast %j : tensor<6x3xi64> -> tensor<6x3xf64>
        %sums = nn.attention_log_sum %q, %k scale = 0.01 : (tensor<5x3xf64>, tensor<6x3xf64>) -> tensor<5xf64>
        %y = nn.attention %q, %k, %x, %sums scale = 0.01 : (tensor<5x3xf64>, tensor<6x3xf64>, tensor<6x8xf64>, tensor<5xf64>) -> tensor<5x8xf64>)",
     "5x8xf64"},
    {"causal attention to itself, and its gradients",
     R"(%sums = nn.attention_log_sum %x, %x scale = 0.01 causal : (tensor<6x8xf64>, tensor<6x8xf64>) -> tensor<6xf64>
        %o = nn.attention %x, %x, %x, %sums scale = 0.01 causal : (tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6xf64>) -> tensor<6x8xf64>
        %q = nn.attention_gradient query %x, %x, %x, %sums, %o, %x scale = 0.01 causal
           : (tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6xf64>, tensor<6x8xf64>, tensor<6x8xf64>) -> tensor<6x8xf64>
        %k = nn.attention_gradient key %x, %x, %x, %sums, %o, %x scale = 0.01 causal
           : (tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6xf64>, tensor<6x8xf64>, tensor<6x8xf64>) -> tensor<6x8xf64>
        %v = nn.attention_gradient value %x, %x, %x, %sums, %o, %x scale = 0.01 causal
           : (tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6xf64>, tensor<6x8xf64>, tensor<6x8xf64>) -> tensor<6x8xf64>
        %y = nn.concat %o, %q, %k, %v dim = 0 : (tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>) -> tensor<24x8xf64>)",
     "24x8xf64"},
    {"gradients of attention to itself",
     R"(%sums = nn.attention_log_sum %x, %x scale = 0.01 : (tensor<6x8xf64>, tensor<6x8xf64>) -> tensor<6xf64>
        %o = nn.attention %x, %x, %x, %sums scale = 0.01 : (tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6xf64>) -> tensor<6x8xf64>
        %q = nn.attention_gradient query %x, %x, %x, %sums, %o, %x scale = 0.01
           : (tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6xf64>, tensor<6x8xf64>, tensor<6x8xf64>) -> tensor<6x8xf64>
        %k = nn.attention_gradient key %x, %x, %x, %sums, %o, %x scale = 0.01
           : (tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6xf64>, tensor<6x8xf64>, tensor<6x8xf64>) -> tensor<6x8xf64>
        %v = nn.attention_gradient value %x, %x, %x, %sums, %o, %x scale = 0.01
           : (tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6xf64>, tensor<6x8xf64>, tensor<6x8xf64>) -> tensor<6x8xf64>
        %y = nn.concat %o, %q, %k, %v dim = 0 : (tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>) -> tensor<24x8xf64>)",
     "24x8xf64"},
    {"attention to itself with a dropout, and its gradients",
     R"(%sums = nn.attention_log_sum %x, %x scale = 0.01 : (tensor<6x8xf64>, tensor<6x8xf64>) -> tensor<6xf64>
        %rows = nn.index [6] : tensor<6xi64>
        %keys = nn.index [1] : tensor<6xi64>
        %n = nn.constant dense<7> : tensor<i64>
        %stream = nn.constant dense<3> : tensor<i32>
        %o = nn.attention %x, %x, %x, %sums scale = 0.01 dropout = 0.4 by %rows, %keys, %n, %n, %stream
           : (tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6xf64>, tensor<6xi64>, tensor<6xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<6x8xf64>
        %q = nn.attention_gradient query %x, %x, %x, %sums, %o, %x scale = 0.01 dropout = 0.4 by %rows, %keys, %n, %n, %stream
           : (tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6xi64>, tensor<6xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<6x8xf64>
        %k = nn.attention_gradient key %x, %x, %x, %sums, %o, %x scale = 0.01 dropout = 0.4 by %rows, %keys, %n, %n, %stream
           : (tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6xi64>, tensor<6xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<6x8xf64>
        %v = nn.attention_gradient value %x, %x, %x, %sums, %o, %x scale = 0.01 dropout = 0.4 by %rows, %keys, %n, %n, %stream
           : (tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6xi64>, tensor<6xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<6x8xf64>
        %y = nn.concat %o, %q, %k, %v dim = 0 : (tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>) -> tensor<24x8xf64>)",
     "24x8xf64"},
    {"random, by index",
     R"(%i = nn.index [8, 1] : tensor<6x8xi64>
        %s = nn.constant dense<7> : tensor<i64>
        %stream = nn.constant dense<3> : tensor<i32>
        %u = nn.random uniform %i, %s, %s, %stream : (tensor<6x8xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<6x8xf64>
        %y = nn.mul %x, %u : tensor<6x8xf64>)",
     "6x8xf64"},
};

// How %x comes to be: an argument, a sum that is partial over the contracted dim, or a maximum that is partial over the reduced one.
constexpr const char *kArgument = R"(
  func.func @f(%x: tensor<6x8xf64> {dist.layout = #dist.layout<{0}>}) -> (tensor<{2}>) {{
    {1}
    return %y : tensor<{2}>
  })";
constexpr const char *kSum = R"(
  func.func @f(%l: tensor<6x12xf64> {dist.layout = #dist.layout<[{{}, {0}]>}, %r: tensor<12x8xf64> {dist.layout = #dist.layout<[{0}, {{}]>})
      -> (tensor<{2}>) {{
    %x = nn.matmul %l, %r : tensor<6x12xf64>, tensor<12x8xf64> -> tensor<6x8xf64>
    {1}
    return %y : tensor<{2}>
  })";
constexpr const char *kMaximum = R"(
  func.func @f(%a: tensor<6x12x8xf64> {dist.layout = #dist.layout<[{{}, {0}, {{}]>}) -> (tensor<{2}>) {{
    %x = nn.reduce max %a dims = [1] : tensor<6x12x8xf64> -> tensor<6x8xf64>
    {1}
    return %y : tensor<{2}>
  })";

void checkCell(const char *state, StringRef axes, const Use &use, dist::MeshAttr mesh) {
  INFO(use.name << " of " << axes.str());
  OwningOpRef<ModuleOp> before = parse(llvm::formatv(state, axes, use.body, use.type).str());
  OpBuilder builder = OpBuilder::atBlockBegin(before->getBody());
  dist::MeshOp::create(builder, before->getLoc(), "mesh", mesh);
  OwningOpRef<ModuleOp> after = before->clone();
  REQUIRE(succeeded(partitionModule(*after)));
  reference::EquivalenceOptions options;
  options.functions = {"f"};
  options.ranksAfter = mesh.numDevices();
  FailureOr<double> difference = reference::compareModules(*before, *after, options);
  REQUIRE(succeeded(difference));
  CHECK(*difference < kTolerance);
}

} // namespace

// Axes of 2, 3 and 4, so that both sizes are cut evenly and unevenly, and an axis of 1 that must change nothing.
TEST_CASE("matrix: replicated, split and partial operands of every op that moves or combines elements", "[matrix]") {
  dist::MeshAttr mesh = meshOf(context(), {{"x", 2}, {"y", 3}, {"one", 1}}), square = meshOf(context(), {{"x", 4}, {"y", 2}});
  for (const Use &use : kUses) {
    for (dist::MeshAttr devices : {mesh, square}) {
      for (StringRef layout : {"[{}, {}]", "[{\"x\"}, {}]", "[{\"y\"}, {}]", "[{}, {\"x\"}]", "[{}, {\"y\"}]", "[{\"x\"}, {\"y\"}]",
                               "[{\"y\", \"x\"}, {}]", "[{}, {\"x\", \"y\"}]"}) {
        checkCell(kArgument, layout, use, devices);
      }
      for (StringRef axes : {"{\"x\"}", "{\"y\"}", "{\"x\", \"y\"}"}) {
        checkCell(kSum, axes, use, devices);
        checkCell(kMaximum, axes, use, devices);
      }
    }
    checkCell(kArgument, "[{\"one\"}, {\"x\"}]", use, mesh);
  }
}

} // namespace ashlar::test::matrix_test
