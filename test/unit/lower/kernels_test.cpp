// SPDX-License-Identifier: Apache-2.0
//
// Lowering to kernels against the interpreter: the fused module is interpreted, and its kernels are compiled, loaded and run.

#include "test/unit/lower/compiled_kernels.h"
#include "test/unit/lower/random_function.h"
#include "test/unit/reference/parsed_module.h"

#include "compiler/reference/equivalence.h"
#include "dialects/exec/exec.h"
#include "dialects/support/integer_type.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace ashlar::test::kernels_test {

using namespace mlir;

namespace {

std::vector<reference::Tensor> randomInputs(func::FuncOp function, std::mt19937_64 &random) {
  std::vector<reference::Tensor> inputs;
  for (Type type : function.getArgumentTypes()) {
    inputs.push_back(reference::randomTensor(cast<RankedTensorType>(type), random, /*intLimit=*/10));
  }
  return inputs;
}

} // namespace

TEST_CASE("kernels: random functions agree with the interpreter", "[lower][kernels]") {
  auto target = GENERATE(exec::Target::Cpu, exec::Target::Cuda);
  INFO("target " << exec::stringifyTarget(target).str());
  uint64_t seed = test::testSeed();
  INFO("ASHLAR_SEED=" << seed);
  std::mt19937_64 random(seed);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&test::context()));
  constexpr int kFunctions = 60;
  for (int i = 0; i < kFunctions; ++i) {
    test::addRandomFunction(*module, "f" + std::to_string(i), 4 + i % 25, random);
  }
  OwningOpRef<ModuleOp> fused = module->clone();
  test::fuse(*fused, target);
  test::CompiledKernels kernels(*fused, random, /*inPlace=*/true, target);
  for (int i = 0; i < kFunctions; ++i) {
    std::string name = "f" + std::to_string(i);
    std::string text;
    llvm::raw_string_ostream(text) << *fused->lookupSymbol(name);
    INFO("function " << name << "\n" << text);
    auto inputs = randomInputs(module->lookupSymbol<func::FuncOp>(name), random);
    std::vector<reference::Tensor> expected = test::run(*module, name, inputs);
    std::vector<reference::Tensor> interpreted = test::run(*fused, name, inputs);
    std::vector<reference::Tensor> compiled = kernels.run(name, inputs);
    REQUIRE(interpreted.size() == expected.size());
    REQUIRE(compiled.size() == expected.size());
    for (size_t r = 0; r < expected.size(); ++r) {
      INFO("result " << r);
      // Sums of at most 20000 f64 terms of size 1 in another order: 20000 * 2^-53 * a few dozen ops.
      CHECK(reference::maxDifference(expected[r], interpreted[r]) < 1e-10);
      CHECK(reference::maxDifference(expected[r], compiled[r]) < 1e-10);
    }
  }
}

TEST_CASE("kernels: f32 functions are within their stated error", "[lower][kernels]") {
  struct Case {
    const char *op;
    double bound; // |computed - exact| / max(1, |exact|): a few units of 2^-24, and the error of the polynomial
    double low = -8, high = 8;
  };
  const Case cases[] = {{"nn.exp", 3e-7},   {"nn.tanh", 5e-7},           {"nn.erf", 3e-7},         {"nn.sigmoid", 3e-7}, {"nn.gelu", 1e-6},
                        {"nn.relu", 1e-12}, {"nn.log_softmax", 2e-6},    {"nn.softmax", 5e-7},     {"nn.neg", 1e-12},    {"nn.abs", 1e-12},
                        {"nn.sign", 1e-12}, {"nn.log", 3e-7, 1e-6, 100}, {"nn.sqrt", 2e-7, 0, 100}};
  for (const Case &c : cases) {
    INFO(c.op);
    std::string op = c.op;
    auto text = [&](const std::string &type) {
      return "func.func @f(%x: tensor<64x257x" + type + ">) -> tensor<64x257x" + type + "> { %y = " + op + " %x : tensor<64x257x" + type +
             "> return %y : tensor<64x257x" + type + "> }";
    };
    OwningOpRef<ModuleOp> module = test::parse(text("f32")), exact = test::parse(text("f64"));
    std::mt19937_64 random(test::testSeed());
    reference::Tensor x(RankedTensorType::get({64, 257}, Float32Type::get(&test::context())));
    reference::Tensor wide(RankedTensorType::get({64, 257}, Float64Type::get(&test::context())));
    for (int64_t i = 0; i < x.getNumElements(); ++i) {
      x.setFloat(i, std::uniform_real_distribution<double>(c.low, c.high)(random));
      wide.setFloat(i, x.getFloat(i));
    }
    test::fuse(*module);
    test::CompiledKernels kernels(*module, random);
    reference::Tensor computed = kernels.run("f", {x}).front();
    reference::Tensor expected = test::run(*exact, "f", {wide}).front();
    reference::Tensor widened(expected.getType());
    for (int64_t i = 0; i < x.getNumElements(); ++i) {
      widened.setFloat(i, computed.getFloat(i));
    }
    CHECK(reference::maxDifference(expected, widened) < c.bound);
  }
}

