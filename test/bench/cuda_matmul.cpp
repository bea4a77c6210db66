// SPDX-License-Identifier: Apache-2.0
//
// Matrix products on a GPU: the runtime's prepared product against cuBLASLt called by hand, which tries the first eight algorithms of the
// heuristic and keeps the fastest. One line a product: microseconds of both, TFLOP/s, and by hand / ours. Then products with auxiliary
// tensors: one call against a call and the kernel that takes the place of a refused epilogue. With --probe: which products the library
// takes at all, and computes right (cuda_matmul_probe.h). Exit status 77 with the reason where there is no GPU.
//
//   bench_cuda_matmul [--probe [--small]]

#include "runtime/device/cuda/device.h"
#include "runtime/kernels/cuda/matmul.h"
#include "test/bench/cuda_matmul_probe.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

using namespace ashlar::rt;

namespace {

constexpr int kWarmUps = 5, kRuns = 30, kRepeats = 5, kAlgorithms = 8;

struct Case {
  const char *name;
  int64_t m, n, k;
  bool transposeA, transposeB, relu; // with a bias
  uint32_t dtype;
};

// The products of a step of the zoo's MLP, and large square ones.
const Case kCases[] = {
    {"forward, bias, relu", 256, 512, 784, false, true, true, ASHLAR_RT_F32},
    {"gradient of a weight", 512, 784, 256, true, false, false, ASHLAR_RT_F32},
    {"forward, bias, relu", 8192, 512, 784, false, true, true, ASHLAR_RT_F32},
    {"gradient of an activation", 8192, 512, 512, false, false, false, ASHLAR_RT_F32},
    {"gradient of a weight", 512, 784, 8192, true, false, false, ASHLAR_RT_F32},
    {"square", 4096, 4096, 4096, false, false, false, ASHLAR_RT_F32},
    {"forward, bias, relu", 8192, 4096, 4096, false, true, true, ASHLAR_RT_BF16},
    {"gradient of an activation", 8192, 4096, 4096, false, false, false, ASHLAR_RT_BF16},
    {"gradient of a weight", 4096, 4096, 8192, true, false, false, ASHLAR_RT_BF16},
    {"square", 8192, 8192, 8192, false, false, false, ASHLAR_RT_BF16},
};

// What all cases share.
struct Bench {
  CudaDevice device;
  CUstream stream = nullptr;
  CUevent begin = nullptr, end = nullptr;
  CUdeviceptr a = 0, b = 0, bias = 0, out = 0, workspace = 0;
  CublasLtLibrary lt;
  cublasLtHandle_t handle = nullptr;

  Status open() {
    int count = 0;
    ASHLAR_RETURN_IF_ERROR(device.load(count));
    ASHLAR_RETURN_IF_ERROR(device.open(/*ordinal=*/0));
    ASHLAR_RETURN_IF_ERROR(device.createStream(stream));
    ASHLAR_RETURN_IF_ERROR(device.createEvent(begin, /*timing=*/true));
    ASHLAR_RETURN_IF_ERROR(device.createEvent(end, /*timing=*/true));
    const size_t most = size_t{8192} * 8192 * 4;
    for (CUdeviceptr *address : {&a, &b, &out}) {
      ASHLAR_RETURN_IF_ERROR(device.allocate(most, "an operand", *address));
      // Small numbers of both signs: products of zeros run faster than those of data.
      ASHLAR_RETURN_IF_ERROR(device.driver().check(device.driver().cuMemsetD32Async(*address, 0xbc203c20, most / 4, stream), "memset"));
    }
    ASHLAR_RETURN_IF_ERROR(device.allocate(size_t{1} << 20, "a bias", bias));
    ASHLAR_RETURN_IF_ERROR(device.allocate(kMatmulWorkspaceBytes, "the workspace", workspace));
    ASHLAR_RETURN_IF_ERROR(CublasLtLibrary::load(lt));
    return lt.check(lt.cublasLtCreate(&handle), "cannot initialise cuBLASLt");
  }

  // Median seconds of one call, on the device's clock.
  Status time(const std::function<Status()> &call, double &seconds) {
    const DriverLibrary &cuda = device.driver();
    std::vector<double> times;
    for (int i = 0; i < kWarmUps; ++i) {
      ASHLAR_RETURN_IF_ERROR(call());
    }
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventRecord(begin, stream), "event"));
      for (int i = 0; i < kRuns; ++i) {
        ASHLAR_RETURN_IF_ERROR(call());
      }
      ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventRecord(end, stream), "event"));
      ASHLAR_RETURN_IF_ERROR(device.wait(end));
      float milliseconds = 0;
      ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventElapsedTime_v2(&milliseconds, begin, end), "event"));
      times.push_back(1e-3 * milliseconds / kRuns);
    }
    std::sort(times.begin(), times.end());
    seconds = times[times.size() / 2];
    return Status();
  }
};

