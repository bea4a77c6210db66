// SPDX-License-Identifier: Apache-2.0
//
// ONNX Einsum against NumPy's.

#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

namespace ashlar::test::einsum_test {

using onnx::TensorProto;

namespace {

using Shapes = std::vector<std::vector<int64_t>>;

struct Row {
  std::string equation;
  Shapes shapes;
  std::vector<int64_t> shape;
  std::vector<double> result;
};

const std::vector<Row> kRows = {
    {"ij,jk->ik", {{2, 3}, {3, 2}}, {2, 2}, {16, 14, 18, -27}},
    {"ij,kj->ki", {{2, 3}, {4, 3}}, {4, 2}, {-14, -13, -9, -16, 18, -8, 23, -11}},
    {"bhqk,bkhd->bqhd", {{1, 2, 2, 3}, {1, 3, 2, 2}}, {1, 2, 2, 2}, {-12, 30, -4, -4, -8, -9, -9, -8}},
    {"bqhd,bkhd->bhqk", {{2, 2, 1, 3}, {2, 2, 1, 3}}, {2, 1, 2, 2}, {-14, -9, -13, -16, -12, -12, -16, -13}},
    {"ij->ji", {{2, 3}}, {3, 2}, {-5, 5, 2, 1, -2, -3}},
    {"ij->", {{2, 3}}, {}, {-2}},
    {"ij->i", {{2, 3}}, {2}, {-5, 3}},
    {"ii", {{3, 3}}, {}, {-8}},
    {"ii->i", {{3, 3}}, {3}, {-5, 1, -4}},
    {"iji->j", {{2, 3, 2}}, {3}, {-5, 1, -4}},
    {"iii->i", {{3, 3, 3}}, {3}, {-5, -2, 1}},
    {"iijj->ij", {{2, 2, 3, 3}}, {2, 3}, {-5, 1, -4, -3, 3, -2}},
    {"abab->ab", {{2, 3, 2, 3}}, {2, 3}, {-5, 0, 5, -1, 4, -2}},
    {"abba->ab", {{2, 3, 3, 2}}, {2, 3}, {-5, -4, -3, -4, -3, -2}},
    {"abba", {{2, 3, 3, 2}}, {}, {-21}},
    {"abab->ba", {{2, 3, 2, 3}}, {3, 2}, {-5, -1, 0, 4, 5, -2}},
    {"aabab->ab", {{2, 2, 3, 2, 3}}, {2, 3}, {-5, 0, 5, -2, 3, -3}},
    {"abcabc->cba", {{2, 2, 3, 2, 2, 3}}, {3, 2, 2}, {-5, 2, 4, 0, -2, 5, -4, 3, 1, -3, -1, -5}},
    {"abab,b->a", {{2, 3, 2, 3}, {3}}, {2}, {15, -22}},
    {"aba,cbc->ac", {{2, 3, 2}, {2, 3, 2}}, {2, 2}, {-11, -19, 34, -9}},
    {"i,i", {{4}, {4}}, {}, {-19}},
    {"i,j", {{2}, {3}}, {2, 3}, {0, 20, -15, 0, -8, 6}},
    {"ij,ij->ij", {{2, 3}, {2, 3}}, {2, 3}, {0, -8, -6, -5, -5, -6}},
    {"bi,bi->b", {{2, 3}, {2, 3}}, {2}, {-14, -16}},
    {"ij,jk", {{2, 3}, {3, 2}}, {2, 2}, {16, 14, 18, -27}},
    {"ba", {{2, 3}}, {3, 2}, {-5, 5, 2, 1, -2, -3}},
    {"bA,Ac", {{2, 2}, {2, 2}}, {2, 2}, {6, 18, 15, 3}},
    {"...ij,...jk->...ik", {{2, 1, 2, 2}, {3, 2, 2}}, {2, 3, 2, 2}, {6,  18, 15, 3,   21, 0,   0,   21, 3,   15, 18, 6,
                                                                     -9, -1, 0,  -16, 1,  -13, -20, 8,  -11, -3, 4,  -12}},
    {"i...->...", {{2, 3}}, {3}, {0, 3, -5}},
    {"...i,...i", {{2, 3}, {2, 3}}, {2}, {-14, -16}},
    {"...,i->i...", {{2}, {2}}, {2, 2}, {0, 0, 20, -8}},
    {"i...j,j->...i", {{2, 2, 3}, {3}}, {2, 2}, {-14, -12, -13, -11}},
    {"...->...", {{2, 2}}, {2, 2}, {-5, 2, -2, 5}},
    {"ij,jk,kl->il", {{2, 3}, {3, 2}, {2, 2}}, {2, 2}, {38, 72, 171, -90}},
    {"ij,ik,il->jkl", {{2, 2}, {2, 2}, {2, 1}}, {2, 2, 1}, {-6, 102, 15, -45}},
    {"a,ab,abc->abc", {{2}, {2, 3}, {2, 3, 2}}, {2, 3, 2}, {0, 0, -60, 80, 0, 60, -6, 2, 50, -20, -8, 20}},
    {"ij,j,j->i", {{2, 3}, {3}, {3}}, {2}, {10, 23}},
    {" i j , j -> i ", {{2, 3}, {3}}, {2}, {-14, -13}},
    {",i->i", {{}, {3}}, {3}, {0, 20, -15}},
    {"ij,jk->ik", {{2, 1}, {3, 2}}, {2, 2}, {10, 15, -4, -6}},
    {"ij,ij->i", {{2, 3}, {1, 3}}, {2}, {-14, -13}},
    {"ijk,jl,kl->il", {{2, 2, 3}, {2, 2}, {3, 2}}, {2, 2}, {66, -65, 54, -99}},
    {"ij,jk->k", {{2, 3}, {3, 2}}, {2}, {34, -13}},
    {"ij,kj->ik", {{0, 2}, {3, 2}}, {0, 3}, {}},
    {"ij,jk->ik", {{2, 0}, {0, 2}}, {2, 2}, {0, 0, 0, 0}},
};

// Operand i is filled with small integers, so that every sum is exact.
std::vector<double> valuesOf(const std::vector<int64_t> &shape, size_t i) {
  std::vector<double> values(llvm::product_of(shape));
  for (size_t k = 0; k < values.size(); ++k) {
    values[k] = static_cast<double>((k * 7 + i * 5) % 11) - 5;
  }
  return values;
}

OnnxModel einsum(const std::string &equation, const Shapes &shapes, int32_t type = TensorProto::FLOAT) {
  OnnxModel model(12);
  std::vector<std::string> names;
  for (const std::vector<int64_t> &shape : shapes) {
    names.push_back("x" + std::to_string(names.size()));
    model.input(names.back(), {shape.begin(), shape.end()}, type);
  }
  return model.node("Einsum", names, {"y"}, {{"equation", equation}}).output("y");
}

std::string textOf(const std::string &equation, const Shapes &shapes) {
  return print(*import(einsum(equation, shapes)));
}

size_t count(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

} // namespace

TEST_CASE("onnx Einsum", "[frontend]") {
  for (const Row &row : kRows) {
    INFO(row.equation);
    std::vector<ashlar::reference::Tensor> inputs;
    for (size_t i = 0; i < row.shapes.size(); ++i) {
      inputs.push_back(f32(row.shapes[i], valuesOf(row.shapes[i], i)));
    }
    CHECK(holds(evaluate(einsum(row.equation, row.shapes), inputs)[0], row.shape, row.result));
  }
  CHECK(holds(evaluate(einsum("i,i", {{2}, {2}}, TensorProto::INT64), {i64({2}, {3, 4}), i64({2}, {5, -6})})[0], {}, {-9}));
}

// What a person would write: one product for a label that is summed, and no transpose that the product takes itself.
TEST_CASE("onnx Einsum becomes matrix products", "[frontend]") {
  std::string product = textOf("ij,kj->ik", {{2, 3}, {4, 3}});
  CHECK_THAT(product, contains("nn.matmul %arg0, %arg1 transpose_b"));
  CHECK_THAT(product, !contains("nn.transpose"));
  CHECK_THAT(textOf("ji,jk->ik", {{3, 2}, {3, 4}}), contains("nn.matmul %arg0, %arg1 transpose_a") && !contains("nn.transpose"));
  // The scores of an attention, and what they weigh: a batch of two dims, and the dims of a head are not the last ones.
  CHECK_THAT(textOf("bqhd,bkhd->bhqk", {{2, 5, 3, 4}, {2, 6, 3, 4}}),
             contains("transpose_b {nn.outputs = [\"y\"]} : tensor<2x3x5x4xf32>, tensor<2x3x6x4xf32> -> tensor<2x3x5x6xf32>"));
  CHECK_THAT(textOf("i,j->ij", {{2}, {3}}), contains("nn.mul") && !contains("nn.matmul"));
  CHECK_THAT(textOf("bi,bi->b", {{2, 3}, {2, 3}}), contains("nn.reduce sum") && !contains("nn.matmul"));
  CHECK_THAT(textOf("ii->i", {{3, 3}}), contains("nn.slice") && !contains("nn.gather"));
  CHECK_THAT(textOf("ij->ij", {{2, 3}}), !contains("nn." + std::string("transpose")));
}

// The vector meets the small matrix first, so that no product has three labels of size 100.
TEST_CASE("onnx Einsum takes the cheapest pair first", "[frontend]") {
  std::string text = textOf("ij,jk,k->i", {{100, 90}, {90, 80}, {80}});
  CHECK(count(text, "nn.matmul") == 2);
  CHECK_THAT(text, !contains("tensor<100x80xf32>"));
  // Both operands are one value.
  OnnxModel twice = OnnxModel(12).input("x", {2, 2}).node("Einsum", {"x", "x", "x"}, {"y"}, {{"equation", std::string("ij,jk,kl->il")}});
  CHECK(holds(evaluate(twice.output("y"), {f32({2, 2}, {1, 2, 3, 4})})[0], {2, 2}, {37, 54, 81, 118}));
}

TEST_CASE("onnx Einsum: errors", "[frontend]") {
  auto error = [](const std::string &equation, const Shapes &shapes) { return importError(einsum(equation, shapes)); };
  CHECK_THAT(error("ij,jk->ik", {{2, 3}}), contains("attribute \"equation\" \"ij,jk->ik\" has 2 terms for 1 inputs"));
  CHECK_THAT(error("ij,jk->ik", {{2, 3}, {4, 2}}), contains("gives \"j\" the sizes 3 and 4"));
  CHECK_THAT(error("...i,...i->...", {{2, 3}, {4, 3}}), contains("gives the ellipsis the sizes 2 and 4"));
  CHECK_THAT(error("ij->", {{2}}), contains("has the term \"ij\" for input 0 of rank 1"));
  CHECK_THAT(error("ij...->", {{2}}), contains("has the term \"ij...\" for input 0 of rank 1"));
  CHECK_THAT(error("ij->ik", {{2, 3}}), contains("has \"k\" in the result and in no input"));
  CHECK_THAT(error("ij->ii", {{2, 3}}), contains("has \"i\" twice in the result"));
  CHECK_THAT(error("i...->i", {{2, 3}}), contains("has an ellipsis in the inputs and none in the result"));
  CHECK_THAT(error("i1->i", {{2}}), contains("has \"1\" where a letter or the one ellipsis of a term is expected"));
  CHECK_THAT(error("......->...", {{2}}), contains("has \"...\" where a letter or the one ellipsis of a term is expected"));
  OnnxModel mixed = OnnxModel(12).input("x", {2}).input("y", {2}, TensorProto::DOUBLE);
  mixed.node("Einsum", {"x", "y"}, {"z"}, {{"equation", std::string("i,i")}}).output("z");
  CHECK_THAT(importError(mixed), contains("inputs 0 and 1 are [2] of f32 and [2] of f64; the element types differ"));
}

} // namespace ashlar::test::einsum_test
