// SPDX-License-Identifier: Apache-2.0
//
// A product is one call where the library takes it. Else, what it refuses is done by calls without an epilogue:
//
//   sums of A     sums = op(A) 1, a product with a vector of ones; out = A B
//   a bias        out = 1 bias^T, ones times the bias; out = activation(A B + out)
//
// Both give the bits that one call would, up to the order of the sums. The ones lie at the end of the workspace and are written again for
// each product, so that they take no memory that the plan does not count, and nothing has to survive there.

#include "runtime/kernels/cuda/matmul.h"

#include "runtime/base/dtype.h"
#include "runtime/base/host.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

// Most of the workspace that ones may take: eight million of 16 bits.
constexpr uint64_t kMostOnes = kMatmulWorkspaceBytes / 2;

// Four bytes of ones.
uint32_t wordOfOnes(uint32_t dtype) {
  return dtype == ASHLAR_RT_F32 ? 0x3f800000 : dtype == ASHLAR_RT_BF16 ? 0x3f803f80 : 0x3c003c00;
}

// Returns the sums of an operand as a product: a row of ones, (1, k), times op(A)^T, (k, m), or op(B), (k, n).
CallDesc sumsAlone(const CallDesc &whole) {
  const ashlar_rt_gemm_desc &desc = whole.product;
  const bool ofA = desc.operand_sum == ASHLAR_RT_SUM_OF_A;
  CallDesc sums;
  sums.product.batch = sums.product.m = 1;
  sums.product.n = ofA ? desc.m : desc.n;
  sums.product.k = desc.k;
  sums.product.transpose_b = ofA ? desc.transpose_a == 0 : desc.transpose_b;
  sums.at.inDtype = whole.at.inDtype;
  sums.at.outDtype = whole.at.outDtype;
  sums.at.b = ofA ? whole.at.a : whole.at.b;
  sums.at.out = whole.at.sums;
  return sums;
}

// Returns the bias in each row of out as a product: a column of ones, (batch m, 1), times the bias, (1, n).
CallDesc biasAlone(const CallDesc &whole) {
  CallDesc rows;
  rows.product.batch = rows.product.k = 1;
  rows.product.m = whole.product.batch * whole.product.m;
  rows.product.n = whole.product.n;
  rows.at.inDtype = rows.at.outDtype = whole.at.outDtype;
  rows.at.b = whole.at.bias;
  rows.at.out = whole.at.out;
  return rows;
}

// Returns what is left of a product when its sums are computed apart, or its bias lies in out already.
CallDesc remainder(CallDesc whole) {
  whole.adds = whole.product.addend == ASHLAR_RT_ADDEND_BIAS;
  whole.product.addend = ASHLAR_RT_ADDEND_NONE;
  whole.product.operand_sum = ASHLAR_RT_SUM_OF_NONE;
  whole.at.bias = whole.at.sums = 0;
  return whole;
}

} // namespace

Status sortMatmulOperands(const ashlar_rt_instr &instr, const std::vector<CUdeviceptr> &addresses, MatmulOperands &operands) {
  const auto &desc = *static_cast<const ashlar_rt_gemm_desc *>(instr.desc);
  uint32_t at = 0;
  bool sums = desc.operand_sum != ASHLAR_RT_SUM_OF_NONE;
  uint32_t wanted = 3 + (desc.addend != ASHLAR_RT_ADDEND_NONE) + sums;
  if (instr.num_buffers != wanted) {
    return internal("{}: a matrix product has {} buffers, not {}", instr.name, instr.num_buffers, wanted);
  }
  Status status;
  auto take = [&](const char *what, int64_t elements, uint32_t dtype) {
    const ashlar_rt_buffer &buffer = instr.buffers[at];
    uint64_t needed = static_cast<uint64_t>(elements) * dtypeBytes(dtype);
    if (buffer.bytes != needed || buffer.dtype != dtype) {
      status.update(internal("{}: {} has {} bytes of {}, not {} of {}", instr.name, what, buffer.bytes, dtypeName(buffer.dtype), needed,
                             dtypeName(dtype)));
    }
    return addresses[at++];
  };
  operands.inDtype = instr.buffers[0].dtype;
  operands.outDtype = instr.buffers[2 + (desc.addend != ASHLAR_RT_ADDEND_NONE)].dtype;
  operands.a = take("A", desc.batch * desc.m * desc.k, operands.inDtype);
  operands.b = take("B", desc.batch * desc.k * desc.n, operands.inDtype);
  operands.bias = desc.addend != ASHLAR_RT_ADDEND_NONE ? take("the bias", desc.n, operands.outDtype) : 0;
  operands.out = take("out", desc.batch * desc.m * desc.n, operands.outDtype);
  operands.sums = sums ? take("the sums", desc.operand_sum == ASHLAR_RT_SUM_OF_A ? desc.m : desc.n, operands.outDtype) : 0;
  return status;
}

