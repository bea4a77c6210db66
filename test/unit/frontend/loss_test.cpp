// SPDX-License-Identifier: Apache-2.0
//
// Losses of ONNX, against expectations made by hand and numbers of PyTorch 2.15 in f64, with which the reference evaluator of ONNX 1.23
// agrees.

#include "test/unit/frontend/recorded.h"

#include <cmath>
#include <optional>

namespace ashlar::test::loss_test {

using onnx::TensorProto;

namespace {

// Scores of 2 rows: label 1 has probability 3/4 in the first, label 0 has 1/5 in the second.
std::vector<ashlar::reference::Tensor> lossOf(std::vector<Attribute> attributes, std::vector<double> labels, bool logProb = false) {
  OnnxModel model = OnnxModel(12).input("s", {2, 2}).input("l", {2}, TensorProto::INT64);
  model.node("SoftmaxCrossEntropyLoss", {"s", "l"}, logProb ? std::vector<std::string>{"y", "p"} : std::vector<std::string>{"y"},
             std::move(attributes));
  model.output("y");
  if (logProb) {
    model.output("p");
  }
  return evaluate(model, {f32({2, 2}, {0, std::log(3), 0, std::log(4)}), i64({2}, std::move(labels))});
}

struct Row {
  std::string op;
  std::vector<int64_t> shape; // of the scores, ramp(shape)
  std::vector<double> labels;
  bool isWeighted; // by 0.5, 2, 1.25
  std::optional<int64_t> ignored;
  std::string reduction;
  std::vector<double> loss;
};

OnnxModel modelOf(const Row &row, int64_t opset, int32_t labelType) {
  std::vector<Dim> scores(row.shape.begin(), row.shape.end()), labels = scores;
  labels.erase(labels.begin() + 1);
  OnnxModel model = OnnxModel(opset).input("s", scores).input("l", labels, labelType);
  model.initializer("w", TensorProto::FLOAT, {3}, {0.5, 2, 1.25});
  std::vector<Attribute> attributes = {{"reduction", row.reduction}};
  if (row.ignored) {
    attributes.push_back({"ignore_index", *row.ignored});
  }
  std::vector<std::string> inputs = {"s", "l"};
  if (row.isWeighted) {
    inputs.push_back("w");
  }
  return model.node(row.op, inputs, {"y"}, attributes).output("y");
}

} // namespace

TEST_CASE("onnx losses of weighted classes", "[frontend]") {
  const std::vector<Row> rows = {
      {"SoftmaxCrossEntropyLoss", {4, 3}, {1, 0, 2, 1}, false, std::nullopt, "none", {4.6348511, 9.2598511, 0.0098511, 0.0100881}},
      {"SoftmaxCrossEntropyLoss", {4, 3}, {1, 0, 2, 1}, false, std::nullopt, "sum", {13.9146413}},
      {"SoftmaxCrossEntropyLoss", {4, 3}, {1, 0, 2, 1}, false, std::nullopt, "mean", {3.4786603}},
      {"SoftmaxCrossEntropyLoss", {4, 3}, {-100, 0, 2, -100}, true, -100, "none", {0, 4.6299255, 0.0123139, 0}},
      {"SoftmaxCrossEntropyLoss", {4, 3}, {-100, 0, 2, -100}, true, -100, "mean", {2.6527082}},
      {"SoftmaxCrossEntropyLoss", {4, 3}, {1, 0, 2, 1}, true, 1, "none", {0, 4.6299255, 0.0123139, 0}},
      {"SoftmaxCrossEntropyLoss", {4, 3}, {1, 0, 2, 1}, true, 1, "mean", {2.6527082}},
      {"SoftmaxCrossEntropyLoss", {2, 3, 2}, {1, 0, 2, 1}, true, std::nullopt, "none", {0.0674773, 2.9389503, 4.2609233, 6.8195544}},
      {"SoftmaxCrossEntropyLoss", {2, 3, 2}, {1, 0, 2, 1}, true, std::nullopt, "mean", {2.4498966}},
      {"SoftmaxCrossEntropyLoss", {2, 3, 2}, {-100, 0, 2, -100}, true, -100, "none", {0, 2.9389503, 4.2609233, 0}},
      {"SoftmaxCrossEntropyLoss", {2, 3, 2}, {-100, 0, 2, -100}, true, -100, "mean", {4.1142135}},
      {"SoftmaxCrossEntropyLoss", {2, 3, 2, 2}, {-100, 0, 2, -100, 0, 2, -100, 0}, false, -100, "sum", {20.0854566}},
      {"SoftmaxCrossEntropyLoss", {2, 3, 2, 2}, {-100, 0, 2, -100, 0, 2, -100, 0}, false, -100, "mean", {4.0170913}},
      {"SoftmaxCrossEntropyLoss",
       {2, 3, 2, 2},
       {1, 0, 2, 1, 0, 2, 1, 0},
       true,
       1,
       "none",
       {0, 2.9394859, 1.5303383, 0, 2.9394859, 1.5303383, 0, 2.9394859}},
      {"SoftmaxCrossEntropyLoss", {2, 3, 2, 2}, {1, 0, 2, 1, 0, 2, 1, 0}, true, 1, "sum", {11.8791342}},
      {"NegativeLogLikelihoodLoss", {4, 3}, {1, 0, 2, 1}, false, std::nullopt, "none", {1.625, 5, -5.5, -2.125}},
      {"NegativeLogLikelihoodLoss", {4, 3}, {1, 0, 2, 1}, false, std::nullopt, "sum", {-1}},
      {"NegativeLogLikelihoodLoss", {4, 3}, {1, 0, 2, 1}, false, std::nullopt, "mean", {-0.25}},
      {"NegativeLogLikelihoodLoss", {4, 3}, {-100, 0, 2, -100}, true, -100, "none", {0, 2.5, -6.875, 0}},
      {"NegativeLogLikelihoodLoss", {4, 3}, {-100, 0, 2, -100}, true, -100, "mean", {-2.5}},
      {"NegativeLogLikelihoodLoss", {4, 3}, {1, 0, 2, 1}, true, 1, "none", {0, 2.5, -6.875, 0}},
      {"NegativeLogLikelihoodLoss", {4, 3}, {1, 0, 2, 1}, true, 1, "mean", {-2.5}},
      {"NegativeLogLikelihoodLoss", {2, 3, 2}, {1, 0, 2, 1}, true, std::nullopt, "none", {-6, 0.8125, -2.65625, 5}},
      {"NegativeLogLikelihoodLoss", {2, 3, 2}, {1, 0, 2, 1}, true, std::nullopt, "mean", {-0.4945652}},
      {"NegativeLogLikelihoodLoss", {2, 3, 2}, {-100, 0, 2, -100}, true, -100, "none", {0, 0.8125, -2.65625, 0}},
      {"NegativeLogLikelihoodLoss", {2, 3, 2}, {-100, 0, 2, -100}, true, -100, "mean", {-1.0535714}},
      {"NegativeLogLikelihoodLoss", {2, 3, 2, 2}, {-100, 0, 2, -100, 0, 2, -100, 0}, false, -100, "sum", {-1.75}},
      {"NegativeLogLikelihoodLoss", {2, 3, 2, 2}, {-100, 0, 2, -100, 0, 2, -100, 0}, false, -100, "mean", {-0.35}},
      {"NegativeLogLikelihoodLoss", {2, 3, 2, 2}, {1, 0, 2, 1, 0, 2, 1, 0}, true, 1, "none", {0, 0.8125, -2.65625, 0, 0.625, -3.125, 0, 0}},
      {"NegativeLogLikelihoodLoss", {2, 3, 2, 2}, {1, 0, 2, 1, 0, 2, 1, 0}, true, 1, "sum", {-4.34375}},
  };
  for (const auto &[i, row] : llvm::enumerate(rows)) {
    INFO("row " << i << ": " << row.op);
    std::vector<int64_t> labels = row.shape;
    labels.erase(labels.begin() + 1);
    bool isLong = i % 2 == 0;
    auto element = mlir::IntegerType::get(&context(), isLong ? 64 : 32);
    OnnxModel model = modelOf(row, i % 3 == 0 ? 12 : 22, isLong ? TensorProto::INT64 : TensorProto::INT32);
    CHECK(holds(evaluate(model, {ramp(row.shape), makeTensor(element, labels, row.labels)})[0],
                row.reduction == "none" ? labels : std::vector<int64_t>{}, row.loss));
  }
}

// No row counts: 0 / 0. A score that is no number harms no other row, nor one that is ignored.
TEST_CASE("onnx losses of special values", "[frontend]") {
  for (const char *op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
    INFO(op);
    Row row{op, {2, 3}, {}, true, -1, "mean", {}};
    CHECK(std::isnan(evaluate(modelOf(row, 13, TensorProto::INT64), {ramp({2, 3}), i64({2}, {-1, -1})})[0].getFloat(0)));
    row.reduction = "none";
    auto losses = evaluate(modelOf(row, 13, TensorProto::INT64), {f32({2, 3}, {0, NAN, INFINITY, 1, 1, 1}), i64({2}, {-1, 0})})[0];
    CHECK(losses.getFloat(0) == 0);
    CHECK(std::isfinite(losses.getFloat(1)));
  }
}

// The sum of 70000 rows is no f16, their mean is.
TEST_CASE("onnx losses of f16 are computed in f32", "[frontend]") {
  OnnxModel model = OnnxModel(13).input("x", {70000, 2}).input("l", {70000}, TensorProto::INT64);
  model.node("Cast", {"x"}, {"h"}, {{"to", int64_t(TensorProto::FLOAT16)}});
  model.node("SoftmaxCrossEntropyLoss", {"h", "l"}, {"y", "p"}, {{"ignore_index", int64_t(-1)}}).output("y").output("p");
  auto results = evaluate(model, {f32({70000, 2}, std::vector<double>(140000, 0)), i64({70000}, std::vector<double>(70000, 0))});
  CHECK(results[0].getType().getElementType().isF16());
  CHECK(results[1].getType().getElementType().isF16());
  CHECK(std::abs(results[0].getFloat(0) - std::log(2.0)) < 5e-4);
}

// Weights are no parameter that training would change; where the job gives them a first value they are refused like any constant.
TEST_CASE("onnx losses train no weights of classes", "[frontend]") {
  for (const char *op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
    CHECK(print(*import(modelOf({op, {2, 3}, {}, true, {}, "mean", {}}, 13, TensorProto::INT64))).find("nn.variable") == std::string::npos);
  }
}

TEST_CASE("onnx losses refuse", "[frontend]") {
  for (const char *op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
    INFO(op);
    auto error = [&](std::vector<Dim> scores, std::vector<Dim> labels, std::vector<Dim> weights, std::vector<Attribute> attributes = {},
                     int32_t labelType = TensorProto::INT64) {
      OnnxModel model = OnnxModel(13).input("s", std::move(scores)).input("l", std::move(labels), labelType).input("w", std::move(weights));
      return importError(model.node(op, {"s", "l", "w"}, {"y"}, std::move(attributes)).output("y"));
    };
    CHECK_THAT(error({2, 3}, {3}, {3}), contains("scores of tensor<2x3xf32> and labels of tensor<3xi64> do not fit"));
    CHECK_THAT(error({2}, {2}, {3}), contains("do not fit; scores are (N, C, d1, ...), labels (N, d1, ...)"));
    CHECK_THAT(error({2, 3}, {2}, {3}, {}, TensorProto::BOOL), contains("labels of tensor<2xi1> do not fit"));
    CHECK_THAT(error({2, 3}, {2}, {2}), contains("weights of [2] of f32 but the classes take [3] of f32"));
    CHECK_THAT(error({2, 3}, {2}, {3}, {{"reduction", std::string("max")}}),
               contains("attribute \"reduction\" is \"max\"; one of none, mean, sum"));
  }
}

TEST_CASE("onnx SoftmaxCrossEntropyLoss", "[frontend]") {
  double first = -std::log(0.75), second = -std::log(0.2);
  CHECK(holds(lossOf({{"reduction", std::string("none")}}, {1, 0})[0], {2}, {first, second}));
  CHECK(holds(lossOf({{"reduction", std::string("sum")}}, {1, 0})[0], {}, {first + second}));
  CHECK(holds(lossOf({}, {1, 0})[0], {}, {(first + second) / 2}));
  auto results = lossOf({}, {1, 0}, /*logProb=*/true);
  CHECK(holds(results[1], {2, 2}, {std::log(0.25), std::log(0.75), std::log(0.2), std::log(0.8)}));
}

// Rows with the ignored label count neither in the sum nor in the mean, be it a class or not.
TEST_CASE("onnx SoftmaxCrossEntropyLoss with ignore_index", "[frontend]") {
  double first = -std::log(0.75);
  CHECK(holds(lossOf({{"ignore_index", int64_t(-1)}}, {1, -1})[0], {}, {first}));
  CHECK(holds(lossOf({{"ignore_index", int64_t(0)}}, {1, 0})[0], {}, {first}));
  CHECK(holds(lossOf({{"ignore_index", int64_t(0)}, {"reduction", std::string("none")}}, {1, 0})[0], {2}, {first, 0}));
}

// Dims after the classes are rows too: (N, C, d).
TEST_CASE("onnx SoftmaxCrossEntropyLoss with more dims", "[frontend]") {
  OnnxModel model = OnnxModel(13).input("s", {1, 2, 2}).input("l", {1, 2}, TensorProto::INT64);
  model.node("SoftmaxCrossEntropyLoss", {"s", "l"}, {"y", "p"}, {{"reduction", std::string("none")}}).output("y").output("p");
  auto results = evaluate(model, {f32({1, 2, 2}, {0, 0, std::log(3), std::log(4)}), i64({1, 2}, {1, 0})});
  CHECK(holds(results[0], {1, 2}, {-std::log(0.75), -std::log(0.2)}));
  CHECK(holds(results[1], {1, 2, 2}, {std::log(0.25), std::log(0.2), std::log(0.75), std::log(0.8)}));
}

} // namespace ashlar::test::loss_test
