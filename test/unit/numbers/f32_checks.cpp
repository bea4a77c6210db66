// SPDX-License-Identifier: Apache-2.0
//
// Arrays are windows on the list of operands, so that a list longer than an array passes through every position.

#include "test/unit/numbers/f32_checks.h"

#ifdef ASHLAR_CUDA
#include "test/unit/numbers/emulated_kernels.h"
#endif
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

using namespace mlir;

namespace ashlar::test {

namespace {

constexpr double kLargest = std::numeric_limits<float>::max();
constexpr double kOverflow = 0x1.ffffffp127; // what is at least as large rounds to infinity

// The distance of f32 numbers around `value`.
double placeOf(double value) {
  return std::abs(value) < 0x1p-126 ? 0x1p-149 : std::ldexp(1, std::ilogb(value) - 23);
}

bool same(double x, double y) {
  return std::isnan(x) ? std::isnan(y) : x == y && std::signbit(x) == std::signbit(y);
}

std::string shown(double value) {
  std::ostringstream text;
  text.precision(9);
  text << value;
  return text.str();
}

std::string shown(const std::vector<float> &operands) {
  std::string text;
  for (float operand : operands) {
    text += (text.empty() ? "" : ", ") + shown(operand);
  }
  return "(" + text + ")";
}

} // namespace

std::string differenceFrom(double exact, double computed, const Bound &bound, bool anyZero) {
  std::string both = "is " + shown(computed) + ", exactly " + shown(exact);
  if (std::isnan(exact) || std::isnan(computed)) {
    return std::isnan(exact) == std::isnan(computed) ? "" : both;
  }
  if (computed == 0 && std::abs(exact) < 0x1p-126 && std::signbit(computed) != std::signbit(exact) && !anyZero) {
    return both + ": the sign of zero";
  }
  if (computed == exact) {
    return "";
  }
  double allowed = exact == 0 || std::isinf(exact) ? bound.absolute : bound.units * placeOf(exact) + bound.absolute;
  if (std::isinf(computed)) {
    return std::signbit(computed) == std::signbit(exact) && std::abs(exact) + allowed >= kOverflow ? "" : both;
  }
  double error = std::abs(computed - exact);
  if (error <= allowed) {
    return "";
  }
  return both + ": off by " + shown(exact == 0 ? error : error / placeOf(exact)) + (exact == 0 ? "" : " units in the last place");
}

const std::vector<float> &specialValues() {
  static const std::vector<float> values = [] {
    std::vector<float> list = {0, std::numeric_limits<float>::infinity(), static_cast<float>(kLargest)};
    // The smallest and the largest subnormal number, the smallest normal one, and some between.
    list.insert(list.end(), {0x1p-149f, 1e-40f, 0x1.fffffcp-127f, 0x1p-126f, 3e-38f, 1e-30f, 1e-20f, 1e-10f});
    list.insert(list.end(), {0.5f, 0.99999994f, 1, 1.00000012f, 1.5f, 2, 3, 1e10f, 1e20f, 1e38f});
    // The ends of i32 and i64.
    list.insert(list.end(), {0x1.fffffep30f, 0x1p31f, 0x1.fffffep62f, 0x1p63f});
    // exp overflows and underflows, the branches of tanh and erf.
    list.insert(list.end(), {88.7228317f, 88.7228394f, 87.3365479f, 87.7f, 103.278931f, 104, 1000, 4e-4f, 0.8f, 2.1f, 3.75f, 7.998f, 17});
    for (size_t i = 0, count = list.size(); i < count; ++i) {
      list.push_back(-list[i]);
    }
    list.push_back(std::numeric_limits<float>::quiet_NaN());
    return list;
  }();
  return values;
}

std::vector<std::vector<float>> operandTuples(int operands) {
  const std::vector<float> &special = specialValues();
  std::mt19937 random(static_cast<uint32_t>(testSeed()));
  std::vector<std::vector<float>> tuples;
  if (operands == 1) {
    for (float x : special) {
      tuples.push_back({x});
    }
  } else if (operands == 2) {
    for (size_t i = 0; i < special.size() * special.size(); ++i) {
      tuples.push_back({special[i / special.size()], special[i % special.size()]});
    }
  } else {
    for (int i = 0; i < 2000; ++i) {
      tuples.push_back({special[random() % special.size()], special[random() % special.size()], special[random() % special.size()]});
    }
  }
  for (int i = 0; i < 300; ++i) { // half of them of all magnitudes, half of those that functions of one are about
    tuples.emplace_back();
    for (int k = 0; k < operands; ++k) {
      uint32_t bits = i % 2 == 0 ? random() : (random() & 0x80ffffff) | (0x3b000000 + (random() % 12 << 23));
      float value;
      std::memcpy(&value, &bits, sizeof(value));
      tuples.back().push_back(value);
    }
  }
  return tuples;
}

std::unique_ptr<CompiledKernels> runnerOf(ModuleOp module, exec::Target target, std::mt19937_64 &random) {
  if (target == exec::Target::Cpu) {
    return std::make_unique<CompiledKernels>(module, random, /*inPlace=*/true, target);
  }
#ifdef ASHLAR_CUDA
  return std::make_unique<EmulatedKernels>(module, random);
#else
  WARN("skipped: the target cuda was left out when Ashlar was configured");
  return nullptr;
#endif
}

void checkFunction(CompiledKernels &kernels, const Function &function, exec::Target target) {
  std::vector<std::vector<float>> tuples = operandTuples(function.operands);
  std::vector<std::optional<double>> first(tuples.size());
  size_t wrong = 0;
  auto complain = [&](size_t which, int64_t position, const std::string &what) {
    if (++wrong <= 5) { // one cause makes many of them
      UNSCOPED_INFO(function.name << shown(tuples[which]) << " at " << position << " " << what);
    }
  };
  for (int64_t length : {kElements, kElements + 1}) {
    // The threads of a GPU do not know their neighbours: there a few positions of each operand are enough.
    size_t step = target == exec::Target::Cpu ? 1 : length / 4 - 1;
    for (size_t start = 0; start < tuples.size(); start += step) {
      std::vector<reference::Tensor> inputs(function.operands,
                                            reference::Tensor(RankedTensorType::get({length}, Float32Type::get(&context()))));
      for (int64_t i = 0; i < length; ++i) {
        for (int k = 0; k < function.operands; ++k) {
          inputs[k].setFloat(i, tuples[(start + i) % tuples.size()][k]);
        }
      }
      reference::Tensor results = kernels.run(function.name + (length == kElements ? "" : "_odd"), inputs).front();
      for (int64_t i = 0; i < length; ++i) {
        size_t which = (start + i) % tuples.size();
        double computed = results.getNumber(i);
        if (first[which]) {
          if (!same(*first[which], computed)) {
            complain(which, i, "is " + shown(computed) + ", elsewhere " + shown(*first[which]));
          }
          continue;
        }
        first[which] = computed;
        std::vector<float> x = tuples[which];
        x.resize(3);
        std::string difference = differenceFrom(function.exact(x[0], x[1], x[2]), computed, function.bound, function.anyZero);
        if (!difference.empty()) {
          complain(which, i, difference);
        }
      }
    }
  }
  CHECK(wrong == 0);
}

} // namespace ashlar::test
