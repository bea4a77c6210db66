// SPDX-License-Identifier: Apache-2.0
//
// What each nn op computes, against numbers worked out by hand. The inputs are constants of the function.

#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <set>

namespace ashlar::test::op_semantics_test {

using namespace mlir;
using ashlar::reference::Tensor;

namespace {

struct Row {
  std::string op;                  // over %a, %b, %c
  std::vector<std::string> inputs; // their values
  std::string expected;
};

// Rows of ops on vectors of three floats.
Row floats(const std::string &op, const std::string &a, const std::string &expected) {
  return {"nn." + op + " : tensor<3xf64>", {"dense<" + a + "> : tensor<3xf64>"}, "dense<" + expected + "> : tensor<3xf64>"};
}

Row floats(const std::string &op, const std::string &a, const std::string &b, const std::string &expected) {
  return {"nn." + op + " : tensor<3xf64>",
          {"dense<" + a + "> : tensor<3xf64>", "dense<" + b + "> : tensor<3xf64>"},
          "dense<" + expected + "> : tensor<3xf64>"};
}

// Rows of ops on vectors of three integers of any width.
Row ints(const std::string &type, const std::string &op, const std::string &a, const std::string &b, const std::string &expected) {
  return {"nn." + op + " : " + type, {"dense<" + a + "> : " + type, "dense<" + b + "> : " + type}, "dense<" + expected + "> : " + type};
}

Row compareRow(const std::string &predicate, const std::string &expected) {
  return {"nn.compare " + predicate + " %a, %b : tensor<4xf32> -> tensor<4xi1>",
          {"dense<[1.0, 2.0, 3.0, 0x7FC00000]> : tensor<4xf32>", "dense<[2.0, 2.0, 2.0, 2.0]> : tensor<4xf32>"},
          "dense<" + expected + "> : tensor<4xi1>"};
}

std::vector<Row> elementwiseRows() {
  const std::string kBool = "tensor<4xi1>", kInt = "tensor<3xi32>";
  return {
      floats("gradient %a of @w", "[1.0, -2.0, 0.0]", "[1.0, -2.0, 0.0]"),
      floats("neg %a", "[1.0, -2.0, 0.0]", "[-1.0, 2.0, 0.0]"),
      floats("abs %a", "[1.0, -2.0, 0.0]", "[1.0, 2.0, 0.0]"),
      floats("sign %a", "[3.0, -2.0, 0.0]", "[1.0, -1.0, 0.0]"),
      floats("floor %a", "[1.5, -1.5, -0.25]", "[1.0, -2.0, -1.0]"),
      floats("ceil %a", "[1.5, -1.5, 0.25]", "[2.0, -1.0, 1.0]"),
      floats("round %a", "[2.5, -1.5, 0.75]", "[2.0, -2.0, 1.0]"),
      floats("sin %a", "[0.0, 1.0, -2.0]", "[0.0, 0.8414709848078965, -0.9092974268256817]"),
      floats("cos %a", "[0.0, 1.0, -2.0]", "[1.0, 0.5403023058681398, -0.4161468365471424]"),
      floats("tan %a", "[0.0, 1.0, -2.0]", "[0.0, 1.5574077246549023, 2.185039863261519]"),
      floats("asin %a", "[0.0, 1.0, -0.5]", "[0.0, 1.5707963267948966, -0.5235987755982989]"),
      floats("acos %a", "[0.0, 1.0, -0.5]", "[1.5707963267948966, 0.0, 2.0943951023931957]"),
      floats("atan %a", "[0.0, 1.0, -2.0]", "[0.0, 0.7853981633974483, -1.1071487177940904]"),
      floats("sinh %a", "[0.0, 1.0, -2.0]", "[0.0, 1.1752011936438014, -3.626860407847019]"),
      floats("cosh %a", "[0.0, 1.0, -2.0]", "[1.0, 1.5430806348152437, 3.7621956910836314]"),
      floats("asinh %a", "[0.0, 1.0, -2.0]", "[0.0, 0.881373587019543, -1.4436354751788103]"),
      floats("acosh %a", "[1.0, 2.0, 10.0]", "[0.0, 1.3169578969248166, 2.993222846126381]"),
      floats("atanh %a", "[0.0, 0.5, -0.25]", "[0.0, 0.5493061443340548, -0.25541281188299536]"),
      floats("exp %a", "[0.0, 1.0, -1.0]", "[1.0, 2.718281828459045, 0.36787944117144233]"),
      floats("log %a", "[1.0, 2.718281828459045, 10.0]", "[0.0, 1.0, 2.302585092994046]"),
      floats("sqrt %a", "[0.0, 4.0, 2.0]", "[0.0, 2.0, 1.4142135623730951]"),
      floats("erf %a", "[0.0, 1.0, -0.5]", "[0.0, 0.8427007929497149, -0.5204998778130465]"),
      floats("tanh %a", "[0.0, 1.0, -2.0]", "[0.0, 0.7615941559557649, -0.9640275800758169]"),
      floats("sigmoid %a", "[0.0, 2.0, -2.0]", "[0.5, 0.8807970779778823, 0.11920292202211755]"),
      floats("relu %a", "[1.5, -2.0, 0.0]", "[1.5, 0.0, 0.0]"),
      floats("leaky_relu %a, 0.25", "[1.5, -2.0, 0.0]", "[1.5, -0.5, 0.0]"),
      floats("gelu %a", "[0.0, 1.0, -1.0]", "[0.0, 0.8413447460685429, -0.15865525393145707]"),
      floats("gelu %a tanh_approximation", "[0.0, 1.0, -1.0]", "[0.0, 0.8411919906082768, -0.15880800939172324]"),
      floats("add %a, %b", "[1.0, 2.0, 3.0]", "[0.5, -2.0, 1.0]", "[1.5, 0.0, 4.0]"),
      floats("sub %a, %b", "[1.0, 2.0, 3.0]", "[0.5, -2.0, 1.0]", "[0.5, 4.0, 2.0]"),
      floats("mul %a, %b", "[1.0, 2.0, 3.0]", "[0.5, -2.0, 1.0]", "[0.5, -4.0, 3.0]"),
      floats("div %a, %b", "[1.0, 2.0, 3.0]", "[0.5, -2.0, 4.0]", "[2.0, -1.0, 0.75]"),
      floats("pow %a, %b", "[2.0, 9.0, 5.0]", "[3.0, 0.5, 0.0]", "[8.0, 3.0, 1.0]"),
      floats("rem %a, %b", "[5.5, -5.5, 1.0]", "[2.0, 2.0, -4.0]", "[1.5, -1.5, 1.0]"),
      floats("max %a, %b", "[1.0, 2.0, 3.0]", "[2.0, 2.0, 2.0]", "[2.0, 2.0, 3.0]"),
      floats("min %a, %b", "[1.0, 2.0, 3.0]", "[2.0, 2.0, 2.0]", "[1.0, 2.0, 2.0]"),
      {"nn.neg %a : tensor<3xi32>", {"dense<[1, -2, 0]> : tensor<3xi32>"}, "dense<[-1, 2, 0]> : tensor<3xi32>"},
      ints(kInt, "add %a, %b", "[2147483647, 2, 3]", "[1, 2, -3]", "[-2147483648, 4, 0]"), // wraps
      ints(kInt, "sub %a, %b", "[1, 2, 3]", "[4, 5, 6]", "[-3, -3, -3]"),
      ints(kInt, "mul %a, %b", "[1, 2, -3]", "[4, 5, 6]", "[4, 10, -18]"),
      ints(kInt, "div %a, %b", "[7, -7, 7]", "[2, 2, -2]", "[3, -3, -3]"), // toward zero
      ints(kInt, "max %a, %b", "[7, -7, 7]", "[2, 2, -2]", "[7, 2, 7]"),
      ints(kInt, "min %a, %b", "[7, -7, 7]", "[2, 2, -2]", "[2, -7, -2]"),
      ints(kBool, "and %a, %b", "[true, true, false, false]", "[true, false, true, false]", "[true, false, false, false]"),
      ints(kBool, "or %a, %b", "[true, true, false, false]", "[true, false, true, false]", "[true, true, true, false]"),
      ints(kInt, "and %a, %b", "[12, -1, 7]", "[10, 5, -8]", "[8, 5, 0]"),
      ints(kInt, "or %a, %b", "[12, -1, 7]", "[10, 5, -8]", "[14, -1, -1]"),
      {"nn.not %a : tensor<3xi32>", {"dense<[12, -1, 0]> : tensor<3xi32>"}, "dense<[-13, 0, -1]> : tensor<3xi32>"},
      {"nn.not %a : tensor<2xi1>", {"dense<[true, false]> : tensor<2xi1>"}, "dense<[false, true]> : tensor<2xi1>"},
      compareRow("eq", "[false, true, false, false]"),
      compareRow("ne", "[true, false, true, true]"), // the only one that holds with a NaN
      compareRow("lt", "[true, false, false, false]"),
      compareRow("le", "[true, true, false, false]"),
      compareRow("gt", "[false, false, true, false]"),
      compareRow("ge", "[false, true, true, false]"),
      {"nn.compare lt %a, %b : tensor<2xi64> -> tensor<2xi1>",
       {"dense<[-1, 2]> : tensor<2xi64>", "dense<[0, 2]> : tensor<2xi64>"},
       "dense<[true, false]> : tensor<2xi1>"},
      {"nn.compare lt %a, %b : tensor<2xui64> -> tensor<2xi1>",
       {"dense<[18446744073709551615, 2]> : tensor<2xui64>", "dense<[0, 3]> : tensor<2xui64>"},
       "dense<[false, true]> : tensor<2xi1>"},
      {"nn.div %a, %b : tensor<3xui64>",
       {"dense<[18446744073709551614, 7, 9]> : tensor<3xui64>", "dense<[2, 0, 18446744073709551615]> : tensor<3xui64>"},
       "dense<[9223372036854775807, 0, 0]> : tensor<3xui64>"},
      {"nn.max %a, %b : tensor<2xui64>",
       {"dense<[18446744073709551614, 7]> : tensor<2xui64>", "dense<[2, 8]> : tensor<2xui64>"},
       "dense<[18446744073709551614, 8]> : tensor<2xui64>"},
      {"nn.add %a, %b : tensor<2xui8>",
       {"dense<[200, 7]> : tensor<2xui8>", "dense<[100, 8]> : tensor<2xui8>"},
       "dense<[44, 15]> : tensor<2xui8>"},
      {"nn.reduce max %a dims = [0] : tensor<3xui8> -> tensor<ui8>", {"dense<[3, 200, 100]> : tensor<3xui8>"}, "dense<200> : tensor<ui8>"},
      {"nn.reduce min %a dims = [0] : tensor<2xui64> -> tensor<ui64>",
       {"dense<[18446744073709551614, 3]> : tensor<2xui64>"},
       "dense<3> : tensor<ui64>"},
      {"nn.reduce sum %a dims = [0] : tensor<3xi8> -> tensor<i8>", {"dense<[100, 100, -1]> : tensor<3xi8>"}, "dense<-57> : tensor<i8>"},
      {"nn.cast %a : tensor<4xf32> -> tensor<4xui8>",
       {"dense<[-1.5, 255.9, 300.0, 0x7FC00000]> : tensor<4xf32>"},
       "dense<[0, 255, 255, 0]> : tensor<4xui8>"},
      {"nn.cast %a : tensor<3xf64> -> tensor<3xui64>",
       {"dense<[1.0e19, -1.0, 1.0e30]> : tensor<3xf64>"},
       "dense<[10000000000000000000, 0, 18446744073709551615]> : tensor<3xui64>"},
      {"nn.cast %a : tensor<2xui64> -> tensor<2xf64>",
       {"dense<[9223372036854775808, 3]> : tensor<2xui64>"},
       "dense<[9223372036854775808.0, 3.0]> : tensor<2xf64>"},
      {"nn.cast %a : tensor<2xi8> -> tensor<2xui16>", {"dense<[-1, 3]> : tensor<2xi8>"}, "dense<[65535, 3]> : tensor<2xui16>"},
      {"nn.select %a, %b, %c : tensor<2xi1>, tensor<2xf32>",
       {"dense<[true, false]> : tensor<2xi1>", "dense<[1.0, 2.0]> : tensor<2xf32>", "dense<[3.0, 4.0]> : tensor<2xf32>"},
       "dense<[1.0, 4.0]> : tensor<2xf32>"},
      {"nn.cast %a : tensor<3xf32> -> tensor<3xi32>", {"dense<[1.9, -1.9, 0.5]> : tensor<3xf32>"}, "dense<[1, -1, 0]> : tensor<3xi32>"},
      {"nn.cast %a : tensor<5xf32> -> tensor<5xi32>", // what no integer holds becomes the nearest one; a NaN becomes 0
       {"dense<[2147483648.0, 3.0e9, -2147483648.0, -3.0e9, 0x7FC00000]> : tensor<5xf32>"},
       "dense<[2147483647, 2147483647, -2147483648, -2147483648, 0]> : tensor<5xi32>"},
      {"nn.cast %a : tensor<2xf64> -> tensor<2xi64>",
       {"dense<[9223372036854775808.0, -1.0e19]> : tensor<2xf64>"},
       "dense<[9223372036854775807, -9223372036854775808]> : tensor<2xi64>"},
      {"nn.cast %a : tensor<3xf32> -> tensor<3xi1>",
       {"dense<[0.5, 0.0, -1.0]> : tensor<3xf32>"},
       "dense<[true, false, true]> : tensor<3xi1>"},
      {"nn.cast %a : tensor<2xi1> -> tensor<2xf32>", {"dense<[true, false]> : tensor<2xi1>"}, "dense<[1.0, 0.0]> : tensor<2xf32>"},
      {"nn.cast %a : tensor<2xi64> -> tensor<2xi32>", {"dense<[4294967297, -1]> : tensor<2xi64>"}, "dense<[1, -1]> : tensor<2xi32>"},
      {"nn.bitcast %a : tensor<4xf32> -> tensor<4xi32>",
       {"dense<[1.0, -2.5, -0.0, 0xFF800000]> : tensor<4xf32>"},
       "dense<[1065353216, -1071644672, -2147483648, -8388608]> : tensor<4xi32>"},
      {"nn.bitcast %a : tensor<3xui64> -> tensor<3xf64>",
       {"dense<[13836183955189006336, 1, 4607182418800017408]> : tensor<3xui64>"},
       "dense<[-2.5, 4.9406564584124654e-324, 1.0]> : tensor<3xf64>"},
      {"nn.bitcast %a : tensor<2xf16> -> tensor<2xbf16>", {"dense<[1.5, -2.0]> : tensor<2xf16>"}, "dense<[0.125, -2.0]> : tensor<2xbf16>"},
      {"nn.bitcast %a : tensor<2xi16> -> tensor<2xf16>",
       {"dense<[-1024, 31745]> : tensor<2xi16>"}, // the second is a signalling NaN
       "dense<[0xFC00, 0x7E01]> : tensor<2xf16>"},
      {"nn.bitcast %a : tensor<2xi8> -> tensor<2xui8>", {"dense<[-1, 3]> : tensor<2xi8>"}, "dense<[255, 3]> : tensor<2xui8>"},
      {"nn.cast %a : tensor<2xf32> -> tensor<2xbf16>", {"dense<[1.00390625, 3.0]> : tensor<2xf32>"}, "dense<[1.0, 3.0]> : tensor<2xbf16>"},
  };
}

std::vector<Row> shapeRows() {
  const std::string kMatrix = "dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>";
  return {
      {"nn.constant dense<[1.0, 2.0]> : tensor<2xf32>", {}, "dense<[1.0, 2.0]> : tensor<2xf32>"},
      {"nn.index [3, 1] : tensor<2x3xi64>", {}, "dense<[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xi64>"},
      {"nn.index [0, -2] : tensor<2x3xi64>", {}, "dense<[[0, -2, -4], [0, -2, -4]]> : tensor<2x3xi64>"},
      {"nn.broadcast %a dims = [1] : tensor<2xf32> -> tensor<3x2xf32>",
       {"dense<[1.0, 2.0]> : tensor<2xf32>"},
       "dense<[[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]> : tensor<3x2xf32>"},
      {"nn.reshape %a : tensor<2x3xf32> -> tensor<3x2xf32>", {kMatrix}, "dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>"},
      {"nn.transpose %a [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>",
       {kMatrix},
       "dense<[[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]> : tensor<3x2xf32>"},
      {"nn.transpose %a [2, 0, 1] : tensor<1x2x3xf32> -> tensor<3x1x2xf32>",
       {"dense<[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]> : tensor<1x2x3xf32>"},
       "dense<[[[1.0, 4.0]], [[2.0, 5.0]], [[3.0, 6.0]]]> : tensor<3x1x2xf32>"},
      {"nn.concat %a, %b dim = 1 : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>",
       {kMatrix, "dense<[[7.0], [8.0]]> : tensor<2x1xf32>"},
       "dense<[[1.0, 2.0, 3.0, 7.0], [4.0, 5.0, 6.0, 8.0]]> : tensor<2x4xf32>"},
      {"nn.slice %a [1, 0] to [2, 3] by [1, 2] : tensor<2x3xf32> -> tensor<1x2xf32>", {kMatrix}, "dense<[[4.0, 6.0]]> : tensor<1x2xf32>"},
      {"nn.pad %a low = [1] interior = [1] : tensor<2xf32> -> tensor<5xf32>",
       {"dense<[1.0, 2.0]> : tensor<2xf32>"},
       "dense<[0.0, 1.0, 0.0, 2.0, 0.0]> : tensor<5xf32>"},
      // Numbers -1 and 2 are outside of the table.
      {"nn.gather %a, %b : tensor<2x3xf32>, tensor<2x2xi32> -> tensor<2x2x3xf32>",
       {kMatrix, "dense<[[1, -1], [0, 2]]> : tensor<2x2xi32>"},
       "dense<[[[4.0, 5.0, 6.0], [0.0, 0.0, 0.0]], [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]]> : tensor<2x2x3xf32>"},
      {"nn.gather %a, %b : tensor<3xi64>, tensor<i64> -> tensor<i64>",
       {"dense<[5, 6, 7]> : tensor<3xi64>", "dense<2> : tensor<i64>"},
       "dense<7> : tensor<i64>"},
      {"nn.gather %a, %b batch_dims = 1 : tensor<2x3xf32>, tensor<2x2xi32> -> tensor<2x2xf32>",
       {kMatrix, "dense<[[1, 3], [-1, 2]]> : tensor<2x2xi32>"},
       "dense<[[2.0, 0.0], [0.0, 6.0]]> : tensor<2x2xf32>"},
      {"nn.gather %a, %b batch_dims = 1 : tensor<2x3xf32>, tensor<2xi64> -> tensor<2xf32>",
       {kMatrix, "dense<[2, 1]> : tensor<2xi64>"},
       "dense<[3.0, 5.0]> : tensor<2xf32>"},
      {"nn.gather %a, %b batch_dims = 1 : tensor<2x3xf32>, tensor<2x0xi64> -> tensor<2x0xf32>",
       {kMatrix, "dense<> : tensor<2x0xi64>"},
       "dense<> : tensor<2x0xf32>"},
      {"nn.gather %a, %b batch_dims = 1 : tensor<2x0xf32>, tensor<2x1xi64> -> tensor<2x1xf32>",
       {"dense<> : tensor<2x0xf32>", "dense<0> : tensor<2x1xi64>"},
       "dense<0.0> : tensor<2x1xf32>"},
      {"nn.scatter_add %a, %b batch_dims = 1 : tensor<2x3xi64>, tensor<2x3xf32> -> tensor<2x2xf32>",
       {"dense<[[1, 1, 0], [0, -1, 2]]> : tensor<2x3xi64>", kMatrix},
       "dense<[[3.0, 3.0], [4.0, 0.0]]> : tensor<2x2xf32>"},
      {"nn.scatter_add %a, %b batch_dims = 1 : tensor<2x0xi64>, tensor<2x0xf32> -> tensor<2x1xf32>",
       {"dense<> : tensor<2x0xi64>", "dense<> : tensor<2x0xf32>"},
       "dense<0.0> : tensor<2x1xf32>"},
      {"nn.scatter_add %a, %b : tensor<4xi64>, tensor<4x2xf32> -> tensor<3x2xf32>",
       {"dense<[2, 0, 2, 3]> : tensor<4xi64>", "dense<[[1.0, 2.0], [3.0, 4.0], [10.0, 20.0], [7.0, 7.0]]> : tensor<4x2xf32>"},
       "dense<[[3.0, 4.0], [0.0, 0.0], [11.0, 22.0]]> : tensor<3x2xf32>"},
      {"nn.scatter_add %a, %b : tensor<2xi32>, tensor<2xi32> -> tensor<2xi32>",
       {"dense<[1, 1]> : tensor<2xi32>", "dense<[4, 5]> : tensor<2xi32>"},
       "dense<[0, 9]> : tensor<2xi32>"},
  };
}

// Rows 8 and 9 into columns 1 to 4 of a base, and in other places; rows outside of the base are dropped.
std::vector<Row> insertRows() {
  const std::string kOp = "nn.insert %a into %b at %c dim = 1 : tensor<1x2xi32>, tensor<1x4xi32>, tensor<i64> -> tensor<1x4xi32>";
  auto insertAt = [&](const std::string &index, const std::string &result) -> Row {
    return {kOp,
            {"dense<[[8, 9]]> : tensor<1x2xi32>", "dense<[[1, 2, 3, 4]]> : tensor<1x4xi32>", "dense<" + index + "> : tensor<i64>"},
            "dense<" + result + "> : tensor<1x4xi32>"};
  };
  return {
      insertAt("0", "[[8, 9, 3, 4]]"),
      insertAt("2", "[[1, 2, 8, 9]]"),
      insertAt("3", "[[1, 2, 3, 8]]"),
      insertAt("4", "[[1, 2, 3, 4]]"),
      insertAt("-1", "[[9, 2, 3, 4]]"),
      insertAt("-2", "[[1, 2, 3, 4]]"),
      insertAt("9223372036854775807", "[[1, 2, 3, 4]]"),
      insertAt("-9223372036854775808", "[[1, 2, 3, 4]]"),
      {"nn.insert %a into %b at %c dim = 0 : tensor<1x2xf32>, tensor<3x2xf32>, tensor<i32> -> tensor<3x2xf32>",
       {"dense<[[8.0, 9.0]]> : tensor<1x2xf32>", "dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>", "dense<1> : tensor<i32>"},
       "dense<[[1.0, 2.0], [8.0, 9.0], [5.0, 6.0]]> : tensor<3x2xf32>"},
      // More rows than the base has.
      {"nn.insert %a into %b at %c dim = 0 : tensor<4xi1>, tensor<2xi1>, tensor<i64> -> tensor<2xi1>",
       {"dense<[true, false, true, true]> : tensor<4xi1>", "dense<[true, true]> : tensor<2xi1>", "dense<-1> : tensor<i64>"},
       "dense<[false, true]> : tensor<2xi1>"},
      {"nn.insert %a into %b at %c dim = 0 : tensor<0xf16>, tensor<2xf16>, tensor<i64> -> tensor<2xf16>",
       {"dense<> : tensor<0xf16>", "dense<[1.0, 2.0]> : tensor<2xf16>", "dense<0> : tensor<i64>"},
       "dense<[1.0, 2.0]> : tensor<2xf16>"},
  };
}

// Windows of 3 elements, 2 apart, over 4 elements with one of padding in front, and two windows.
std::vector<Row> windowRows() {
  const std::string kWindows = "dims = [0] [#nn.window<3, stride = 2, low = 1>]";
  const std::string kRow = "dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>";
  const std::string kNan = "0x7FC00000";
  return {
      {"nn.windows %a " + kWindows + " : tensor<4xf32> -> tensor<2x3xf32>",
       {kRow},
       "dense<[[0.0, 1.0, 2.0], [2.0, 3.0, 4.0]]> : tensor<2x3xf32>"},
      {"nn.windows %a dims = [0] [#nn.window<2, dilation = 2, low = -1, high = 1>] : tensor<4xf32> -> tensor<2x2xf32>",
       {kRow},
       "dense<[[2.0, 4.0], [3.0, 0.0]]> : tensor<2x2xf32>"},
      {"nn.unwindows %a " + kWindows + " : tensor<2x3xf32> -> tensor<4x3xf32>",
       {"dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>"},
       "dense<[[0.0, 2.0, 0.0], [4.0, 0.0, 3.0], [0.0, 5.0, 0.0], [0.0, 0.0, 6.0]]> : tensor<4x3xf32>"},
      {"nn.max_pool %a " + kWindows + " : tensor<4xf32> -> tensor<2xf32>",
       {"dense<[-3.0, -2.0, " + kNan + ", -4.0]> : tensor<4xf32>"},
       "dense<[-2.0, " + kNan + "]> : tensor<2xf32>"},
      {"nn.max_pool_place %a, %b " + kWindows + " : tensor<4xf32>, tensor<2xf32> -> tensor<2xi32>",
       {"dense<[5.0, 5.0, 2.0, 1.0]> : tensor<4xf32>", "dense<[5.0, 5.0]> : tensor<2xf32>"},
       "dense<[1, 0]> : tensor<2xi32>"},
      {"nn.max_pool_place %a, %b " + kWindows + " : tensor<4xf32>, tensor<2xf32> -> tensor<2xi32>", // a NaN; nothing equal
       {"dense<[5.0, 7.0, 2.0, " + kNan + "]> : tensor<4xf32>", "dense<[6.0, " + kNan + "]> : tensor<2xf32>"},
       "dense<[3, 2]> : tensor<2xi32>"},
      {"nn.resample %a dim = 0 places = dense<[[3, -1], [0, 1], [4, 9]]> : tensor<3x2xi64> weights = dense<[[2.0, 1.0], [0.5, 0.25], [1.0, "
       "1.0]]> : tensor<3x2xf64> : tensor<4xf32> -> tensor<3xf32>",
       {"dense<[1.0, 2.0, 0x7F800000, 4.0]> : tensor<4xf32>"},
       "dense<[8.0, 1.0, 0.0]> : tensor<3xf32>"},
      {"nn.resample %a starts %b, %c : tensor<i64>, tensor<i64> dim = 0 places = dense<[[-1], [0], [3], [2]]> : tensor<4x1xi64> : "
       "tensor<3xf32> "
       "-> tensor<4xf32>", // rows 1 to 4 of the elements -1 to 1 of 4
       {"dense<[0.0, 6.0, 7.0]> : tensor<3xf32>", "dense<1> : tensor<i64>", "dense<-1> : tensor<i64>"},
       "dense<[6.0, 0.0, 0.0, 0.0]> : tensor<4xf32>"},
      {"nn.resample %a dim = 0 places = dense<[[1], [0]]> : tensor<2x1xi64> : tensor<2xi64> -> tensor<2xi64>",
       {"dense<[7, 8]> : tensor<2xi64>"},
       "dense<[8, 7]> : tensor<2xi64>"},
  };
}

std::vector<Row> contractionRows() {
  const std::string kMatrix = "dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>";
  return {
      {"nn.reduce sum %a dims = [0] : tensor<2x3xf32> -> tensor<3xf32>", {kMatrix}, "dense<[5.0, 7.0, 9.0]> : tensor<3xf32>"},
      {"nn.reduce sum %a dims = [0, 1] : tensor<2x3xf32> -> tensor<f32>", {kMatrix}, "dense<21.0> : tensor<f32>"},
      {"nn.reduce max %a dims = [1] : tensor<2x3xf32> -> tensor<2xf32>", {kMatrix}, "dense<[3.0, 6.0]> : tensor<2xf32>"},
      {"nn.reduce min %a dims = [1] : tensor<2x3xi32> -> tensor<2xi32>",
       {"dense<[[3, 1, 2], [-4, 5, 6]]> : tensor<2x3xi32>"},
       "dense<[1, -4]> : tensor<2xi32>"},
      {"nn.matmul %a, %b transpose_b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x2xf32>",
       {kMatrix, kMatrix},
       "dense<[[14.0, 32.0], [32.0, 77.0]]> : tensor<2x2xf32>"},
      {"nn.matmul %a, %b transpose_a : tensor<2x3xf32>, tensor<2x1xf32> -> tensor<3x1xf32>",
       {kMatrix, "dense<[[1.0], [-1.0]]> : tensor<2x1xf32>"},
       "dense<[[-3.0], [-3.0], [-3.0]]> : tensor<3x1xf32>"},
      {"nn.matmul %a, %b : tensor<2x1x2xi32>, tensor<2x2x1xi32> -> tensor<2x1x1xi32>",
       {"dense<[[[1, 2]], [[3, 4]]]> : tensor<2x1x2xi32>", "dense<[[[5], [6]], [[7], [8]]]> : tensor<2x2x1xi32>"},
       "dense<[[[17]], [[53]]]> : tensor<2x1x1xi32>"},
      {"nn.softmax %a : tensor<2x2xf64>",
       {"dense<[[0.0, 0.0], [1000.0, 1001.0]]> : tensor<2x2xf64>"},
       "dense<[[0.5, 0.5], [0.2689414213699951, 0.7310585786300049]]> : tensor<2x2xf64>"},
      {"nn.log_softmax %a : tensor<2x2xf64>",
       {"dense<[[0.0, 0.0], [1000.0, 1001.0]]> : tensor<2x2xf64>"},
       "dense<[[-0.6931471805599453, -0.6931471805599453], [-1.3132616875182228, -0.31326168751822286]]> : tensor<2x2xf64>"},
      // The last two labels are outside of the classes.
      {"nn.softmax_cross_entropy %a, %b : tensor<4x2xf64>, tensor<4xi32> -> tensor<4xf64>",
       {"dense<[[0.0, 0.0], [1000.0, 1001.0], [0.0, 1.0], [0.0, 1.0]]> : tensor<4x2xf64>", "dense<[1, 0, 2, -1]> : tensor<4xi32>"},
       "dense<[0.6931471805599453, 1.3132616875182228, 0.0, 0.0]> : tensor<4xf64>"},
      // Channel 0 is 1, 3 and 5, 7: mean 4, variance (9 + 1 + 1 + 9) / 4; channel 1 is constant.
      {"nn.moments %a dims = [0, 2] : tensor<2x2x2xf64> -> tensor<2x2xf64>",
       {"dense<[[[1.0, 3.0], [2.0, 2.0]], [[5.0, 7.0], [2.0, 2.0]]]> : tensor<2x2x2xf64>"},
       "dense<[[4.0, 2.0], [5.0, 0.0]]> : tensor<2x2xf64>"},
      // Of f32 all the same: 1e6 + 1 and 1e6 + 3.
      {"nn.moments %a dims = [0] : tensor<2xf32> -> tensor<2xf32>",
       {"dense<[1000001.0, 1000003.0]> : tensor<2xf32>"},
       "dense<[1000002.0, 1.0]> : tensor<2xf32>"},
      // (1 - 3) * 10 / sqrt(3.5 + 0.5) + 100
      {"nn.normalize %a, %b, %c, %d, %e dims = [1] epsilon = 5.0e-01 : tensor<1x2xf64>, tensor<2xf64>",
       {"dense<[[1.0, 2.0]]> : tensor<1x2xf64>", "dense<[10.0, 3.0]> : tensor<2xf64>", "dense<[100.0, 0.5]> : tensor<2xf64>",
        "dense<[3.0, 0.0]> : tensor<2xf64>", "dense<[3.5, 0.5]> : tensor<2xf64>"},
       "dense<[[90.0, 6.5]]> : tensor<1x2xf64>"},
      // Words of philox4x32-10 for key {9, 0}, counter {5, 0, 3, 7}: 0x3cc63cdd 0xb93a4073 0xb0207e0d 0x5be29a17.
      {"nn.random uniform %a, %b, %c, %d : (tensor<1xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<1xf32>",
       {"dense<5> : tensor<1xi64>", "dense<9> : tensor<i64>", "dense<3> : tensor<i64>", "dense<7> : tensor<i32>"},
       "dense<0.23739981651306152> : tensor<1xf32>"},
  };
}

// Scores 0, 0 and 0, log 3: weights 1/2, 1/2 and 1/4, 3/4. A causal row 0 sees key 0 alone.
std::vector<Row> attentionRows() {
  const std::string kColumn = "tensor<2x1xf64>", kSquare = "tensor<2x2xf64>", kVector = "tensor<2xf64>";
  const std::string kQ = "dense<[[0.0], [2.0]]> : " + kColumn, kK = "dense<[[0.0], [1.0986122886681098]]> : " + kColumn;
  const std::string kV = "dense<[[1.0, 10.0], [5.0, 20.0]]> : " + kSquare, kScale = " scale = 5.000000e-01";
  const std::string kLogSum = "dense<[0.6931471805599453, 1.3862943611198906]> : " + kVector;
  const std::string kOut = "dense<[[3.0, 15.0], [4.0, 17.5]]> : " + kSquare, kG = "dense<[[1.0, 0.0], [1.0, 0.0]]> : " + kSquare;
  const std::string kBools = "tensor<1x2xi1>", kFloats = "tensor<2x1xf32>", kOfLogSum = kColumn + ", " + kColumn;
  const std::string kOfOut = kOfLogSum + ", " + kSquare + ", " + kVector;
  const std::string kOfGradient = kScale + " : (" + kOfOut + ", " + kSquare + ", " + kSquare + ") -> ";
  return {
      {"nn.attention_log_sum %a, %b" + kScale + " : (" + kOfLogSum + ") -> " + kVector, {kQ, kK}, kLogSum},
      {"nn.attention_log_sum %a, %b" + kScale + " causal : (" + kOfLogSum + ") -> " + kVector,
       {kQ, kK},
       "dense<[0.0, 1.3862943611198906]> : " + kVector},
      // Row 1 sees key 0 alone, row 0 none.
      {"nn.attention_log_sum %a, %b" + kScale + " causal diagonal = -1 : (" + kOfLogSum + ") -> " + kVector,
       {kQ, kK},
       "dense<[0xFFF0000000000000, 0.0]> : " + kVector},
      // Each row sees one key, with the scores 0 and log 3; or both, the score log 3 as 2 tanh(log 3 / 2) = 1.
      {"nn.attention_log_sum %a, %b" + kScale + " causal window = 1 : (" + kOfLogSum + ") -> " + kVector,
       {kQ, kK},
       "dense<[0.0, 1.0986122886681098]> : " + kVector},
      {"nn.attention_log_sum %a, %b" + kScale + " softcap = 2.0 : (" + kOfLogSum + ") -> " + kVector,
       {kQ, kK},
       "dense<[0.6931471805599453, 1.3132616875182228]> : " + kVector},
      {"nn.attention_log_sum %a, %b mask = %c" + kScale + " : (" + kOfLogSum + ", " + kBools + ") -> " + kVector,
       {kQ, kK, "dense<[[true, false]]> : " + kBools},
       "dense<0.0> : " + kVector},
      {"nn.attention_log_sum %a, %b mask = %c" + kScale + " : (" + kOfLogSum + ", " + kFloats + ") -> " + kVector,
       {kQ, kK, "dense<[[2.0], [-3.0]]> : " + kFloats},
       "dense<[2.6931471805599453, -1.6137056388801094]> : " + kVector},
      {"nn.attention %a, %b, %c, %d" + kScale + " : (" + kOfOut + ") -> " + kSquare, {kQ, kK, kV, kLogSum}, kOut},
      {"nn.attention %a, %b, %c, %d mask = %e" + kScale + " : (" + kOfOut + ", " + kBools + ") -> " + kSquare,
       {kQ, kK, kV, "dense<0.0> : " + kVector, "dense<[[true, false]]> : " + kBools},
       "dense<[[1.0, 10.0], [1.0, 10.0]]> : " + kSquare},
      // The gradients of the scores are -1, 1 and -3/4, 3/4.
      {"nn.attention_gradient query %a, %b, %c, %d, %e, %f" + kOfGradient + kColumn,
       {kQ, kK, kV, kLogSum, kOut, kG},
       "dense<[[0.5493061443340549], [0.4119796082505412]]> : " + kColumn},
      {"nn.attention_gradient key %a, %b, %c, %d, %e, %f" + kOfGradient + kColumn,
       {kQ, kK, kV, kLogSum, kOut, kG},
       "dense<[[-0.75], [0.75]]> : " + kColumn},
      {"nn.attention_gradient value %a, %b, %c, %d, %e, %f" + kOfGradient + kSquare,
       {kQ, kK, kV, kLogSum, kOut, kG},
       "dense<[[0.75, 0.0], [1.25, 0.0]]> : " + kSquare},
  };
}

std::vector<Row> convolutionRows() {
  const std::string kX = "dense<[[[1.0, 2.0, 3.0, 4.0]]]> : tensor<1x1x4xf32>", kW = "dense<[[[1.0, 10.0, 100.0]]]> : tensor<1x1x3xf32>";
  const std::string kStrided = "windows = [#nn.window<3, stride = 2, low = 1>]"; // elements -1, 0, 1 and 1, 2, 3
  return {
      {"nn.conv %a, %b " + kStrided + " : tensor<1x1x4xf32>, tensor<1x1x3xf32> -> tensor<1x1x2xf32>",
       {kX, kW},
       "dense<[[[210.0, 432.0]]]> : tensor<1x1x2xf32>"},
      // The last element is in no window where the padding behind is negative.
      {"nn.conv %a, %b windows = [#nn.window<3, dilation = 2, low = 2, high = 1>] : tensor<1x1x4xf32>, tensor<1x1x3xf32> -> "
       "tensor<1x1x3xf32>",
       {kX, kW},
       "dense<[[[310.0, 420.0, 31.0]]]> : tensor<1x1x3xf32>"},
      {"nn.conv %a, %b windows = [#nn.window<2, low = -1, high = -1>] : tensor<1x1x4xf32>, tensor<1x1x2xf32> -> tensor<1x1x1xf32>",
       {kX, "dense<[[[1.0, 10.0]]]> : tensor<1x1x2xf32>"},
       "dense<[[[32.0]]]> : tensor<1x1x1xf32>"},
      // Two groups of one channel: channels 0, 1 of y see channel 0 of x. Channels last: x is (1, 2, 2).
      {"nn.conv %a, %b channels_last windows = [#nn.window<1>] : tensor<1x2x2xf32>, tensor<4x1x1xf32> -> tensor<1x2x4xf32>",
       {"dense<[[[1.0, 2.0], [3.0, 4.0]]]> : tensor<1x2x2xf32>", "dense<[[[1.0]], [[10.0]], [[100.0]], [[1000.0]]]> : tensor<4x1x1xf32>"},
       "dense<[[[1.0, 10.0, 200.0, 2000.0], [3.0, 30.0, 400.0, 4000.0]]]> : tensor<1x2x4xf32>"},
      {"nn.conv_data %a, %b " + kStrided + " : tensor<1x1x2xf32>, tensor<1x1x3xf32> -> tensor<1x1x4xf32>",
       {"dense<[[[1.0, 2.0]]]> : tensor<1x1x2xf32>", kW},
       "dense<[[[10.0, 102.0, 20.0, 200.0]]]> : tensor<1x1x4xf32>"},
      {"nn.conv_weights %a, %b " + kStrided + " : tensor<1x1x4xf32>, tensor<1x1x2xf32> -> tensor<1x1x3xf32>",
       {kX, "dense<[[[1.0, 10.0]]]> : tensor<1x1x2xf32>"},
       "dense<[[[20.0, 31.0, 42.0]]]> : tensor<1x1x3xf32>"},
  };
}

std::string moduleText(const Row &row, ArrayRef<Tensor> inputs, const Tensor &expected) {
  std::string text = "nn.variable @w : tensor<3xf64>\nfunc.func @f(";
  llvm::raw_string_ostream os(text);
  for (auto [i, input] : llvm::enumerate(inputs)) {
    os << (i ? ", %" : "%") << static_cast<char>('a' + i) << ": " << input.getType();
  }
  os << ") -> " << expected.getType() << " { %r = " << row.op << "\n return %r : " << expected.getType() << " }";
  return text;
}

} // namespace

TEST_CASE("ops compute what they say", "[reference][semantics]") {
  std::vector<Row> rows = elementwiseRows();
  for (const std::vector<Row> &more : {shapeRows(), insertRows(), windowRows(), contractionRows(), attentionRows(), convolutionRows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  std::set<std::string> tested;
  for (const Row &row : rows) {
    INFO(row.op);
    tested.insert(row.op.substr(0, row.op.find(' ')));
    std::vector<Tensor> inputs;
    for (const std::string &input : row.inputs) {
      inputs.push_back(tensor(input));
    }
    Tensor expected = tensor(row.expected);
    OwningOpRef<ModuleOp> module = parse(moduleText(row, inputs, expected));
    Tensor actual = run(*module, "f", inputs).front();
    REQUIRE(actual.getType() == expected.getType());
    // f64 functions of libm agree to a few ulp; f32 results here are exact.
    CHECK(reference::maxDifference(expected, actual) < 1e-14);
  }
  for (RegisteredOperationName name : context().getRegisteredOperationsByDialect("nn")) {
    if (name.hasInterface<ReferenceOpInterface>()) {
      INFO(name.getStringRef().str());
      CHECK(tested.count(name.getStringRef().str()) == 1);
    }
  }
}

TEST_CASE("every pure nn op has semantics", "[reference][semantics]") {
  for (RegisteredOperationName name : context().getRegisteredOperationsByDialect("nn")) {
    const bool isOfFlatLoop = name.getStringRef().starts_with("nn.repeat_"); // which is run as nn.repeat
    if (name.hasInterface<ShardingRuleOpInterface>() && !isOfFlatLoop) {
      INFO(name.getStringRef().str());
      CHECK(name.hasInterface<ReferenceOpInterface>());
    }
  }
}

TEST_CASE("NaNs go through max, min and relu", "[reference][semantics]") {
  for (const char *op : {"nn.max %a, %b", "nn.max %b, %a", "nn.min %a, %b", "nn.min %b, %a", "nn.relu %a"}) {
    INFO(op);
    OwningOpRef<ModuleOp> module = parse(std::string("func.func @f(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> { %r = ") + op +
                                         " : tensor<f32>\n return %r : tensor<f32> }");
    Tensor result = run(*module, "f", {tensor("dense<0x7FC00000> : tensor<f32>"), tensor("dense<1.0> : tensor<f32>")}).front();
    CHECK(std::isnan(result.getFloat(0)));
  }
}

TEST_CASE("random numbers have their mean and variance", "[reference][semantics]") {
  constexpr int64_t kCount = 20000;
  for (const char *element : {"f32", "f64"}) {
    std::string type = "tensor<20000x" + std::string(element) + ">";
    OwningOpRef<ModuleOp> module = parse("func.func @f(%s: tensor<i64>) -> (" + type + ", " + type + R"() {
      %i = nn.index [1] : tensor<20000xi64>
      %one = nn.constant dense<1> : tensor<i32>
      %two = nn.constant dense<2> : tensor<i32>
      %u = nn.random uniform %i, %s, %s, %one : (tensor<20000xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> )" +
                                         type + R"(
      %n = nn.random normal %i, %s, %s, %two : (tensor<20000xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> )" +
                                         type + "\n return %u, %n : " + type + ", " + type + " }");
    std::vector<Tensor> results = run(*module, "f", {tensor("dense<12345678901> : tensor<i64>")});
    double sums[2] = {}, squares[2] = {}, low = 1, high = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      for (int k : {0, 1}) {
        sums[k] += results[k].getFloat(i);
        squares[k] += results[k].getFloat(i) * results[k].getFloat(i);
      }
      low = std::min(low, results[0].getFloat(i));
      high = std::max(high, results[0].getFloat(i));
    }
    // Standard errors of the means are 0.002 and 0.007; the seed is fixed.
    CHECK(sums[0] / kCount == Approx(0.5).margin(0.01));
    CHECK(squares[0] / kCount == Approx(1.0 / 3).margin(0.01));
    CHECK(low >= 0);
    CHECK(high < 1);
    CHECK(sums[1] / kCount == Approx(0).margin(0.03));
    CHECK(squares[1] / kCount == Approx(1).margin(0.04));
  }
}

} // namespace ashlar::test::op_semantics_test