// 2^k by an instruction of AVX-512, or by two products: large and subnormal results round alike.
TEST_CASE("kernels: exponentials have the same bits on processors with and without AVX-512", "[lower][kernels]") {
  OwningOpRef<ModuleOp> module = test::parse(
      "func.func @f(%x: tensor<4096xf32>) -> tensor<4096xf32> { %y = nn.exp %x : tensor<4096xf32> return %y : tensor<4096xf32> }");
  std::mt19937_64 random(test::testSeed());
  reference::Tensor x(RankedTensorType::get({4096}, Float32Type::get(&test::context())));
  const double special[] = {0,  -0.0, 1e-40,  INFINITY, -INFINITY, NAN,     88.72, 88.73,
                            89, 1e30, -87.33, -87.34,   -103.27,   -103.98, -104,  -1e30};
  for (int64_t i = 0; i < x.getNumElements(); ++i) {
    x.setFloat(i, i < 16 ? special[i] : std::uniform_real_distribution<double>(-105, 90)(random));
  }
  test::fuse(*module);
  test::CompiledKernels here(*module, random), anywhere(*module, random, /*inPlace=*/true, exec::Target::Cpu, target::HostCpu::Any);
  reference::Tensor y = here.run("f", {x}).front(), z = anywhere.run("f", {x}).front();
  for (int64_t i = 0; i < x.getNumElements(); ++i) {
    const double exact = std::exp(x.getFloat(i)), found = z.getFloat(i);
    INFO("exp of " << x.getFloat(i) << " is " << y.getFloat(i) << " and " << found);
    CHECK((y.getFloat(i) == found || (std::isnan(found) && std::isnan(y.getFloat(i)))));
    CHECK((std::isnan(exact)        ? std::isnan(found)
           : exact > 0x1.ffffffp127 ? std::isinf(found)
                                    : std::abs(found - exact) <= 2e-7 * exact + 0x1p-149));
  }
}

TEST_CASE("kernels: casts between types of floats", "[lower][kernels]") {
  OwningOpRef<ModuleOp> module = test::parse(R"(
    func.func @f(%x: tensor<5xf32>) -> (tensor<5xf64>, tensor<5xf32>) {
      %wide = nn.cast %x : tensor<5xf32> -> tensor<5xf64>
      %twice = nn.add %wide, %wide : tensor<5xf64>
      %narrow = nn.cast %twice : tensor<5xf64> -> tensor<5xf32>
      return %twice, %narrow : tensor<5xf64>, tensor<5xf32>
    })");
  std::mt19937_64 random(test::testSeed());
  reference::Tensor x = reference::randomTensor(RankedTensorType::get({5}, Float32Type::get(&test::context())), random, /*intLimit=*/10);
  std::vector<reference::Tensor> expected = test::run(*module, "f", {x});
  test::fuse(*module);
  test::CompiledKernels kernels(*module, random);
  std::vector<reference::Tensor> computed = kernels.run("f", {x});
  CHECK(reference::maxDifference(expected[0], computed[0]) == 0);
  CHECK(reference::maxDifference(expected[1], computed[1]) == 0);
}

TEST_CASE("kernels: infinite logits give probability 0 and no NaN", "[lower][kernels]") {
  OwningOpRef<ModuleOp> module = test::parse("func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> { %y = nn.softmax %x : tensor<2x3xf32> "
                                             "return %y : tensor<2x3xf32> }");
  std::mt19937_64 random(1);
  test::fuse(*module);
  test::CompiledKernels kernels(*module, random);
  reference::Tensor x = test::tensor("dense<[[0xFF800000, 0.0, 0.0], [1.0, 0xFF800000, 0xFF800000]]> : tensor<2x3xf32>");
  reference::Tensor y = kernels.run("f", {x}).front();
  CHECK(y.getFloat(0) == 0);
  CHECK(y.getFloat(1) == Approx(0.5));
  CHECK(y.getFloat(3) == Approx(1));
  CHECK(y.getFloat(4) == 0);
}

