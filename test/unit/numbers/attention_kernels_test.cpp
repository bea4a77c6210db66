// SPDX-License-Identifier: Apache-2.0
//
// Generated kernels of attention, on the emulator, against the reference semantics of the ops: all forms of scores, of types and of sizes
// that do not fill tiles.

#include "test/unit/numbers/emulated_kernels.h"
#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

namespace ashlar::test::attention_kernels_test {

using namespace mlir;
using reference::Tensor;

namespace {

constexpr const char *kNotOfLibrary = " softcap = 5.000000e+01"; // of 16 bits

// A program of an attention and its gradients, in the order log_sum, out, and the gradients of query, key and value.
struct Form {
  std::string element = "f32", out; // of operands; of the result and its gradient, "": the same
  int64_t batch = 1, heads = 2, rows = 20, keys = 20, width = 16, columns = 16;
  std::string mask;   // sizes and type: "1x1x20x20xf32"
  std::string scores; // " causal diagonal = 3", " softcap = 5.000000e+00"
  bool hasPositions = false, drops = false, headsInside = false;
  std::vector<std::pair<int64_t, double>> first; // elements of the query in place of random ones
  int64_t drawStride = 0; // of a dropout, in place of the strides of the scores, from each batch entry, head and row to the next; 0: none

  std::string type(int64_t length, int64_t last, const std::string &of) const {
    return "tensor<" + std::to_string(batch) + "x" + std::to_string(heads) + "x" + std::to_string(length) + "x" + std::to_string(last) +
           "x" + of + ">";
  }
  // The same with heads inside rows, if they are.
  std::string outside(int64_t length, int64_t last, const std::string &of) const {
    return !headsInside ? type(length, last, of)
                        : "tensor<" + std::to_string(batch) + "x" + std::to_string(length) + "x" + std::to_string(heads) + "x" +
                              std::to_string(last) + "x" + of + ">";
  }
  std::string outElement() const { return out.empty() ? element : out; }

