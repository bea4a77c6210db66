// SPDX-License-Identifier: Apache-2.0
//
// Products on the emulator: where cuBLASLt refuses something, several calls give the bits of one; products added to what is there.

#include "runtime/kernels/cuda/matmul.h"
#include "test/unit/kernels/cuda/emulated_device.h"

#include <algorithm>
#include <cmath>

namespace ashlar::test::matmul_test {

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
    operands.out = desc.addend == ASHLAR_RT_ADDEND_OUT ? gpu.values(types.out, outBytes / bytesOf(types.out), 4) : gpu.allocate(outBytes);
    before = gpu.download(operands.out, outBytes);
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
    if (desc.addend == ASHLAR_RT_ADDEND_OUT) {
      REQUIRE(gpu.device.driver().cuMemcpyHtoDAsync_v2(operands.out, before.data(), outBytes, gpu.stream) == CUDA_SUCCESS);
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
  std::vector<char> before; // of out
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

TEST_CASE("matmul: a product is added to what its result holds", "[cuda][matmul]") {
  for (const Types &types : kTypes) {
    if (types.out != ASHLAR_RT_F32) {
      continue; // sums of narrow types would be rounded each time
    }
    for (uint32_t variant = 0; variant < 8; ++variant) {
      ashlar_rt_gemm_desc desc = product((variant & 4) != 0 ? 3 : 1, 5, 10, 33);
      desc.transpose_a = variant & 1;
      desc.transpose_b = variant >> 1 & 1;
      Case alone(desc, types);
      const Result one = alone.run();
      desc.addend = ASHLAR_RT_ADDEND_OUT;
      desc.epilogue = (variant & 1) != 0 ? ASHLAR_RT_EPILOGUE_RELU : ASHLAR_RT_EPILOGUE_NONE; // of the whole sum
      Case added(desc, types);
      const Result sum = added.run();
      INFO(types.in << " to " << types.out << ", variant " << variant);
      REQUIRE((one.error == "" && sum.error == "" && sum.refusal == "" && sum.replacements.empty()));
      for (size_t i = 0; i < one.out.size(); i += sizeof(float)) {
        float product = 0, before = 0, got = 0;
        std::memcpy(&product, one.out.data() + i, sizeof(float));
        std::memcpy(&before, added.before.data() + i, sizeof(float));
        std::memcpy(&got, sum.out.data() + i, sizeof(float));
        const float exact = product + before;
        REQUIRE(got == ((variant & 1) != 0 ? std::max(exact, 0.0f) : exact));
      }
    }
  }
  ashlar_rt_gemm_desc desc = product(1, 8, 10, 6);
  desc.addend = ASHLAR_RT_ADDEND_OUT;
  const Setting set("ASHLAR_EMULATOR_CUBLASLT_FAILING", "8");
  CHECK_THAT(Case(desc, kTypes[0]).run().error, Contains("f32 to f32, DEFAULT on the old out") && EndsWith("; nothing replaces it"));
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

namespace {

double numberAt(const std::vector<char> &bytes, size_t at, uint32_t dtype) {
  const char *from = bytes.data() + at * bytesOf(dtype);
  float wide = 0;
  Bf16 bf16;
  F16 f16;
  switch (dtype) {
  case ASHLAR_RT_F32:
    std::memcpy(&wide, from, sizeof(wide));
    return static_cast<double>(wide);
  case ASHLAR_RT_BF16:
    std::memcpy(&bf16, from, sizeof(bf16));
    return static_cast<double>(static_cast<float>(bf16));
  default:
    std::memcpy(&f16, from, sizeof(f16));
    return static_cast<double>(static_cast<float>(f16));
  }
}

// A product with an activation and its auxiliary tensor, and one with the slope of it: m 10, n 24, in rows of the auxiliary tensor of
// 128 bits or 24 numbers.
struct Pair {
  std::string error;
  std::string refusals[2];
  std::vector<std::string> replacements;
  std::vector<char> activation, auxiliary, slope;
};

constexpr int64_t kRows = 10, kColumns = 24, kCount = kRows * kColumns;

Pair runPair(uint32_t dtype, uint32_t epilogue, bool bias, uint32_t layout) {
  EmulatedDevice &gpu = EmulatedDevice::get();
  static const CUdeviceptr workspace = gpu.allocate(kMatmulWorkspaceBytes);
  const bool isRelu = epilogue == ASHLAR_RT_EPILOGUE_RELU;
  ashlar_rt_gemm_desc forward = product(1, kRows, kColumns, 33), backward = product(1, kRows, kColumns, 17);
  for (ashlar_rt_gemm_desc *desc : {&forward, &backward}) {
    desc->transpose_a = layout & 1;
    desc->transpose_b = layout >> 1;
    desc->epilogue = epilogue;
    desc->auxiliary_row = isRelu ? 128 : kColumns;
  }
  forward.addend = bias ? ASHLAR_RT_ADDEND_BIAS : ASHLAR_RT_ADDEND_NONE;
  forward.auxiliary = ASHLAR_RT_AUXILIARY_WRITTEN;
  backward.auxiliary = ASHLAR_RT_AUXILIARY_READ;
  const size_t bytes = kCount * bytesOf(dtype), auxiliaryBytes = isRelu ? kRows * 16 : bytes;
  MatmulOperands first, second;
  first.inDtype = first.outDtype = second.inDtype = second.outDtype = dtype;
  first.a = gpu.values(dtype, 10 * 33, 1);
  first.b = gpu.values(dtype, 33 * 24, 2);
  first.bias = bias ? gpu.values(dtype, 24, 3) : 0;
  first.out = gpu.allocate(bytes);
  second.a = gpu.values(dtype, 10 * 17, 4);
  second.b = gpu.values(dtype, 17 * 24, 5);
  second.out = gpu.allocate(bytes);
  first.auxiliary = second.auxiliary = gpu.allocate(auxiliaryBytes);
  Pair pair;
  Matmuls matmuls;
  REQUIRE(matmuls.create(gpu.device, workspace, gpu.stream).message() == "");
  size_t numbers[2] = {};
  Status status = matmuls.prepare(forward, first, "fc1", numbers[0]);
  status.update(matmuls.prepare(backward, second, "fc2", numbers[1]));
  status.update(matmuls.settle());
  pair.error = status.message();
  if (!status.ok()) {
    return pair;
  }
  pair.replacements = matmuls.replacements();
  for (size_t i = 0; i < 2; ++i) {
    pair.refusals[i] = matmuls.refusal(numbers[i]);
  }
  for (auto [address, count] : {std::pair(first.out, bytes), std::pair(second.out, bytes), std::pair(first.auxiliary, auxiliaryBytes)}) {
    REQUIRE(gpu.device.driver().cuMemsetD8Async(address, 0xff, count, gpu.stream) == CUDA_SUCCESS);
  }
  for (size_t number : numbers) {
    REQUIRE(matmuls.enqueue(number, gpu.stream).message() == "");
  }
  pair.activation = gpu.download(first.out, bytes);
  pair.auxiliary = gpu.download(first.auxiliary, auxiliaryBytes);
  pair.slope = gpu.download(second.out, bytes);
  return pair;
}

// Half a unit in the last place of a number near 1, for each of two roundings more than one call has.
double allowance(uint32_t dtype) {
  return dtype == ASHLAR_RT_F32 ? 1e-6 : dtype == ASHLAR_RT_F16 ? 0x1p-10 : 0x1p-7;
}

} // namespace

TEST_CASE("matmul: what a refused auxiliary tensor is for is done by kernels", "[cuda][matmul]") {
  for (uint32_t dtype : {ASHLAR_RT_F32, ASHLAR_RT_BF16, ASHLAR_RT_F16}) {
    for (uint32_t variant = 0; variant < 16; ++variant) {
      const uint32_t epilogue = (variant & 1) != 0 ? ASHLAR_RT_EPILOGUE_RELU : ASHLAR_RT_EPILOGUE_GELU_TANH;
      const bool bias = (variant & 2) != 0, isRelu = epilogue == ASHLAR_RT_EPILOGUE_RELU;
      const Pair whole = runPair(dtype, epilogue, bias, variant >> 2);
      REQUIRE(whole.error == "");
      CHECK((whole.refusals[0] == "" && whole.refusals[1] == "" && whole.replacements.empty()));
      for (const char *left : {"0", "1", "2", "switch"}) { // the emulator still has those that write, those that read
        const bool isSwitch = left[0] == 's';
        const Setting set(isSwitch ? "ASHLAR_NO_PRODUCT_AUXILIARY" : "ASHLAR_EMULATOR_CUBLASLT_AUXILIARY", isSwitch ? "1" : left);
        const Pair parts = runPair(dtype, epilogue, bias, variant >> 2);
        INFO("type " << dtype << ", variant " << variant << ", left " << left);
        REQUIRE(parts.error == "");
        const bool writes = left[0] == '1', reads = left[0] == '2';
        CHECK((parts.refusals[0] == "") == (writes && !isRelu)); // of masks both are replaced, or none
        CHECK((parts.refusals[1] == "") == (reads && !isRelu));
        if (isSwitch) {
          CHECK(parts.refusals[0] == "ASHLAR_NO_PRODUCT_AUXILIARY=1");
        } else if (!writes) {
          CHECK_THAT(parts.refusals[0],
                     Contains(isRelu ? "RELU_AUX" : "GELU_AUX") && EndsWith("no algorithm (CUBLAS_STATUS_NOT_SUPPORTED)"));
        }
        CHECK(parts.replacements.size() == (isRelu || left[0] == '0' || isSwitch ? 2 : 1));
        double worst = 0;
        for (size_t i = 0; i < kCount; ++i) {
          const double scale = 1 + std::fabs(numberAt(whole.auxiliary, isRelu ? 0 : i, isRelu ? ASHLAR_RT_F32 : dtype));
          const double of = isRelu ? 1 : scale;
          worst = std::max(worst, std::fabs(numberAt(whole.activation, i, dtype) - numberAt(parts.activation, i, dtype)) / of);
          worst = std::max(worst, std::fabs(numberAt(whole.slope, i, dtype) - numberAt(parts.slope, i, dtype)) /
                                      (1 + std::fabs(numberAt(whole.slope, i, dtype))));
        }
        CHECK(worst <= (isRelu ? 0 : 2 * allowance(dtype)));
        CHECK((isRelu || parts.auxiliary == whole.auxiliary));
        for (size_t i = 0; i < kCount && isRelu; ++i) { // rows of 16 bytes
          const size_t row = i / kColumns, column = i % kColumns;
          const bool bit = (parts.auxiliary[row * 16 + column / 8] >> column % 8 & 1) != 0;
          REQUIRE(bit == (numberAt(parts.activation, i, dtype) > 0));
        }
      }
    }
  }
}

TEST_CASE("matmul: a refused bias is replaced below a refused auxiliary tensor, too", "[cuda][matmul]") {
  const Setting bias("ASHLAR_EMULATOR_CUBLASLT_BIAS", "0");
  for (uint32_t epilogue : {ASHLAR_RT_EPILOGUE_RELU, ASHLAR_RT_EPILOGUE_GELU_TANH}) {
    const Pair parts = runPair(ASHLAR_RT_F32, epilogue, true, 0);
    REQUIRE(parts.error == "");
    CHECK_THAT(parts.refusals[0], EndsWith("AUX_BIAS: no algorithm (CUBLAS_STATUS_NOT_SUPPORTED)"));
    CHECK(parts.replacements.size() == (epilogue == ASHLAR_RT_EPILOGUE_RELU ? 3 : 2));
  }
}

TEST_CASE("matmul: an auxiliary tensor for which no way is left names all that was tried", "[cuda][matmul]") {
  const Setting none("ASHLAR_EMULATOR_CUBLASLT_AUXILIARY", "0"), activation("ASHLAR_EMULATOR_CUBLASLT_ACTIVATION", "0");
  CHECK_THAT(runPair(ASHLAR_RT_BF16, ASHLAR_RT_EPILOGUE_RELU, false, 0).error,
             Contains("fc1: cuBLASLt ") &&
                 EndsWith("computes no product 1 x (m 10, n 24, k 33), bf16 to bf16, RELU_AUX: RELU_AUX: no algorithm "
                          "(CUBLAS_STATUS_NOT_SUPPORTED); instead, 1 x (m 10, n 24, k 33), bf16 to bf16, RELU: RELU: no algorithm "
                          "(CUBLAS_STATUS_NOT_SUPPORTED); nothing replaces it"));
}

TEST_CASE("matmul: the kernels of gelu at the ends of its range", "[cuda][matmul]") {
  EmulatedDevice &gpu = EmulatedDevice::get();
  const float ends[8] = {-INFINITY, -1e30f, -41, -0.0f, 0, 41, 1e30f, NAN};
  const double slopes[8] = {0, 0, 0, 0.5, 0.5, 1, 1, NAN};
  const CUdeviceptr at = gpu.values(ASHLAR_RT_F32, 8, 1), values = gpu.allocate(sizeof(ends));
  REQUIRE(gpu.device.driver().cuMemcpyHtoDAsync_v2(at, ends, sizeof(ends), gpu.stream) == CUDA_SUCCESS);
  const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  REQUIRE(gpu.device.driver().cuMemcpyHtoDAsync_v2(values, ones, sizeof(ones), gpu.stream) == CUDA_SUCCESS);
  ActivationKernels kernels;
  ActivationCall call{ActivationWork::GeluSlope, ASHLAR_RT_F32, values, at, 1, 8, 0};
  REQUIRE(kernels.prepare(gpu.device, call).message() == "");
  REQUIRE(kernels.enqueue(call, gpu.stream).message() == "");
  const std::vector<float> found = gpu.downloadFloats(values, 8);
  call.work = ActivationWork::Gelu;
  REQUIRE(kernels.enqueue(call, gpu.stream).message() == "");
  const std::vector<float> gelu = gpu.downloadFloats(values, 8);
  for (size_t i = 0; i < 8; ++i) {
    INFO(ends[i]);
    CHECK((std::isnan(slopes[i]) ? std::isnan(found[i]) : static_cast<double>(found[i]) == slopes[i]));
  }
  CHECK((gelu[1] == 0 && gelu[2] == 0 && gelu[4] == 0 && gelu[5] == 41 && gelu[6] == 1e30f && std::isnan(gelu[7])));
  call.n = 12;
  CHECK_THAT(kernels.prepare(gpu.device, call).message(), Contains("no kernel replaces the epilogue of a product of 1 x 12"));
}

} // namespace ashlar::test::matmul_test