TEST_CASE("kernels: a NaN survives a maximum, and integers divide by zero to zero", "[lower][kernels]") {
  OwningOpRef<ModuleOp> module = test::parse(R"(
    func.func @max(%x: tensor<2x40xf32>) -> tensor<2xf32> {
      %y = nn.reduce max %x dims = [1] : tensor<2x40xf32> -> tensor<2xf32>
      return %y : tensor<2xf32>
    }
    func.func @div(%x: tensor<4xi64>, %y: tensor<4xi64>) -> tensor<4xi64> {
      %z = nn.div %x, %y : tensor<4xi64>
      return %z : tensor<4xi64>
    })");
  std::mt19937_64 random(1);
  test::fuse(*module);
  test::CompiledKernels kernels(*module, random);
  reference::Tensor x(RankedTensorType::get({2, 40}, Float32Type::get(&test::context())));
  for (int64_t i = 0; i < x.getNumElements(); ++i) {
    x.setFloat(i, static_cast<double>(i));
  }
  x.setFloat(7, std::numeric_limits<double>::quiet_NaN());
  reference::Tensor max = kernels.run("max", {x}).front();
  CHECK(std::isnan(max.getFloat(0)));
  CHECK(max.getFloat(1) == 79);
  reference::Tensor quotient = kernels
                                   .run("div", {test::tensor("dense<[7, -7, 5, -9223372036854775808]> : tensor<4xi64>"),
                                                test::tensor("dense<[0, 2, -1, -1]> : tensor<4xi64>")})
                                   .front();
  CHECK(quotient.getInt(0) == 0);
  CHECK(quotient.getInt(1) == -3);
  CHECK(quotient.getInt(2) == -5);
  CHECK(quotient.getInt(3) == std::numeric_limits<int64_t>::min());
}

namespace {

// Runs @f of `text` in the interpreter and as kernels of the target, and returns the largest difference relative to max(1, |expected|).
double compareWithInterpreter(const std::string &text, exec::Target target) {
  OwningOpRef<ModuleOp> module = test::parse(text);
  std::mt19937_64 random(test::testSeed());
  auto inputs = randomInputs(module->lookupSymbol<func::FuncOp>("f"), random);
  std::vector<reference::Tensor> expected = test::run(*module, "f", inputs);
  test::fuse(*module, target);
  test::CompiledKernels kernels(*module, random, /*inPlace=*/true, target);
  std::vector<reference::Tensor> computed = kernels.run("f", inputs);
  double worst = 0;
  for (auto [x, y] : llvm::zip_equal(expected, computed)) {
    worst = std::max(worst, reference::maxDifference(x, y)); // never NaN
  }
  return worst;
}

// Replaces every "TYPE" of a text, and every "R" and "C" in a shape.
std::string fill(std::string text, const std::string &type, int64_t rows, int64_t columns) {
  auto replace = [&](const std::string &from, const std::string &to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  };
  replace("RxC", std::to_string(rows) + "x" + std::to_string(columns));
  replace("<Rx", "<" + std::to_string(rows) + "x");
  replace("<Cx", "<" + std::to_string(columns) + "x");
  replace("xCx", "x" + std::to_string(columns) + "x");
  replace("TYPE", type);
  return text;
}

} // namespace