// The product as somebody would write it against cuBLASLt's manual: row-major C = op(A) op(B) is column-major C^T = op(B)^T op(A)^T.
Status timeByHand(Bench &bench, const Case &c, double &seconds) {
  const CublasLtLibrary &lt = bench.lt;
  cudaDataType_t type = c.dtype == ASHLAR_RT_F32 ? CUDA_R_32F : CUDA_R_16BF;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  Status status;
  auto check = [&](cublasStatus_t code) { status.update(lt.check(code, c.name)); };
  auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    check(lt.cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)));
  };
  check(lt.cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  set(CUBLASLT_MATMUL_DESC_TRANSA, c.transposeB ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, c.transposeA ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (c.relu) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bench.bias);
  }
  auto layout = [&](cublasLtMatrixLayout_t &made, int64_t rows, int64_t columns) {
    check(lt.cublasLtMatrixLayoutCreate(&made, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows));
  };
  layout(first, c.transposeB ? c.k : c.n, c.transposeB ? c.n : c.k);
  layout(second, c.transposeA ? c.m : c.k, c.transposeA ? c.k : c.m);
  layout(result, c.n, c.m);
  check(lt.cublasLtMatmulPreferenceCreate(&preference));
  check(lt.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kMatmulWorkspaceBytes,
                                                sizeof(kMatmulWorkspaceBytes)));
  cublasLtMatmulHeuristicResult_t found[kAlgorithms] = {};
  int count = 0;
  check(lt.cublasLtMatmulAlgoGetHeuristic(bench.handle, operation, first, second, result, result, preference, kAlgorithms, found, &count));
  seconds = 0;
  auto at = [](CUdeviceptr address) { return reinterpret_cast<void *>(address); };
  for (int i = 0; i < count && status.ok(); ++i) {
    const float one = 1, zero = 0;
    double took = 0;
    status.update(bench.time(
        [&] {
          return lt.check(lt.cublasLtMatmul(bench.handle, operation, &one, at(bench.b), first, at(bench.a), second, &zero, at(bench.out),
                                            result, at(bench.out), result, &found[i].algo, at(bench.workspace), kMatmulWorkspaceBytes,
                                            bench.stream),
                          c.name);
        },
        took));
    seconds = i == 0 ? took : std::min(seconds, took);
  }
  lt.cublasLtMatmulPreferenceDestroy(preference);
  for (cublasLtMatrixLayout_t made : {first, second, result}) {
    lt.cublasLtMatrixLayoutDestroy(made);
  }
  lt.cublasLtMatmulDescDestroy(operation);
  return status;
}

// The wide layer of GPT-2, and the gradient before its activation.
struct ActivationCase {
  const char *name;
  uint32_t epilogue, auxiliary;
};

const ActivationCase kActivations[] = {{"relu, bias, mask", ASHLAR_RT_EPILOGUE_RELU, ASHLAR_RT_AUXILIARY_WRITTEN},
                                       {"gelu, bias, operand", ASHLAR_RT_EPILOGUE_GELU_TANH, ASHLAR_RT_AUXILIARY_WRITTEN},
                                       {"slope of relu", ASHLAR_RT_EPILOGUE_RELU, ASHLAR_RT_AUXILIARY_READ},
                                       {"slope of gelu", ASHLAR_RT_EPILOGUE_GELU_TANH, ASHLAR_RT_AUXILIARY_READ}};

Status timeActivation(Bench &bench, Matmuls &matmuls, const ActivationCase &c, double &seconds) {
  constexpr int64_t kRows = 16384, kColumns = 3072, kDepth = 768;
  ashlar_rt_gemm_desc desc = {1, kRows, kColumns, kDepth};
  const bool writes = c.auxiliary == ASHLAR_RT_AUXILIARY_WRITTEN;
  desc.transpose_b = !writes;
  desc.addend = writes ? ASHLAR_RT_ADDEND_BIAS : ASHLAR_RT_ADDEND_NONE;
  desc.epilogue = c.epilogue;
  desc.auxiliary = c.auxiliary;
  desc.auxiliary_row = kColumns; // a multiple of 128
  MatmulOperands operands;
  operands.a = bench.a;
  operands.b = bench.b;
  operands.bias = writes ? bench.bias : 0;
  operands.out = bench.out;
  operands.auxiliary = bench.out + 2 * kRows * kColumns;
  operands.inDtype = operands.outDtype = ASHLAR_RT_BF16;
  size_t number = 0;
  ASHLAR_RETURN_IF_ERROR(matmuls.prepare(desc, operands, c.name, number));
  ASHLAR_RETURN_IF_ERROR(matmuls.settle());
  return bench.time([&] { return matmuls.enqueue(number, bench.stream); }, seconds);
}

