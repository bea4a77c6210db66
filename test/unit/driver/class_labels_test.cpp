// SPDX-License-Identifier: Apache-2.0
//
// Which inputs hold class labels under each kind of loss.

#include "compiler/driver/class_labels.h"
#include "compiler/job/job.h"
#include "test/unit/frontend/onnx_model.h"
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>

namespace ashlar::test::class_labels_test {
namespace {

const char *const kModel = R"(
  func.func @forward(%x: tensor<4x3xf32> {nn.name = "x"}, %classes: tensor<2x2xi64> {nn.name = "classes"})
      -> (tensor<4xf32> {nn.name = "own_loss"}) attributes {nn.program = #nn.program<run>} {
    %logits = nn.exp %x {nn.outputs = ["logits"]} : tensor<4x3xf32>
    %logp = nn.log_softmax %logits {nn.outputs = ["log_probabilities"]} : tensor<4x3xf32>
    %labels = nn.reshape %classes : tensor<2x2xi64> -> tensor<4xi64>
    %rows = nn.softmax_cross_entropy %logits, %labels : tensor<4x3xf32>, tensor<4xi64> -> tensor<4xf32>
    IGNORE
    return %rows : tensor<4xf32>
  }
)";

// Finds the labels of kModel, with these lines in place of IGNORE, under this loss.
llvm::StringMap<driver::ClassLabels> labelsOf(const std::string &loss, const std::string &ignore = "") {
  std::string text = kModel;
  text.replace(text.find("IGNORE"), 6, ignore);
  auto module = test::parse(text);
  return driver::findClassLabels(llvm::cantFail(job::parseJobText("loss { " + loss + " }", "job.txtpb")), *module);
}

// Finds the labels of a model that computes its loss "y".
llvm::StringMap<driver::ClassLabels> labelsOf(const test::OnnxModel &model) {
  auto module = test::import(model);
  return driver::findClassLabels(llvm::cantFail(job::parseJobText("loss { model_output { tensor: \"y\" } }", "job.txtpb")), *module);
}

} // namespace

TEST_CASE("class labels: the losses of a job name them, the tensor has the classes", "[driver][labels]") {
  auto labels = labelsOf("softmax_cross_entropy { logits: \"logits\" labels: \"new\" }");
  REQUIRE(labels.size() == 1);
  CHECK((labels["new"].classes == 3 && !labels["new"].ignored));
  labels = labelsOf("negative_log_likelihood { log_probabilities: \"log_probabilities\" labels: \"classes\" }");
  REQUIRE(labels.size() == 1);
  CHECK((labels["classes"].classes == 3 && !labels["classes"].ignored));
}

TEST_CASE("class labels: a loss of the model takes an input, with or without an ignored label", "[driver][labels]") {
  auto labels = labelsOf("model_output { tensor: \"own_loss\" }");
  REQUIRE(labels.size() == 1);
  CHECK((labels["classes"].classes == 3 && !labels["classes"].ignored));
  labels = labelsOf("model_output { tensor: \"own_loss\" }", R"(
    %ignored = nn.constant dense<-100> : tensor<4xi64>
    %kept = nn.compare ne %labels, %ignored : tensor<4xi64> -> tensor<4xi1>)");
  REQUIRE(labels.size() == 1);
  CHECK((labels["classes"].classes == 3 && labels["classes"].ignored == -100));
}

TEST_CASE("class labels: targets are none, and a missing tensor is left to the loss pass", "[driver][labels]") {
  CHECK(labelsOf("mean_squared_error { prediction: \"logits\" target: \"x\" }").empty());
  CHECK(labelsOf("softmax_cross_entropy { logits: \"lgits\" labels: \"new\" }").empty());
}