// Sizes around those where a GPU kernel takes another shape: one lane or several, parts of a warp, warps, blocks, registers or loops,
// tails.
TEST_CASE("kernels: every size of rows and columns", "[lower][kernels]") {
  auto target = GENERATE(exec::Target::Cpu, exec::Target::Cuda);
  std::string type = GENERATE("f32", "bf16", "f16");
  auto [rows, columns] = GENERATE(table<int64_t, int64_t>({{1, 1},    {1, 3},    {3, 10},   {5, 32},     {7, 127},   {9, 128},   {3, 1000},
                                                           {2, 1024}, {2, 1025}, {3, 2056}, {2, 4100},   {1, 8192},  {2, 16384}, {1, 40000},
                                                           {300, 4},  {700, 36}, {40, 260}, {1, 200000}, {9000, 12}, {2, 65536}}));
  bool isLarge = rows * columns > 5000;
  if ((target == exec::Target::Cpu && columns > 128) || (isLarge && type != "f32")) {
    return; // the nests of the cpu are the same for all sizes, those of a GPU differ as those of f32 do
  }
  INFO("target " << exec::stringifyTarget(target).str() << ", " << rows << " x " << columns << " " << type);
  double unit = type == "f32" ? 0x1p-24 : type == "f16" ? 0x1p-11 : 0x1p-8;
  // One result: relu(2 x + y), rounded once an op; its sums over both dims, of at most 40000 terms below 3, each rounded once in its type.
  CHECK(compareWithInterpreter(fill(R"(
    func.func @f(%x: tensor<RxCxTYPE>, %y: tensor<CxTYPE>) -> (tensor<RxCxTYPE>, tensor<CxTYPE>, tensor<CxTYPE>, tensor<RxTYPE>) {
      %b = nn.broadcast %y dims = [1] : tensor<CxTYPE> -> tensor<RxCxTYPE>
      %t = nn.add %x, %x : tensor<RxCxTYPE>
      %s = nn.add %t, %b : tensor<RxCxTYPE>
      %r = nn.relu %s : tensor<RxCxTYPE>
      %c = nn.reduce sum %r dims = [0] : tensor<RxCxTYPE> -> tensor<CxTYPE>
      %m = nn.reduce max %r dims = [0] : tensor<RxCxTYPE> -> tensor<CxTYPE>
      %d = nn.reduce sum %r dims = [1] : tensor<RxCxTYPE> -> tensor<RxTYPE>
      return %r, %c, %m, %d : tensor<RxCxTYPE>, tensor<CxTYPE>, tensor<CxTYPE>, tensor<RxTYPE>
    })",
                                    type, rows, columns),
                               target) < std::max(unit, 4e-6));
  // Passes that depend on each other, and a row result.
  CHECK(compareWithInterpreter(fill(R"(
    func.func @f(%x: tensor<RxCxTYPE>, %l: tensor<Rxi64>) -> (tensor<RxCxTYPE>, tensor<RxTYPE>, tensor<RxCxTYPE>) {
      %s = nn.softmax %x : tensor<RxCxTYPE>
      %e = nn.softmax_cross_entropy %x, %l : tensor<RxCxTYPE>, tensor<Rxi64> -> tensor<RxTYPE>
      %n = nn.neg %x : tensor<RxCxTYPE>
      return %s, %e, %n : tensor<RxCxTYPE>, tensor<RxTYPE>, tensor<RxCxTYPE>
    })",
                                    type, rows, columns),
                               target) < std::max(unit, 4e-6));
}

// Kernels that differ in extents, strides and factors only share code on a cpu: some of few elements, some of rows as long and of others.
TEST_CASE("kernels: the same ops on many shapes in one program", "[lower][kernels]") {
  std::mt19937_64 random(test::testSeed());
  INFO("ASHLAR_SEED=" << test::testSeed());
  struct Size {
    int64_t samples, rows, columns;
    const char *factor;
  };
  const Size sizes[] = {{2, 3, 5, "1.0"},    {2, 4, 5, "0.5"},     {4, 14, 12, "0.5"},  {4, 7, 12, "-3.0"}, {1, 9, 40, "2.5"},
                        {16, 49, 40, "2.5"}, {16, 196, 40, "0.1"}, {3, 100, 40, "7.0"}, {5, 49, 48, "0.0"}, {16, 50, 300, "0.3"}};
  std::string text;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    std::string row = std::to_string(size.samples) + "x" + std::to_string(size.columns) + "xf32>";
    std::string full =
        "tensor<" + std::to_string(size.samples) + "x" + std::to_string(size.rows) + "x" + std::to_string(size.columns) + "xf32>";
    row = "tensor<" + row;
    text += "func.func @f" + std::to_string(i) + "(%x: " + full + ", %y: " + row + ") -> (" + full + ", " + full + ", " + row + ") {\n" +
            "%k = nn.constant dense<" + size.factor + "> : " + full + "\n%b = nn.broadcast %y dims = [0, 2] : " + row + " -> " + full +
            "\n%p = nn.mul %x, %k : " + full + "\n%s = nn.add %p, %b : " + full + "\n%e = nn.sub %x, %s : " + full +
            "\n%c = nn.reduce sum %s dims = [1] : " + full + " -> " + row + "\nreturn %s, %e, %c : " + full + ", " + full + ", " + row +
            " }\n";
  }
  // Rows inside of samples, so that their number and what lies between samples become arguments.
  const Size nested[] = {{4, 14, 48, "0.5"}, {4, 7, 48, "0.25"}, {3, 20, 48, "-3.0"}, {2, 9, 64, "0.5"}, {5, 6, 96, "7.0"}};
  for (auto [i, size] : llvm::enumerate(nested)) {
    std::string row = "tensor<" + std::to_string(size.samples) + "x" + std::to_string(size.columns) + "xf32>";
    std::string full =
        "tensor<" + std::to_string(size.samples) + "x" + std::to_string(size.rows) + "x" + std::to_string(size.columns) + "xf32>";
    text += "func.func @n" + std::to_string(i) + "(%x: " + full + ", %y: " + row + ") -> " + full + " {\n%k = nn.constant dense<" +
            size.factor + "> : " + full + "\n%p = nn.mul %x, %k : " + full + "\n%b = nn.broadcast %y dims = [0, 2] : " + row + " -> " +
            full + "\n%s = nn.add %p, %b : " + full + "\nreturn %s : " + full + " }\n";
  }
  OwningOpRef<ModuleOp> module = test::parse(text), fused = module->clone();
  test::fuse(*fused, exec::Target::Cpu);
  test::CompiledKernels kernels(*fused, random, /*inPlace=*/true);
  for (func::FuncOp function : module->getOps<func::FuncOp>()) {
    std::string name = function.getName().str();
    INFO(name);
    auto inputs = randomInputs(function, random);
    std::vector<reference::Tensor> expected = test::run(*module, name, inputs), compiled = kernels.run(name, inputs);
    REQUIRE(compiled.size() == expected.size());
    for (size_t r = 0; r < expected.size(); ++r) {
      CHECK(reference::maxDifference(expected[r], compiled[r]) < 1e-4); // sums of up to 196 numbers of size 10
    }
  }
}

