// SPDX-License-Identifier: Apache-2.0
//
// How the buffers of a matrix product become its operands.

#include "runtime/kernels/cuda/matmul.h"

#include <catch2/catch.hpp>

namespace ashlar::test::matmul_test {
namespace {

using namespace ashlar::rt;

// A product of (2, 3) by (3, 130).
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
    ashlar_rt_instr instr = {ASHLAR_RT_GEMM, "product", static_cast<uint32_t>(buffers.size()), buffers.data(), nullptr, &desc};
    return sortMatmulOperands(instr, addresses, operands);
  }

  ashlar_rt_gemm_desc desc = {};
  std::vector<ashlar_rt_buffer> buffers;
  std::vector<CUdeviceptr> addresses;
};

TEST_CASE("matmul: the bias comes before out, sums after it, and both have its type", "[cuda][matmul]") {
  Example forward;
  forward.desc.addend = ASHLAR_RT_ADDEND_BIAS;
  forward.desc.epilogue = ASHLAR_RT_EPILOGUE_RELU;
  forward.add(ASHLAR_RT_BF16, 2 * 6);
  forward.add(ASHLAR_RT_BF16, 2 * 390);
  forward.add(ASHLAR_RT_F32, 4 * 130);
  forward.add(ASHLAR_RT_F32, 4 * 260);
  MatmulOperands operands;
  REQUIRE(forward.sort(operands).message() == "");
  CHECK(operands.bias == 1003);
  CHECK(operands.out == 1004);
  CHECK(operands.sums == 0);
  CHECK(operands.inDtype == ASHLAR_RT_BF16);
  CHECK(operands.outDtype == ASHLAR_RT_F32);

  // Of A there are as many sums as rows of out, of B as columns.
  for (uint32_t of : {ASHLAR_RT_SUM_OF_A, ASHLAR_RT_SUM_OF_B}) {
    Example backward;
    backward.desc.operand_sum = of;
    backward.add(ASHLAR_RT_F32, 4 * 6);
    backward.add(ASHLAR_RT_F32, 4 * 390);
    backward.add(ASHLAR_RT_F32, 4 * 260);
    backward.add(ASHLAR_RT_F32, of == ASHLAR_RT_SUM_OF_A ? 4 * 2 : 4 * 130);
    REQUIRE(backward.sort(operands).message() == "");
    CHECK(operands.out == 1003);
    CHECK(operands.sums == 1004);
    CHECK(operands.bias == 0);
  }
}

TEST_CASE("matmul: what out holds is no operand of its own", "[cuda][matmul]") {
  Example sum;
  sum.desc.addend = ASHLAR_RT_ADDEND_OUT;
  sum.add(ASHLAR_RT_BF16, 2 * 6);
  sum.add(ASHLAR_RT_BF16, 2 * 390);
  sum.add(ASHLAR_RT_F32, 4 * 260);
  MatmulOperands operands;
  REQUIRE(sum.sort(operands).message() == "");
  CHECK((operands.out == 1003 && operands.bias == 0 && operands.outDtype == ASHLAR_RT_F32));
  sum.add(ASHLAR_RT_F32, 4 * 260);
  CHECK(sum.sort(operands).message() == "product: a matrix product has 4 buffers, not 3");
}

TEST_CASE("matmul: an auxiliary tensor that is read comes before out, one that is written last", "[cuda][matmul]") {
  // A mask has 256 bits for 130 columns.
  Example forward;
  forward.desc.addend = ASHLAR_RT_ADDEND_BIAS;
  forward.desc.epilogue = ASHLAR_RT_EPILOGUE_RELU;
  forward.desc.auxiliary = ASHLAR_RT_AUXILIARY_WRITTEN;
  forward.desc.auxiliary_row = 256;
  forward.add(ASHLAR_RT_BF16, 2 * 6);
  forward.add(ASHLAR_RT_BF16, 2 * 390);
  forward.add(ASHLAR_RT_BF16, 2 * 130);
  forward.add(ASHLAR_RT_BF16, 2 * 260);
  forward.add(ASHLAR_RT_I8, 2 * 32);
  MatmulOperands operands;
  REQUIRE(forward.sort(operands).message() == "");
  CHECK(operands.bias == 1003);
  CHECK(operands.out == 1004);
  CHECK(operands.auxiliary == 1005);

  Example backward;
  backward.desc.epilogue = ASHLAR_RT_EPILOGUE_GELU_TANH;
  backward.desc.auxiliary = ASHLAR_RT_AUXILIARY_READ;
  backward.desc.auxiliary_row = 130;
  backward.add(ASHLAR_RT_F32, 4 * 6);
  backward.add(ASHLAR_RT_F32, 4 * 390);
  backward.add(ASHLAR_RT_F32, 4 * 260);
  backward.add(ASHLAR_RT_F32, 4 * 260);
  REQUIRE(backward.sort(operands).message() == "");
  CHECK(operands.auxiliary == 1003);
  CHECK(operands.out == 1004);
  backward.desc.epilogue = ASHLAR_RT_EPILOGUE_RELU;
  backward.desc.auxiliary_row = 256;
  CHECK(backward.sort(operands).message() == "product: the mask has 1040 bytes of f32, not 64 of i8");
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

} // namespace ashlar::test::matmul_test