// The scores of a NegativeLogLikelihoodLoss have their classes in dim 1.
TEST_CASE("class labels: a NegativeLogLikelihoodLoss of the model takes an input", "[driver][labels]") {
  for (int32_t type : {onnx::TensorProto::INT32, onnx::TensorProto::INT64}) {
    for (bool ignores : {false, true}) {
      test::OnnxModel model = test::OnnxModel(13).input("s", {4, 3, 5}).input("classes", {4, 5}, type);
      std::vector<test::Attribute> attributes;
      if (ignores) {
        attributes.push_back({"ignore_index", int64_t(-7)});
      }
      auto labels = labelsOf(model.node("NegativeLogLikelihoodLoss", {"s", "classes"}, {"y"}, attributes).output("y"));
      CAPTURE(type, ignores);
      REQUIRE(labels.size() == 1);
      CHECK((labels["classes"].classes == 3 && labels["classes"].ignored == (ignores ? std::optional<int64_t>(-7) : std::nullopt)));
    }
  }
}

TEST_CASE("class labels: a one-hot tensor and other sums take any label", "[driver][labels]") {
  test::OnnxModel model = test::OnnxModel(13).input("classes", {4}, onnx::TensorProto::INT64).ints("depth", {3}).ints("axes", {1});
  model.initializer("values", onnx::TensorProto::FLOAT, {2}, {0, 2});
  model.node("OneHot", {"classes", "depth", "values"}, {"hot"}).node("ReduceSum", {"hot", "axes"}, {"sums"});
  CHECK(labelsOf(model.node("ReduceSum", {"sums"}, {"y"}).output("y")).empty());
  test::OnnxModel masked = test::OnnxModel(13).input("m", {4, 3}, onnx::TensorProto::BOOL).input("x", {4, 3});
  masked.initializer("zeros", onnx::TensorProto::FLOAT, {4, 3}, std::vector<double>(12, 0)).ints("axes", {1});
  masked.node("Where", {"m", "x", "zeros"}, {"kept"}).node("ReduceSum", {"kept", "axes"}, {"sums"});
  CHECK(labelsOf(masked.node("ReduceSum", {"sums"}, {"y"}).output("y")).empty());
}

TEST_CASE("table rows: inputs that index a table, the smallest of several, however they were converted", "[driver][labels]") {
  auto module = test::parse(R"(
  func.func @forward(%a: tensor<2x3xi32> {nn.name = "a"}, %b: tensor<6xi64> {nn.name = "b"}, %c: tensor<6xi64> {nn.name = "c"},
                     %t: tensor<50x4xf32> {nn.name = "t"}, %u: tensor<40x4xf32> {nn.name = "u"})
      -> (tensor<6x4xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
    %wide = nn.cast %a : tensor<2x3xi32> -> tensor<2x3xi64>
    %flat = nn.reshape %wide : tensor<2x3xi64> -> tensor<6xi64>
    %zero = nn.constant dense<0> : tensor<6xi64>
    %end = nn.constant dense<50> : tensor<6xi64>
    %negative = nn.compare lt %flat, %zero : tensor<6xi64> -> tensor<6xi1>
    %counted = nn.add %flat, %end : tensor<6xi64>
    %place = nn.select %negative, %counted, %flat : tensor<6xi1>, tensor<6xi64>
    %y0 = nn.gather %t, %place : tensor<50x4xf32>, tensor<6xi64> -> tensor<6x4xf32>
    %y1 = nn.gather %t, %b : tensor<50x4xf32>, tensor<6xi64> -> tensor<6x4xf32>
    %y2 = nn.gather %u, %b : tensor<40x4xf32>, tensor<6xi64> -> tensor<6x4xf32>
    %computed = nn.add %c, %end : tensor<6xi64>
    %y3 = nn.gather %u, %computed : tensor<40x4xf32>, tensor<6xi64> -> tensor<6x4xf32>
    return %y0 : tensor<6x4xf32>
  }
)");
  auto rows = driver::findTableRows(*module);
  CHECK(rows.size() == 2);
  CHECK((rows["a"] == 50 && rows["b"] == 40));
}

} // namespace ashlar::test::class_labels_test
