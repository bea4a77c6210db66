// SPDX-License-Identifier: Apache-2.0
//
// Every op of integers, and casts between all element types, on each type of integers, in kernels of both targets and in the interpreter,
// against C++ on native types: NumPy's results where NumPy defines them. x / 0 is 0; a float that an integer type does not hold becomes the
// nearest number that it does, and a NaN 0 (docs/numbers.md).

#include "test/unit/numbers/f32_checks.h"
#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"
#include "runtime/base/half.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>

namespace ashlar::test::integer_ops_test {

using namespace mlir;
using reference::Tensor;

namespace {

// What a function of the module returns: one number an element, a float or the bits of an integer.
struct Expected {
  std::string body; // computes %y, of `result`
  std::string result;
  std::vector<double> floats;
  std::vector<int64_t> ints;
};

// A function of %a and %b, both of `element`, and what it is to return for them.
struct Case {
  std::string name, element;
  Tensor a, b;
  std::vector<Expected> results;
};

template <typename T> std::string nameOf() {
  return (std::is_same_v<T, bool> ? std::string("i1") : (std::is_unsigned_v<T> ? "ui" : "i") + std::to_string(8 * sizeof(T)));
}

Type elementOf(const std::string &name) {
  MLIRContext *context = &test::context();
  auto sign = name[0] == 'u' ? IntegerType::Unsigned : IntegerType::Signless;
  if (name == "f16" || name == "bf16") {
    return name == "f16" ? Type(Float16Type::get(context)) : BFloat16Type::get(context);
  }
  if (name[0] == 'f') {
    return name == "f32" ? Type(Float32Type::get(context)) : Float64Type::get(context);
  }
  return IntegerType::get(context, std::stoi(name.substr(name.find_first_of("0123456789"))), sign);
}

// The ends of the type, of the types below it, of its half, and some numbers next to these.
template <typename T> std::vector<T> numbersOf() {
  std::vector<T> numbers = {0, 1, 2, 3, 7, 100};
  for (unsigned bits : {7, 8, 15, 16, 31, 32, 63, 64}) {
    if (bits > 8 * sizeof(T)) {
      continue;
    }
    const auto end = bits == 64 ? uint64_t(0) : uint64_t(1) << bits;
    for (uint64_t number : {end - 2, end - 1, end, end + 1, uint64_t(0) - end - 1, uint64_t(0) - end, uint64_t(0) - end + 1}) {
      numbers.push_back(static_cast<T>(number));
    }
  }
  if (sizeof(T) == 8) { // a sum of powers of two that an f64 would round to the middle of two f32
    numbers.push_back(static_cast<T>((uint64_t(1) << 60) + (uint64_t(1) << 36) + 1));
  }
  return numbers;
}

// Powers and their neighbours on both sides, what truncates to them, and what no integer is.
std::vector<double> floatNumbers() {
  std::vector<double> numbers = {0.0,
                                 -0.0,
                                 0.5,
                                 -0.5,
                                 0.999,
                                 -0.999,
                                 1.5,
                                 -1.5,
                                 1e-310,
                                 100.25,
                                 1e30,
                                 -1e30,
                                 std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN()};
  for (int bits : {0, 7, 8, 15, 16, 31, 32, 63, 64}) {
    const double power = std::ldexp(1, bits);
    for (double number :
         {power, power - 1, power + 1, power - 0.25, std::nextafter(power, 0), std::nextafter(static_cast<float>(power), 0.0f) * 1.0}) {
      numbers.push_back(number);
      numbers.push_back(-number);
    }
  }
  return numbers;
}

template <typename T> uint64_t wide(T x) {
  return static_cast<uint64_t>(x);
}

template <typename T> using Binary = T (*)(T a, T b);

template <typename T> T divided(T a, T b) {
  if (b == 0) {
    return 0;
  }
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) { // the lowest number wraps around
    return static_cast<T>(0 - wide(a));
  }
  return static_cast<T>(a / b);
}

template <typename T> std::vector<std::pair<std::string, Binary<T>>> sameTypeOps() {
  return {{"abs %a", [](T a, T) { return a < 0 ? static_cast<T>(0 - wide(a)) : a; }},
          {"neg %a", [](T a, T) { return static_cast<T>(0 - wide(a)); }},
          {"sign %a", [](T a, T) { return static_cast<T>((a > 0) - (a < 0)); }},
          {"not %a", [](T a, T) { return static_cast<T>(~wide(a)); }},
          {"add %a, %b", [](T a, T b) { return static_cast<T>(wide(a) + wide(b)); }},
          {"sub %a, %b", [](T a, T b) { return static_cast<T>(wide(a) - wide(b)); }},
          {"mul %a, %b", [](T a, T b) { return static_cast<T>(wide(a) * wide(b)); }},
          {"div %a, %b", divided<T>},
          {"max %a, %b", [](T a, T b) { return a > b ? a : b; }},
          {"min %a, %b", [](T a, T b) { return a < b ? a : b; }},
          {"and %a, %b", [](T a, T b) { return static_cast<T>(wide(a) & wide(b)); }},
          {"or %a, %b", [](T a, T b) { return static_cast<T>(wide(a) | wide(b)); }}};
}

template <typename T> std::vector<std::pair<std::string, bool (*)(T, T)>> comparisons() {
  return {{"eq", [](T a, T b) { return a == b; }}, {"ne", [](T a, T b) { return a != b; }}, {"lt", [](T a, T b) { return a < b; }},
          {"le", [](T a, T b) { return a <= b; }}, {"gt", [](T a, T b) { return a > b; }},  {"ge", [](T a, T b) { return a >= b; }}};
}

// Adds the casts of integers or bools of a type to another one.
template <typename T, typename To> void addCast(const std::vector<T> &numbers, std::vector<Expected> &results) {
  if (std::is_same_v<T, To>) {
    return;
  }
  Expected cast{"%y = nn.cast %a : A -> R", nameOf<To>(), {}, {}};
  for (T number : numbers) {
    cast.ints.push_back(static_cast<int64_t>(static_cast<To>(number)));
  }
  results.push_back(std::move(cast));
}

// Adds those to floats: to f16 and bf16 by way of f32, as all that is computed in them.
template <typename T> void addFloatCasts(const std::vector<T> &numbers, std::vector<Expected> &results) {
  Expected f64{"%y = nn.cast %a : A -> R", "f64", {}, {}}, f32 = f64, f16 = f64, bf16 = f64;
  f32.result = "f32", f16.result = "f16", bf16.result = "bf16";
  for (T number : numbers) {
    f64.floats.push_back(static_cast<double>(number));
    f32.floats.push_back(static_cast<float>(number));
    f16.floats.push_back(static_cast<float>(rt::F16(static_cast<float>(number))));
    bf16.floats.push_back(static_cast<float>(rt::Bf16(static_cast<float>(number))));
  }
  for (Expected *cast : {&f64, &f32, &f16, &bf16}) {
    results.push_back(std::move(*cast));
  }
}

// All ops on a type, on all pairs of its numbers.
template <typename T> Case caseOf() {
  std::vector<T> numbers = numbersOf<T>(), as, bs;
  for (T a : numbers) {
    for (T b : numbers) {
      as.push_back(a);
      bs.push_back(b);
    }
  }
  RankedTensorType type = RankedTensorType::get({static_cast<int64_t>(as.size())}, elementOf(nameOf<T>()));
  Case made{nameOf<T>(), nameOf<T>(), Tensor(type), Tensor(type), {}};
  for (size_t i = 0; i < as.size(); ++i) {
    made.a.setInt(i, static_cast<int64_t>(as[i]));
    made.b.setInt(i, static_cast<int64_t>(bs[i]));
  }
  for (auto &[text, compute] : sameTypeOps<T>()) {
    Expected expected{"%y = nn." + text + " : A", made.element, {}, {}};
    for (size_t i = 0; i < as.size(); ++i) {
      expected.ints.push_back(static_cast<int64_t>(compute(as[i], bs[i])));
    }
    made.results.push_back(std::move(expected));
  }
  for (auto &[predicate, holds] : comparisons<T>()) {
    Expected expected{"%y = nn.compare " + predicate + " %a, %b : A -> R", "i1", {}, {}};
    for (size_t i = 0; i < as.size(); ++i) {
      expected.ints.push_back(holds(as[i], bs[i]));
    }
    made.results.push_back(std::move(expected));
  }
  addCast<T, bool>(as, made.results);
  addCast<T, int8_t>(as, made.results);
  addCast<T, int16_t>(as, made.results);
  addCast<T, int32_t>(as, made.results);
  addCast<T, int64_t>(as, made.results);
  addCast<T, uint8_t>(as, made.results);
  addCast<T, uint16_t>(as, made.results);
  addCast<T, uint32_t>(as, made.results);
  addCast<T, uint64_t>(as, made.results);
  addFloatCasts(as, made.results);
  return made;
}

// The largest, the smallest and the sum of each row of numbers; rows begin at all of them, so an end of the type is where nothing follows.
template <typename T> Case reductionsOf() {
  std::vector<T> numbers = numbersOf<T>();
  const auto size = static_cast<int64_t>(numbers.size());
  RankedTensorType type = RankedTensorType::get({size, size}, elementOf(nameOf<T>()));
  Case made{"rows_" + nameOf<T>(), nameOf<T>(), Tensor(type), Tensor(type), {}};
  std::string text = std::to_string(size) + "x" + made.element;
  Expected largest{"%y = nn.reduce max %a dims = [1] : A -> R", made.element, {}, {}}, least = largest, sum = largest;
  least.body = "%y = nn.reduce min %a dims = [1] : A -> R", sum.body = "%y = nn.reduce sum %a dims = [1] : A -> R";
  for (int64_t row = 0; row < size; ++row) {
    T most = numbers[row], fewest = numbers[row], total = 0;
    for (int64_t column = 0; column < size; ++column) {
      T number = numbers[std::max(row, column)];
      made.a.setInt(row * size + column, static_cast<int64_t>(number));
      most = std::max(most, number);
      fewest = std::min(fewest, number);
      total = static_cast<T>(wide(total) + wide(number));
    }
    largest.ints.push_back(static_cast<int64_t>(most));
    least.ints.push_back(static_cast<int64_t>(fewest));
    sum.ints.push_back(static_cast<int64_t>(total));
  }
  made.results = {largest, least, sum};
  return made;
}

template <typename T> T saturated(double x) {
  if (std::isnan(x)) {
    return 0;
  }
  if (x >= std::ldexp(1, std::numeric_limits<T>::digits)) {
    return std::numeric_limits<T>::max();
  }
  return x <= static_cast<double>(std::numeric_limits<T>::min()) ? std::numeric_limits<T>::min() : static_cast<T>(x);
}

template <typename T> Expected castsOfFloats(const Tensor &floats) {
  Expected cast{"%y = nn.cast %a : A -> R", nameOf<T>(), {}, {}};
  for (int64_t i = 0; i < floats.getNumElements(); ++i) {
    cast.ints.push_back(static_cast<int64_t>(saturated<T>(floats.getFloat(i))));
  }
  return cast;
}

// Casts of a type of floats to all types of integers.
Case floatCase(const std::string &element) {
  std::vector<double> numbers = floatNumbers();
  RankedTensorType type = RankedTensorType::get({static_cast<int64_t>(numbers.size())}, elementOf(element));
  Case made{element, element, Tensor(type), Tensor(type), {}};
  for (size_t i = 0; i < numbers.size(); ++i) {
    made.a.setFloat(i, numbers[i]);
  }
  made.results = {castsOfFloats<int8_t>(made.a),   castsOfFloats<int16_t>(made.a), castsOfFloats<int32_t>(made.a),
                  castsOfFloats<int64_t>(made.a),  castsOfFloats<uint8_t>(made.a), castsOfFloats<uint16_t>(made.a),
                  castsOfFloats<uint32_t>(made.a), castsOfFloats<uint64_t>(made.a)};
  Expected isTrue{"%y = nn.cast %a : A -> R", "i1", {}, {}};
  for (int64_t i = 0; i < made.a.getNumElements(); ++i) {
    isTrue.ints.push_back(made.a.getFloat(i) != 0);
  }
  made.results.push_back(std::move(isTrue));
  return made;
}

std::vector<Case> cases() {
  std::vector<Case> all = {caseOf<int8_t>(),        caseOf<int16_t>(),        caseOf<int32_t>(),        caseOf<int64_t>(),
                           caseOf<uint8_t>(),       caseOf<uint16_t>(),       caseOf<uint32_t>(),       caseOf<uint64_t>(),
                           reductionsOf<int8_t>(),  reductionsOf<int16_t>(),  reductionsOf<int32_t>(),  reductionsOf<int64_t>(),
                           reductionsOf<uint8_t>(), reductionsOf<uint16_t>(), reductionsOf<uint32_t>(), reductionsOf<uint64_t>()};
  for (const char *element : {"f16", "bf16", "f32", "f64"}) {
    all.push_back(floatCase(element));
  }
  return all;
}

std::string tensorText(ArrayRef<int64_t> shape, const std::string &element) {
  std::string text = "tensor<";
  for (int64_t size : shape) {
    text += std::to_string(size) + "x";
  }
  return text + element + ">";
}

// Returns a function for each result of a case: @NAME_NUMBER.
std::string functionsOf(const Case &made) {
  std::string text;
  for (auto [number, expected] : llvm::enumerate(made.results)) {
    std::string argument = tensorText(made.a.getShape(), made.element);
    std::string result = tensorText(made.a.getShape().take_front(), expected.result), body = expected.body;
    auto replace = [&](char letter, const std::string &with) {
      for (size_t at; (at = body.find(std::string(" ") + letter)) != std::string::npos;) {
        body.replace(at + 1, 1, with);
      }
    };
    replace('A', argument);
    replace('R', result);
    text += llvm::formatv("func.func @{0}_{1}(%a: {2}, %b: {2}) -> {3} {{\n{4}\nreturn %y : {3}\n}\n", made.name, number, argument, result,
                          body);
  }
  return text;
}

// Returns "" when the tensor holds what is expected; else the first element that it does not.
std::string differenceFrom(const Case &made, const Expected &expected, const Tensor &computed) {
  for (int64_t i = 0; i < computed.getNumElements(); ++i) {
    auto at = [&](auto found, auto wanted) {
      std::string text;
      llvm::raw_string_ostream(text) << "element " << i << " is " << found << ", not " << wanted << "; of ";
      made.a.isFloat() ? llvm::raw_string_ostream(text) << made.a.getFloat(i)
                       : llvm::raw_string_ostream(text) << made.a.getInt(i) << ", " << made.b.getInt(i);
      return text;
    };
    if (computed.isFloat() && computed.getFloat(i) != expected.floats[i]) {
      return at(computed.getFloat(i), expected.floats[i]);
    }
    if (!computed.isFloat() && computed.getInt(i) != expected.ints[i]) {
      return at(computed.getInt(i), expected.ints[i]);
    }
  }
  return computed.getNumElements() == 0 ? "no elements" : "";
}

} // namespace