// Numbers over the whole range of each type, with both ends; rows that a warp shares, and columns that threads read as vectors.
TEST_CASE("kernels: integers of every width, with and without a sign", "[lower][kernels]") {
  auto target = GENERATE(exec::Target::Cpu, exec::Target::Cuda);
  auto width = GENERATE(8, 16, 32, 64);
  auto sign = GENERATE(IntegerType::Signless, IntegerType::Unsigned);
  auto element = IntegerType::get(&test::context(), width, sign);
  std::string name;
  llvm::raw_string_ostream(name) << element;
  INFO(name << ", target " << exec::stringifyTarget(target).str());
  OwningOpRef<ModuleOp> module = test::parse(fill(R"(
    func.func @f(%x: tensor<RxCxTYPE>, %y: tensor<RxCxTYPE>)
        -> (tensor<RxCxTYPE>, tensor<RxCxTYPE>, tensor<RxCxTYPE>, tensor<RxCxi1>, tensor<RxCxf64>, tensor<RxCxi64>, tensor<RxCxui16>) {
      %quotient = nn.div %x, %y : tensor<RxCxTYPE>
      %largest = nn.max %quotient, %x : tensor<RxCxTYPE>
      %product = nn.mul %x, %y : tensor<RxCxTYPE>
      %difference = nn.sub %product, %y : tensor<RxCxTYPE>
      %smallest = nn.min %difference, %y : tensor<RxCxTYPE>
      %less = nn.compare lt %x, %y : tensor<RxCxTYPE> -> tensor<RxCxi1>
      %sign = nn.sign %x : tensor<RxCxTYPE>
      %size = nn.abs %x : tensor<RxCxTYPE>
      %both = nn.mul %sign, %size : tensor<RxCxTYPE>
      %float = nn.cast %x : tensor<RxCxTYPE> -> tensor<RxCxf64>
      %wide = nn.cast %x : tensor<RxCxTYPE> -> tensor<RxCxi64>
      %short = nn.cast %y : tensor<RxCxTYPE> -> tensor<RxCxui16>
      return %largest, %smallest, %both, %less, %float, %wide, %short : tensor<RxCxTYPE>, tensor<RxCxTYPE>, tensor<RxCxTYPE>,
        tensor<RxCxi1>, tensor<RxCxf64>, tensor<RxCxi64>, tensor<RxCxui16>
    }
    func.func @rows(%x: tensor<RxCxTYPE>) -> (tensor<RxTYPE>, tensor<RxTYPE>, tensor<RxTYPE>) {
      %sum = nn.reduce sum %x dims = [1] : tensor<RxCxTYPE> -> tensor<RxTYPE>
      %max = nn.reduce max %x dims = [1] : tensor<RxCxTYPE> -> tensor<RxTYPE>
      %min = nn.reduce min %x dims = [1] : tensor<RxCxTYPE> -> tensor<RxTYPE>
      return %sum, %max, %min : tensor<RxTYPE>, tensor<RxTYPE>, tensor<RxTYPE>
    }
    func.func @columns(%x: tensor<RxCxTYPE>) -> (tensor<CxTYPE>, tensor<CxTYPE>, tensor<CxTYPE>) {
      %sum = nn.reduce sum %x dims = [0] : tensor<RxCxTYPE> -> tensor<CxTYPE>
      %max = nn.reduce max %x dims = [0] : tensor<RxCxTYPE> -> tensor<CxTYPE>
      %min = nn.reduce min %x dims = [0] : tensor<RxCxTYPE> -> tensor<CxTYPE>
      return %sum, %max, %min : tensor<CxTYPE>, tensor<CxTYPE>, tensor<CxTYPE>
    })",
                                                  name, 9, 80));
  std::mt19937_64 random(test::testSeed());
  auto draw = [&] {
    reference::Tensor tensor(RankedTensorType::get({9, 80}, element));
    for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
      tensor.setInt(i, static_cast<int64_t>(i % 3 == 0 ? random() : random() % 5 - 2)); // small ones, too, and 0 and -1
    }
    tensor.setInt(0, integerValue(element, lowestInteger(element)));
    tensor.setInt(1, integerValue(element, highestInteger(element)));
    return tensor;
  };
  reference::Tensor x = draw(), y = draw();
  y.setInt(0, -1);
  OwningOpRef<ModuleOp> fused = module->clone();
  test::fuse(*fused, target);
  test::CompiledKernels kernels(*fused, random, /*inPlace=*/true, target);
  for (const char *function : {"f", "rows", "columns"}) {
    std::vector<reference::Tensor> inputs = {x};
    if (function == std::string("f")) {
      inputs.push_back(y);
    }
    std::vector<reference::Tensor> expected = test::run(*module, function, inputs), computed = kernels.run(function, inputs);
    for (size_t r = 0; r < expected.size(); ++r) {
      INFO(function << ", result " << r);
      CHECK(expected[r].toAttribute() == computed[r].toAttribute());
    }
  }
}

