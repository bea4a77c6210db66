// SPDX-License-Identifier: Apache-2.0
//
// Weights that a model holds twice, sparse ones, overloads of functions, and models of which several nodes are refused.

#include "test/unit/frontend/onnx_model.h"

#include "mlir/IR/Diagnostics.h"

namespace ashlar::test::tied_weights_test {

using frontend::ImportOptions;
using onnx::TensorProto;

namespace {

// Numbers that are no pattern.
std::vector<double> numbers(int64_t count, int64_t seed) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>((i * 7919 + seed * 104729) % 1009) / 1024 - 0.5);
  }
  return values;
}

std::vector<double> transposed(const std::vector<double> &values, int64_t rows, int64_t columns) {
  std::vector<double> result;
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) {
      result.push_back(values[static_cast<size_t>(row * columns + column)]);
    }
  }
  return result;
}

// GPT-2's first and last layer: rows of wte, and a product with a head of the given numbers, (32, 40), or with another matrix.
OnnxModel languageModel(const std::vector<double> &wte, const std::vector<double> &head, std::vector<int64_t> dims = {32, 40}) {
  OnnxModel model = OnnxModel(18).input("tokens", {2}, TensorProto::INT64).initializer("wte.weight", TensorProto::FLOAT, {40, 32}, wte);
  model.initializer("lm_head.weight", TensorProto::FLOAT, std::move(dims), head);
  return model.node("Gather", {"wte.weight", "tokens"}, {"h"}).node("MatMul", {"h", "lm_head.weight"}, {"logits"}).output("logits");
}

std::vector<std::string> notesOf(const OnnxModel &model, ImportOptions options = {}) {
  std::vector<std::string> notes;
  options.training = true;
  mlir::ScopedDiagnosticHandler handler(&context(), [&](mlir::Diagnostic &diagnostic) {
    std::string text = diagnostic.str();
    notes.push_back(text.substr(text.find(".onnx: ") + 7));
    return mlir::success();
  });
  import(model, options);
  return notes;
}

} // namespace

TEST_CASE("ties: copies are reported, and tied when the job says so", "[frontend][ties]") {
  const std::vector<double> wte = numbers(40 * 32, 1);
  OnnxModel model = languageModel(wte, transposed(wte, 40, 32));
  CHECK(notesOf(model) ==
        std::vector<std::string>{
            "initializer \"lm_head.weight\" holds the numbers of \"wte.weight\", transposed, but is trained apart; if the "
            "module has one parameter, add ties { parameter: \"lm_head.weight\" to: \"wte.weight\" } to the job"});
  ImportOptions options;
  options.ties["lm_head.weight"] = "wte.weight";
  CHECK(notesOf(model, options).empty());
  std::string text = print(*import(model, options));
  CHECK_THAT(text, contains("nn.variable @wte.weight trainable") && !contains("nn.variable @lm_head.weight") && contains("nn.transpose"));
  std::vector<reference::Tensor> apart = evaluate(model, {i64({2}, {3, 17})}), one = evaluate(model, {i64({2}, {3, 17})}, options);
  for (int64_t i = 0; i < apart[0].getNumElements(); ++i) {
    CHECK(apart[0].getNumber(i) == one[0].getNumber(i));
  }
  // A copy as it is needs no op; a third copy is tied as well.
  OnnxModel same = languageModel(wte, transposed(wte, 40, 32));
  same.initializer("again", TensorProto::FLOAT, {40, 32}, wte)
      .node("Gather", {"again", "tokens"}, {"g"})
      .node("Add", {"g", "h"}, {"s"})
      .output("s");
  CHECK(notesOf(same).size() == 2);
  options.ties["again"] = "wte.weight";
  text = print(*import(same, options));
  CHECK(text.find("nn.variable") == text.rfind("nn.variable"));
}

