// SPDX-License-Identifier: Apache-2.0
//
// BatchNormalization, InstanceNormalization, GroupNormalization and MeanVarianceNormalization of all opsets, against plain loops, and what
// a batch normalization becomes in a job that trains.

#include "test/unit/frontend/onnx_model.h"

#include "dialects/nn/nn.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <functional>
#include <map>

namespace ashlar::test::channel_normalization_test {

using ashlar::reference::Tensor;
using onnx::TensorProto;

namespace {

constexpr int64_t kSamples = 2, kChannels = 4, kWidth = 3;

// x (2, 4, 3), numbers of which none is another.
Tensor input() {
  std::vector<double> values;
  for (int64_t i = 0; i < kSamples * kChannels * kWidth; ++i) {
    values.push_back(static_cast<double>(i * 7 % 24) - 5 + 0.25 * static_cast<double>(i));
  }
  return f32({kSamples, kChannels, kWidth}, values);
}

// Checks y against (x - mean) / sqrt(variance + epsilon) * scale + bias, with the moments of all elements that `groupOf` puts together.
void checkNormalized(const Tensor &y, std::function<int64_t(int64_t n, int64_t c)> groupOf, std::function<double(int64_t c)> scale,
                     std::function<double(int64_t c)> bias, double epsilon) {
  Tensor x = input();
  auto forEach = [&](std::function<void(int64_t, int64_t, double)> body) { // channel, group, element
    for (int64_t i = 0; i < x.getNumElements(); ++i) {
      int64_t n = i / (kChannels * kWidth), c = i / kWidth % kChannels;
      body(c, groupOf(n, c), x.getFloat(i));
    }
  };
  std::map<int64_t, double> count, mean, variance;
  forEach([&](int64_t, int64_t group, double value) { ++count[group], mean[group] += value; });
  forEach([&](int64_t, int64_t group, double value) { variance[group] += std::pow(value - mean[group] / count[group], 2); });
  int64_t i = 0;
  forEach([&](int64_t c, int64_t group, double value) {
    double deviation = std::sqrt(variance[group] / count[group] + epsilon);
    CHECK(y.getFloat(i++) == Approx((value - mean[group] / count[group]) / deviation * scale(c) + bias(c)).epsilon(1e-5).margin(1e-5));
  });
}

// A batch normalization whose statistics are initializers, "scale" 1, 2, 3, 4 and "bias" 10, 20, 30, 40.
OnnxModel batchNorm(int64_t opset, std::vector<Attribute> attributes = {}, std::vector<std::string> outputs = {"y"}) {
  OnnxModel model(opset);
  model.input("x", {kSamples, kChannels, kWidth});
  model.initializer("scale", TensorProto::FLOAT, {kChannels}, {1, 2, 3, 4})
      .initializer("bias", TensorProto::FLOAT, {kChannels}, {10, 20, 30, 40});
  model.initializer("mean", TensorProto::FLOAT, {kChannels}, {0, 1, 2, 3})
      .initializer("var", TensorProto::FLOAT, {kChannels}, {1, 4, 9, 16});
  return model.node("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, std::move(outputs), std::move(attributes), "bn")
      .output("y");
}

ashlar::frontend::ImportOptions training(std::vector<std::string> frozen = {}) {
  ashlar::frontend::ImportOptions options;
  options.training = true;
  options.frozen = std::move(frozen);
  return options;
}

} // namespace

TEST_CASE("onnx batch normalization outside of training takes the running statistics, whatever the node says", "[frontend]") {
  struct Row {
    int64_t opset;
    std::vector<Attribute> attributes;
    std::vector<std::string> outputs;
  };
  for (const Row &row : {Row{7, {{"spatial", int64_t(1)}}, {"y"}}, Row{9, {}, {"y"}}, Row{9, {}, {"y", "m", "v", "sm", "sv"}},
                         Row{14, {}, {"y"}}, Row{15, {{"training_mode", int64_t(1)}}, {"y", "m", "v"}}}) {
    INFO("opset " << row.opset);
    std::vector<Attribute> attributes = row.attributes;
    attributes.push_back({"epsilon", 0.5f});
    Tensor y = evaluate(batchNorm(row.opset, attributes, row.outputs), {input()}).front();
    for (int64_t i = 0; i < y.getNumElements(); ++i) {
      auto c = static_cast<double>(i / kWidth % kChannels);
      double expected = (input().getFloat(i) - c) / std::sqrt((c + 1) * (c + 1) + 0.5) * (c + 1) + 10 * (c + 1);
      CHECK(y.getFloat(i) == Approx(expected).epsilon(1e-5));
    }
  }
}

TEST_CASE("onnx batch normalization: running statistics are never trained, and their outputs are what they were", "[frontend]") {
  for (bool trains : {false, true}) {
    std::string text = print(*import(batchNorm(15, {{"training_mode", int64_t(trains)}}), training()));
    INFO(text);
    CHECK_THAT(text, contains("nn.variable @mean : tensor<4xf32>"));
    CHECK_THAT(text, contains("nn.variable @var : tensor<4xf32>"));
    CHECK_THAT(text, contains("nn.variable @scale trainable"));
    CHECK_THAT(text, contains("momentum = 9.000000e-01"));
    CHECK((text.find("unbiased") != std::string::npos) == !trains); // torch's module, and ONNX's node
  }
  std::vector<Tensor> results =
      evaluate(batchNorm(15, {{"training_mode", int64_t(1)}}, {"y", "m", "v"}).output("m").output("v"), {input()});
  CHECK(results[1].getFloat(3) == 3);
  CHECK(results[2].getFloat(3) == 16);
}

TEST_CASE("onnx batch normalization stays in inference form where the job freezes it", "[frontend]") {
  for (const char *glob : {"scale", "mean", "v*"}) {
    INFO(glob);
    CHECK(print(*import(batchNorm(15), training({glob}))).find("momentum") == std::string::npos);
  }
  CHECK(print(*import(batchNorm(15), training({"bias"}))).find("momentum") != std::string::npos);
  CHECK_THAT(importError(batchNorm(15), training({"nothing*"})), contains("matches no parameter"));
}

TEST_CASE("onnx batch normalization: single channels, and statistics of single elements", "[frontend]") {
  OnnxModel flat(15);
  flat.input("x", {3});
  for (auto [name, value] : {std::pair("s", 2.0), std::pair("b", 1.0), std::pair("m", 3.0), std::pair("v", 4.0)}) {
    flat.initializer(name, TensorProto::FLOAT, {1}, {value});
  }
  flat.node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"}, {{"epsilon", 0.0f}}).output("y");
  Tensor y = evaluate(flat, {f32({3}, {3, 5, -1})}).front();
  CHECK(y.getFloat(0) == 1);
  CHECK(y.getFloat(1) == 3);
  CHECK(y.getFloat(2) == -3);

  OnnxModel elements(8);
  elements.input("x", {2, 1, 2});
  for (auto [name, values] : {std::pair("s", std::vector<double>{1, 2}), std::pair("b", std::vector<double>{0, 5}),
                              std::pair("m", std::vector<double>{1, 2}), std::pair("v", std::vector<double>{1, 4})}) {
    elements.initializer(name, TensorProto::FLOAT, {1, 2}, values);
  }
  elements.node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"}, {{"epsilon", 0.0f}, {"spatial", int64_t(0)}}).output("y");
  Tensor z = evaluate(elements, {f32({2, 1, 2}, {2, 4, 1, 2})}).front();
  CHECK(z.getFloat(0) == 1);
  CHECK(z.getFloat(1) == 7);
  CHECK(z.getFloat(2) == 0);
  CHECK(z.getFloat(3) == 5);
}

TEST_CASE("onnx instance and group normalization", "[frontend]") {
  auto one = [](int64_t) { return 1.0; };
  auto zero = [](int64_t) { return 0.0; };
  auto scaleOf = [](int64_t c) { return static_cast<double>(c + 1); };
  auto biasOf = [](int64_t c) { return 10.0 * static_cast<double>(c); };
  auto model = [](const std::string &op, int64_t opset, std::vector<double> scale, std::vector<double> bias,
                  std::vector<Attribute> attributes) {
    OnnxModel made(opset);
    auto count = static_cast<int64_t>(scale.size());
    made.input("x", {kSamples, kChannels, kWidth}).initializer("s", TensorProto::FLOAT, {count}, scale);
    made.initializer("b", TensorProto::FLOAT, {count}, bias).node(op, {"x", "s", "b"}, {"y"}, std::move(attributes)).output("y");
    return evaluate(made, {input()}).front();
  };
  checkNormalized(
      model("InstanceNormalization", 6 + 1, {1, 2, 3, 4}, {0, 10, 20, 30}, {{"epsilon", 0.5f}}),
      [](int64_t n, int64_t c) { return n * kChannels + c; }, scaleOf, biasOf, 0.5);
  auto groupOf = [](int64_t n, int64_t c) { return n * 2 + c / 2; };
  // Of groups before opset 21: channels 0, 1 have the first.
  checkNormalized(
      model("GroupNormalization", 18, {1, 3}, {10, 20}, {{"num_groups", int64_t(2)}}), groupOf, [](int64_t c) { return c < 2 ? 1.0 : 3.0; },
      [](int64_t c) { return c < 2 ? 10.0 : 20.0; }, 1e-5);
  checkNormalized(model("GroupNormalization", 21, {1, 2, 3, 4}, {0, 10, 20, 30}, {{"num_groups", int64_t(2)}, {"epsilon", 0.25f}}), groupOf,
                  scaleOf, biasOf, 0.25);
  OnnxModel plain(13);
  plain.input("x", {kSamples, kChannels, kWidth}).node("MeanVarianceNormalization", {"x"}, {"y"}, {{"axes", std::vector<int64_t>{0, -1}}});
  checkNormalized(evaluate(plain.output("y"), {input()}).front(), [](int64_t, int64_t c) { return c; }, one, zero, 0);
}

TEST_CASE("onnx normalizations: what does not fit is one line", "[frontend]") {
  OnnxModel wrong(15);
  wrong.input("x", {2, 4, 3}).initializer("s", TensorProto::FLOAT, {3}, {1, 2, 3});
  wrong.node("BatchNormalization", {"x", "s", "s", "s", "s"}, {"y"}).output("y");
  CHECK_THAT(importError(wrong),
             contains("input 1 (scale) of [3] of f32 does not fit input 0 of [2, 4, 3] of f32; it has to be [4] of f32"));
  OnnxModel computed(15);
  computed.input("x", {2, 4}).input("m", {4}).initializer("s", TensorProto::FLOAT, {4}, {1, 2, 3, 4});
  computed.node("BatchNormalization", {"x", "s", "s", "m", "m"}, {"y"}, {{"training_mode", int64_t(1)}}).output("y");
  CHECK_THAT(importError(computed, training()), contains("its running mean and variance are no initializers"));
  OnnxModel groups(21);
  groups.input("x", {2, 4, 3}).initializer("s", TensorProto::FLOAT, {4}, {1, 2, 3, 4});
  groups.node("GroupNormalization", {"x", "s", "s"}, {"y"}, {{"num_groups", int64_t(3)}}).output("y");
  CHECK_THAT(importError(groups), contains("attribute \"num_groups\" 3 does not divide the 4 channels"));
  OnnxModel instance(15);
  instance.input("x", {2, 4}).initializer("s", TensorProto::FLOAT, {4}, {1, 2, 3, 4});
  CHECK_THAT(importError(instance.node("InstanceNormalization", {"x", "s", "s"}, {"y"}).output("y")), contains("input 0 has rank 2"));
  OnnxModel trained(15);
  trained.input("x", {2, 4}).initializer("s", TensorProto::FLOAT, {4}, {1, 2, 3, 4});
  trained.node("Mul", {"x", "s"}, {"z"}).node("BatchNormalization", {"z", "s", "s", "s", "s"}, {"y"}).output("y");
  ashlar::frontend::ImportOptions merged = training();
  merged.untieAuto = false;
  CHECK_THAT(importError(trained, merged), contains("\"s\" is a running statistic, which nothing trains, but a node before reads it") &&
                                               contains("as a parameter; untie: AUTO in the job makes two of them"));
  CHECK_THAT(print(*import(trained, training())),
             contains("nn.variable @s trainable") && contains("nn.variable @running_mean :") && contains("nn.variable @running_var :"));
}

} // namespace ashlar::test::channel_normalization_test