Status timeActivations(Bench &bench, Matmuls &matmuls) {
  Matmuls apart;
  setenv("ASHLAR_NO_PRODUCT_AUXILIARY", "1", /*overwrite=*/1);
  Status created = apart.create(bench.device, bench.workspace, bench.stream);
  unsetenv("ASHLAR_NO_PRODUCT_AUXILIARY");
  ASHLAR_RETURN_IF_ERROR(created);
  fmt::print("16384 x 3072 x 768, bf16\n");
  for (const ActivationCase &c : kActivations) {
    double one = 0, two = 0;
    ASHLAR_RETURN_IF_ERROR(timeActivation(bench, matmuls, c, one));
    ASHLAR_RETURN_IF_ERROR(timeActivation(bench, apart, c, two));
    fmt::print("{:28} {:10.1f} us in one call, {:.1f} us, {:.3f} of a call and a kernel\n", c.name, 1e6 * one, 1e6 * two, one / two);
  }
  for (const std::string &line : matmuls.replacements()) {
    fmt::print("{}\n", line);
  }
  return Status();
}

Status timeOurs(Bench &bench, Matmuls &matmuls, const Case &c, double &seconds) {
  ashlar_rt_gemm_desc desc = {};
  desc.batch = 1;
  desc.m = c.m;
  desc.n = c.n;
  desc.k = c.k;
  desc.transpose_a = c.transposeA;
  desc.transpose_b = c.transposeB;
  desc.addend = c.relu ? ASHLAR_RT_ADDEND_BIAS : ASHLAR_RT_ADDEND_NONE;
  desc.epilogue = c.relu ? ASHLAR_RT_EPILOGUE_RELU : ASHLAR_RT_EPILOGUE_NONE;
  MatmulOperands operands;
  operands.a = bench.a;
  operands.b = bench.b;
  operands.bias = c.relu ? bench.bias : 0;
  operands.out = bench.out;
  operands.inDtype = operands.outDtype = c.dtype;
  size_t number = 0;
  ASHLAR_RETURN_IF_ERROR(matmuls.prepare(desc, operands, c.name, number));
  return bench.time([&] { return matmuls.enqueue(number, bench.stream); }, seconds);
}

Status run(Bench &bench) {
  Matmuls matmuls;
  ASHLAR_RETURN_IF_ERROR(matmuls.create(bench.device, bench.workspace, bench.stream));
  fmt::print("{}\n{:28} {:>20} {:5} {:>10} {:>10} {:>9} {:>8}\n", bench.device.name(), "product", "m x n x k", "type", "ours, us",
             "hand, us", "TFLOP/s", "share");
  for (const Case &c : kCases) {
    double ours = 0, again = 0, hand = 0;
    ASHLAR_RETURN_IF_ERROR(timeOurs(bench, matmuls, c, ours));
    ASHLAR_RETURN_IF_ERROR(timeByHand(bench, c, hand));
    ASHLAR_RETURN_IF_ERROR(timeOurs(bench, matmuls, c, again)); // clocks drift: the better of before and after
    ours = std::min(ours, again);
    double flops = 2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
    fmt::print("{:28} {:>20} {:5} {:10.1f} {:10.1f} {:9.1f} {:8.3f}\n", c.name, fmt::format("{} x {} x {}", c.m, c.n, c.k),
               c.dtype == ASHLAR_RT_F32 ? "f32" : "bf16", 1e6 * ours, 1e6 * hand, 1e-12 * flops / ours, hand / ours);
  }
  return timeActivations(bench, matmuls);
}

} // namespace

int main(int argc, char **argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments == std::vector<std::string>{"--probe"} || arguments == std::vector<std::string>{"--probe", "--small"}) {
    return ashlar::bench::probeMatmuls(/*small=*/arguments.size() > 1);
  }
  if (!arguments.empty()) {
    fmt::print(stderr, "error: unknown argument {}; usage: bench_cuda_matmul [--probe [--small]]\n", arguments[0]);
    return 1;
  }
  Bench bench;
  if (Status opened = bench.open(); !opened.ok()) {
    fmt::print("not run: {}\n", opened.message());
    return 77;
  }
  Status status = run(bench);
  if (!status.ok()) {
    fmt::print(stderr, "error: {}\n", status.message());
  }
  return status.ok() ? 0 : 1;
}
