// SPDX-License-Identifier: Apache-2.0
//
// Products where cuBLASLt refuses something, on the emulator: several calls give the bits of one.

#include "runtime/kernels/cuda/matmul.h"
#include "test/unit/kernels/cuda/emulated_device.h"

using namespace ashlar;
using namespace ashlar::rt;
using ashlar::test::EmulatedDevice;
using ashlar::test::Setting;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

struct Types {
  uint32_t in, out;
};

constexpr Types kTypes[] = {{ASHLAR_RT_F32, ASHLAR_RT_F32},
                            {ASHLAR_RT_BF16, ASHLAR_RT_BF16},
                            {ASHLAR_RT_BF16, ASHLAR_RT_F32},
                            {ASHLAR_RT_F16, ASHLAR_RT_F16},
                            {ASHLAR_RT_F16, ASHLAR_RT_F32}};

size_t bytesOf(uint32_t dtype) {
  return dtype == ASHLAR_RT_F32 ? 4 : 2;
}

ashlar_rt_gemm_desc product(int64_t batch, int64_t m, int64_t n, int64_t k) {
  ashlar_rt_gemm_desc desc = {};
  desc.batch = batch;
  desc.m = m;
  desc.n = n;
  desc.k = k;
  return desc;
}

// What a product computes, and how.
struct Result {
  std::string error;
  std::string refusal;
  int place = 0;
  std::vector<std::string> replacements;
  std::vector<char> out, sums;
};

// Operands and results of a product on the device.
class Case {
public:
  Case(const ashlar_rt_gemm_desc &desc, const Types &types) : desc(desc), types(types) {
    operands.inDtype = types.in;
    operands.outDtype = types.out;
    operands.a = gpu.values(types.in, static_cast<size_t>(desc.batch * desc.m * desc.k), 1);
    operands.b = gpu.values(types.in, static_cast<size_t>(desc.batch * desc.k * desc.n), 2);
    operands.bias = desc.addend == ASHLAR_RT_ADDEND_BIAS ? gpu.values(types.out, static_cast<size_t>(desc.n), 3) : 0;
    outBytes = static_cast<size_t>(desc.batch * desc.m * desc.n) * bytesOf(types.out);
    const int64_t sums = desc.operand_sum == ASHLAR_RT_SUM_OF_NONE ? 0 : desc.operand_sum == ASHLAR_RT_SUM_OF_A ? desc.m : desc.n;
    sumBytes = static_cast<size_t>(sums) * bytesOf(types.out);
    operands.out = gpu.allocate(outBytes);
    operands.sums = sumBytes != 0 ? gpu.allocate(sumBytes) : 0;
  }

  Result run() {
    static const CUdeviceptr workspace = gpu.allocate(kMatmulWorkspaceBytes);
    Result result;
    Matmuls matmuls;
    REQUIRE(matmuls.create(gpu.device, workspace, gpu.stream).message() == "");
    size_t number = 0;
    result.error = matmuls.prepare(desc, operands, "fc1", number).message();
    if (!result.error.empty()) {
      return result;
    }
    result.refusal = matmuls.refusal(number);
    result.place = matmuls.algorithmPlace(number);
    result.replacements = matmuls.replacements();
    for (CUdeviceptr address : {operands.out, operands.sums}) { // what the trial left there does not count
      const size_t bytes = address == operands.out ? outBytes : sumBytes;
      REQUIRE((bytes == 0 || gpu.device.driver().cuMemsetD8Async(address, 0xff, bytes, gpu.stream) == CUDA_SUCCESS));
    }
    // Other calls use the workspace in between, ones or not.
    REQUIRE(gpu.device.driver().cuMemsetD8Async(workspace, 0xff, kMatmulWorkspaceBytes, gpu.stream) == CUDA_SUCCESS);
    REQUIRE(matmuls.enqueue(number, gpu.stream).message() == "");
    result.out = gpu.download(operands.out, outBytes);
    result.sums = sumBytes != 0 ? gpu.download(operands.sums, sumBytes) : std::vector<char>();
    return result;
  }

  EmulatedDevice &gpu = EmulatedDevice::get();
  ashlar_rt_gemm_desc desc;
  Types types;
  MatmulOperands operands;
  size_t outBytes = 0, sumBytes = 0;
};

} // namespace