TEST_CASE("integer ops: kernels and the interpreter compute what C++ does, for every type", "[numbers]") {
  auto target = GENERATE(exec::Target::Cpu, exec::Target::Cuda);
  INFO("target " << exec::stringifyTarget(target).str());
  std::vector<Case> all = cases();
  std::string text;
  for (const Case &made : all) {
    text += functionsOf(made);
  }
  OwningOpRef<ModuleOp> module = test::parse(text), fused = module->clone();
  test::fuse(*fused, target);
  std::mt19937_64 random(test::testSeed());
  std::unique_ptr<test::CompiledKernels> kernels = test::runnerOf(*fused, target, random);
  for (const Case &made : all) {
    for (auto [number, expected] : llvm::enumerate(made.results)) {
      INFO(made.name << ": " << expected.body << ", R = " << expected.result);
      std::string name = made.name + "_" + std::to_string(number);
      std::vector<Tensor> operands = {made.a, made.b};
      CHECK(differenceFrom(made, expected, test::run(*module, name, operands).front()) == "");
      if (kernels) {
        CHECK(differenceFrom(made, expected, kernels->run(name, operands).front()) == "");
      }
    }
  }
}

TEST_CASE("integer ops: every element-wise op of integers has a row", "[numbers]") {
  std::string all;
  for (const Case &made : cases()) {
    for (const Expected &expected : made.results) {
      all += expected.body + "\n";
    }
  }
  const std::set<std::string> others = {"nn.bitcast", "nn.select"}; // of bits that stay as they are
  int found = 0;
  for (RegisteredOperationName name : test::context().getRegisteredOperationsByDialect("nn")) {
    std::string op = name.getStringRef().str();
    if (name.hasTrait<OpTrait::Elementwise>() && !others.count(op)) {
      OwningOpRef<ModuleOp> tried;
      ScopedDiagnosticHandler quiet(&test::context(), [](Diagnostic &) { return success(); });
      for (const char *operands : {"%a", "%a, %a"}) {
        tried = tried ? std::move(tried)
                      : parseSourceString<ModuleOp>("func.func @f(%a: tensor<2xui8>) -> tensor<2xui8> {\n%y = " + op + " " + operands +
                                                        " : tensor<2xui8>\nreturn %y : tensor<2xui8>\n}",
                                                    &test::context());
      }
      INFO(op);
      CHECK((!tried || all.find(op + " ") != std::string::npos));
      found += tried ? 1 : 0;
    }
  }
  CHECK(found == 12);
}

} // namespace ashlar::test::integer_ops_test