// A row or column of ones in the workspace, written ahead of a call.
struct Matmuls::Ones {
  CUdeviceptr at = 0;
  size_t words = 0; // 0: there are none
  uint32_t word = 0;
};

struct Matmuls::Step {
  Ones ones;
  std::unique_ptr<ProductCall> call;
  AlgorithmChoice choice;
};

struct Matmuls::Prepared {
  std::vector<Step> steps;
  std::string refusal; // of one call for all
};

Matmuls::Matmuls() = default;

Matmuls::~Matmuls() {
  products.clear();
  if (handle != nullptr) {
    lt.cublasLtDestroy(handle);
  }
}

Status Matmuls::create(CudaDevice &gpu, CUdeviceptr memory, CUstream stream) {
  device = &gpu;
  workspace = memory;
  trials = stream;
  splitsSums = environmentInteger("ASHLAR_NO_PRODUCT_SUMS", 0) != 0;
  ASHLAR_RETURN_IF_ERROR(device->createEvent(tried));
  ASHLAR_RETURN_IF_ERROR(CublasLtLibrary::load(lt));
  return lt.check(lt.cublasLtCreate(&handle), "cannot initialise cuBLASLt");
}

Status Matmuls::prepare(const ashlar_rt_gemm_desc &desc, const MatmulOperands &operands, const char *name, size_t &number) {
  CallDesc whole{desc, operands};
  auto prepared = std::make_unique<Prepared>();
  const bool sums = desc.operand_sum != ASHLAR_RT_SUM_OF_NONE;
  if (sums && splitsSums) {
    prepared->refusal = "ASHLAR_NO_PRODUCT_SUMS=1";
  } else {
    ASHLAR_RETURN_IF_ERROR(tryOne(whole, Ones(), name, *prepared, prepared->refusal));
  }
  if (!prepared->refusal.empty()) {
    std::string tried = whole.text() + ": " + prepared->refusal, refusal = "nothing replaces it";
    if (sums || desc.addend != ASHLAR_RT_ADDEND_NONE) {
      ASHLAR_RETURN_IF_ERROR(tryParts(whole, name, *prepared, refusal));
    }
    if (!refusal.empty()) {
      return unavailable("{}: cuBLASLt {} computes no product {}; {}", name, lt.cublasLtGetVersion(), tried, refusal);
    }
    noteReplacement(whole, name, prepared->refusal);
  }
  number = products.size();
  products.push_back(std::move(prepared));
  return Status();
}

// Lays out what one call would do as two, the first of them with ones.
Status Matmuls::tryParts(const CallDesc &whole, const char *name, Prepared &prepared, std::string &refusal) {
  const bool sums = whole.product.operand_sum != ASHLAR_RT_SUM_OF_NONE;
  CallDesc extra = sums ? sumsAlone(whole) : biasAlone(whole), rest = remainder(whole);
  const uint64_t count = static_cast<uint64_t>(sums ? extra.product.k : extra.product.m);
  const uint64_t bytes = roundUp(count * dtypeBytes(extra.at.inDtype), kDeviceAlignment);
  if (bytes > kMostOnes) {
    refusal = fmt::format("{} bytes of ones to replace it by a product are more than the {} there is room for", bytes, kMostOnes);
    return Status();
  }
  extra.workspaceBytes -= bytes;
  extra.at.a = workspace + extra.workspaceBytes;
  const Ones ones{extra.at.a, bytes / sizeof(uint32_t), wordOfOnes(extra.at.inDtype)};
  ASHLAR_RETURN_IF_ERROR(tryOne(extra, ones, name, prepared, refusal));
  if (refusal.empty()) {
    ASHLAR_RETURN_IF_ERROR(tryOne(rest, Ones(), name, prepared, refusal));
    extra = refusal.empty() ? extra : rest;
  }
  refusal = refusal.empty() ? "" : fmt::format("instead, {}: {}", extra.text(), refusal);
  return Status();
}

