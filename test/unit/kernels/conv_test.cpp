// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and their gradients against the plain loops of runtime/kernels/reference, for every kernel that this processor can run.

#include "test/unit/data/allocations.h"
#include "test/unit/kernels/conv_problem.h"

#include <thread>

namespace ashlar::test::conv_test {

using namespace ashlar::rt;
using namespace ashlar::rt::test;

namespace {

// Descriptors beyond one block of pixels, of the chain, of positions, of ordered panels, and of the table.
std::vector<ashlar_rt_conv_desc> longDescs() {
  std::vector<ashlar_rt_conv_desc> descs;
  for (uint32_t kind = ASHLAR_RT_CONV_FORWARD; kind <= ASHLAR_RT_CONV_WEIGHTS; ++kind) {
    descs.push_back(square(kind, 2, 15, 700, 130, 1, 1));
    descs.push_back(square(kind, 1, 5, 260, 300, 3, 1));
    descs.push_back(square(kind, 2, 9, 1024, 40, 1, 2)); // pixels are copied, in both directions
    descs.push_back(square(kind, 1, 9, 40, 1024, 1, 1));
    descs.push_back(square(kind, 1, 9, 40, 500, 5, 2));
    descs.push_back(square(kind, 2, 40, 3, 33, 7, 2));
    ashlar_rt_conv_desc places = square(kind, 1, 1, 5, 6, 1, 1);
    places.dims[0] = places.dims[1] = places.dims[2] = {11, 5, 9, 1, 1, 1};
    descs.push_back(places);
    places.groups = 40;
    places.channels_in = places.channels_out = 1;
    descs.push_back(places);
  }
  for (ashlar_rt_conv_desc &desc : descs) {
    if (desc.kind != ASHLAR_RT_CONV_WEIGHTS) {
      desc.has_scale = desc.has_bias = desc.has_residual = 1;
      desc.epilogue = ASHLAR_RT_EPILOGUE_RELU;
    }
  }
  return descs;
}

// Returns the share of a result in f32, having checked that the one of bf16 or f16 is that, rounded.
double shareOf(const TestedKernel &each, Problem &problem) {
  INFO(each.kernel->name << " " << describe(problem.desc));
  for (problem.desc.narrow_out = 0; problem.desc.narrow_out <= (each.narrow != 0 ? 1u : 0u); ++problem.desc.narrow_out) {
    Conv conv = prepared(problem.desc, 1, *each.kernel);
    problem.run(conv);
  }
  REQUIRE((each.narrow == 0 || problem.isRounded()));
  problem.desc.narrow_out = 0;
  const double share = problem.worstShare(each.flushes);
  REQUIRE(share <= 1);
  return share;
}

// Random shapes for each kernel.
void checkRandom(const std::vector<TestedKernel> &kernels, int rounds) {
  std::mt19937 random(1);
  for (const TestedKernel &each : kernels) {
    double worst = 0;
    for (int round = 0; round < rounds; ++round) {
      ashlar_rt_conv_desc desc = randomDesc(random);
      desc.narrow = each.narrow;
      Problem problem(desc, random);
      worst = std::max(worst, shareOf(each, problem));
    }
    WARN(each.kernel->name << ", type " << each.narrow << ": largest error " << static_cast<int>(100 * worst) << " % of what is allowed");
  }
}

void checkLong(const std::vector<TestedKernel> &kernels) {
  std::mt19937 random(2);
  for (const TestedKernel &each : kernels) {
    for (ashlar_rt_conv_desc desc : longDescs()) {
      desc.narrow = each.narrow;
      Problem problem(desc, random);
      shareOf(each, problem);
    }
  }
}

// Returns a random descriptor for a kernel.
ashlar_rt_conv_desc randomDescFor(const TestedKernel &each, std::mt19937 &random) {
  ashlar_rt_conv_desc desc = randomDesc(random);
  desc.narrow = each.narrow;
  desc.narrow_out = each.narrow != 0 ? random() % 2 : 0;
  return desc;
}

} // namespace

TEST_CASE("conv kernels: random shapes, windows and epilogues agree with the plain loops", "[kernels][conv]") {
  // Every kernel of this processor: depthwise, grouped, folded and plain ones, one to three spatial dims, strides, dilation, padding on one
  // side or of negative size.
  checkRandom(kernelsOf(/*isNarrow=*/false), 250);
}

TEST_CASE("conv kernels: long chains and many panels agree with the plain loops", "[kernels][conv]") {
  // Bias, residual and activation are added once.
  checkLong(kernelsOf(/*isNarrow=*/false));
}

TEST_CASE("narrow conv: random shapes, windows and epilogues agree with the plain loops", "[kernels][conv]") {
  // A result in f32 within the bound; the one of bf16 or f16 is that, rounded once.
  checkRandom(kernelsOf(/*isNarrow=*/true), 120);
}

TEST_CASE("narrow conv: long chains and many panels agree with the plain loops", "[kernels][conv]") {
  // Sums stay in f32 from block to block.
  checkLong(kernelsOf(/*isNarrow=*/true));
}

TEST_CASE("narrow conv: every number is taken and given as it is", "[kernels][conv]") {
  // Products with 1 are the numbers themselves, of all kinds, and depthwise. Numbers below 2^-126 may count as 0 where the kernel flushes.
  constexpr int64_t kCount = 65536;
  const ashlar_rt_conv_dim pixels = {kCount, kCount, 1, 1, 1, 0};
  for (const TestedKernel &each : kernelsOf(/*isNarrow=*/true)) {
    const auto check = [&](ashlar_rt_conv_desc desc) {
      std::mt19937 random(9);
      desc.narrow = each.narrow;
      Problem problem(desc, random);
      std::fill(problem.b.values.begin(), problem.b.values.end(), 1.0f);
      problem.round();
      REQUIRE(problem.a.halves.size() == kCount);
      REQUIRE(problem.size() == kCount);
      for (int64_t i = 0; i < kCount; ++i) {
        problem.a.halves[i] = static_cast<uint16_t>(i);
      }
      for (problem.desc.narrow_out = 0; problem.desc.narrow_out < 2; ++problem.desc.narrow_out) {
        Conv conv = prepared(problem.desc, 1, *each.kernel);
        problem.run(conv);
        for (int64_t i = 0; i < kCount; ++i) {
          const float exact = widened(static_cast<uint16_t>(i), each.narrow), value = problem.outOf(i);
          INFO(each.kernel->name << " " << describe(problem.desc) << ": " << i << " is " << value << ", exactly " << exact);
          const bool isFlushed = each.flushes && std::fabs(exact) < 0x1p-126f && value == 0;
          REQUIRE((std::isnan(exact) ? std::isnan(value) : value == exact || isFlushed));
        }
      }
    };
    check({ASHLAR_RT_CONV_FORWARD, 0, 0, 0, ASHLAR_RT_EPILOGUE_NONE, 0, 0, 1, 1, 1, 1, 1, {kUnit, kUnit, pixels}, 0, 0});
    check({ASHLAR_RT_CONV_DATA, 0, 0, 0, ASHLAR_RT_EPILOGUE_NONE, 0, 0, 1, 1, 1, 1, 1, {kUnit, kUnit, pixels}, 0, 0});
    check({ASHLAR_RT_CONV_WEIGHTS, 0, 0, 0, ASHLAR_RT_EPILOGUE_NONE, 0, 0, 1, 1, 1, kCount, 1, {kUnit, kUnit, kUnit}, 0, 0});
    for (uint32_t kind = ASHLAR_RT_CONV_FORWARD; kind <= ASHLAR_RT_CONV_WEIGHTS; ++kind) {
      check({kind, 0, 0, 0, ASHLAR_RT_EPILOGUE_NONE, 0, 0, 1, 1, kCount, 1, 1, {kUnit, kUnit, kUnit}, 0, 0});
    }
  }
}

TEST_CASE("narrow conv: small numbers are within the bound", "[kernels][conv]") {
  std::mt19937 random(10);
  for (const TestedKernel &each : kernelsOf(/*isNarrow=*/true)) {
    for (int round = 0; round < 30; ++round) {
      ashlar_rt_conv_desc desc = randomDesc(random);
      desc.narrow = each.narrow;
      desc.epilogue = round % 2 == 0 ? ASHLAR_RT_EPILOGUE_NONE : ASHLAR_RT_EPILOGUE_RELU;
      desc.epilogue = desc.kind == ASHLAR_RT_CONV_WEIGHTS ? uint32_t{ASHLAR_RT_EPILOGUE_NONE} : desc.epilogue;
      Problem problem(desc, random);
      for (Operand *operand : {&problem.a, &problem.b, &problem.scale, &problem.bias, &problem.residual}) {
        for (float &value : operand->values) {
          value = std::ldexp(value, -static_cast<int>(random() % 140));
        }
      }
      problem.round();
      INFO(each.kernel->name << " " << describe(desc));
      Conv conv = prepared(desc, 1, *each.kernel);
      problem.run(conv);
      REQUIRE(problem.worstShare(each.flushes) <= 1);
    }
  }
}

TEST_CASE("conv: any number of threads gives the same bits", "[kernels][conv]") {
  std::mt19937 random(3);
  const std::vector<TestedKernel> kernels = allKernels();
  for (size_t round = 0; round < 120; ++round) {
    const TestedKernel &each = kernels[round % kernels.size()];
    const ashlar_rt_conv_desc desc = randomDescFor(each, random);
    Problem problem(desc, random);
    Conv one = prepared(desc, 1, *each.kernel);
    problem.run(one);
    const Operand expected = problem.out;
    for (int threads = 2; threads <= 5; ++threads) {
      problem.clear();
      Conv conv = prepared(desc, threads, *each.kernel);
      INFO(each.kernel->name << " " << describe(desc) << " threads " << threads << " parts " << conv.parts());
      REQUIRE(conv.parts() >= 1);
      REQUIRE(conv.parts() <= threads);
      std::vector<std::thread> pool;
      for (int part = 0; part < conv.parts(); ++part) {
        pool.emplace_back([&, part] { problem.runPart(conv, part); });
      }
      for (std::thread &thread : pool) {
        thread.join();
      }
      REQUIRE(problem.equals(expected));
    }
  }
}

TEST_CASE("conv: the bits of a sample do not depend on the rest of the batch", "[kernels][conv]") {
  // What makes a data-parallel run repeat the numbers of one rank.
  std::mt19937 random(4);
  const std::vector<TestedKernel> kernels = allKernels();
  for (size_t round = 0; round < 120; ++round) {
    const TestedKernel &each = kernels[round / 2 % kernels.size()];
    ashlar_rt_conv_desc desc = randomDescFor(each, random);
    desc.kind = ASHLAR_RT_CONV_FORWARD + round % 2;
    desc.batch = 4;
    Problem whole(desc, random);
    Conv ofWhole = prepared(desc, 2, *each.kernel);
    whole.run(ofWhole);
    desc.batch = 1;
    Conv single = prepared(desc, 1, *each.kernel);
    Problem parts = whole;
    parts.clear();
    const int64_t in = static_cast<int64_t>(whole.a.values.size()) / 4, out = static_cast<int64_t>(whole.size()) / 4;
    for (int64_t i = 0; i < 4; ++i) {
      const bool isNarrow = parts.isNarrow(), isOutNarrow = parts.isOutNarrow();
      single.run(parts.a.at(isNarrow, i * in), parts.b.at(isNarrow), parts.scale.at(isOutNarrow), parts.bias.at(isOutNarrow),
                 parts.residual.at(isOutNarrow, i * out), parts.out.at(isOutNarrow, i * out));
    }
    INFO(each.kernel->name << " " << describe(desc));
    REQUIRE(parts.equals(whole.out));
  }
}

TEST_CASE("conv: special values reach the pixels whose windows hold them, and no others", "[kernels][conv]") {
  // One NaN and one infinity in the input of all kinds; weights are positive, so that an infinity stays one.
  std::mt19937 random(5);
  for (const TestedKernel &each : allKernels()) {
    for (int round = 0; round < 60; ++round) {
      const ashlar_rt_conv_desc desc = randomDescFor(each, random);
      Problem problem(desc, random);
      problem.b.values = absolute(problem.b.values);
      std::replace(problem.b.values.begin(), problem.b.values.end(), 0.0f, 1.0f);
      problem.a.values[random() % problem.a.values.size()] = std::numeric_limits<float>::infinity();
      problem.a.values[random() % problem.a.values.size()] = std::numeric_limits<float>::quiet_NaN();
      problem.round();
      Conv conv = prepared(desc, 2, *each.kernel);
      problem.run(conv);
      const Floats exact = problem.exact();
      for (size_t i = 0; i < exact.size(); ++i) {
        const float found = problem.outOf(i);
        INFO(each.kernel->name << " " << describe(desc) << " element " << i << " is " << found << ", exactly " << exact[i]);
        REQUIRE(std::isnan(found) == std::isnan(exact[i]));
        REQUIRE((!std::isinf(exact[i]) || found == exact[i]));
        REQUIRE(std::isinf(found) == std::isinf(exact[i]));
      }
    }
  }
}

TEST_CASE("conv: what is in the workspace, and running twice, change nothing", "[kernels][conv]") {
  // Convolutions that share a workspace with others find it full of their numbers.
  std::mt19937 random(6);
  GemmWorkspace workspace;
  const std::vector<TestedKernel> kernels = allKernels();
  for (size_t round = 0; round < 100; ++round) {
    const TestedKernel &each = kernels[round % kernels.size()];
    const ashlar_rt_conv_desc desc = randomDescFor(each, random);
    Problem problem(desc, random);
    Conv own = prepared(desc, 2, *each.kernel);
    problem.run(own);
    const Operand expected = problem.out;
    Conv conv = prepared(desc, 2, *each.kernel, &workspace);
    REQUIRE(workspace.bytes() >= convWorkspaceBytes(desc) * conv.parts());
    std::memset(static_cast<void *>(workspace.data()), 0xff, workspace.bytes()); // NaN
    INFO(each.kernel->name << " " << describe(desc));
    for (int run = 0; run < 2; ++run) {
      problem.clear();
      problem.run(conv);
      REQUIRE(problem.equals(expected));
    }
  }
}

TEST_CASE("conv: fixed weights are ordered once, and change no bit", "[kernels][conv]") {
  std::mt19937 random(8);
  std::vector<ashlar_rt_conv_desc> descs = {square(ASHLAR_RT_CONV_FORWARD, 1, 5, 512, 500, 3, 1), // several blocks of panels
                                            square(ASHLAR_RT_CONV_DATA, 1, 5, 500, 512, 3, 1)};
  for (int round = 0; round < 40; ++round) {
    descs.push_back(randomDesc(random));
  }
  for (const ashlar_rt_conv_desc &drawn : descs) {
    for (const TestedKernel &each : allKernels()) {
      ashlar_rt_conv_desc desc = drawn;
      desc.kind = desc.kind == ASHLAR_RT_CONV_WEIGHTS ? uint32_t{ASHLAR_RT_CONV_FORWARD} : desc.kind;
      desc.narrow = each.narrow;
      desc.narrow_out = each.narrow != 0 ? random() % 2 : 0;
      const int threads = 1 + static_cast<int>(random() % 3);
      INFO(each.kernel->name << " " << threads << " threads " << describe(desc));
      Problem problem(desc, random);
      Conv plain = prepared(desc, threads, *each.kernel);
      problem.run(plain);
      Operand wanted = problem.out;
      desc.fixed_weights = 1;
      Conv fixed = prepared(desc, threads, *each.kernel);
      GemmWorkspace memory;
      REQUIRE(memory.reserve(orderedWeightBytes(desc)).ok());
      std::memset(static_cast<void *>(memory.data()), 0xff, orderedWeightBytes(desc)); // NaN
      const auto order = [&] {
        for (int piece = 0; piece < fixed.orderedPieces(); ++piece) {
          fixed.order(piece, problem.b.at(problem.isNarrow()), memory.data());
        }
      };
      const auto runsTo = [&](const Operand &result) {
        problem.clear();
        problem.run(fixed, memory.data());
        return problem.equals(result);
      };
      order();
      REQUIRE(runsTo(wanted));
      std::reverse(problem.b.values.begin(), problem.b.values.end()); // it does not look at the weights again until they are ordered
      problem.round();
      REQUIRE(runsTo(wanted));
      order();
      problem.run(plain);
      wanted = problem.out;
      REQUIRE(runsTo(wanted));
    }
  }
}

TEST_CASE("conv: refuses what only a broken image can hold", "[kernels][conv]") {
  Conv conv;
  const auto message = [&](const ashlar_rt_conv_desc &desc) {
    const Status status = Conv::prepare(desc, 1, conv);
    REQUIRE(status.code() == StatusCode::kInternal);
    return status.message();
  };
  const ashlar_rt_conv_desc good = square(ASHLAR_RT_CONV_FORWARD, 1, 4, 2, 2, 3, 1);
  ashlar_rt_conv_desc bad = good;
  bad.kind = 4;
  CHECK(message(bad) == "convolution of kind 4: the last known one is 3");
  bad = square(ASHLAR_RT_CONV_WEIGHTS, 1, 4, 2, 2, 3, 1);
  bad.fixed_weights = 1;
  CHECK(message(bad) == "gradient of a filter with fixed weights 1: it has none");
  bad = good;
  bad.epilogue = 99;
  CHECK(message(bad) == "convolution with epilogue 99: the last known one is 5");
  bad = good;
  bad.groups = 0;
  CHECK(message(bad) == "convolution with batch 1, 0 groups, 2 channels in and 2 out: every size must be at least 1");
  bad = good;
  bad.dims[1].stride = 0;
  CHECK(message(bad) == "convolution over a dim with in 4, out 4, kernel 3, stride 0, dilation 1: every one must be at least 1");
  bad = square(ASHLAR_RT_CONV_WEIGHTS, 1, 4, 2, 2, 3, 1);
  bad.has_bias = 1;
  CHECK(message(bad) == "gradient of a filter with scale 0, bias 1, residual 0, epilogue 0: it has none of them");
  bad = good;
  bad.narrow = ASHLAR_RT_F64;
  CHECK(message(bad) == "convolution of type 2, narrow result 0: the types are 7 and 6");
  bad = good;
  bad.narrow_out = 1;
  CHECK(message(bad) == "convolution of type 0, narrow result 1: the types are 7 and 6");
}

TEST_CASE("conv: running does not allocate", "[kernels][conv]") {
  std::mt19937 random(7);
  const std::vector<TestedKernel> kernels = allKernels();
  for (size_t round = 0; round < 40; ++round) {
    const TestedKernel &each = kernels[round % kernels.size()];
    const ashlar_rt_conv_desc desc = randomDescFor(each, random);
    Problem problem(desc, random);
    Conv conv = prepared(desc, 2, *each.kernel);
    const uint64_t before = ashlar::test::allocations();
    problem.run(conv);
    REQUIRE(ashlar::test::allocations() == before);
  }
}

} // namespace ashlar::test::conv_test