TEST_CASE("ties: what is no copy", "[frontend][ties]") {
  const std::vector<double> wte = numbers(40 * 32, 1);
  std::vector<double> changed = transposed(wte, 40, 32);
  changed.back() += 0.25;
  CHECK(notesOf(languageModel(wte, changed)).empty());
  CHECK(notesOf(languageModel(std::vector<double>(40 * 32, 0), std::vector<double>(40 * 32, 0))).empty()); // first values
  OnnxModel small = OnnxModel(18).input("x", {8}).initializer("a", TensorProto::FLOAT, {8}, numbers(8, 1));
  small.initializer("b", TensorProto::FLOAT, {8}, numbers(8, 1)).node("Mul", {"x", "a"}, {"h"});
  CHECK(notesOf(small.node("Mul", {"h", "b"}, {"y"}).output("y")).empty());
  ImportOptions options;
  options.ties["lm_head.weight"] = "wte.weight";
  CHECK(
      importError(languageModel(wte, changed), options) ==
      "model.onnx: parameter \"lm_head.weight\" [32, 40] of f32 does not hold the numbers of \"wte.weight\" [40, 32] of f32, to which the "
      "job ties it; leave the tie out");
  options.ties["lm_head.weight"] = "wte";
  CHECK(importError(languageModel(wte, changed), options) ==
        "model.onnx: the job ties \"lm_head.weight\" to \"wte\" but \"wte\" is no parameter with data");
}

TEST_CASE("import writes sparse initializers out", "[frontend][sparse]") {
  auto sparse = [](std::vector<int64_t> shape, std::vector<double> indices) {
    OnnxModel model = OnnxModel(17).input("x", {2, 3}).node("Add", {"x", "s"}, {"y"}).output("y");
    onnx::SparseTensorProto *added = model.proto.mutable_graph()->add_sparse_initializer();
    *added->mutable_values() = tensorProto("s", TensorProto::FLOAT, {2}, {5, 7});
    *added->mutable_indices() = tensorProto("", TensorProto::INT64, std::move(shape), std::move(indices));
    added->add_dims(2);
    added->add_dims(3);
    return model;
  };
  for (const OnnxModel &model : {sparse({2}, {1, 5}), sparse({2, 2}, {0, 1, 1, 2})}) {
    CHECK(holds(evaluate(model, {f32({2, 3}, {1, 1, 1, 1, 1, 1})})[0], {2, 3}, {1, 6, 1, 1, 1, 8}));
    CHECK_THAT(print(*import(model)), !contains("nn.variable"));
  }
  CHECK_THAT(importError(sparse({2}, {1, 6})), contains("sparse initializer \"s\" has index 6, which is not in [0, 6)"));
  CHECK_THAT(importError(sparse({2, 2}, {0, 1, 1, 3})), contains("has index 3, which is not in [0, 3)"));
  CHECK_THAT(importError(sparse({2}, {-1, 5})), contains("has index -1"));
  CHECK_THAT(importError(sparse({3}, {1, 2, 3})), contains("has values [2] of f32 and indices [3] of i64; there has to be an index"));
  OnnxModel huge = sparse({2}, {1, 5});
  huge.proto.mutable_graph()->mutable_sparse_initializer(0)->set_dims(0, int64_t{1} << 30);
  CHECK_THAT(importError(huge), contains("elements but at most 67108864 are written out"));
  // So is the attribute of a constant.
  OnnxModel constant = sparse({2}, {1, 5});
  onnx::NodeProto node;
  node.set_op_type("Constant");
  node.add_output("s");
  onnx::AttributeProto *attribute = node.add_attribute();
  attribute->set_name("sparse_value");
  attribute->set_type(onnx::AttributeProto::SPARSE_TENSOR);
  *attribute->mutable_sparse_tensor() = constant.proto.graph().sparse_initializer(0);
  constant.proto.mutable_graph()->clear_sparse_initializer();
  *constant.proto.mutable_graph()->add_node() = node;
  constant.proto.mutable_graph()->mutable_node()->SwapElements(0, 1);
  CHECK(holds(evaluate(constant, {f32({2, 3}, {1, 1, 1, 1, 1, 1})})[0], {2, 3}, {1, 6, 1, 1, 1, 8}));
}