  std::string text() const {
    const std::string y = type(rows, columns, outElement()), q = type(rows, width, element), k = type(keys, width, element),
                      v = type(keys, columns, element);
    const std::string l = "tensor<" + std::to_string(batch) + "x" + std::to_string(heads) + "x" + std::to_string(rows) + "xf32>";
    std::string arguments = "%q0: " + outside(rows, width, element) + ", %k0: " + outside(keys, width, element) +
                            ", %v0: " + outside(keys, columns, element) + ", %g0: " + outside(rows, columns, outElement());
    std::string last, before = scores, after = "";
    if (!mask.empty()) {
      arguments += ", %m: tensor<" + mask + ">";
      before = " mask = %m" + std::string(" scale = 6.000000e-01") + scores;
      last = ", tensor<" + mask + ">";
    } else {
      before = " scale = 6.000000e-01" + scores;
    }
    std::string body;
    if (hasPositions) { // rows of entry b begin with 3 b, keys with 0
      const std::string ofRows = "tensor<" + std::to_string(batch) + "x1x" + std::to_string(rows) + "xi64>",
                        ofKeys = "tensor<1x1x" + std::to_string(keys) + "xi64>";
      body += "%rows = nn.index [3, 0, 1] : " + ofRows + "\n%keys = nn.index [0, 0, 1] : " + ofKeys + "\n";
      last += ", " + ofRows + ", " + ofKeys;
      const size_t at = before.find(" causal") + 7;
      before.insert(at, " at %rows, %keys");
    }
    std::string weights = before, lastOfWeights = last;
    if (drops) {
      const std::string ofRows = "tensor<" + std::to_string(batch) + "x" + std::to_string(heads) + "x" + std::to_string(rows) + "xi64>",
                        ofKeys = "tensor<1x1x" + std::to_string(keys) + "xi64>";
      auto stride = [&](int64_t own) { return std::to_string(drawStride == 0 ? own : drawStride); };
      body += "%r = nn.index [" + stride(heads * rows * keys) + ", " + stride(rows * keys) + ", " + stride(keys) + "] : " + ofRows +
              "\n%c = nn.index [0, 0, 1] : " + ofKeys +
              "\n%seed = nn.constant dense<77> : tensor<i64>\n%step = nn.constant dense<5> : tensor<i64>\n"
              "%stream = nn.constant dense<3> : tensor<i32>\n";
      weights += " dropout = 4.000000e-01 by %r, %c, %seed, %step, %stream";
      lastOfWeights += ", " + ofRows + ", " + ofKeys + ", tensor<i64>, tensor<i64>, tensor<i32>";
    }
    auto take = [&](const std::string &name, int64_t length, int64_t count, const std::string &of) {
      body += headsInside ? "%" + name + " = nn.transpose %" + name + "0 [0, 2, 1, 3] : " + outside(length, count, of) + " -> " +
                                type(length, count, of) + "\n"
                          : "";
    };
    take("q", rows, width, element);
    take("k", keys, width, element);
    take("v", keys, columns, element);
    take("g", rows, columns, outElement());
    body += "%l = nn.attention_log_sum %q, %k" + before + " : (" + q + ", " + k + last + ") -> " + l + "\n";
    body += "%y = nn.attention %q, %k, %v, %l" + weights + " : (" + q + ", " + k + ", " + v + ", " + l + lastOfWeights + ") -> " + y + "\n";
    for (const auto &[of, result] : {std::pair("query", q), std::pair("key", k), std::pair("value", v)}) {
      body += "%d" + std::string(of) + " = nn.attention_gradient " + of + " %q, %k, %v, %l, %y, %g" + weights + " : (" + q + ", " + k +
              ", " + v + ", " + l + ", " + y + ", " + y + lastOfWeights + ") -> " + result + "\n";
    }
    std::string returned = "%l, ", types = l;
    auto give = [&](const std::string &name, int64_t length, int64_t count, const std::string &of) {
      body += headsInside ? "%" + name + "0 = nn.transpose %" + name + " [0, 2, 1, 3] : " + type(length, count, of) + " -> " +
                                outside(length, count, of) + "\n"
                          : "";
      returned += (returned.size() > 4 ? ", %" : "%") + name + (headsInside ? "0" : "");
      types += ", " + outside(length, count, of);
    };
    give("y", rows, columns, outElement());
    give("dquery", rows, width, element);
    give("dkey", keys, width, element);
    give("dvalue", keys, columns, element);
    std::string text = "func.func @f(" + arguments + ") -> (" + types + ") {\n" + body + "return " + returned + " : " + types + "\n}";
    if (headsInside) {
      return text;
    }
    for (const char *name : {"%q", "%k", "%v", "%g"}) { // without transposes arguments are the operands
      for (size_t at = 0; (at = text.find(std::string(name) + "0", at)) != std::string::npos;) {
        text.erase(at + 2, 1);
      }
    }
    return text;
  }
};

// Tensors of numbers in [-1, 1], bools that are true three times of four.
Tensor someNumbers(RankedTensorType type, std::mt19937_64 &random) {
  Tensor tensor(type);
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    if (type.getElementType().isInteger(1)) {
      tensor.setInt(i, random() % 4 != 0);
    } else {
      tensor.setFloat(i, std::uniform_real_distribution<double>(-1, 1)(random));
    }
  }
  return tensor;
}

// Runs a form both ways; `isMatrix`: its one head without dims of batch and heads. Results are sums of numbers of either sign: the bound is
// in units of the last place of the narrowest type, of numbers of the size of the largest one, or where scores are large, for an error of a
// score by (width + 4) 2^-24 of the sum of its terms' sizes, of which a hundredth is seen. The gradients of a row that sees no key are NaN
// where a kernel goes through its keys, and add nothing elsewhere.
void check(const Form &form, double scaleOfInputs = 1, bool isMatrix = false) {
  std::string text = form.text();
  for (size_t at = 0; isMatrix && (at = text.find("tensor<1x1x", at)) != std::string::npos;) {
    text.erase(at += 7, 4);
  }
  INFO(text);
  std::mt19937_64 random(test::testSeed());
  OwningOpRef<ModuleOp> module = test::parse(text);
  std::vector<Tensor> inputs;
  for (Type type : (*module->getOps<func::FuncOp>().begin()).getArgumentTypes()) {
    Tensor input = someNumbers(cast<RankedTensorType>(type), random);
    for (int64_t i = 0; i < input.getNumElements() && inputs.size() < 2; ++i) {
      input.setFloat(i, scaleOfInputs * input.getFloat(i));
    }
    inputs.push_back(std::move(input));
  }
  for (auto [place, value] : form.first) {
    inputs[0].setFloat(place, value);
  }
  const std::vector<Tensor> expected = test::run(*module, "f", inputs);
  OwningOpRef<ModuleOp> fused = module->clone();
  test::fuse(*fused, exec::Target::Cuda);
  unsigned kernels = 0, others = 0;
  fused->walk([&](exec::FusionOp fusion) { ++(fusion.getKind() == exec::FusionKind::AttentionKernel ? kernels : others); });
  CHECK(kernels >= 3);
  CHECK(others == 0);
  test::EmulatedKernels emulated(*fused, random);
  const std::vector<Tensor> found = emulated.run("f", inputs);
  const double unit = form.element == "f32" ? 0x1p-20 : form.element == "bf16" ? 0x1p-7 : 0x1p-10;
  const double ofScores = (form.width + 4) * 0x1p-24 * 0.6 * static_cast<double>(form.width) * scaleOfInputs * scaleOfInputs / 100;
  for (size_t r = 0; r < expected.size(); ++r) {
    double largest = 0x1p-4, worst = 0;
    for (int64_t i = 0; i < expected[r].getNumElements(); ++i) {
      const double value = expected[r].getFloat(i), other = found[r].getFloat(i);
      if (r >= 2 && std::isnan(value)) {
        continue;
      }
      largest = std::isfinite(value) ? std::max(largest, std::abs(value)) : largest;
      const bool isEqual = value == other || (std::isnan(value) && std::isnan(other));
      worst = std::max(worst, isEqual ? 0 : std::isfinite(value - other) ? std::abs(value - other) : 1e30);
    }
    INFO("result " << r << ": off by " << worst << " of numbers up to " << largest);
    CHECK(worst <= (r == 0 ? 0x1p-19 * std::max(1.0, largest) : 2 * unit * largest + 20 * ofScores));
  }
}

} // namespace