TEST_CASE("matmul: refused sums of an operand are a product with ones, to the bit", "[cuda][matmul]") {
  for (const Types &types : kTypes) {
    for (uint32_t variant = 0; variant < 8; ++variant) {
      ashlar_rt_gemm_desc desc = product(1, 10, 7, 33);
      desc.operand_sum = (variant & 1) != 0 ? ASHLAR_RT_SUM_OF_A : ASHLAR_RT_SUM_OF_B;
      desc.transpose_a = variant >> 1 & 1;
      desc.transpose_b = variant >> 2 & 1;
      Case one(desc, types);
      const Result whole = one.run();
      REQUIRE(whole.error == "");
      CHECK(whole.refusal == "");
      CHECK(whole.replacements.empty());
      for (const char *setting : {"ASHLAR_EMULATOR_CUBLASLT_BGRAD", "ASHLAR_NO_PRODUCT_SUMS"}) {
        const bool refuses = std::strstr(setting, "EMULATOR") != nullptr;
        const Setting set(setting, refuses ? "0" : "1");
        const Result parts = one.run();
        INFO(types.in << " to " << types.out << ", variant " << variant << ", " << setting);
        REQUIRE(parts.error == "");
        CHECK(parts.refusal ==
              (refuses ? fmt::format("{}: no algorithm (CUBLAS_STATUS_NOT_SUPPORTED)", (variant & 1) != 0 ? "BGRADB" : "BGRADA")
                       : "ASHLAR_NO_PRODUCT_SUMS=1"));
        CHECK(parts.out == whole.out);
        CHECK(parts.sums == whole.sums);
        REQUIRE(parts.replacements.size() == 1);
        CHECK_THAT(parts.replacements[0], Contains(parts.refusal + "; the sums of an operand are a product of its own, with ones"));
        CHECK_THAT(parts.replacements[0], EndsWith("(1 product, the first is fc1)"));
      }
    }
  }
}

TEST_CASE("matmul: a refused bias is put into the result, and the product added to it, to the bit", "[cuda][matmul]") {
  for (const Types &types : kTypes) {
    for (uint32_t epilogue : {ASHLAR_RT_EPILOGUE_NONE, ASHLAR_RT_EPILOGUE_RELU, ASHLAR_RT_EPILOGUE_GELU_TANH}) {
      for (int64_t batch : {1, 3}) {
        ashlar_rt_gemm_desc desc = product(batch, 5, 10, 33);
        desc.addend = ASHLAR_RT_ADDEND_BIAS;
        desc.epilogue = epilogue;
        Case one(desc, types);
        const Result whole = one.run();
        REQUIRE(whole.error == "");
        CHECK(whole.refusal == "");
        const Setting set("ASHLAR_EMULATOR_CUBLASLT_BIAS", "0");
        const Result parts = one.run();
        REQUIRE(parts.error == "");
        CHECK_THAT(parts.refusal, EndsWith("BIAS: no algorithm (CUBLAS_STATUS_NOT_SUPPORTED)"));
        CHECK(parts.out == whole.out);
        REQUIRE(parts.replacements.size() == 1);
        CHECK_THAT(parts.replacements[0], Contains("; the bias is a product of its own, with ones, and the rest is added to it"));
      }
    }
  }
}

TEST_CASE("matmul: the first algorithm that runs is taken", "[cuda][matmul]") {
  Case one(product(1, 8, 8, 8), kTypes[0]);
  const Result first = one.run();
  CHECK(first.place == 0);
  for (int failing : {1, 2, 7}) { // the heuristic says so of the first; the others fail when they are to run
    const Setting set("ASHLAR_EMULATOR_CUBLASLT_FAILING", std::to_string(failing));
    const Result later = one.run();
    CHECK(later.error == "");
    CHECK(later.place == failing);
    CHECK(later.out == first.out);
    CHECK(later.replacements.empty());
  }
}

TEST_CASE("matmul: a product for which no way is left names all that was tried", "[cuda][matmul]") {
  ashlar_rt_gemm_desc desc = product(1, 8, 10, 6);
  {
    const Setting set("ASHLAR_EMULATOR_CUBLASLT_FAILING", "8");
    CHECK_THAT(Case(desc, kTypes[0]).run().error,
               Contains("computes no product 1 x (m 8, n 10, k 6), f32 to f32, DEFAULT: DEFAULT: none of 8 algorithms runs "
                        "(CUBLAS_STATUS_NOT_SUPPORTED); nothing replaces it"));
  }
  const Setting set("ASHLAR_EMULATOR_CUBLASLT_ACTIVATION", "0");
  desc.epilogue = ASHLAR_RT_EPILOGUE_RELU;
  CHECK_THAT(Case(desc, kTypes[0]).run().error, EndsWith("RELU: RELU: no algorithm (CUBLAS_STATUS_NOT_SUPPORTED); nothing replaces it"));
  desc.addend = ASHLAR_RT_ADDEND_BIAS;
  CHECK_THAT(
      Case(desc, kTypes[2]).run().error,
      EndsWith("bf16 to f32, RELU_BIAS: RELU_BIAS: no algorithm (CUBLAS_STATUS_NOT_SUPPORTED); instead, 1 x (m 8, n 10, k 6), bf16 to f32, "
               "RELU on the old out: RELU: no algorithm (CUBLAS_STATUS_NOT_SUPPORTED)"));
}

TEST_CASE("matmul: ones have room for sums of so many numbers", "[cuda][matmul]") {
  ashlar_rt_gemm_desc desc = product(1, 1, 1, (int64_t{4} << 20) + 1);
  desc.operand_sum = ASHLAR_RT_SUM_OF_A;
  const Setting set("ASHLAR_NO_PRODUCT_SUMS", "1");
  CHECK_THAT(
      Case(desc, kTypes[0]).run().error,
      EndsWith("ASHLAR_NO_PRODUCT_SUMS=1; 16777472 bytes of ones to replace it by a product are more than the 16777216 there is room for"));
}