TEST_CASE("import lists every refused node", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("x", {2, 2}).initializer("w", TensorProto::FLOAT, {2, 2}, {1, 2, 3, 4});
  model.node("Foo", {"x"}, {"f"}, {}, "foo").node("Relu", {"f"}, {"g"}, {}, "after_foo"); // not tried: nobody knows what f is
  model.node("Relu", {"x"}, {"h"}, {{"slope", 1.0f}}, "bad_relu").node("Tanh", {"x"}, {"t"}, {}, "good");
  model.node("Softmax", {"t"}, {"s"}, {{"axis", int64_t{5}}}, "bad_softmax").output("s").output("g").output("h");
  const std::string both =
      "node \"bad_relu\" (Relu, opset 17): attribute \"slope\" is not supported; node \"bad_softmax\" (Softmax, opset 17): "
      "axis 5 is not in [-2, 2)";
  CHECK(importError(model) == "model.onnx: 1 op is not supported: Foo (node \"foo\", opset 17); " + both);
  // Where the model declares what the refused node computes, the nodes behind it are tried as well.
  onnx::ValueInfoProto *value = model.proto.mutable_graph()->add_value_info();
  value->set_name("f");
  value->mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
  value->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(3);
  model.node("MatMul", {"f", "w"}, {"m"}, {}, "bad_product").output("m");
  CHECK_THAT(importError(model), contains(both + "; node \"bad_product\" (MatMul, opset 17): "));
  OnnxModel many = OnnxModel(17).input("x", {2, 2});
  for (int i = 0; i < 20; ++i) {
    many.node("Relu", {"x"}, {"y" + std::to_string(i)}, {{"slope", 1.0f}}).output("y" + std::to_string(i));
  }
  CHECK_THAT(importError(many), contains("\"Relu_15\"") && !contains("\"Relu_16\"") && contains("; and 4 more nodes are refused"));
}

TEST_CASE("onnx functions have overloads", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("x", {2}).node("own.F", {"x"}, {"y"}).node("own.F", {"y"}, {"z"}).output("z");
  auto set = [](google::protobuf::Message &message, int field, const std::string &overload) {
    message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(field, overload);
  };
  for (const char *overload : {"", "twice"}) {
    onnx::FunctionProto *function = model.proto.add_functions();
    function->set_name("F");
    function->set_domain("own");
    function->add_input("a");
    function->add_output("r");
    onnx::NodeProto *node = function->add_node();
    node->set_op_type(*overload ? "Add" : "Neg");
    node->add_input("a");
    if (*overload) {
      node->add_input("a");
      set(*function, 13, overload);
    }
    node->add_output("r");
  }
  set(*model.proto.mutable_graph()->mutable_node(1), 8, "twice");
  CHECK(holds(evaluate(model, {f32({2}, {1, -3})})[0], {2}, {-2, 6}));
  set(*model.proto.mutable_graph()->mutable_node(0), 8, "none");
  CHECK_THAT(importError(model), contains("1 op is not supported: own.F (node \"F_0\""));
}

TEST_CASE("untie: what a table and a layer read is one weight, whatever it holds", "[frontend][ties]") {
  OnnxModel model = OnnxModel(18).input("tokens", {2}, TensorProto::INT64);
  model.initializer("e.weight", TensorProto::FLOAT, {4, 4}, std::vector<double>(16, 0));
  model.node("Gather", {"e.weight", "tokens"}, {"h"}, {}, "/e/Gather")
      .node("MatMul", {"h", "e.weight"}, {"y"}, {}, "/head/MatMul")
      .output("y");
  CHECK(notesOf(model).empty());
  // Two layers that begin with zeros are two, of which the second is named by its module.
  OnnxModel layers = OnnxModel(18).input("x", {2, 4}).initializer("a.weight", TensorProto::FLOAT, {4, 4}, std::vector<double>(16, 0));
  layers.node("MatMul", {"x", "a.weight"}, {"h"}, {}, "/a/MatMul").node("MatMul", {"h", "a.weight"}, {"y"}, {}, "/b/MatMul").output("y");
  CHECK(notesOf(layers) ==
        std::vector<std::string>{
            "the exporter merged parameters that were equal; 1 of them are parameters of their own again: \"a.weight\" is "
            "\"b.weight\", too; untie: NEVER in the job keeps them merged, --inspect lists them"});
  ImportOptions kept;
  kept.untieAuto = false;
  CHECK(notesOf(layers, kept).empty());
  CHECK_THAT(print(*import(layers, kept)), !contains("b.weight"));
}

} // namespace ashlar::test::tied_weights_test