TEST_CASE("attention kernels: types, sizes and shapes", "[numbers][cuda]") {
  Form form;
  form.element = GENERATE("f32", "bf16", "f16");
  form.scores = form.element == "f32" ? "" : kNotOfLibrary;
  check(form);
  for (auto [rows, keys, width, columns] :
       std::vector<std::array<int64_t, 4>>{{1, 1, 1, 1}, {3, 70, 8, 24}, {65, 33, 40, 5}, {130, 64, 64, 64}, {17, 129, 3, 72}}) {
    form.rows = rows;
    form.keys = keys;
    form.width = width;
    form.columns = columns;
    check(form);
  }
}

TEST_CASE("attention kernels: wide heads", "[numbers][cuda]") {
  Form form;
  form.element = GENERATE("f32", "bf16");
  form.scores = form.element == "f32" ? "" : kNotOfLibrary;
  form.heads = 1;
  for (auto [width, columns] : std::vector<std::pair<int64_t, int64_t>>{{128, 128}, {96, 160}, {256, 256}, {200, 100}}) {
    form.width = width;
    form.columns = columns;
    check(form);
  }
}

TEST_CASE("attention kernels: what scores are made of", "[numbers][cuda]") {
  Form form;
  form.element = GENERATE("f32", "bf16");
  form.batch = 2;
  form.rows = 70;
  form.keys = 90;
  for (const char *scores :
       {" causal", " causal diagonal = 20", " causal diagonal = -5", " causal diagonal = 20 window = 7", " causal window = 64",
        " softcap = 5.000000e-01", " causal diagonal = -200", " causal diagonal = 20 softcap = 5.000000e-01"}) {
    form.scores = scores;
    check(form);
  }
  form.hasPositions = true;
  for (const char *scores : {" causal", " causal diagonal = 20 window = 9"}) {
    form.scores = scores;
    check(form);
  }
}

TEST_CASE("attention kernels: a matrix each, and one element", "[numbers][cuda]") {
  Form form;
  form.heads = 1;
  check(form, /*scaleOfInputs=*/1, /*isMatrix=*/true);
  form.rows = form.keys = form.width = form.columns = 1;
  form.scores = " causal";
  check(form, /*scaleOfInputs=*/1, /*isMatrix=*/true);
}

TEST_CASE("attention kernels: masks", "[numbers][cuda]") {
  Form form;
  form.element = GENERATE("f32", "f16");
  form.batch = 2;
  form.rows = 37;
  form.keys = 66;
  for (const char *mask : {"2x2x37x66xf32", "1x1x37x66xi1", "2x1x1x66xi1", "1x2x37x1xf32", "1x1x1x66xbf16"}) {
    form.mask = mask;
    check(form);
    form.scores = " causal diagonal = 30";
    check(form);
    form.scores = "";
  }
}

TEST_CASE("attention kernels: dropout, heads inside rows, results in f32", "[numbers][cuda]") {
  Form form;
  form.element = GENERATE("f32", "bf16");
  form.batch = 2;
  form.rows = 40;
  form.keys = 50;
  form.drops = true;
  check(form);
  form.headsInside = true;
  check(form);
  form.scores = " causal diagonal = 10";
  form.mask = "2x1x1x50xi1";
  check(form);
  if (form.element != "f32") {
    form.out = "f32";
    check(form);
  }
}

