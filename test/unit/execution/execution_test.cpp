// SPDX-License-Identifier: Apache-2.0
//
// Whole executables against the interpreter: an ONNX model is compiled by ashlarc and run on .npy files; the interpreter runs what the
// importer made of it. The products are large enough to go to the library, with every form of transpose, bias, activation and batch.

#include "test/unit/data/temporary_folder.h"
#include "test/unit/frontend/onnx_model.h"

#include "compiler/reference/equivalence.h"
#include "runtime/data/formats/npy.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <numeric>

namespace ashlar::test::execution_test {
namespace {

constexpr int32_t kFloat = onnx::TensorProto::FLOAT;

std::vector<double> randomValues(int64_t count, std::mt19937_64 &random) {
  std::vector<double> values(count);
  for (double &value : values) {
    value = std::uniform_real_distribution<float>(-1, 1)(random);
  }
  return values;
}

std::vector<float> floatsOf(const reference::Tensor &tensor) {
  std::vector<float> values;
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    values.push_back(static_cast<float>(tensor.getFloat(i)));
  }
  return values;
}

// A job that a model is compiled for, and the ranks to run it on.
struct Run {
  std::string job;
  int ranks = 1;
};

// Compiles the model with one input "x" and one output "y", runs it, and returns |y - expected| / max(1, |expected|) at its worst.
double worstError(const test::OnnxModel &model, const reference::Tensor &x, const reference::Tensor &expected, const Run &run = {}) {
  test::TemporaryFolder folder;
  std::string base = folder.path() + "/";
  std::ofstream(base + "model.onnx", std::ios::binary) << model.proto.SerializeAsString();
  std::vector<int64_t> shape(x.getShape());
  std::vector<float> input = floatsOf(x);
  REQUIRE(rt::writeNpy(base + "x.npy", ASHLAR_RT_F32, shape, input.data()).ok());
  std::string options, launch;
  if (!run.job.empty()) {
    std::ofstream(base + "job.txtpb") << run.job;
    options = " --job " + base + "job.txtpb";
    // Tests run as root too, and with more ranks than cores.
    launch = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 mpirun -n " +
             std::to_string(run.ranks) + " ";
  }
  std::string command = std::string(ASHLARC) + " " + base + "model.onnx" + options + " -o " + base + "model && " + launch + base +
                        "model --input x=" + base + "x.npy --output y=" + base + "y.npy";
  REQUIRE(std::system(command.c_str()) == 0);
  rt::NpyFile file;
  REQUIRE(rt::NpyFile::open(base + "y.npy", file).ok());
  reference::Tensor computed(expected.getType());
  REQUIRE(file.shape() == std::vector<int64_t>(expected.getShape()));
  for (int64_t i = 0; i < computed.getNumElements(); ++i) {
    computed.setFloat(i, static_cast<const float *>(file.data())[i]);
  }
  return reference::maxDifference(expected, computed);
}

// The same against the interpreter.
double worstError(const test::OnnxModel &model, const reference::Tensor &x) {
  return worstError(model, x, test::evaluate(model, {x}).front());
}

// Sums of up to 96 products of size 1 in f32: 96 * 2^-24, times a few for the activation.
constexpr double kTolerance = 3e-5;

} // namespace