// All bits of two bytes, and many of more: floats made of bits, bits taken of floats, and both in one kernel.
TEST_CASE("kernels: bits of floats", "[lower][kernels]") {
  auto target = GENERATE(exec::Target::Cpu, exec::Target::Cuda);
  auto type = GENERATE(as<std::string>(), "f16", "bf16", "f32", "f64");
  INFO(type << ", target " << exec::stringifyTarget(target).str());
  const std::string width = type.substr(type.find('f') + 1), other = type == "f16" ? "bf16" : type == "bf16" ? "f16" : type;
  OwningOpRef<ModuleOp> module = test::parse("!F = tensor<65539x" + type + ">\n!G = tensor<65539x" + other + ">\n!I = tensor<65539xi" +
                                             width + ">\n!U = tensor<65539xui" + width + ">\n" + R"(
    func.func @made(%bits: !U) -> !F {
      %x = nn.bitcast %bits : !U -> !F
      return %x : !F
    }
    func.func @taken(%x: !F) -> !I {
      %bits = nn.bitcast %x : !F -> !I
      return %bits : !I
    }
    func.func @both(%bits: !U) -> (!F, !I) {
      %x = nn.bitcast %bits : !U -> !F
      %y = nn.neg %x : !F
      %z = nn.bitcast %y : !F -> !I
      return %y, %z : !F, !I
    }
    func.func @other(%bits: !U) -> !G {
      %x = nn.bitcast %bits : !U -> !F
      %y = nn.bitcast %x : !F -> !G
      return %y : !G
    })");
  std::mt19937_64 random(test::testSeed());
  reference::Tensor bits(cast<RankedTensorType>(module->lookupSymbol<func::FuncOp>("made").getArgumentTypes()[0]));
  for (int64_t i = 0; i < bits.getNumElements(); ++i) {
    bits.setInt(i, width == "16" ? i : static_cast<int64_t>(random()));
  }
  test::fuse(*module, target);
  test::CompiledKernels kernels(*module, random, /*inPlace=*/true, target);
  reference::Tensor made = kernels.run("made", {bits})[0], taken = kernels.run("taken", {made})[0];
  reference::Tensor asOther = kernels.run("other", {bits})[0];
  std::vector<reference::Tensor> both = kernels.run("both", {bits});
  auto numberOf = [](const reference::Tensor &tensor, int64_t i, const reference::Tensor &like) {
    auto floatType = cast<FloatType>(like.getType().getElementType());
    auto word = static_cast<uint64_t>(tensor.getInt(i));
    return APFloat(floatType.getFloatSemantics(), APInt(floatType.getWidth(), word, /*isSigned=*/false, /*implicitTrunc=*/true));
  };
  auto areEqual = [](const APFloat &x, const APFloat &y) { return x.isNaN() ? y.isNaN() : x.bitwiseIsEqual(y); };
  auto widen = [](APFloat x) {
    bool losesInfo = false;
    x.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
    return x;
  };
  int64_t wrong = 0;
  for (int64_t i = 0; i < bits.getNumElements(); ++i) {
    APFloat number = numberOf(bits, i, made), ofOther = numberOf(bits, i, asOther);
    wrong += !areEqual(widen(number), APFloat(made.getFloat(i))) || !areEqual(widen(neg(number)), APFloat(both[0].getFloat(i))) ||
             !areEqual(number, numberOf(taken, i, made)) || !areEqual(neg(number), numberOf(both[1], i, made)) ||
             !(number.isNaN() || areEqual(widen(ofOther), APFloat(asOther.getFloat(i))));
  }
  CHECK(wrong == 0);
}