// 41 times 2^29 is above 2^32: part of a tensor that has more elements than an index of 32 bits counts.
TEST_CASE("attention kernels: places of dropped weights beyond 2^32", "[numbers][cuda]") {
  Form form;
  form.batch = 2;
  form.rows = 40;
  form.drops = true;
  form.drawStride = int64_t(1) << 29;
  check(form);
}

// Plain loops: each third row has equal weights, whose scores f32 rounds to -1e9. Their log-sum-exp is rounded to -1e9, too.
TEST_CASE("attention kernels: rows that are hidden whole by a number", "[numbers][cuda]") {
  Form form;
  form.heads = 1;
  form.rows = 70;
  form.keys = 75;
  form.width = form.columns = 8;
  form.mask = "1x1x70x75xf32";
  std::mt19937_64 random(test::testSeed());
  OwningOpRef<ModuleOp> module = test::parse(form.text());
  std::vector<Tensor> in;
  for (Type type : (*module->getOps<func::FuncOp>().begin()).getArgumentTypes()) {
    in.push_back(someNumbers(cast<RankedTensorType>(type), random));
  }
  Tensor &mask = in[4];
  for (int64_t i = 0; i < mask.getNumElements(); ++i) {
    mask.setFloat(i, i / form.keys % 3 == 0 ? -1e9 : 0);
  }
  std::vector<std::vector<double>> expected(5);
  for (size_t r = 1; r < 5; ++r) {
    expected[r].assign((r < 3 ? form.rows : form.keys) * 8, 0);
  }
  auto at = [&](size_t of, int64_t row, int64_t column) { return in[of].getFloat(row * 8 + column); }; // q, k, v, g
  for (int64_t i = 0; i < form.rows; ++i) {
    std::vector<double> weights(form.keys), slopes(form.keys, 0);
    double total = 0, mean = 0;
    for (int64_t j = 0; j < form.keys; ++j) {
      double score = 0;
      for (int64_t w = 0; w < 8; ++w) {
        score += 0.6 * at(0, i, w) * at(1, j, w);
        slopes[j] += at(3, i, w) * at(2, j, w);
      }
      weights[j] = i % 3 == 0 ? 1 : std::exp(score);
      total += weights[j];
    }
    for (int64_t j = 0; j < form.keys; ++j) {
      weights[j] /= total;
      mean += weights[j] * slopes[j];
    }
    for (int64_t j = 0; j < form.keys; ++j) {
      for (int64_t w = 0; w < 8; ++w) {
        const double ofScore = 0.6 * weights[j] * (slopes[j] - mean);
        expected[1][i * 8 + w] += weights[j] * at(2, j, w);
        expected[2][i * 8 + w] += ofScore * at(1, j, w);
        expected[3][j * 8 + w] += ofScore * at(0, i, w);
        expected[4][j * 8 + w] += weights[j] * at(3, i, w);
      }
    }
  }
  test::fuse(*module, exec::Target::Cuda);
  test::EmulatedKernels emulated(*module, random);
  const std::vector<Tensor> found = emulated.run("f", in);
  for (size_t r = 1; r < 5; ++r) {
    double worst = 0;
    for (size_t i = 0; i < expected[r].size(); ++i) {
      worst = std::max(worst, std::abs(expected[r][i] - found[r].getFloat(static_cast<int64_t>(i))));
    }
    INFO("result " << r);
    CHECK(worst < 1e-6);
  }
}

// A row with a NaN is NaN, and so is one with an infinite score, but for a softcap; the others are as without them.
TEST_CASE("attention kernels: NaN and infinity stay in their rows", "[numbers][cuda]") {
  Form form;
  form.element = GENERATE("f32", "bf16");
  form.scores = form.element == "f32" ? "" : kNotOfLibrary;
  form.rows = 70;
  const double infinity = std::numeric_limits<double>::infinity();
  form.first = {{3 * form.width, std::nan("")}, {65 * form.width + 1, infinity}, {7 * form.width, 1e-40}};
  check(form);
}

TEST_CASE("attention kernels: scores of thousands", "[numbers][cuda]") {
  Form form;
  form.width = 64;
  form.keys = 100;
  check(form, /*scaleOfInputs=*/20);
}

} // namespace ashlar::test::attention_kernels_test