// Adds a call to `prepared`, unless the library has no algorithm for it that runs: then `refusal` says so.
Status Matmuls::tryOne(const CallDesc &desc, const Ones &ones, const char *name, Prepared &prepared, std::string &refusal) {
  auto call = std::make_unique<ProductCall>(lt);
  ASHLAR_RETURN_IF_ERROR(call->layOut(desc, name));
  const std::vector<int64_t> key = desc.key();
  auto known = choices.find(key);
  if (known == choices.end()) {
    AlgorithmChoice choice;
    ASHLAR_RETURN_IF_ERROR(choose(*call, desc, name, choice));
    known = choices.emplace(key, choice).first;
  }
  refusal = known->second.refusal;
  if (refusal.empty()) {
    prepared.steps.push_back({ones, std::move(call), known->second});
  }
  return Status();
}

// Takes the first algorithm of the heuristic that runs. One that fails while it runs ends the program: the device is lost then.
Status Matmuls::choose(const ProductCall &call, const CallDesc &desc, const char *name, AlgorithmChoice &choice) {
  std::vector<cublasLtMatmulHeuristicResult_t> found;
  ASHLAR_RETURN_IF_ERROR(call.propose(handle, found, choice.refusal));
  for (const cublasLtMatmulHeuristicResult_t &each : found) {
    cublasStatus_t result = each.state;
    if (result == CUBLAS_STATUS_SUCCESS) {
      result = call.run(handle, each.algo, workspace, trials);
    }
    if (result == CUBLAS_STATUS_SUCCESS) {
      choice.algorithm = each.algo;
      choice.place = static_cast<int>(&each - found.data());
      choice.refusal.clear();
      return waitForTrial(desc, name);
    }
    choice.refusal =
        fmt::format("{}: none of {} algorithms runs ({})", desc.epilogueName(), found.size(), lt.cublasLtGetStatusString(result));
  }
  return Status();
}

Status Matmuls::waitForTrial(const CallDesc &desc, const char *name) const {
  const DriverLibrary &cuda = device->driver();
  Status ended = cuda.check(cuda.cuEventRecord(tried, trials), "cannot record an event");
  ended.update(ended.ok() ? device->wait(tried) : Status());
  return ended.ok() ? ended
                    : unavailable("{}: the trial of cuBLASLt {} for a product {}: {}; where it computes sums of an operand, "
                                  "ASHLAR_NO_PRODUCT_SUMS=1 does without",
                                  name, lt.cublasLtGetVersion(), desc.text(), ended.message());
}

void Matmuls::noteReplacement(const CallDesc &desc, const char *name, const std::string &refusal) {
  const bool sums = desc.product.operand_sum != ASHLAR_RT_SUM_OF_NONE;
  std::string text = fmt::format("{} to {}: {}; {}", dtypeName(desc.at.inDtype), dtypeName(desc.at.outDtype), refusal,
                                 sums ? "the sums of an operand are a product of its own, with ones"
                                      : "the bias is a product of its own, with ones, and the rest is added to it");
  auto known = std::find_if(replaced.begin(), replaced.end(), [&](const Replacement &each) { return each.text == text; });
  if (known == replaced.end()) {
    known = replaced.insert(replaced.end(), {text, name, 0});
  }
  ++known->count;
}

std::vector<std::string> Matmuls::replacements() const {
  std::vector<std::string> lines;
  for (const Replacement &each : replaced) {
    lines.push_back(fmt::format("cuBLASLt {}, {} ({} {}, the first is {})", lt.cublasLtGetVersion(), each.text, each.count,
                                each.count == 1 ? "product" : "products", each.first));
  }
  return lines;
}

const std::string &Matmuls::refusal(size_t number) const {
  return products[number]->refusal;
}

int Matmuls::algorithmPlace(size_t number) const {
  return products[number]->steps.back().choice.place;
}

Status Matmuls::enqueue(size_t number, CUstream stream) const {
  const DriverLibrary &cuda = device->driver();
  for (const Step &step : products[number]->steps) {
    if (step.ones.words != 0) {
      CUresult result = cuda.cuMemsetD32Async(step.ones.at, step.ones.word, step.ones.words, stream);
      ASHLAR_RETURN_IF_ERROR(cuda.check(result, "cannot fill memory of the GPU"));
    }
    cublasStatus_t result = step.call->run(handle, step.choice.algorithm, workspace, stream);
    ASHLAR_RETURN_IF_ERROR(lt.check(result, "cuBLASLt failed to start a matrix product"));
  }
  return Status();
}

} // namespace ashlar::rt