TEST_CASE("kernels: rows by number, and bools", "[lower][kernels]") {
  auto target = GENERATE(exec::Target::Cpu, exec::Target::Cuda);
  std::string type = GENERATE("f32", "bf16");
  auto [rows, columns] = GENERATE(table<int64_t, int64_t>({{1, 1}, {33, 4}, {100, 6}, {70, 520}}));
  INFO("target " << exec::stringifyTarget(target).str() << ", " << rows << " x " << columns << " " << type);
  double unit = type == "f32" ? 0x1p-20 : 0x1p-8; // sums of some 10 numbers
  CHECK(compareWithInterpreter(fill(R"(
    func.func @f(%u: tensor<RxCxTYPE>, %l: tensor<Rxi64>, %t: tensor<7xCxTYPE>) -> (tensor<8xCxTYPE>, tensor<RxCxTYPE>, tensor<RxCxTYPE>) {
      %s = nn.scatter_add %l, %u : tensor<Rxi64>, tensor<RxCxTYPE> -> tensor<8xCxTYPE>
      %g = nn.gather %t, %l : tensor<7xCxTYPE>, tensor<Rxi64> -> tensor<RxCxTYPE>
      %b = nn.compare gt %u, %g : tensor<RxCxTYPE> -> tensor<RxCxi1>
      %r = nn.select %b, %u, %g : tensor<RxCxi1>, tensor<RxCxTYPE>
      return %s, %g, %r : tensor<8xCxTYPE>, tensor<RxCxTYPE>, tensor<RxCxTYPE>
    })",
                                    type, rows, columns),
                               target) < unit);
}

// Of the batch and the columns each is the larger once, and either is 1; places may be none.
TEST_CASE("kernels: rows of a batch by number", "[lower][kernels]") {
  auto target = GENERATE(exec::Target::Cpu, exec::Target::Cuda);
  std::string type = GENERATE("f32", "bf16");
  auto [batch, columns] = GENERATE(table<int64_t, int64_t>({{1, 20}, {3, 1}, {5, 200}, {40, 6}}));
  INFO("target " << exec::stringifyTarget(target).str() << ", " << batch << " x " << columns << " " << type);
  double unit = type == "f32" ? 0x1p-20 : 0x1p-8; // sums of some 10 numbers
  CHECK(compareWithInterpreter(fill(R"(
    func.func @f(%u: tensor<Rx35xCxTYPE>, %l: tensor<Rx35xi64>, %t: tensor<Rx7xCxTYPE>, %k: tensor<Rxi64>)
        -> (tensor<Rx8xCxTYPE>, tensor<Rx35xCxTYPE>, tensor<RxCxTYPE>, tensor<Rx9xCxTYPE>, tensor<Rx35x4xTYPE>) {
      %s = nn.scatter_add %l, %u batch_dims = 1 : tensor<Rx35xi64>, tensor<Rx35xCxTYPE> -> tensor<Rx8xCxTYPE>
      %g = nn.gather %t, %l batch_dims = 1 : tensor<Rx7xCxTYPE>, tensor<Rx35xi64> -> tensor<Rx35xCxTYPE>
      %o = nn.gather %t, %k batch_dims = 1 : tensor<Rx7xCxTYPE>, tensor<Rxi64> -> tensor<RxCxTYPE>
      %p = nn.scatter_add %k, %o batch_dims = 1 : tensor<Rxi64>, tensor<RxCxTYPE> -> tensor<Rx9xCxTYPE>
      %v = nn.reduce max %u dims = [2] : tensor<Rx35xCxTYPE> -> tensor<Rx35xTYPE>
      %q = nn.scatter_add %l, %v batch_dims = 2 : tensor<Rx35xi64>, tensor<Rx35xTYPE> -> tensor<Rx35x4xTYPE>
      return %s, %g, %o, %p, %q : tensor<Rx8xCxTYPE>, tensor<Rx35xCxTYPE>, tensor<RxCxTYPE>, tensor<Rx9xCxTYPE>, tensor<Rx35x4xTYPE>
    })",
                                    type, batch, columns),
                               target) < unit);
}