TEST_CASE("execution: Gemm in every form equals the interpreter", "[execution]") {
  std::mt19937_64 random(1);
  struct Case {
    int64_t transA, transB;
    bool bias;
    std::string activation;
  };
  const Case cases[] = {{0, 0, true, "Relu"}, {0, 1, true, "Tanh"}, {1, 0, false, "Sigmoid"}, {1, 1, true, ""}, {0, 1, false, "Gelu"}};
  for (const Case &c : cases) {
    INFO("transA " << c.transA << " transB " << c.transB << " bias " << c.bias << " " << c.activation);
    std::vector<int64_t> a = c.transA ? std::vector<int64_t>{64, 40} : std::vector<int64_t>{40, 64};
    std::vector<int64_t> b = c.transB ? std::vector<int64_t>{96, 64} : std::vector<int64_t>{64, 96};
    test::OnnxModel model(20);
    model.input("x", {a[0], a[1]}).initializer("w", kFloat, b, randomValues(64 * 96, random));
    std::vector<std::string> inputs = {"x", "w"};
    if (c.bias) {
      model.initializer("c", kFloat, {96}, randomValues(96, random));
      inputs.push_back("c");
    }
    bool last = c.activation.empty();
    model.node("Gemm", inputs, {last ? "y" : "g"}, {{"transA", c.transA}, {"transB", c.transB}});
    if (!last) {
      model.node(c.activation, {"g"}, {"y"});
    }
    model.output("y");
    CHECK(worstError(model, test::f32(a, randomValues(a[0] * a[1], random))) < kTolerance);
  }
}

TEST_CASE("execution: batched products, pieces of parameters and softmax equal the interpreter", "[execution]") {
  std::mt19937_64 random(2);
  // Attention of one head a batch: softmax(x q (x k)^T) x, where q and k are pieces of one parameter with one bias.
  test::OnnxModel model(17);
  model.input("x", {int64_t{6}, int64_t{32}, int64_t{24}});
  model.initializer("qk", kFloat, {24, 48}, randomValues(24 * 48, random)).initializer("bias", kFloat, {48}, randomValues(48, random));
  model.node("MatMul", {"x", "qk"}, {"p"}).node("Add", {"p", "bias"}, {"s"});
  model.node("Split", {"s"}, {"q", "k"}, {{"axis", int64_t{2}}});
  model.node("Transpose", {"k"}, {"kt"}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  model.node("MatMul", {"q", "kt"}, {"scores"}).node("Softmax", {"scores"}, {"weights"}, {{"axis", int64_t{-1}}});
  model.node("MatMul", {"weights", "x"}, {"y"}).output("y");
  CHECK(worstError(model, test::f32({6, 32, 24}, randomValues(6 * 32 * 24, random))) < kTolerance);
}

TEST_CASE("execution: convolutions of every form equal the interpreter", "[execution][convolution]") {
  std::mt19937_64 random(4);
  using Ints = std::vector<int64_t>;
  struct Case {
    const char *op;
    Ints x, w;
    std::vector<test::Attribute> attributes;
    std::vector<const char *> then; // "bias" and "skip" are additions, the others activations
  };
  const Case cases[] = {
      {"Conv", {2, 3, 13, 11}, {8, 3, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}, {"bias", "Relu"}},
      {"Conv", {3, 8, 9, 9}, {8, 8, 1, 1}, {}, {"bias", "skip", "Relu"}},
      {"Conv", {1, 4, 15, 12}, {20, 2, 5, 3}, {{"group", int64_t(2)}, {"strides", Ints{2, 3}}, {"pads", Ints{0, 2, 3, 1}}}, {"Tanh"}},
      {"Conv", {2, 24, 10, 7}, {24, 1, 3, 3}, {{"group", int64_t(24)}, {"dilations", Ints{2, 1}}}, {"bias"}},
      {"Conv", {2, 5, 40}, {7, 5, 9}, {{"strides", Ints{4}}, {"auto_pad", std::string("SAME_LOWER")}}, {"skip"}},
      {"Conv", {2, 2, 5, 6, 7}, {3, 2, 2, 3, 1}, {{"pads", Ints{1, 0, 2, 0, 1, 0}}}, {"Sigmoid"}},
      {"ConvTranspose", {2, 6, 5, 4}, {6, 4, 3, 3}, {{"strides", Ints{2, 2}}, {"output_padding", Ints{1, 0}}}, {"bias", "Relu"}},
      {"ConvTranspose", {2, 6, 9}, {6, 2, 4}, {{"group", int64_t(3)}, {"pads", Ints{3, 1}}, {"dilations", Ints{2}}}, {"skip"}},
  };
  for (const Case &c : cases) {
    INFO(c.op << " of " << c.x[1] << " channels and " << c.x.size() - 2 << " spatial dims");
    auto values = [&](const Ints &shape) {
      return randomValues(std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>()), random);
    };
    test::OnnxModel model(17);
    model.input("x", std::vector<test::Dim>(c.x.begin(), c.x.end())).initializer("w", kFloat, c.w, values(c.w));
    model.node(c.op, {"x", "w"}, {"y0"}, c.attributes);
    Ints y(test::evaluate(test::OnnxModel(model).output("y0"), {test::f32(c.x, values(c.x))}).front().getShape());
    std::string last = "y0";
    for (size_t i = 0; i < c.then.size(); ++i) {
      std::string what = c.then[i], next = i + 1 == c.then.size() ? "y" : "y" + std::to_string(i + 1);
      if (what == "bias" || what == "skip") {
        Ints shape = y;
        if (what == "bias") {
          shape.assign(y.size() - 1, 1);
          shape[0] = y[1];
        }
        model.initializer(what, kFloat, shape, values(shape)).node("Add", {last, what}, {next});
      } else {
        model.node(what, {last}, {next});
      }
      last = next;
    }
    // Sums of up to 54 products of size 1 in f32.
    CHECK(worstError(model.output("y"), test::f32(c.x, values(c.x))) < kTolerance);
  }
}

