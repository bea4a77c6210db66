// SPDX-License-Identifier: Apache-2.0
//
// Attention, rotary embeddings and what goes with them, against the reference evaluator of ONNX 1.23 and PyTorch 2.15, where it has the op.

#include "test/unit/frontend/recorded_nodes.h"

#include "compiler/reference/equivalence.h"

#include <array>
#include <cmath>
#include <random>

namespace ashlar::test::attention_test {

using onnx::TensorProto;

namespace {

std::string refusal(const std::string &op, std::vector<std::vector<int64_t>> shapes, std::vector<Attribute> attributes = {}) {
  return errorOf(op, op == "Attention" || op == "RotaryEmbedding" ? 25 : 27, std::move(shapes), std::move(attributes));
}

} // namespace

TEST_CASE("onnx Attention", "[frontend]") {
  checkRecordedNodes({
      {"Attention",
       23,
       {},
       {{{2, 2, 2, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}},
       {{0, {2, 2, 2, 1}, {-0.2348405, -0.1172673, 0.4260291, 0.7287899, -0.2926621, -0.5466863, -0.537147, -0.2409686}}}},
      {"Attention",
       23,
       {{"scale", 0.25f}},
       {{{2, 2, 2, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}},
       {{0, {2, 2, 2, 1}, {-0.1504947, -0.0412002, 0.3609331, 0.4722838, -0.3992453, -0.4963847, -0.3031436, -0.1930635}}}},
      {"Attention",
       23,
       {{"is_causal", int64_t(1)}},
       {{{2, 2, 3, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}},
       {{0,
         {2, 2, 3, 1},
         {-0.125, 0.8900065, 0.0566995, 0.1875, 0.6383951, -0.3160893, 0.5, -0.8318641, -0.389738, 0.8125, -0.772133, -0.1794444}}}},
      {"Attention",
       23,
       {{"q_num_heads", int64_t(2)}, {"kv_num_heads", int64_t(2)}},
       {{{2, 2, 4}}, {{2, 3, 4}}, {{2, 3, 2}}},
       {{0, {2, 2, 2}, {0.5180967, 0.1565484, 0.3706692, 0.17085, -0.3035522, 0.5424081, -0.3166, -0.5178086}}}},
      {"Attention",
       23,
       {{"q_num_heads", int64_t(4)}, {"kv_num_heads", int64_t(2)}},
       {{{2, 1, 8}}, {{2, 3, 4}}, {{2, 3, 2}}},
       {{0, {2, 1, 4}, {0.5180967, -0.6846563, 0.2099406, 0.17085, -0.3035522, -0.3689895, -0.6013945, -0.5178086}}}},
      {"Attention",
       23,
       {},
       {{{2, 3, 1, 2}}, {{2, 1, 3, 2}}, {{2, 1, 3, 1}}},
       {{0, {2, 3, 1, 1}, {-0.2348405, -0.1172673, 0.0566996, 0.7287899, -0.4527924, -0.3160894}}}},
      {"Attention",
       23,
       {{"softcap", 0.5f}},
       {{{2, 2, 2, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}},
       {{0, {2, 2, 2, 1}, {-0.1060945, 0.0038276, 0.4188342, 0.5562354, -0.3880054, -0.4484905, -0.3863766, -0.1884632}}}},
      {"Attention",
       23,
       {},
       {{{2, 2, 2, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}, {{2, 3}, {1, 0, 1, 1, 1, 0}}},
       {{0, {2, 2, 2, 1}, {-0.3297678, 0.8900065, 0.0158823, 0.887716, 0.255234, -0.7725962, 0.1567736, -0.5193641}}}},
      {"Attention",
       23,
       {{"qk_matmul_output_mode", int64_t(3)}},
       {{{2, 2, 2, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}, {{2, 1, 2, 3}, {1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1}}},
       {{0, {2, 2, 2, 1}, {-0.3297678, 0, 0.0158823, 0, 0, -0.5466863, 0, -0.2409686}},
        {3, {2, 2, 2, 3}, {0.7573123, 0, 0.2426877, 0,         0,         0, 0.7966012, 0, 0.2033988, 0,         0,        0, 0,
                           0,         0, 0.172109,  0.3011055, 0.5267854, 0, 0,         0, 0.1435326, 0.2861183, 0.5703492}}}},
      {"Attention",
       23,
       {},
       {{{2, 2, 2, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}, {{2, 1, 3}}},
       {{0, {2, 2, 2, 1}, {-0.2125588, -0.5143619, 0.1833951, 0.2885504, 0.245445, -0.1205056, -0.0012293, 0.1472832}}}},
      {"Attention",
       24,
       {},
       {{{2, 2, 2, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}, {{2, 2}, {1, 0, 1, 1}}},
       {{0, {2, 2, 2, 1}, {-0.125, 0.8900065, 0.1875, 0.887716, 0.5, -0.7725962, 0.8125, -0.5193641}}}},
      {"Attention",
       24,
       {},
       {{{2, 2, 2, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}, {{2, 2}}},
       {{0, {2, 2, 2, 1}, {-0.1097126, 0.9827451, 0.2690957, 1.1470968, 0.3407519, -1.195118, 0.0260943, -0.9148355}}}},
      {"Attention",
       23,
       {{"is_causal", int64_t(1)}, {"softcap", 2.0f}},
       {{{2, 2, 2, 2}}, {{2, 2, 2, 2}}, {{2, 2, 2, 1}}, {{2, 3}, {1, 0, 1, 1, 1, 0}}, {{2, 2, 1, 2}}, {{2, 2, 1, 1}}},
       {{0, {2, 2, 2, 1}, {-1.125, -0.9878913, 0.03125, -0.4505251, 1.1875, 1.2810347, -0.8125, -0.5203331}},
        {1, {2, 2, 3, 2}, {1.3125, -0.6875, -0.84375, 0.3125,  1.46875, -0.53125, 0.46875,  -1.53125, 0.625,   -1.375, -0.21875, 0.9375,
                           -0.375, 0.78125, -1.0625,  0.09375, 1.25,    -0.75,    -1.21875, -0.0625,  0.40625, 1.5625, -0.4375,  0.71875}},
        {2, {2, 2, 3, 1}, {-1.125, -0.125, 1.03125, 0.03125, -0.96875, 0.1875, 1.1875, 1.34375, -0.65625, -0.8125, 0.5, -1.5}}}},
      {"Attention",
       24,
       {{"is_causal", int64_t(1)}},
       {{{2, 2, 2, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}, {}, {}, {}, {{2}, {3, 1}}},
       {{0, {2, 2, 2, 1}, {-0.0208393, -0.1172673, 0.6030542, 0.7287899, 0, 0.5, 0, 0.8125}}}},
      {"Attention",
       24,
       {},
       {{{2, 2, 2, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}, {}, {}, {}, {{2}, {2, 0}}},
       {{0, {2, 2, 2, 1}, {-0.0208393, 0.8900065, 0.6030542, 0.887716, 0, 0, 0, 0}}}},
      {"Attention",
       25,
       {{"left_window_size", int64_t(1)}, {"right_window_size", int64_t(0)}},
       {{{2, 2, 3, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}},
       {{0,
         {2, 2, 3, 1},
         {-0.125, 0.8900065, 0.3124535, 0.1875, 0.6383951, -0.3588869, 0.5, -0.8318641, -0.9756134, 0.8125, -0.772133, -0.3535094}}}},
      {"Attention",
       25,
       {{"right_window_size", int64_t(1)}},
       {{{2, 2, 3, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}},
       {{0,
         {2, 2, 3, 1},
         {-0.0208393, -0.1172673, 0.0566995, 0.887716, -0.4527924, -0.3160893, -0.342836, -0.5534686, -0.389738, -0.9907182, -0.4548014,
          -0.1794444}}}},
      {"Attention",
       25,
       {{"left_window_size", int64_t(0)}, {"is_causal", int64_t(1)}},
       {{{2, 2, 2, 2}}, {{2, 2, 2, 2}}, {{2, 2, 2, 1}}, {}, {{2, 2, 1, 2}}, {{2, 2, 1, 1}}},
       {{0, {2, 2, 2, 1}, {-0.125, 1.03125, -0.96875, 0.1875, 1.34375, -0.65625, 0.5, -1.5}}}},
      {"Attention",
       25,
       {{"left_window_size", int64_t(1)}, {"is_causal", int64_t(1)}},
       {{{2, 2, 2, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}, {}, {}, {}, {{2}, {3, 2}}},
       {{0, {2, 2, 2, 1}, {-0.0208393, -0.116809, 0.6030542, 1.0251637, 0.5, -0.7725962, 0.8125, -0.5193641}}}},
      {"Attention",
       25,
       {{"left_window_size", int64_t(0)}},
       {{{2, 2, 3, 2}}, {{2, 2, 1, 2}}, {{2, 2, 1, 1}}},
       {{0, {2, 2, 3, 1}, {-0.125, 0, 0, 1.03125, 0, 0, -0.96875, 0, 0, 0.1875, 0, 0}}}},
      {"Attention",
       23,
       {{"qk_matmul_output_mode", int64_t(0)}},
       {{{2, 2, 2, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}},
       {{3, {2, 2, 2, 3}, {0.8424515,  -1.4701469, -0.2955485, -0.7236796, 1.2484854,  1.5467961,  0.7188459,  0.1408689,
                           -0.6463398, 0.2900243,  0.7188459,  -0.9446505, -0.2955485, -0.7430146, -1.1904806, -1.4701469,
                           -0.9108143, -0.3514818, -0.8058531, 0.7602779,  0.4433228,  -0.843142,  -0.1532986, 0.5365449}}}},
      {"Attention",
       23,
       {{"qk_matmul_output_mode", int64_t(1)}, {"softcap", 0.5f}},
       {{{2, 2, 2, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}, {{2, 3}}},
       {{3, {2, 2, 2, 3}, {0.4667474,  -0.4972146, -0.2653421, -0.4475847, 0.4932667,  0.4979486,  0.4466161,  0.1372564,
                           -0.4299134, 0.2613504,  0.4466161,  -0.477656,  -0.2653421, -0.4512957, -0.4915233, -0.4972146,
                           -0.4745003, -0.3031228, -0.4617059, 0.4543972,  0.3548665,  -0.4668361, -0.1486691, 0.3953112}}}},
      {"Attention",
       23,
       {{"qk_matmul_output_mode", int64_t(2)}, {"softcap", 0.5f}, {"is_causal", int64_t(1)}},
       {{{2, 2, 2, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}, {{2, 3}}},
       {{3, {2, 2, 2, 3}, {1.0604974,  -INFINITY, -INFINITY,  0.4586653, -0.6004833, -INFINITY, 1.0403661,  -INFINITY,
                           -INFINITY,  1.1676004, -0.6471339, -INFINITY, 0.3284079,  -INFINITY, -INFINITY,  0.4090354,
                           -1.5682503, -INFINITY, 0.1320441,  -INFINITY, -INFINITY,  0.4394139, -1.2424191, -INFINITY}}}},
      {"Attention",
       23,
       {{"softmax_precision", int64_t(11)}},
       {{{2, 2, 2, 2}}, {{2, 2, 3, 2}}, {{2, 2, 3, 1}}},
       {{0, {2, 2, 2, 1}, {-0.2348405, -0.1172673, 0.4260291, 0.7287899, -0.2926621, -0.5466863, -0.537147, -0.2409687}}}},
  });
}

TEST_CASE("onnx RotaryEmbedding", "[frontend]") {
  checkRecordedNodes({
      {"RotaryEmbedding",
       23,
       {},
       {{{2, 2, 2, 4}}, {{2, 2, 2}}, {{2, 2, 2}}},
       {{0, {2, 2, 2, 4}, {1.4121094, 1.1621094, -0.4375,    -0.8095703, -1.0458984, -0.6054688, -1.2861328, 0.0830078,
                           -1.09375,  1.3193359, -0.6201172, -1.1035156, -1.5791016, -0.4482422, -1.3955078, 0.1582031,
                           0.3027344, 2.1240234, 1.7490234,  -1.4658203, 0.8037109,  0.2578125,  0.0351562,  -1.1425781,
                           0.4599609, 2.28125,   1.3183594,  -1.0214844, -0.6171875, -0.2753906, -0.7167969, -1.0195312}}}},
      {"RotaryEmbedding",
       23,
       {{"interleaved", int64_t(1)}},
       {{{1, 2, 2, 4}}, {{1, 2, 2}}, {{1, 2, 2}}},
       {{0,
         {1, 2, 2, 4},
         {1.2675781, 0.5380859, 1.5234375, 0.3828125, 0.8916016, 1.6513672, 0.4570312, -0.2919922, -1.2382812, 0.3554688, 1.6806641,
          0.0888672, 0.3583984, 1.5419922, 0.6142578, -0.2167969}}}},
      {"RotaryEmbedding",
       23,
       {{"rotary_embedding_dim", int64_t(2)}},
       {{{1, 2, 2, 4}}, {{5, 1}}, {{5, 1}}, {{1, 2}, {4, 1}}},
       {{0,
         {1, 2, 2, 4},
         {-0.4306641, -2.3535156, 0.75, -1.25, -1.125, 0.2353516, -0.9375, 0.21875, 1.6992188, 1.4570312, 0.53125, -1.46875, -0.9677734,
          -0.0585938, -1.15625, 0}}}},
      {"RotaryEmbedding",
       23,
       {{"rotary_embedding_dim", int64_t(4)}, {"interleaved", int64_t(1)}, {"num_heads", int64_t(2)}},
       {{{2, 1, 12}}, {{5, 2}}, {{5, 2}}, {{2, 1}, {0, 3}}},
       {{0, {2, 1, 12}, {1.2675781, 0.5380859, 1.5234375,  0.3828125,  -0.09375,   1.0625,     0.8183594,  -0.0673828,
                         1.0742188, 1.2226562, 0.53125,    -1.46875,   -0.3535156, -0.3408203, -1.0839844, 1.734375,
                         1.15625,   -0.84375,  -0.8027344, -0.1650391, 0.4394531,  1.3828125,  -1.375,     -0.21875}}}},
      {"RotaryEmbedding",
       23,
       {{"num_heads", int64_t(3)}},
       {{{1, 2, 12}}, {{1, 2, 2}}, {{1, 2, 2}}},
       {{0, {1, 2, 12}, {1.4121094, 1.1621094, -0.4375,    -0.8095703, -0.0380859, 0.1064453,  0.8027344,  1.1640625,
                         -1.09375,  1.3193359, -0.6201172, -1.1035156, -1.5791016, -0.4482422, -1.3955078, 0.1582031,
                         2.0009766, 0.1728516, -0.6611328, -0.9384766, -2.1123047, -0.2910156, -1.5048828, 0.2333984}}}},
  });
}

TEST_CASE("onnx LinearAttention", "[frontend]") {
  checkRecordedNodes({
      {"LinearAttention",
       27,
       {{"q_num_heads", int64_t(1)}, {"kv_num_heads", int64_t(1)}, {"update_rule", std::string("linear")}},
       {{{1, 3, 2}}, {{1, 3, 2}}, {{1, 3, 1}}},
       {{0, {1, 3, 1}, {-0.1053064, 1.3779606, 0.4925449}}, {1, {1, 1, 2, 1}, {1.0146484, 0.7451172}}}},
      {"LinearAttention",
       27,
       {{"q_num_heads", int64_t(2)}, {"kv_num_heads", int64_t(2)}, {"update_rule", std::string("gated")}, {"scale", 0.5f}},
       {{{1, 2, 4}}, {{1, 2, 4}}, {{1, 2, 2}}, {{1, 2, 2, 1}}, {{1, 2, 2}}},
       {{0, {1, 2, 2}, {-0.7366405, 0.5784529, -3.9058456, -0.1045307}}, {1, {1, 2, 2, 1}, {3.088326, -7.0796804, 0.2593638, 0.1558502}}}},
      {"LinearAttention",
       27,
       {{"q_num_heads", int64_t(2)}, {"kv_num_heads", int64_t(1)}, {"update_rule", std::string("gated")}},
       {{{1, 3, 4}}, {{1, 3, 2}}, {{1, 3, 1}}, {}, {{1, 3, 2}}},
       {{0, {1, 3, 2}, {-0.1053064, 0.09046, -0.5295289, -1.2018541, 0.484389, 0.0856495}}, {1, {1, 1, 2, 1}, {0.5513676, 0.1169616}}}},
      {"LinearAttention",
       27,
       {{"q_num_heads", int64_t(2)}, {"kv_num_heads", int64_t(2)}, {"update_rule", std::string("delta")}},
       {{{1, 3, 4}}, {{1, 3, 4}}, {{1, 3, 2}}, {}, {}, {{1, 3, 1}}},
       {{0, {1, 3, 2}, {0.1184697, -1.4484382, 0.0688908, 1.2180078, -1.6885152, 1.5806808}},
        {1, {1, 2, 2, 1}, {-1.6400378, 0.2125908, 1.1403824, -1.1095096}}}},
      {"LinearAttention",
       27,
       {{"q_num_heads", int64_t(4)}, {"kv_num_heads", int64_t(2)}},
       {{{2, 2, 8}}, {{2, 2, 4}}, {{2, 2, 4}}, {{2, 2, 2, 2}}, {{2, 2, 4}}, {{2, 2, 2}}},
       {{0, {2, 2, 8}, {-4.0841265, 8.9775486,  2.7266622,  -6.0391383, 0.2869156,  -0.132799, 1.1420565,  -0.0907274,
                        -0.399421,  4.343307,   -2.3888748, 9.9576902,  0.1489514,  0.5637491, 0.376181,   0.1719405,
                        0.753864,   1.7780952,  0.0099008,  1.0320604,  -2.3450961, 1.6854305, -5.5549307, 5.5109382,
                        1.1350596,  -0.9077086, -1.1980845, 2.7047913,  -0.4980288, 0.8909151, 1.1005889,  -1.8659688}},
        {1,
         {2, 2, 2, 2},
         {0.7596083, 0.1304646, 2.5749249, -9.54076, -0.4601083, -0.210301, 0.0792477, 0.8670133, 0.1622332, 1.9344378, -1.3676453,
          2.9150393, 1.0571835, -1.6984661, 0.2180147, -0.0342284}}}},
  });
}

// The recurrence as ONNX writes it, one step after the other, in doubles. Two batches; two heads of keys of 3 and values of 2 elements, and
// two of queries for each. `decays`: none, one a head or one an element.
struct Recurrence {
  bool isDelta;
  int64_t decays, steps;
  std::mt19937_64 random{7};
  std::vector<double> query = draw(24 * steps), key = draw(12 * steps), value = draw(8 * steps), state = draw(24);
  std::vector<double> decay = draw(4 * decays * steps, -0.25), beta = draw(4 * steps);

  std::vector<double> draw(int64_t count, double mean = 0) {
    std::vector<double> drawn(count);
    for (double &number : drawn) {
      number = static_cast<float>(mean + std::uniform_real_distribution<>(-0.5, 0.5)(random));
    }
    return drawn;
  }

  // Returns outputs and the last state.
  std::pair<std::vector<double>, std::vector<double>> run() const {
    std::vector<double> outputs, last = state;
    for (int64_t row = 0; row < 4 * steps; ++row) { // of a batch, of a step, of a head of keys
      double *s = &last[(row / (2 * steps) * 2 + row % 2) * 6];
      const double *k = &key[row * 3];
      for (int64_t i = 0; i < 6 && decays > 0; ++i) {
        s[i] *= std::exp(decay[row * decays + (decays > 1 ? i / 2 : 0)]);
      }
      std::array<double, 2> update = {value[row * 2], value[row * 2 + 1]};
      for (int64_t v = 0; v < 2 && isDelta; ++v) {
        update[v] = beta[row] * (update[v] - k[0] * s[v] - k[1] * s[2 + v] - k[2] * s[4 + v]);
      }
      for (int64_t i = 0; i < 6; ++i) {
        s[i] += k[i / 2] * update[i % 2];
      }
      for (int64_t i = 0; i < 4; ++i) { // of two queries
        const double *q = &query[row * 6 + i / 2 * 3];
        outputs.push_back((q[0] * s[i % 2] + q[1] * s[2 + i % 2] + q[2] * s[4 + i % 2]) / 2);
      }
    }
    return {outputs, last};
  }

  void check() const {
    const std::string rule = isDelta ? decays > 0 ? "gated_delta" : "delta" : decays > 0 ? "gated" : "linear";
    INFO(rule << ", " << decays << " decays, " << steps << " steps");
    OnnxModel model = OnnxModel(27).input("q", {2, steps, 12}).input("k", {2, steps, 6}).input("v", {2, steps, 4}).input("s", {2, 2, 3, 2});
    std::vector<std::string> names = {"q", "k", "v", "s", "", ""};
    std::vector<reference::Tensor> inputs = {f32({2, steps, 12}, query), f32({2, steps, 6}, key), f32({2, steps, 4}, value),
                                             f32({2, 2, 3, 2}, state)};
    if (decays > 0) {
      model.input(names[4] = "g", {2, steps, 2 * decays});
      inputs.push_back(f32({2, steps, 2 * decays}, decay));
    }
    if (isDelta) {
      model.input(names[5] = "b", {2, steps, 2});
      inputs.push_back(f32({2, steps, 2}, beta));
    }
    model.node("LinearAttention", names, {"y", "last"},
               {{"q_num_heads", int64_t(4)}, {"kv_num_heads", int64_t(2)}, {"update_rule", rule}, {"scale", 0.5f}});
    std::vector<reference::Tensor> results = evaluate(model.output("y").output("last"), inputs);
    auto [outputs, last] = run();
    CHECK(reference::maxDifference(f32({2, steps, 8}, outputs), results[0]) < 2e-5); // sums of some hundred terms in f32
    CHECK(reference::maxDifference(f32({2, 2, 3, 2}, last), results[1]) < 2e-5);
  }
};

// Of one step, of one chunk, of several with steps over.
TEST_CASE("onnx LinearAttention of many steps", "[frontend]") {
  bool isDelta = GENERATE(false, true);
  int64_t decays = GENERATE(0, 1, 3), steps = GENERATE(1, 2, 16, 33, 64, 65, 200);
  Recurrence{isDelta, decays, steps}.check();
}

TEST_CASE("onnx LinearAttention: decays to nothing, and keys that are alike", "[frontend]") {
  for (int64_t decays : {1, 3}) {
    Recurrence forgets{/*isDelta=*/true, decays, /*steps=*/70};
    for (size_t i = 0; i < forgets.decay.size(); i += 7) {
      forgets.decay[i] = i % 2 == 0 ? -INFINITY : -200;
    }
    forgets.check();
  }
  // The powers of the triangular system are binomials here, up to 10^18, and its inverse has no element above 1.
  Recurrence alike{/*isDelta=*/true, /*decays=*/0, /*steps=*/130};
  for (size_t i = 0; i < alike.key.size(); ++i) {
    alike.key[i] = i % 3 == 1 ? 1 : 0;
  }
  alike.beta.assign(alike.beta.size(), 1);
  alike.check();
}

TEST_CASE("onnx CausalConvWithState", "[frontend]") {
  checkRecordedNodes({
      {"CausalConvWithState",
       27,
       {},
       {{{1, 2, 4}}, {{2, 1, 3}}},
       {{0, {1, 2, 4}, {-2.2949219, -1.0849609, 2.2929688, -1.2587891, 0.1289062, -1.5195312, 2.0029297, -1.4511719}},
        {1, {1, 2, 2}, {0.75, -1.25, -0.9375, 0.21875}}}},
      {"CausalConvWithState",
       27,
       {{"activation", std::string("silu")}},
       {{{2, 2, 2}}, {{2, 1, 3}}, {{2}}, {{2, 2, 2}}},
       {{0, {2, 2, 2}, {-0.1127661, -0.0115814, 0.4670883, 2.5708556, 0.4510875, 1.075644, 0.9071068, 0.3560843}},
        {1, {2, 2, 2}, {-1.5625, -0.40625, 0.75, -1.25, -0.09375, 1.0625, -0.9375, 0.21875}}}},
      {"CausalConvWithState",
       27,
       {{"activation", std::string("swish")}},
       {{{1, 2, 1}}, {{2, 1, 4}}, {}, {{1, 2, 3}}},
       {{0, {1, 2, 1}, {-0.1828179, 1.411586}}, {1, {1, 2, 3}, {-1.40625, -0.25, -1.5625, -1.09375, 0.0625, -0.40625}}}},
      {"CausalConvWithState", 27, {}, {{{1, 1, 1}}, {{1, 1, 3}}}, {{0, {1, 1, 1}, {-2.2949219}}, {1, {1, 1, 2}, {0, -1.5625}}}},
      {"CausalConvWithState", 27, {}, {{{1, 2, 2}}, {{2, 1, 1}}, {{2}}}, {{0, {1, 2, 2}, {1.1933594, 0.2177734, 1.265625, 0.640625}}}},
  });
}

// Tables of angles are no parameters. Attention without a mask that may hide all keys asks for none.
TEST_CASE("onnx Attention and RotaryEmbedding leave out what is not needed", "[frontend]") {
  OnnxModel rotary = OnnxModel(23).input("x", {1, 2, 3, 4}).input("p", {1, 3}, TensorProto::INT64);
  rotary.initializer("c", TensorProto::FLOAT, {5, 2}, std::vector<double>(10, 1))
      .initializer("s", TensorProto::FLOAT, {5, 2}, std::vector<double>(10, 0));
  std::string text = print(*import(rotary.node("RotaryEmbedding", {"x", "c", "s", "p"}, {"y"}).output("y")));
  CHECK(text.find("nn.variable") == std::string::npos);
  text = print(
      *import(modelOf({"Attention", 23, {{"is_causal", int64_t(1)}}, {{{1, 2, 3, 4}}, {{1, 2, 3, 4}}, {{1, 2, 3, 4}}}, {{0, {}, {}}}})));
  CHECK(text.find("nn.reduce") == std::string::npos);
  CHECK(text.find("nn.select") == text.rfind("nn.select")); // the bias
}

TEST_CASE("onnx Attention refuses", "[frontend]") {
  std::vector<int64_t> x = {2, 2, 3, 4};
  CHECK_THAT(refusal("Attention", {{2, 3, 8}, {2, 3, 8}, {2, 3, 8}}),
             contains("input 0 of [2, 3, 8] of f32 is not (batch, sequence, heads * size) with attribute \"q_num_heads\" 0"));
  CHECK_THAT(refusal("Attention", {{2, 3, 8}, {2, 3, 8}, {2, 3, 8}}, {{"q_num_heads", int64_t(3)}}), contains("\"q_num_heads\" 3"));
  CHECK_THAT(refusal("Attention", {x, x, x}, {{"q_num_heads", int64_t(3)}}), contains("\"q_num_heads\" 3"));
  CHECK_THAT(refusal("Attention", {{2, 3, 3, 4}, x, x}), contains("they have one batch and one element type"));
  CHECK_THAT(refusal("Attention", {x, x, {2, 2, 2, 4}}), contains("and V of [2, 2, 2, 4] of f32 do not fit"));
  CHECK_THAT(refusal("Attention", {x, {2, 2, 0, 4}, {2, 2, 0, 4}}), contains("has no keys"));
  CHECK_THAT(refusal("Attention", {x, x, x, {}, x}), contains("\"past_key\" and \"past_value\" come together"));
  CHECK_THAT(refusal("Attention", {x, x, x, {}, x, x, {2}}), contains("without \"nonpad_kv_seqlen\""));
  CHECK_THAT(refusal("Attention", {x, x, x, {}, {2, 2, 3, 5}, x}),
             contains("input 4 of [2, 2, 3, 5] of f32 cannot stand before [2, 2, 3, 4] of f32"));
  CHECK_THAT(refusal("Attention", {x, x, x, {}, {}, {}, {2}}), contains("\"nonpad_kv_seqlen\" of [2] of f32 is not [2] of i64"));
  CHECK_THAT(refusal("Attention", {x, x, x, {1, 2, 2, 3, 3}}),
             contains("attn_mask of [1, 2, 2, 3, 3] of f32 does not fit scores of [2, 2, 3, 3] of f32"));
  CHECK_THAT(refusal("Attention", {x, x, x, {3, 4}}), contains("do not broadcast"));
  CHECK_THAT(refusal("Attention", {x, x, x}, {{"softcap", -1.0f}}), contains("attributes \"softcap\" -1.000000 and"));
  CHECK_THAT(refusal("Attention", {x, x, x}, {{"qk_matmul_output_mode", int64_t(4)}}), contains("one of 0, 1, 2, 3"));
  CHECK_THAT(refusal("Attention", {x, x, x}, {{"left_window_size", int64_t(-2)}}), contains("\"left_window_size\" -2"));
  CHECK_THAT(refusal("Attention", {x, x, x}, {{"softmax_precision", int64_t(7)}}),
             contains("\"softmax_precision\" is i64, which is no float"));
  OnnxModel mask = OnnxModel(23).input("x", {2, 2, 3, 4}).input("m", {3, 3}, TensorProto::INT64);
  CHECK_THAT(importError(mask.node("Attention", {"x", "x", "x", "m"}, {"y"}).output("y")),
             contains("attn_mask of [3, 3] of i64 is neither of bool nor of the type of Q"));
}

TEST_CASE("onnx RotaryEmbedding, LinearAttention and CausalConvWithState refuse", "[frontend]") {
  std::vector<int64_t> x = {2, 2, 3, 4}, table = {2, 3, 2};
  CHECK_THAT(refusal("RotaryEmbedding", {{2, 3, 8}, table, table}), contains("with attribute \"num_heads\" 0"));
  CHECK_THAT(refusal("RotaryEmbedding", {x, table, table}, {{"num_heads", int64_t(3)}}), contains("\"num_heads\" is 3 but X is"));
  CHECK_THAT(refusal("RotaryEmbedding", {x, table, {2, 3, 4}}),
             contains("input 2 of [2, 3, 4] of f32 is no table for [2, 2, 3, 4] of f32"));
  CHECK_THAT(refusal("RotaryEmbedding", {x, table, table, {2, 3}}), contains("position_ids of [2, 3] of f32 are not (batch, sequence)"));
  CHECK_THAT(refusal("RotaryEmbedding", {x, table, table}, {{"rotary_embedding_dim", int64_t(3)}}),
             contains("rotates 3 of the 4 elements"));
  std::vector<Attribute> heads = {{"q_num_heads", int64_t(2)}, {"kv_num_heads", int64_t(2)}, {"update_rule", std::string("linear")}};
  std::vector<int64_t> steps = {1, 3, 4};
  CHECK_THAT(refusal("LinearAttention", {steps, steps, steps}), contains("takes a decay and a beta"));
  CHECK_THAT(refusal("LinearAttention", {steps, steps, steps, {}, steps}, heads),
             contains("update rule \"linear\" takes no decay and no beta"));
  std::vector<int64_t> many = {1, 8193, 4};
  CHECK_THAT(refusal("LinearAttention", {many, many, many}, heads), contains("has 8193 steps; 1 to 8192 are supported"));
  many[1] = 0;
  CHECK_THAT(refusal("LinearAttention", {many, many, many}, heads), contains("has 0 steps; 1 to 8192 are supported"));
  CHECK_THAT(refusal("LinearAttention", {steps, {1, 3, 6}, steps}, heads), contains("have heads of different sizes"));
  CHECK_THAT(refusal("LinearAttention", {steps, {1, 2, 4}, steps}, heads),
             contains("input 1 of [1, 2, 4] of f32 is not (batch, steps, 2 * size)"));
  CHECK_THAT(refusal("LinearAttention", {steps, steps, steps, {1, 2, 2, 1}}, heads), contains("past_state of [1, 2, 2, 1] of f32 is not"));
  heads[2] = {"update_rule", std::string("other")};
  CHECK_THAT(refusal("LinearAttention", {steps, steps, steps}, heads), contains("\"update_rule\" is \"other\""));
  heads = {{"q_num_heads", int64_t(2)}, {"kv_num_heads", int64_t(4)}, {"update_rule", std::string("linear")}};
  CHECK_THAT(refusal("LinearAttention", {steps, steps, steps}, heads), contains("\"kv_num_heads\" 4 does not divide \"q_num_heads\" 2"));
  heads = {{"q_num_heads", int64_t(2)}, {"kv_num_heads", int64_t(2)}, {"update_rule", std::string("gated")}};
  CHECK_THAT(refusal("LinearAttention", {steps, steps, steps, {}, {1, 3, 6}}, heads), contains("has 3 elements a head, not 1 or 2"));
  many[1] = 2049;
  CHECK_THAT(refusal("LinearAttention", {many, many, many, {}, many}, heads),
             contains("has 2049 steps; 1 to 2048 are supported where each element of a key decays by itself"));
  CHECK_THAT(refusal("CausalConvWithState", {{1, 2, 4}, {2, 2, 3}}), contains("weight of [2, 2, 3] of f32 is not (channels, 1, size)"));
  CHECK_THAT(refusal("CausalConvWithState", {{1, 2, 4}, {2, 1, 3}, {}, {1, 2, 3}}),
             contains("past_state of [1, 2, 3] of f32 is not [1, 2, 2] of f32"));
  CHECK_THAT(refusal("CausalConvWithState", {{1, 2, 4}, {2, 1, 3}}, {{"activation", std::string("relu")}}),
             contains("\"activation\" is \"relu\"; one of none, silu, swish"));
}

} // namespace ashlar::test::attention_test
