// SPDX-License-Identifier: Apache-2.0
//
// A product is one call where the library takes it. Else, what it refuses is done by calls without an epilogue:
//
//   sums of A     sums = op(A) 1, a product with a vector of ones; out = A B
//   a bias        out = 1 bias^T, ones times the bias; out = activation(A B + out)
//
// Both give the bits that one call would, up to the order of the sums. The ones lie at the end of the workspace and are written again for
// each product, so that they take no memory that the plan does not count, and nothing has to survive there. An auxiliary tensor takes a
// kernel (activation_kernels.h) after a product without it, whose result is rounded before the kernel reads it:
//
//   relu and its mask       out = relu(A B + bias); the kernel writes the mask
//   gelu and its operand    auxiliary = A B + bias; the kernel writes out
//   the slope of either     out = A B; the kernel multiplies it

#include "runtime/kernels/cuda/matmul.h"

#include "runtime/base/dtype.h"
#include "runtime/base/host.h"

#include <algorithm>
#include <climits>

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
  whole.adds = whole.adds || whole.product.addend == ASHLAR_RT_ADDEND_BIAS;
  whole.product.addend = ASHLAR_RT_ADDEND_NONE;
  whole.product.operand_sum = ASHLAR_RT_SUM_OF_NONE;
  whole.at.bias = whole.at.sums = 0;
  return whole;
}

// Returns what is left of a product when a kernel does what its auxiliary tensor is for.
CallDesc withoutAuxiliary(CallDesc whole) {
  const bool writes = whole.product.auxiliary == ASHLAR_RT_AUXILIARY_WRITTEN;
  const bool isRelu = whole.product.epilogue == ASHLAR_RT_EPILOGUE_RELU;
  whole.at.out = writes && !isRelu ? whole.at.auxiliary : whole.at.out;
  whole.product.epilogue = writes && isRelu ? whole.product.epilogue : ASHLAR_RT_EPILOGUE_NONE;
  whole.product.auxiliary = ASHLAR_RT_AUXILIARY_NONE;
  whole.product.auxiliary_row = 0;
  whole.at.auxiliary = 0;
  return whole;
}

// Returns that kernel.
ActivationCall kernelFor(const CallDesc &whole) {
  const bool writes = whole.product.auxiliary == ASHLAR_RT_AUXILIARY_WRITTEN;
  const bool isRelu = whole.product.epilogue == ASHLAR_RT_EPILOGUE_RELU;
  ActivationCall call;
  call.work = isRelu ? (writes ? ActivationWork::ReluMask : ActivationWork::ReluSlope)
                     : (writes ? ActivationWork::Gelu : ActivationWork::GeluSlope);
  call.dtype = whole.at.outDtype;
  call.values = whole.at.out;
  call.other = whole.at.auxiliary;
  call.m = whole.product.m;
  call.n = whole.product.n;
  call.maskRow = isRelu ? whole.product.auxiliary_row / CHAR_BIT : 0;
  return call;
}

bool hasMask(const ashlar_rt_gemm_desc &desc) {
  return desc.auxiliary != ASHLAR_RT_AUXILIARY_NONE && desc.epilogue == ASHLAR_RT_EPILOGUE_RELU;
}

} // namespace

Status sortMatmulOperands(const ashlar_rt_instr &instr, const std::vector<CUdeviceptr> &addresses, MatmulOperands &operands) {
  const auto &desc = *static_cast<const ashlar_rt_gemm_desc *>(instr.desc);
  uint32_t at = 0;
  bool sums = desc.operand_sum != ASHLAR_RT_SUM_OF_NONE;
  const bool hasBias = desc.addend == ASHLAR_RT_ADDEND_BIAS; // what out holds needs no buffer of its own
  const bool hasAuxiliary = desc.auxiliary != ASHLAR_RT_AUXILIARY_NONE, readsAuxiliary = desc.auxiliary == ASHLAR_RT_AUXILIARY_READ;
  uint32_t wanted = 3 + hasBias + sums + hasAuxiliary;
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
  operands.outDtype = instr.buffers[2 + hasBias + readsAuxiliary].dtype;
  auto takeAuxiliary = [&] {
    return hasMask(desc) ? take("the mask", desc.m * desc.auxiliary_row / CHAR_BIT, ASHLAR_RT_I8)
                         : take("the auxiliary tensor", desc.m * desc.auxiliary_row, operands.outDtype);
  };
  operands.a = take("A", desc.batch * desc.m * desc.k, operands.inDtype);
  operands.b = take("B", desc.batch * desc.k * desc.n, operands.inDtype);
  operands.bias = hasBias ? take("the bias", desc.n, operands.outDtype) : 0;
  operands.auxiliary = readsAuxiliary ? takeAuxiliary() : 0;
  operands.out = take("out", desc.batch * desc.m * desc.n, operands.outDtype);
  operands.sums = sums ? take("the sums", desc.operand_sum == ASHLAR_RT_SUM_OF_A ? desc.m : desc.n, operands.outDtype) : 0;
  operands.auxiliary = hasAuxiliary && !readsAuxiliary ? takeAuxiliary() : operands.auxiliary;
  return status;
}