TEST_CASE("execution: every collective that a model may hold equals the model without", "[execution][hybrid]") {
  std::mt19937_64 random(3);
  using Strings = std::vector<std::string>;
  std::vector<double> w = randomValues(4 * 6, random);
  test::OnnxModel local(17), whole(17);
  // Rows of x are split over dp; so are, for a while, the columns of x w.
  local.input("x", {std::string("batch"), int64_t{4}}).initializer("w", kFloat, {4, 6}, w).ints("columns", {1});
  local.node("ai.ashlar.dist.Broadcast", {"w"}, {"copy"}, {{"axes", Strings{"dp", "tp"}}, {"root", int64_t{3}}});
  local.node("MatMul", {"x", "copy"}, {"rows"});
  local.node("ai.ashlar.dist.AllToAll", {"rows"}, {"split"},
             {{"axes", Strings{"dp"}}, {"split_dim", int64_t{1}}, {"concat_dim", int64_t{0}}});
  local.node("ReduceSum", {"split", "columns"}, {"parts"}, {{"keepdims", int64_t{0}}});
  local.node("ai.ashlar.dist.ReduceScatter", {"parts"}, {"sums"}, {{"axes", Strings{"dp"}}, {"dim", int64_t{0}}});
  local.node("ai.ashlar.dist.AllGather", {"sums"}, {"sum"}, {{"axes", Strings{"dp"}}, {"dim", int64_t{0}}});
  local.node("ReduceMax", {"split"}, {"maxima"}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
  local.node("ai.ashlar.dist.AllReduce", {"maxima"}, {"maximum"}, {{"axes", Strings{"dp"}}, {"reduction", std::string("max")}});
  local.node("Sub", {"maximum", "sum"}, {"y"}).output("y");
  whole.input("x", {int64_t{8}, int64_t{4}}).initializer("w", kFloat, {4, 6}, w).ints("columns", {1});
  whole.node("MatMul", {"x", "w"}, {"rows"}).node("ReduceSum", {"rows", "columns"}, {"sum"}, {{"keepdims", int64_t{0}}});
  whole.node("ReduceMax", {"rows"}, {"maximum"}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
  whole.node("Sub", {"maximum", "sum"}, {"y"}).output("y");
  reference::Tensor x = test::f32({8, 4}, randomValues(8 * 4, random));
  Run run{"mode: HYBRID mesh { axes { name: \"dp\" size: 2 } axes { name: \"tp\" size: 2 } } global_batch: 8\n"
          "rules { match: \"x\" layout: \"[{dp}, {}]\" }",
          4};
  CHECK(worstError(local, x, test::evaluate(whole, {x}).front(), run) < kTolerance);
}

} // namespace ashlar::test::execution_test
