// SPDX-License-Identifier: Apache-2.0
//
// The choice of tokens: which ones may be drawn, how often, and that a draw depends on text and position alone.

#include "runtime/run/generate/sampler.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <map>

namespace ashlar::test::sampler_test {
namespace {

using namespace ashlar::rt;

// The share of each token among draws at many positions.
std::map<int64_t, double> sharesOf(Sampling sampling, const std::vector<float> &logits, int draws = 40000) {
  Sampler sampler(sampling);
  std::map<int64_t, double> shares;
  for (int position = 0; position < draws; ++position) {
    int64_t token = -1;
    REQUIRE(sampler.choose(logits.data(), logits.size(), /*text=*/3, position, token).ok());
    shares[token] += 1.0 / draws;
  }
  return shares;
}

int64_t chosen(Sampling sampling, const std::vector<float> &logits, uint64_t text = 0, uint64_t position = 0) {
  int64_t token = -1;
  REQUIRE(Sampler(sampling).choose(logits.data(), logits.size(), text, position, token).ok());
  return token;
}

// Probabilities 0.1, 0.4, 0.2, 0.3 at temperature 1.
std::vector<float> tenths() {
  return {std::log(1.0F), std::log(4.0F), std::log(2.0F), std::log(3.0F)};
}

TEST_CASE("sampler: temperature 0 takes the largest logit, the first of equal ones", "[runtime][sampler]") {
  CHECK(chosen({}, {1, 5, -2, 5}) == 1);
  CHECK(chosen({}, {-INFINITY, -3, -INFINITY}) == 1);
  CHECK(chosen({}, {0}) == 0);
}

TEST_CASE("sampler: tokens are drawn by their probabilities", "[runtime][sampler]") {
  std::map<int64_t, double> shares = sharesOf({.temperature = 1, .seed = 7}, tenths());
  for (auto [token, share] : {std::pair<int64_t, double>(0, 0.1), {1, 0.4}, {2, 0.2}, {3, 0.3}}) {
    CHECK(shares[token] == Approx(share).margin(0.01)); // 4 deviations of 40000 draws
  }
  shares = sharesOf({.temperature = 0.5, .seed = 7}, tenths()); // squares: 1, 16, 4, 9 of 30
  CHECK(shares[1] == Approx(16.0 / 30).margin(0.01));
  CHECK(shares[0] == Approx(1.0 / 30).margin(0.01));
  CHECK(sharesOf({.temperature = 1}, {0, -INFINITY, 0}).count(1) == 0);
}

TEST_CASE("sampler: top-k and top-p leave the most likely tokens", "[runtime][sampler]") {
  std::map<int64_t, double> two = sharesOf({.temperature = 1, .topK = 2, .seed = 1}, tenths());
  CHECK(two.size() == 2);
  CHECK(two[1] == Approx(4.0 / 7).margin(0.01));
  CHECK(two[3] == Approx(3.0 / 7).margin(0.01));
  CHECK(sharesOf({.temperature = 1, .topP = 0.69}, tenths()).size() == 2); // 0.4 + 0.3 reach it
  CHECK(sharesOf({.temperature = 1, .topP = 0.71}, tenths()).size() == 3);
  CHECK(sharesOf({.temperature = 1, .topP = 0}, tenths()).size() == 1);
  CHECK(sharesOf({.temperature = 1, .topK = 9}, tenths()).size() == 4);
  // Of the three of top-k, 4/9 and 3/9 reach 0.7; of all, 0.4 and 0.3 would just do.
  CHECK(sharesOf({.temperature = 1, .topK = 3, .topP = 0.7}, tenths()).size() == 2);
  CHECK(sharesOf({.temperature = 1, .topK = 2}, {1, 1, 1, 1}).rbegin()->first == 1); // the first of equal ones
}

TEST_CASE("sampler: a draw depends on seed, text and position", "[runtime][sampler]") {
  const std::vector<float> logits(1000, 0.0F);
  const Sampling sampling{.temperature = 1, .seed = 5};
  const int64_t token = chosen(sampling, logits, 2, 9);
  Sampler used(sampling);
  int64_t again = -1;
  REQUIRE(used.choose(logits.data(), logits.size(), 4, 1, again).ok());
  REQUIRE(used.choose(logits.data(), logits.size(), 2, 9, again).ok());
  CHECK(again == token);
  CHECK(chosen(sampling, logits, 3, 9) != token);
  CHECK(chosen(sampling, logits, 2, 10) != token);
  CHECK(chosen({.temperature = 1, .seed = 6}, logits, 2, 9) != token);
}

TEST_CASE("sampler: the smallest temperature takes the most likely token", "[runtime][sampler]") {
  CHECK(chosen({.temperature = 1e-320}, {1, 5, -2, 4}) == 1);
}

TEST_CASE("sampler: logits from which nothing can be drawn are reported", "[runtime][sampler]") {
  int64_t token = -1;
  for (const Sampling &sampling : {Sampling{}, Sampling{.temperature = 1, .topK = 1}}) {
    for (const std::vector<float> &logits : {std::vector<float>{0, NAN}, {INFINITY, 0}, {-INFINITY, -INFINITY}}) {
      const Status status = Sampler(sampling).choose(logits.data(), logits.size(), 0, 17, token);
      CHECK(status.code() == StatusCode::kNonfinite);
      CHECK(status.message().find("behind position 17") != std::string::npos);
    }
  }
}

} // namespace

} // namespace ashlar::test::sampler_test
