// SPDX-License-Identifier: Apache-2.0
//
// Every f32 function and quotient that kernels compute, on both targets, against f64: the table of docs/numbers.md. One row of the table
// below a form; an element-wise op of nn without a row fails.

#include "test/unit/numbers/f32_checks.h"
#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <regex>
#include <set>

namespace ashlar::test::scalar_ops_test {

using namespace mlir;
using test::Bound;
using test::Exact;

namespace {

// `body` computes %y from %a, %b, %c of type T; I is its type of i32, B that of bool.
struct Row {
  std::string body;
  int operands;
  Exact exact;
  Bound cpu, cuda;
  bool anyZero = false;

  // The interpreter computes in f64 and rounds the result of each op once.
  Bound interpreted() const { return body.find('\n') == std::string::npos ? Bound{std::min(cpu.units, 0.5)} : cpu; }
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Bound kExact{0}, kRounded{0.5};

double larger(double x, double y) {
  return std::isnan(x) || std::isnan(y) ? kNan : x > y || (x == y && !std::signbit(x)) ? x : y;
}
double smaller(double x, double y) {
  return -larger(-x, -y);
}
double rounded(double x) {
  return static_cast<float>(x);
}
double truncated(double x, double limit) {
  return std::isnan(x) ? 0 : std::clamp(std::trunc(x), -limit, limit - 1);
}
double tanhGelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

std::string compared(const char *predicate) {
  return std::string("%p = nn.compare ") + predicate + " %a, %b : T -> B\n%y = nn.cast %p : B -> T";
}

// y = a ^ p for a constant p.
Row power(const std::string &exponent, double p, Bound cpu, Bound cuda) {
  return {"%p = nn.constant dense<" + exponent + "> : T\n%y = nn.pow %a, %p : T", 1,
          [p](double a, double, double) { return std::pow(a, p); }, cpu, cuda};
}

#define EXACT(...)                                                                                                                         \
  [](double a, double b, double c) -> double {                                                                                             \
    (void)a, (void)b, (void)c;                                                                                                             \
    return __VA_ARGS__;                                                                                                                    \
  }

std::vector<Row> rows() {
  const std::string one = "%one = nn.constant dense<1.0> : T\n";
  return {
      {"%y = nn.abs %a : T", 1, EXACT(std::abs(a)), kExact, kExact},
      {"%y = nn.add %a, %b : T", 2, EXACT(a + b), kRounded, kRounded},
      {"%w = nn.cast %a : T -> D\n%y = nn.cast %w : D -> T", 1, EXACT(a), kExact, kExact},
      {"%i = nn.cast %a : T -> I\n%y = nn.cast %i : I -> T", 1, EXACT(truncated(a, 0x1p31)), kRounded, kRounded, true},
      {"%i = nn.cast %a : T -> L\n%y = nn.cast %i : L -> T", 1, EXACT(truncated(a, 0x1p63)), kRounded, kRounded, true},
      {"%i = nn.cast %a : T -> I\n%n = nn.not %i : I\n%y = nn.cast %n : I -> T", 1, EXACT(-1 - truncated(a, 0x1p31)), kRounded, kRounded},
      {"%i = nn.cast %a : T -> I\n%j = nn.cast %b : T -> I\n%o = nn.and %i, %j : I\n%y = nn.cast %o : I -> T", 2,
       EXACT(static_cast<int64_t>(truncated(a, 0x1p31)) & static_cast<int64_t>(truncated(b, 0x1p31))), kRounded, kRounded, true},
      {"%i = nn.cast %a : T -> I\n%j = nn.cast %b : T -> I\n%o = nn.or %i, %j : I\n%y = nn.cast %o : I -> T", 2,
       EXACT(static_cast<int64_t>(truncated(a, 0x1p31)) | static_cast<int64_t>(truncated(b, 0x1p31))), kRounded, kRounded, true},
      {"%i = nn.bitcast %a : T -> I\n%y = nn.bitcast %i : I -> T", 1, EXACT(a), kExact, kExact},
      {"%p = nn.compare eq %a, %a : T -> B\n%i = nn.bitcast %a : T -> I\n%f = nn.cast %i : I -> T\n%y = nn.select %p, %f, %a : B, T", 1,
       EXACT(std::isnan(a) ? a : static_cast<double>(llvm::bit_cast<int32_t>(static_cast<float>(a)))), kRounded, kRounded},
      {"%p = nn.cast %a : T -> B\n%y = nn.cast %p : B -> T", 1, EXACT(a != 0), kExact, kExact},
      {compared("eq"), 2, EXACT(a == b), kExact, kExact},
      {compared("ne"), 2, EXACT(a != b), kExact, kExact},
      {compared("lt"), 2, EXACT(a < b), kExact, kExact},
      {compared("le"), 2, EXACT(a <= b), kExact, kExact},
      {compared("gt"), 2, EXACT(a > b), kExact, kExact},
      {compared("ge"), 2, EXACT(a >= b), kExact, kExact},
      {"%y = nn.div %a, %b : T", 2, EXACT(a / b), kRounded, kRounded},
      {"%y = nn.div %a, %a : T", 1, EXACT(a / a), kRounded, kRounded},
      {one + "%y = nn.div %one, %a : T", 1, EXACT(1 / a), kRounded, kRounded},
      {"%z = nn.constant dense<0.0> : T\n%n = nn.sub %z, %a : T\n" + one + "%y = nn.div %one, %n : T", 1, EXACT(1 / (0 - a)), kRounded,
       kRounded},
      {"%three = nn.constant dense<3.0> : T\n%y = nn.div %a, %three : T", 1, EXACT(a / 3), kRounded, kRounded},
      {one + "%p = nn.div %a, %c : T\n%q = nn.div %b, %c : T\n%r = nn.div %one, %c : T\n%m = nn.max %p, %q : T\n%y = nn.max %m, %r : T", 3,
       EXACT(larger(larger(rounded(a / c), rounded(b / c)), rounded(1 / c))), kExact, kExact},
      {"%y = nn.ceil %a : T", 1, EXACT(std::ceil(a)), kExact, kExact},
      {"%y = nn.cos %a : T", 1, EXACT(std::cos(a)), {1}, {2}},
      {"%y = nn.tan %a : T", 1, EXACT(std::tan(a)), {1}, {4}},
      {"%y = nn.asin %a : T", 1, EXACT(std::asin(a)), {1}, {2}},
      {"%y = nn.acos %a : T", 1, EXACT(std::acos(a)), {1}, {2}},
      {"%y = nn.atan %a : T", 1, EXACT(std::atan(a)), {1}, {2}},
      {"%y = nn.sinh %a : T", 1, EXACT(std::sinh(a)), {2}, {3}},
      {"%y = nn.cosh %a : T", 1, EXACT(std::cosh(a)), {2}, {2}},
      {"%y = nn.asinh %a : T", 1, EXACT(std::asinh(a)), {2}, {3}},
      {"%y = nn.acosh %a : T", 1, EXACT(std::acosh(a)), {2}, {4}},
      {"%y = nn.atanh %a : T", 1, EXACT(std::atanh(a)), {2}, {3}},
      {"%y = nn.erf %a : T", 1, EXACT(std::erf(a)), {4.5}, {2}},
      {"%y = nn.exp %a : T", 1, EXACT(std::exp(a)), {1.5}, {2}},
      {"%y = nn.floor %a : T", 1, EXACT(std::floor(a)), kExact, kExact},
      {"%y = nn.gelu %a : T", 1, EXACT(0.5 * a * (1 + std::erf(a / M_SQRT2))), {5, 1e-6}, {5, 1e-6}},
      {"%y = nn.gelu %a tanh_approximation : T", 1, EXACT(tanhGelu(a)), {5, 1e-6}, {5, 1e-6}},
      {"%y = nn.leaky_relu %a, 2.500000e-01 : T", 1, EXACT(a > 0 ? a : 0.25 * a), kRounded, kRounded},
      {"%y = nn.log %a : T", 1, EXACT(std::log(a)), {2}, {1}},
      {"%y = nn.max %a, %b : T", 2, EXACT(larger(a, b)), kExact, kExact},
      {"%y = nn.min %a, %b : T", 2, EXACT(smaller(a, b)), kExact, kExact},
      {"%y = nn.mul %a, %b : T", 2, EXACT(a * b), kRounded, kRounded},
      {"%p = nn.mul %a, %b : T\n%y = nn.add %p, %c : T", 3, EXACT(rounded(a * b) + c), kRounded, kRounded},
      {"%p = nn.mul %a, %b : T\n%y = nn.sub %p, %c : T", 3, EXACT(rounded(a * b) - c), kRounded, kRounded},
      {"%p = nn.mul %a, %b : T\n%y = nn.sub %c, %p : T", 3, EXACT(c - rounded(a * b)), kRounded, kRounded},
      {"%y = nn.neg %a : T", 1, EXACT(-a), kExact, kExact},
      {"%y = nn.pow %a, %b : T", 2, EXACT(std::pow(a, b)), {1}, {4}},
      {"%y = nn.rem %a, %b : T", 2, EXACT(std::fmod(a, b)), kExact, kExact},
      power("1.0", 1, kExact, kExact),
      power("2.0", 2, kRounded, kRounded),
      power("3.0", 3, {1.5}, {1.5}),
      power("0.5", 0.5, kRounded, kRounded),
      power("-0.5", -0.5, {1.5}, {1.5}),
      power("1.5", 1.5, {1}, {4}),
      power("-1.5", -1.5, {1}, {4}),
      power("0.0", 0, kExact, kExact),
      {"%y = nn.relu %a : T", 1, EXACT(a <= 0 ? 0 : a), kExact, kExact},
      {"%y = nn.round %a : T", 1, EXACT(std::nearbyint(a)), kExact, kExact},
      {"%p = nn.compare lt %a, %b : T -> B\n%y = nn.select %p, %a, %c : B, T", 3, EXACT(a < b ? a : c), kExact, kExact},
      {"%y = nn.sigmoid %a : T", 1, EXACT(1 / (1 + std::exp(-a))), {3}, {3}},
      {"%y = nn.sign %a : T", 1,
       EXACT(a > 0   ? 1
             : a < 0 ? -1
                     : a),
       kExact, kExact},
      {"%y = nn.sin %a : T", 1, EXACT(std::sin(a)), {1}, {2}},
      {"%y = nn.sqrt %a : T", 1, EXACT(std::sqrt(a)), kRounded, kRounded},
      {one + "%r = nn.sqrt %a : T\n%y = nn.div %one, %r : T", 1, EXACT(1 / rounded(std::sqrt(a))), kRounded, kRounded},
      {"%r = nn.sqrt %a : T\n%y = nn.div %a, %r : T", 1, EXACT(a / rounded(std::sqrt(a))), kRounded, kRounded},
      {"%r = nn.sqrt %b : T\n%y = nn.div %a, %r : T", 2, EXACT(a / rounded(std::sqrt(b))), kRounded, kRounded},
      {"%q = nn.div %a, %b : T\n%y = nn.sqrt %q : T", 2, EXACT(std::sqrt(rounded(a / b))), kRounded, kRounded},
      {"%y = nn.sub %a, %b : T", 2, EXACT(a - b), kRounded, kRounded},
      {"%y = nn.tanh %a : T", 1, EXACT(std::tanh(a)), {4.5}, {2}},
  };
}

#undef EXACT

// Ops with the trait that are no scalar functions of f32: of whole rows (tested below).
const std::set<std::string> kOthers = {"nn.log_softmax", "nn.softmax"};

// Returns `text` with types of tensors of `length` for letters that stand alone.
std::string withTypes(const std::string &text, int64_t length) {
  static const std::map<char, std::string> elements = {{'B', "i1"}, {'D', "f64"}, {'I', "i32"}, {'L', "i64"}, {'T', "f32"}};
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    auto isPart = [&](size_t at) { return at < text.size() && (llvm::isAlnum(text[at]) || text[at] == '_'); };
    auto element = elements.find(text[i]);
    bool isType = element != elements.end() && !isPart(i - 1) && !isPart(i + 1);
    result += isType ? "tensor<" + std::to_string(length) + "x" + element->second + ">" : std::string(1, text[i]);
  }
  return result;
}

// Returns "%a: T, %b: T" for two operands.
std::string arguments(int operands) {
  std::string text;
  for (int k = 0; k < operands; ++k) {
    text += std::string(k == 0 ? "%" : ", %") + "abc"[k] + ": T";
  }
  return text;
}

std::string hexadecimal(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  char text[16];
  std::snprintf(text, sizeof(text), "0x%08X", bits);
  return text;
}

} // namespace

TEST_CASE("scalar ops: every f32 function is within its bound, keeps special values, and is the same at every position",
          "[numbers][slow]") {
  auto target = GENERATE(exec::Target::Cpu, exec::Target::Cuda);
  INFO("target " << exec::stringifyTarget(target).str());
  std::vector<Row> table = rows();
  std::string text;
  for (auto [i, row] : llvm::enumerate(table)) {
    for (int64_t length : {test::kElements, test::kElements + 1}) {
      std::string name = "f" + std::to_string(i) + (length == test::kElements ? "" : "_odd");
      text += withTypes("func.func @" + name + "(" + arguments(row.operands) + ") -> T {\n" + row.body + "\nreturn %y : T\n}\n", length);
    }
  }
  OwningOpRef<ModuleOp> module = test::parse(text);
  test::fuse(*module, target);
  std::mt19937_64 random(test::testSeed());
  std::unique_ptr<test::CompiledKernels> kernels = test::runnerOf(*module, target, random);
  for (auto [i, row] : llvm::enumerate(table)) {
    INFO(row.body);
    if (kernels) {
      Bound bound = target == exec::Target::Cpu ? row.cpu : row.cuda;
      test::checkFunction(*kernels, {"f" + std::to_string(i), row.operands, row.exact, bound, row.anyZero}, target);
    }
  }
}

// What the compiler computes itself, and the interpreter, by the same bounds.
TEST_CASE("scalar ops: constants and the interpreter keep special values too", "[numbers]") {
  std::vector<Row> table = rows();
  std::vector<float> values;
  llvm::copy_if(test::specialValues(), std::back_inserter(values),
                [](float value) { return !std::isnormal(value) || std::abs(value) > 1e38f; });
  auto operand = [&](size_t v, size_t k) { return values[(v + k) % values.size()]; }; // neighbours of the list
  std::string text;
  for (auto [i, row] : llvm::enumerate(table)) { // @f<i> returns the row's function of each value
    std::string body, results, types;
    for (size_t v = 0; v < values.size(); ++v) {
      std::string constants, suffix = "_" + std::to_string(v);
      for (int k = 0; k < row.operands; ++k) {
        constants += std::string("%") + "abc"[k] + " = nn.constant dense<" + hexadecimal(operand(v, k)) + "> : T\n";
      }
      body += std::regex_replace(constants + row.body + "\n", std::regex("%\\w+"), "$&" + suffix);
      results += (v == 0 ? "%y" : ", %y") + suffix;
      types += v == 0 ? "T" : ", T";
    }
    text +=
        withTypes("func.func @f" + std::to_string(i) + "() -> (" + types + ") {\n" + body + "return " + results + " : " + types + "\n}\n",
                  /*length=*/1);
  }
  OwningOpRef<ModuleOp> module = test::parse(text), fused = module->clone();
  test::fuse(*fused);
  std::mt19937_64 random(test::testSeed());
  test::CompiledKernels kernels(*fused, random);
  for (auto [i, row] : llvm::enumerate(table)) {
    std::string name = "f" + std::to_string(i);
    std::vector<reference::Tensor> computed = kernels.run(name, {}), interpreted = test::run(*module, name, {});
    for (size_t v = 0; v < values.size(); ++v) {
      INFO(row.body << "\nfor element " << v << " of the list, " << values[v]);
      double exact = row.exact(operand(v, 0), operand(v, 1), operand(v, 2));
      CHECK(test::differenceFrom(exact, computed[v].getFloat(0), row.cpu, row.anyZero) == "");
      CHECK(test::differenceFrom(exact, interpreted[v].getFloat(0), row.interpreted(), row.anyZero) == "");
    }
  }
}

TEST_CASE("scalar ops: every element-wise op of floats has a row", "[numbers]") {
  std::string all;
  for (const Row &row : rows()) {
    all += row.body + "\n";
  }
  int found = 0;
  for (RegisteredOperationName name : test::context().getRegisteredOperationsByDialect("nn")) {
    if (name.hasTrait<OpTrait::Elementwise>() && !kOthers.count(name.getStringRef().str())) {
      INFO(name.getStringRef().str());
      CHECK(all.find(name.getStringRef().str() + " ") != std::string::npos);
      ++found;
    }
  }
  CHECK(found >= 22);
}

// Quotients whose divisor is the same along rows, along columns or everywhere: what a loop could divide by once.
TEST_CASE("scalar ops: quotients that share a divisor are rounded as others are", "[numbers]") {
  auto target = GENERATE(exec::Target::Cpu, exec::Target::Cuda);
  auto [divisors, dims] = GENERATE(table<std::string, std::string>({{"41x", "0"}, {"41x", "1"}, {"", ""}}));
  INFO("target " << exec::stringifyTarget(target).str() << ", divisors of shape " << divisors << " along " << dims);
  auto function = [&, divisors = divisors, dims = dims](const std::string &name, const std::string &body) {
    std::string text = "func.func @" + name + "(%a: tensor<41x41xf32>, %s: tensor<" + divisors + "xf32>) -> tensor<41x41xf32> {\n" +
                       "%b = nn.broadcast %s dims = [" + dims + "] : tensor<" + divisors + "xf32> -> tensor<41x41xf32>\n" + body +
                       "return %y : tensor<41x41xf32>\n}\n";
    for (size_t at; (at = text.find("xxf32")) != std::string::npos;) {
      text.erase(at, 1);
    }
    for (size_t at; (at = text.find("<xf32")) != std::string::npos;) {
      text.erase(at + 1, 1);
    }
    return text;
  };
  OwningOpRef<ModuleOp> module = test::parse(function("quotient", "%y = nn.div %a, %b : tensor<41x41xf32>\n") +
                                             function("root", "%r = nn.sqrt %b : tensor<41x41xf32>\n"
                                                              "%y = nn.div %a, %r : tensor<41x41xf32>\n"));
  test::fuse(*module, target);
  std::mt19937_64 random(test::testSeed());
  std::unique_ptr<test::CompiledKernels> kernels = test::runnerOf(*module, target, random);
  if (!kernels) {
    return;
  }
  const std::vector<float> &values = test::specialValues();
  auto f32 = [](ArrayRef<int64_t> shape) { return reference::Tensor(RankedTensorType::get(shape, Float32Type::get(&test::context()))); };
  SmallVector<int64_t> shape(dims.empty() ? 0 : 1, 41);
  for (size_t shift = 0; shift < values.size(); ++shift) {
    reference::Tensor a = f32({41, 41}), s = f32(shape);
    for (int64_t i = 0; i < a.getNumElements(); ++i) {
      a.setFloat(i, values[(i / 41 + i % 41 * 3 + shift) % values.size()]);
    }
    for (int64_t i = 0; i < s.getNumElements(); ++i) {
      s.setFloat(i, values[(i + shift * 5) % values.size()]);
    }
    for (bool isRoot : {false, true}) {
      reference::Tensor y = kernels->run(isRoot ? "root" : "quotient", {a, s}).front();
      for (int64_t i = 0; i < y.getNumElements(); ++i) {
        double divisor = s.getFloat(dims.empty() ? 0 : dims == "0" ? i / 41 : i % 41);
        double exact = a.getFloat(i) / (isRoot ? rounded(std::sqrt(divisor)) : divisor);
        std::string difference = test::differenceFrom(exact, y.getFloat(i), kRounded, /*anyZero=*/false);
        if (!difference.empty()) {
          INFO(a.getFloat(i) << " / " << divisor << " " << difference);
          REQUIRE(difference.empty());
        }
      }
    }
  }
}

// A special value in each column of a row of numbers around 0, and rows of it alone; the reference is the interpreter on f64.
TEST_CASE("scalar ops: functions of rows keep special values in every column", "[numbers]") {
  auto target = GENERATE(exec::Target::Cpu, exec::Target::Cuda);
  constexpr int64_t kColumns = 37, kRows = kColumns + 1;
  auto text = [](const std::string &element) {
    std::string type = "tensor<38x37x" + element + ">", rows = "tensor<38x" + element + ">";
    return "func.func @f(%x: " + type + ", %l: tensor<38xi64>) -> (" + type + ", " + type + ", " + rows + ", " + rows + ", " + rows +
           ") {\n" + "%s = nn.softmax %x : " + type + "\n%t = nn.log_softmax %x : " + type +
           "\n%e = nn.softmax_cross_entropy %x, %l : " + type + ", tensor<38xi64> -> " + rows +
           "\n%m = nn.reduce max %x dims = [1] : " + type + " -> " + rows + "\n%n = nn.reduce min %x dims = [1] : " + type + " -> " + rows +
           "\nreturn %s, %t, %e, %m, %n : " + type + ", " + type + ", " + rows + ", " + rows + ", " + rows + "\n}\n";
  };
  OwningOpRef<ModuleOp> module = test::parse(text("f32")), wide = test::parse(text("f64"));
  test::fuse(*module, target);
  std::mt19937_64 random(test::testSeed());
  std::unique_ptr<test::CompiledKernels> kernels = test::runnerOf(*module, target, random);
  if (!kernels) {
    return;
  }
  reference::Tensor labels(RankedTensorType::get({kRows}, IntegerType::get(&test::context(), 64)));
  for (int64_t r = 0; r < kRows; ++r) {
    labels.setInt(r, r * 5 % kColumns);
  }
  for (float value : test::specialValues()) {
    INFO("target " << exec::stringifyTarget(target).str() << ", " << value);
    reference::Tensor x(RankedTensorType::get({kRows, kColumns}, Float32Type::get(&test::context())));
    reference::Tensor exact(RankedTensorType::get({kRows, kColumns}, Float64Type::get(&test::context())));
    for (int64_t i = 0; i < x.getNumElements(); ++i) {
      bool isSpecial = i / kColumns == i % kColumns || i / kColumns == kColumns;
      x.setFloat(i, isSpecial ? value : static_cast<double>(i * 29 % 61) / 10 - 3);
      exact.setFloat(i, x.getFloat(i));
    }
    std::vector<reference::Tensor> expected = test::run(*wide, "f", {exact, labels}), computed = kernels->run("f", {x, labels});
    for (size_t r = 0; r < expected.size(); ++r) {
      for (int64_t i = 0; i < expected[r].getNumElements(); ++i) {
        // Exponentials and sums of 37 of them.
        std::string difference = test::differenceFrom(expected[r].getFloat(i), computed[r].getFloat(i), {4, 2e-6}, /*anyZero=*/true);
        if (!difference.empty()) {
          INFO("result " << r << ", element " << i << " " << difference);
          REQUIRE(difference.empty());
        }
      }
    }
  }
}

} // namespace ashlar::test::scalar_ops_test
