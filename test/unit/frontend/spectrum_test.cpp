// SPDX-License-Identifier: Apache-2.0
//
// Fourier transforms and mel weights, against the reference evaluator of ONNX 1.23, which asks NumPy.

#include "test/unit/frontend/recorded_nodes.h"

#include <cmath>

namespace ashlar::test::spectrum_test {

using onnx::TensorProto;

TEST_CASE("onnx DFT", "[frontend]") {
  checkRecordedNodes({
      {"DFT", 20, {}, {{{2, 5, 1}}}, {{0, {2, 5, 2}, {-2.5625,    0,          -1.3125,   -0.8783653, -1.3125,    2.0857959,  -1.3125,
                                                      -2.0857959, -1.3125,    0.8783653, 1.09375,    0,          -0.7097099, 0.9768319,
                                                      2.8190849,  -0.9159762, 2.8190849, 0.9159762,  -0.7097099, -0.9768319}}}},
      {"DFT",
       20,
       {{"inverse", int64_t(1)}},
       {{{1, 4, 2}}},
       {{0, {1, 4, 2}, {-0.4609375, -0.09375, 0, 0.0546875, -0.3671875, 0.421875, -0.734375, -0.7890625}}}},
      {"DFT",
       20,
       {{"onesided", int64_t(1)}},
       {{{1, 6, 1}}},
       {{0, {1, 4, 2}, {-1.5, 0, -0.3125, 0.5412659, -3.46875, 2.0026836, -0.3125, 0}}}},
      {"DFT",
       20,
       {{"onesided", int64_t(1)}},
       {{{1, 4, 1}}, {{}, {7}}},
       {{0, {1, 4, 2}, {-2.46875, 0, -0.8564724, 0.1287778, -2.9271898, -0.2558121, -0.4507129, 1.9812988}}}},
      {"DFT",
       20,
       {{"onesided", int64_t(1)}, {"inverse", int64_t(1)}},
       {{{2, 3, 2}}},
       {{0, {2, 4, 1}, {-0.0390625, 0.2578125, -0.7890625, -0.9921875, 0.5859375, -0.0546875, -0.7890625, -0.6796875}}}},
      {"DFT",
       20,
       {{"onesided", int64_t(1)}, {"inverse", int64_t(1)}},
       {{{1, 4, 2}}, {{}, {5}}},
       {{0, {1, 5, 1}, {-0.05, 0.0362628, 0.1312984, -1.2648849, -0.4151763}}}},
      {"DFT",
       20,
       {},
       {{{3, 2, 2}}, {{}, {2}}, {{}, {0}}},
       {{0, {2, 2, 2}, {-1.65625, 0.65625, -0.1875, -1.03125, -1.46875, -1.46875, 1.6875, -1.46875}}}},
      {"DFT",
       17,
       {{"axis", int64_t(0)}},
       {{{3, 2, 1}}, {{}, {4}}},
       {{0,
         {4, 2, 2},
         {-0.90625, 0, -0.59375, 0, -1.46875, -0.75, -1.46875, 1.25, -2.40625, 0, 1.90625, 0, -1.46875, 0.75, -1.46875, -1.25}}}},
      {"DFT",
       17,
       {{"inverse", int64_t(1)}},
       {{{2, 3, 2}}},
       {{0,
         {2, 3, 2},
         {-0.3020833, -0.1979167, 0.0373529, 0.139403, -1.2977695, -0.3477363, 0.3229167, -0.625, -0.873778, 0.6654446, -0.3866387,
          0.1783054}}}},
  });
}

TEST_CASE("onnx STFT", "[frontend]") {
  checkRecordedNodes({
      {"STFT",
       17,
       {},
       {{{2, 9, 1}}, {{}, {2}}, {{4}}},
       {{0, {2, 3, 3, 2}, {-1.1845703, 0, 0.921875,   0.1845703,  0.1220703,  0, -1.0927734, 0, -0.1845703, 1.4882812,  1.0869141, 0,
                           2.0566406,  0, -0.8964844, -1.0546875, -0.2167969, 0, 1.9902344,  0, -1.3447266, -0.6064453, 1.0117188, 0,
                           -1.1728516, 0, 1.0009766,  0.1054688,  -0.0947266, 0, -1.0810547, 0, -0.1054688, 1.4091797,  0.8701172, 0}}}},
      {"STFT",
       17,
       {},
       {{{1, 8, 1}}, {{}, {3}}, {}, {{}, {5}}},
       {{0, {1, 2, 3, 2}, {-2.5625, 0, -1.3125, -0.8783653, -1.3125, 2.0857959, -1, 0, -1.3125, -0.8783653, -1.3125, 2.0857959}}}},
      {"STFT",
       17,
       {{"onesided", int64_t(0)}},
       {{{1, 6, 2}}, {{}, {1}}, {{3}}, {{}, {3}}},
       {{0, {1, 4, 3, 2}, {1.0595703, -2.2675781, -0.46178,   0.6187971,  -0.0118528, 1.8011248,  0.7177734, 1.0400391,
                           0.632918,  0.5846095,  -1.6319414, -1.1558986, -2.2871094, 0.6982422,  0.8321446, -0.8646421,
                           1.490121,  -0.2320376, 1.0205078,  0.7509766,  -2.1248786, -2.0901995, 1.4559333, 1.2571917}}}},
      {"STFT", 17, {}, {{{1, 5, 1}}, {{}, {2}}}, {{0, {1, 1, 3, 2}, {-2.5625, 0, -1.3125, -0.8783653, -1.3125, 2.0857959}}}},
  });
}

TEST_CASE("onnx MelWeightMatrix", "[frontend]") {
  struct Row {
    double bands, length, rate, low, high;
    std::vector<int64_t> shape;
    std::vector<double> weights;
  };
  const std::vector<Row> rows = {
      {4, 8, 8000, 0.0, 4000.0, {5, 4}, {1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}},
      {3, 16, 8192, 20.0, 3000.0, {9, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
  };
  for (const Row &row : rows) {
    OnnxModel model = OnnxModel(17).initializer("b", TensorProto::INT64, {}, {row.bands});
    model.initializer("l", TensorProto::INT64, {}, {row.length}).initializer("r", TensorProto::INT64, {}, {row.rate});
    model.initializer("low", TensorProto::FLOAT, {}, {row.low}).initializer("high", TensorProto::FLOAT, {}, {row.high});
    model.node("MelWeightMatrix", {"b", "l", "r", "low", "high"}, {"y"}).output("y");
    CHECK(holds(evaluate(model, {})[0], row.shape, row.weights));
  }
}

TEST_CASE("onnx DFT, STFT and MelWeightMatrix refuse", "[frontend]") {
  CHECK_THAT(errorOf("DFT", 20, {{1, 4, 3}}), contains("input of [1, 4, 3] of f32 with \"inverse\" 0 and \"onesided\" 0"));
  CHECK_THAT(errorOf("DFT", 20, {{1, 4, 2}}, {{"onesided", int64_t(1)}}), contains("a onesided transform takes real numbers"));
  CHECK_THAT(errorOf("DFT", 17, {{1, 4, 2}}, {{"axis", int64_t(2)}}), contains("axis 2 is that of the real and imaginary parts"));
  CHECK_THAT(errorOf("DFT", 20, {{1, 1, 2}}, {{"onesided", int64_t(1)}, {"inverse", int64_t(1)}}), contains("dft_length is 0, not from 1"));
  CHECK_THAT(errorOf("DFT", 20, {{1, 5000, 1}}), contains("a transform of length 5000 takes a table of 5000 by 10000 numbers"));
  CHECK_THAT(errorOf("DFT", 20, {{1, 4, 1}, {1}}), contains("input \"dft_length\" has to be a list of integers known at compile time"));
  auto stft = [](std::vector<Dim> signal, double step, std::vector<Dim> window) {
    OnnxModel model = OnnxModel(17).input("x", std::move(signal)).initializer("s", TensorProto::INT64, {}, {step});
    return importError(model.input("w", std::move(window)).node("STFT", {"x", "s", "w"}, {"y"}).output("y"));
  };
  CHECK_THAT(stft({1, 8, 2}, 1, {4}), contains("signal of [1, 8, 2] of f32 with \"onesided\" 1"));
  CHECK_THAT(stft({1, 8, 1}, 0, {4}), contains("frames of 4, one each 0, do not fit into a signal of [1, 8, 1] of f32"));
  CHECK_THAT(stft({1, 8, 1}, 1, {9}), contains("frames of 9, one each 1, do not fit"));
  CHECK_THAT(stft({1, 8, 1}, 1, {2, 2}), contains("window of [2, 2] of f32 for frames of 8"));
  OnnxModel mel =
      OnnxModel(17).ints("n", {16}).initializer("low", TensorProto::FLOAT, {}, {10}).initializer("high", TensorProto::FLOAT, {}, {9});
  CHECK_THAT(importError(mel.node("MelWeightMatrix", {"n", "n", "n", "low", "high"}, {"y"}).output("y")),
             contains("no matrix of 16 bands from 10.000000 to 9.000000 hertz"));
}

} // namespace ashlar::test::spectrum_test