// Sums along rows of which one element counts, and sums that are like them: with another comparison, another number elsewhere, places that
// differ along a row, or an index that counts otherwise. Places lie before, in and behind the row.
TEST_CASE("kernels: a sum of one element of each row", "[lower][kernels]") {
  struct Form {
    std::string name, index, compare, place, otherwise;
  };
  const std::string kOfRow = "nn.broadcast %l dims = [0] : tensor<6xi64> -> tensor<6x40xi64>";
  const Form forms[] = {{"an element", "[0, 1]", "eq", kOfRow, "0.0"},
                        {"all before it", "[0, 1]", "lt", kOfRow, "0.0"},
                        {"all others count, too", "[0, 1]", "eq", kOfRow, "0.5"},
                        {"every second number", "[0, 2]", "eq", kOfRow, "0.0"},
                        {"numbers of the tensor", "[40, 1]", "eq", kOfRow, "0.0"},
                        {"places of columns", "[0, 1]", "eq", "nn.broadcast %c dims = [1] : tensor<40xi64> -> tensor<6x40xi64>", "0.0"}};
  std::mt19937_64 random(test::testSeed());
  for (const Form &form : forms) {
    INFO(form.name);
    OwningOpRef<ModuleOp> module = test::parse(
        "func.func @f(%x: tensor<6x40xf32>, %l: tensor<6xi64>, %c: tensor<40xi64>) -> (tensor<6xf32>, tensor<6xf32>) {\n"
        "%m = nn.reduce max %x dims = [1] : tensor<6x40xf32> -> tensor<6xf32>\n%mb = nn.broadcast %m dims = [0] : tensor<6xf32> -> "
        "tensor<6x40xf32>\n%d = nn.sub %x, %mb : tensor<6x40xf32>\n%e = nn.exp %d : tensor<6x40xf32>\n"
        "%s = nn.reduce sum %e dims = [1] : tensor<6x40xf32> -> tensor<6xf32>\n%i = nn.index " +
        form.index + " : tensor<6x40xi64>\n%p = " + form.place + "\n%is = nn.compare " + form.compare +
        " %i, %p : tensor<6x40xi64> -> tensor<6x40xi1>\n%z = nn.constant dense<" + form.otherwise +
        "> : tensor<6x40xf32>\n%y = nn.select %is, %d, %z : tensor<6x40xi1>, tensor<6x40xf32>\n"
        "%r = nn.reduce sum %y dims = [1] : tensor<6x40xf32> -> tensor<6xf32>\nreturn %r, %s : tensor<6xf32>, tensor<6xf32>\n}");
    reference::Tensor x = reference::randomTensor(RankedTensorType::get({6, 40}, Float32Type::get(&test::context())), random, 1);
    reference::Tensor l = test::tensor("dense<[0, 3, 39, 40, -1, 4294967296]> : tensor<6xi64>");
    reference::Tensor c = reference::randomTensor(RankedTensorType::get({40}, IntegerType::get(&test::context(), 64)), random, 40);
    std::vector<reference::Tensor> expected = test::run(*module, "f", {x, l, c});
    test::fuse(*module);
    test::CompiledKernels kernels(*module, random);
    std::vector<reference::Tensor> computed = kernels.run("f", {x, l, c});
    CHECK(reference::maxDifference(expected[0], computed[0]) < 1e-5);
    CHECK(reference::maxDifference(expected[1], computed[1]) < 1e-5);
  }
}

// Where LLVM computes in 16 bits, a sum must not be fused with a rounded product, nor quotients share a rounded reciprocal.
TEST_CASE("kernels: rounded products and quotients stay so", "[lower][kernels]") {
  auto target = GENERATE(exec::Target::Cpu, exec::Target::Cuda);
  std::string type = GENERATE("bf16", "f16");
  INFO("target " << exec::stringifyTarget(target).str() << ", " << type);
  CHECK(compareWithInterpreter(fill(R"(
    func.func @f(%x: tensor<RxCxTYPE>, %y: tensor<RxCxTYPE>, %z: tensor<RxCxTYPE>) -> (tensor<RxCxTYPE>, tensor<RxCxTYPE>) {
      %q = nn.div %x, %y : tensor<RxCxTYPE>
      %r = nn.div %z, %y : tensor<RxCxTYPE>
      %s = nn.add %q, %r : tensor<RxCxTYPE>
      %p = nn.mul %x, %y : tensor<RxCxTYPE>
      %t = nn.add %p, %z : tensor<RxCxTYPE>
      return %s, %t : tensor<RxCxTYPE>, tensor<RxCxTYPE>
    })",
                                    type, 40, 50),
                               target) == 0);
}

} // namespace ashlar::test::kernels_test
