// SPDX-License-Identifier: Apache-2.0
//
// How the buffers of a matrix product become its operands.

#include "runtime/kernels/cuda/matmul.h"

#include <catch2/catch.hpp>

namespace {

using namespace ashlar::rt;

// A product of (2, 3) by (3, 130): a mask row takes 256 bits.
struct Example {
  Example() {
    desc.batch = 1;
    desc.m = 2;
    desc.k = 3;
    desc.n = 130;
  }

  void add(uint32_t dtype, uint64_t bytes) {
    buffers.push_back({ASHLAR_RT_ARENA, dtype, 64 * buffers.size(), bytes});
    addresses.push_back(1000 + buffers.size());
  }

  Status sort(MatmulOperands &operands) {
    ashlar_rt_instr instr = {ASHLAR_RT_GEMM, "product", static_cast<uint32_t>(buffers.size()), buffers.data(), &desc};
    return sortMatmulOperands(instr, addresses, operands);
  }

  ashlar_rt_gemm_desc desc = {};
  std::vector<ashlar_rt_buffer> buffers;
  std::vector<CUdeviceptr> addresses;
};

TEST_CASE("matmul: a mask that is written comes after out, one that is read before", "[cuda][matmul]") {
  Example forward;
  forward.desc.has_bias = 1;
  forward.desc.epilogue = ASHLAR_RT_EPILOGUE_RELU;
  forward.desc.mask = ASHLAR_RT_MASK_WRITE;
  for (uint64_t bytes : {2 * 6, 2 * 390, 4 * 130, 4 * 260}) {
    forward.add(bytes < 1000 && bytes != 520 ? ASHLAR_RT_BF16 : ASHLAR_RT_F32, bytes);
  }
  forward.add(ASHLAR_RT_BOOL, 2 * 32);
  MatmulOperands operands;
  REQUIRE(forward.sort(operands).message() == "");
  CHECK(operands.bias == 1003);
  CHECK(operands.out == 1004);
  CHECK(operands.mask == 1005);
  CHECK(operands.inDtype == ASHLAR_RT_BF16);
  CHECK(operands.outDtype == ASHLAR_RT_F32);

  Example backward;
  backward.desc.mask = ASHLAR_RT_MASK_READ;
  backward.desc.has_bias_gradient = 1;
  backward.add(ASHLAR_RT_F32, 4 * 6);
  backward.add(ASHLAR_RT_F32, 4 * 390);
  backward.add(ASHLAR_RT_BOOL, 2 * 32);
  backward.add(ASHLAR_RT_F32, 4 * 260);
  backward.add(ASHLAR_RT_F32, 4 * 130);
  REQUIRE(backward.sort(operands).message() == "");
  CHECK(operands.mask == 1003);
  CHECK(operands.out == 1004);
  CHECK(operands.biasGradient == 1005);
  CHECK(operands.bias == 0);
}

TEST_CASE("matmul: buffers that do not fit are refused", "[cuda][matmul]") {
  Example example;
  example.add(ASHLAR_RT_F32, 4 * 6);
  example.add(ASHLAR_RT_F32, 4 * 390);
  MatmulOperands operands;
  CHECK(example.sort(operands).message() == "product: a matrix product has 2 buffers, not 3");
  example.add(ASHLAR_RT_F32, 4 * 261);
  CHECK(example.sort(operands).message() == "product: out has 1044 bytes of f32, not 1040 of f32");
}

} // namespace