// A row or column of ones in the workspace, written ahead of a call.
struct Matmuls::Ones {
  CUdeviceptr at = 0;
  size_t words = 0; // 0: there are none
  uint32_t word = 0;
};

// A call of the library, or a kernel.
struct Matmuls::Step {
  Ones ones;
  std::unique_ptr<ProductCall> call; // null: it is a kernel
  AlgorithmChoice choice;
  ActivationCall kernel;
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
  splitsSums = environmentInteger("ASHLAR_NO_PRODUCT_SUMS") != 0;
  splitsActivations = environmentInteger("ASHLAR_NO_PRODUCT_AUXILIARY") != 0;
  ASHLAR_RETURN_IF_ERROR(device->createEvent(tried));
  ASHLAR_RETURN_IF_ERROR(CublasLtLibrary::load(lt));
  return lt.check(lt.cublasLtCreate(&handle), "cannot initialise cuBLASLt");
}

Status Matmuls::prepare(const ashlar_rt_gemm_desc &desc, const MatmulOperands &operands, const char *name, size_t &number) {
  CallDesc whole{desc, operands, /*adds=*/desc.addend == ASHLAR_RT_ADDEND_OUT};
  auto prepared = std::make_unique<Prepared>();
  std::string lost;
  ASHLAR_RETURN_IF_ERROR(layOut(whole, name, *prepared, lost));
  if (!lost.empty()) {
    return unavailable("{}: cuBLASLt {} computes no product {}", name, lt.cublasLtGetVersion(), lost);
  }
  number = products.size();
  products.push_back(std::move(prepared));
  if (hasMask(desc)) {
    masked.push_back({number, whole, name});
  }
  return Status();
}

Status Matmuls::settle() {
  auto isReplaced = [&](const Masked &each) { return products[each.number]->steps.back().call == nullptr; };
  const bool anyReplaced = std::any_of(masked.begin(), masked.end(), isReplaced);
  for (const Masked &each : masked) {
    if (!anyReplaced || isReplaced(each)) {
      continue;
    }
    auto replaced = std::make_unique<Prepared>();
    std::string lost;
    ASHLAR_RETURN_IF_ERROR(
        replace(each.desc, each.name.c_str(), "another product's mask has to be written or read by a kernel", *replaced, lost));
    if (!lost.empty()) {
      return unavailable("{}: cuBLASLt {} computes no product {}", each.name, lt.cublasLtGetVersion(), lost);
    }
    products[each.number] = std::move(replaced);
  }
  masked.clear();
  return Status();
}

// Adds the steps of a product to `prepared`. `lost` says why there is no way, if there is none.
Status Matmuls::layOut(const CallDesc &whole, const char *name, Prepared &prepared, std::string &lost) {
  std::string reason;
  if (splitsSums && whole.product.operand_sum != ASHLAR_RT_SUM_OF_NONE) {
    reason = "ASHLAR_NO_PRODUCT_SUMS=1";
  } else if (splitsActivations && whole.product.auxiliary != ASHLAR_RT_AUXILIARY_NONE) {
    reason = "ASHLAR_NO_PRODUCT_AUXILIARY=1";
  } else {
    ASHLAR_RETURN_IF_ERROR(tryOne(whole, Ones(), name, prepared, reason));
  }
  return reason.empty() ? Status() : replace(whole, name, reason, prepared, lost);
}

