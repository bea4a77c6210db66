// SPDX-License-Identifier: Apache-2.0
//
// How the buffers of a convolution become its operands. What it computes: e2e_cuda_conv, and the fuzzer with --target cuda.

#include "runtime/kernels/cuda/convolution.h"

#include <catch2/catch.hpp>

namespace ashlar::test::convolution_test {
namespace {

using namespace ashlar::rt;

// x (2, 5, 7, 6), y (2, 3, 7, 8) in 2 groups, weights (8, 3, 1, 3).
struct Example {
  explicit Example(uint32_t kind) {
    desc.kind = kind;
    desc.batch = 2;
    desc.groups = 2;
    desc.channels_in = 3;
    desc.channels_out = 4;
    desc.spatial_dims = 2;
    desc.dims[0] = {1, 1, 1, 1, 1, 0};
    desc.dims[1] = {5, 3, 3, 2, 1, 1};
    desc.dims[2] = {7, 7, 1, 1, 1, 0};
  }

  void add(uint32_t dtype, uint64_t bytes) {
    buffers.push_back({ASHLAR_RT_ARENA, dtype, 64 * buffers.size(), bytes});
    addresses.push_back(1000 + buffers.size());
  }

  Status sort(ConvolutionOperands &operands) {
    ashlar_rt_instr instr = {ASHLAR_RT_CONV, "conv", static_cast<uint32_t>(buffers.size()), buffers.data(), nullptr, &desc};
    return sortConvolutionOperands(instr, addresses, operands);
  }

  ashlar_rt_conv_desc desc = {};
  std::vector<ashlar_rt_buffer> buffers;
  std::vector<CUdeviceptr> addresses;
};

constexpr uint64_t kX = 2 * 5 * 7 * 6, kWeights = 8 * 3 * 3, kY = 2 * 3 * 7 * 8;

TEST_CASE("convolution: what is computed comes last", "[cuda][convolution]") {
  const uint64_t elements[][3] = {{kX, kWeights, kY}, {kY, kWeights, kX}, {kX, kY, kWeights}};
  for (uint32_t kind : {ASHLAR_RT_CONV_FORWARD, ASHLAR_RT_CONV_DATA, ASHLAR_RT_CONV_WEIGHTS}) {
    Example example(kind);
    for (uint64_t count : elements[kind - ASHLAR_RT_CONV_FORWARD]) {
      example.add(ASHLAR_RT_BF16, 2 * count);
    }
    ConvolutionOperands operands;
    REQUIRE(example.sort(operands).message() == "");
    CHECK((operands.first == 1001 && operands.second == 1002 && operands.out == 1003));
    CHECK(operands.dtype == ASHLAR_RT_BF16);
  }
}

TEST_CASE("convolution: buffers that do not fit are refused", "[cuda][convolution]") {
  Example example(ASHLAR_RT_CONV_FORWARD);
  example.add(ASHLAR_RT_F32, 4 * kX);
  example.add(ASHLAR_RT_F32, 4 * kWeights);
  ConvolutionOperands operands;
  CHECK_THAT(example.sort(operands).message(), Catch::StartsWith("conv: a convolution on cuda has 3 buffers and no epilogue, not 2,"));
  example.add(ASHLAR_RT_F32, 4 * kY + 4);
  CHECK(example.sort(operands).message() == "conv: buffer 2 has 1348 bytes of f32, not 1344 of f32");
  example.buffers[2] = {ASHLAR_RT_ARENA, ASHLAR_RT_BF16, 0, 2 * kY};
  CHECK(example.sort(operands).message() == "conv: buffer 2 has 672 bytes of bf16, not 1344 of f32");
  example.buffers[2] = {ASHLAR_RT_ARENA, ASHLAR_RT_F32, 0, 4 * kY};
  CHECK(example.sort(operands).message() == "");
  example.desc.has_bias = 1;
  CHECK_THAT(example.sort(operands).message(), Catch::Contains("not 3, scale 0, bias 1, residual 0, epilogue 0"));
}

} // namespace

} // namespace ashlar::test::convolution_test