// Does the same where one call cannot, for a reason.
Status Matmuls::replace(const CallDesc &whole, const char *name, const std::string &reason, Prepared &prepared, std::string &lost) {
  std::string refusal = "nothing replaces it";
  if (whole.product.auxiliary != ASHLAR_RT_AUXILIARY_NONE) {
    ASHLAR_RETURN_IF_ERROR(tryKernel(whole, name, prepared, refusal));
  } else if (whole.product.operand_sum != ASHLAR_RT_SUM_OF_NONE || whole.product.addend == ASHLAR_RT_ADDEND_BIAS) {
    ASHLAR_RETURN_IF_ERROR(tryParts(whole, name, prepared, refusal));
  }
  if (!refusal.empty()) {
    lost = fmt::format("{}: {}; {}", whole.text(), reason, refusal);
    return Status();
  }
  noteReplacement(whole, name, reason);
  prepared.refusal = reason;
  return Status();
}

// Lays out the product without its auxiliary tensor, and the kernel.
Status Matmuls::tryKernel(const CallDesc &whole, const char *name, Prepared &prepared, std::string &refusal) {
  const ActivationCall kernel = kernelFor(whole);
  ASHLAR_RETURN_IF_ERROR(kernels.prepare(*device, kernel));
  std::string lost;
  ASHLAR_RETURN_IF_ERROR(layOut(withoutAuxiliary(whole), name, prepared, lost));
  refusal = lost.empty() ? "" : "instead, " + lost;
  prepared.steps.push_back({Ones(), nullptr, AlgorithmChoice(), kernel});
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
    prepared.steps.push_back({ones, std::move(call), known->second, ActivationCall()});
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
  const bool hasAuxiliary = desc.product.auxiliary != ASHLAR_RT_AUXILIARY_NONE;
  const char *remedy = hasAuxiliary ? "; ASHLAR_NO_PRODUCT_AUXILIARY=1 does without auxiliary tensors"
                       : desc.product.operand_sum != ASHLAR_RT_SUM_OF_NONE ? "; ASHLAR_NO_PRODUCT_SUMS=1 does without sums of an operand"
                                                                           : "";
  return ended.ok() ? ended
                    : unavailable("{}: the trial of cuBLASLt {} for a product {}: {}{}", name, lt.cublasLtGetVersion(), desc.text(),
                                  ended.message(), remedy);
}

void Matmuls::noteReplacement(const CallDesc &desc, const char *name, const std::string &refusal) {
  const char *instead = desc.product.auxiliary == ASHLAR_RT_AUXILIARY_READ ? "the slope of the activation is applied by a kernel of its own"
                        : desc.product.auxiliary == ASHLAR_RT_AUXILIARY_WRITTEN ? "a kernel of its own computes the activation or its mask"
                        : desc.product.operand_sum != ASHLAR_RT_SUM_OF_NONE
                            ? "the sums of an operand are a product of its own, with ones"
                            : "the bias is a product of its own, with ones, and the rest is added to it";
  std::string text = fmt::format("{} to {}: {}; {}", dtypeName(desc.at.inDtype), dtypeName(desc.at.outDtype), refusal, instead);
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
  const std::vector<Step> &steps = products[number]->steps;
  auto lastCall = std::find_if(steps.rbegin(), steps.rend(), [](const Step &step) { return step.call != nullptr; });
  return lastCall->choice.place;
}

Status Matmuls::enqueue(size_t number, CUstream stream) const {
  const DriverLibrary &cuda = device->driver();
  for (const Step &step : products[number]->steps) {
    if (step.ones.words != 0) {
      CUresult result = cuda.cuMemsetD32Async(step.ones.at, step.ones.word, step.ones.words, stream);
      ASHLAR_RETURN_IF_ERROR(cuda.check(result, "cannot fill memory of the GPU"));
    }
    if (step.call == nullptr) {
      ASHLAR_RETURN_IF_ERROR(kernels.enqueue(step.kernel, stream));
      continue;
    }
    cublasStatus_t result = step.call->run(handle, step.choice.algorithm, workspace, stream);
    ASHLAR_RETURN_IF_ERROR(lt.check(result, "cuBLASLt failed to start a matrix product"));
  }
  return Status();
}

} // namespace ashlar::rt
