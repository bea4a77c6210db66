// SPDX-License-Identifier: Apache-2.0
//
// The library's matrices are column major, so a row-major (r, c) is its (c, r) with leading dimension c, and out = A B becomes
// out^T = B^T A^T: our B is its first operand and our A its second. Its rows are our columns, which is why a bias has one entry a row
// there.

#include "runtime/kernels/cuda/product_call.h"

#include "runtime/base/dtype.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

// Largest alignment that the library asks about.
constexpr CUdeviceptr kMostAlignment = 256;

// Algorithms that the library is asked for: the first one may not run.
constexpr int kAlgorithms = 8;

bool toCudaType(uint32_t dtype, cudaDataType_t &type) {
  switch (dtype) {
  case ASHLAR_RT_F32:
    type = CUDA_R_32F;
    return true;
  case ASHLAR_RT_F16:
    type = CUDA_R_16F;
    return true;
  case ASHLAR_RT_BF16:
    type = CUDA_R_16BF;
    return true;
  default:
    return false;
  }
}

struct Epilogue {
  cublasLtEpilogue_t value;
  const char *name;
};

// The epilogues with an auxiliary tensor.
Epilogue auxiliaryEpilogueOf(const ashlar_rt_gemm_desc &desc) {
  bool bias = desc.addend == ASHLAR_RT_ADDEND_BIAS;
  bool relu = desc.epilogue == ASHLAR_RT_EPILOGUE_RELU;
  if ((!relu && desc.epilogue != ASHLAR_RT_EPILOGUE_GELU_TANH) || desc.batch != 1 || desc.operand_sum != ASHLAR_RT_SUM_OF_NONE) {
    return {CUBLASLT_EPILOGUE_DEFAULT, nullptr};
  }
  if (desc.auxiliary == ASHLAR_RT_AUXILIARY_READ) {
    return bias   ? Epilogue{CUBLASLT_EPILOGUE_DEFAULT, nullptr}
           : relu ? Epilogue{CUBLASLT_EPILOGUE_DRELU, "DRELU"}
                  : Epilogue{CUBLASLT_EPILOGUE_DGELU, "DGELU"};
  }
  if (relu) {
    return bias ? Epilogue{CUBLASLT_EPILOGUE_RELU_AUX_BIAS, "RELU_AUX_BIAS"} : Epilogue{CUBLASLT_EPILOGUE_RELU_AUX, "RELU_AUX"};
  }
  return bias ? Epilogue{CUBLASLT_EPILOGUE_GELU_AUX_BIAS, "GELU_AUX_BIAS"} : Epilogue{CUBLASLT_EPILOGUE_GELU_AUX, "GELU_AUX"};
}

// Returns the epilogue that does what the desc asks for; without a name when there is none.
Epilogue epilogueOf(const ashlar_rt_gemm_desc &desc) {
  if (desc.auxiliary != ASHLAR_RT_AUXILIARY_NONE) {
    return auxiliaryEpilogueOf(desc);
  }
  bool bias = desc.addend == ASHLAR_RT_ADDEND_BIAS;
  if (desc.operand_sum != ASHLAR_RT_SUM_OF_NONE) {
    if (bias || desc.epilogue != ASHLAR_RT_EPILOGUE_NONE || desc.batch != 1) {
      return {CUBLASLT_EPILOGUE_DEFAULT, nullptr};
    }
    // The library sees out transposed: its A is our B.
    return desc.operand_sum == ASHLAR_RT_SUM_OF_A ? Epilogue{CUBLASLT_EPILOGUE_BGRADB, "BGRADB"}
                                                  : Epilogue{CUBLASLT_EPILOGUE_BGRADA, "BGRADA"};
  }
  switch (desc.epilogue) {
  case ASHLAR_RT_EPILOGUE_NONE:
    return bias ? Epilogue{CUBLASLT_EPILOGUE_BIAS, "BIAS"} : Epilogue{CUBLASLT_EPILOGUE_DEFAULT, "DEFAULT"};
  case ASHLAR_RT_EPILOGUE_RELU:
    return bias ? Epilogue{CUBLASLT_EPILOGUE_RELU_BIAS, "RELU_BIAS"} : Epilogue{CUBLASLT_EPILOGUE_RELU, "RELU"};
  case ASHLAR_RT_EPILOGUE_GELU_TANH:
    return bias ? Epilogue{CUBLASLT_EPILOGUE_GELU_BIAS, "GELU_BIAS"} : Epilogue{CUBLASLT_EPILOGUE_GELU, "GELU"};
  default:
    return {CUBLASLT_EPILOGUE_DEFAULT, nullptr};
  }
}

uint32_t alignmentOf(CUdeviceptr address) {
  return static_cast<uint32_t>(address == 0 ? kMostAlignment : std::min(kMostAlignment, address & (~address + 1)));
}

} // namespace

std::vector<int64_t> CallDesc::key() const {
  return {product.batch,
          product.m,
          product.n,
          product.k,
          product.transpose_a,
          product.transpose_b,
          product.addend,
          product.epilogue,
          product.operand_sum,
          product.allow_tf32,
          product.auxiliary,
          product.auxiliary_row,
          at.inDtype,
          at.outDtype,
          alignmentOf(at.b),
          alignmentOf(at.a),
          alignmentOf(at.out),
          std::min(alignmentOf(at.bias), alignmentOf(at.sums)),
          alignmentOf(at.auxiliary),
          adds,
          static_cast<int64_t>(workspaceBytes)};
}

std::string CallDesc::text() const {
  return fmt::format("{} x (m {}, n {}, k {}), {} to {}, {}{}", product.batch, product.m, product.n, product.k, dtypeName(at.inDtype),
                     dtypeName(at.outDtype), epilogueName(), adds ? " on the old out" : "");
}

const char *CallDesc::epilogueName() const {
  const char *name = epilogueOf(product).name;
  return name != nullptr ? name : "no epilogue";
}

ProductCall::~ProductCall() {
  for (cublasLtMatrixLayout_t layout : {first, second, out}) {
    if (layout != nullptr) {
      lt.cublasLtMatrixLayoutDestroy(layout);
    }
  }
  if (operation != nullptr) {
    lt.cublasLtMatmulDescDestroy(operation);
  }
}

template <typename Value> Status ProductCall::set(cublasLtMatmulDescAttributes_t attribute, const Value &value) {
  return lt.check(lt.cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)), "cannot describe a matrix product");
}

// A batch of matrices, one after the other.
Status ProductCall::describe(cublasLtMatrixLayout_t &layout, cudaDataType_t type, int64_t rows, int64_t columns) {
  ASHLAR_RETURN_IF_ERROR(
      lt.check(lt.cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows),
               "cannot describe a matrix"));
  int32_t count = static_cast<int32_t>(desc.product.batch);
  int64_t stride = rows * columns;
  ASHLAR_RETURN_IF_ERROR(lt.check(lt.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
                                  "cannot describe a batch of matrices"));
  return lt.check(lt.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
                  "cannot describe a batch of matrices");
}

Status ProductCall::layOut(const CallDesc &wanted, const char *name) {
  desc = wanted;
  const ashlar_rt_gemm_desc &product = desc.product;
  cudaDataType_t inType = CUDA_R_32F;
  cudaDataType_t outType = CUDA_R_32F;
  if (!toCudaType(desc.at.inDtype, inType) || !toCudaType(desc.at.outDtype, outType)) {
    return internal("{}: a matrix product of {} with a result of {} on cuda", name, dtypeName(desc.at.inDtype),
                    dtypeName(desc.at.outDtype));
  }
  Epilogue epilogue = epilogueOf(product);
  if (epilogue.name == nullptr) {
    return internal("{}: cuBLASLt has no epilogue {} with bias {}, sums {} and auxiliary tensor {}", name, product.epilogue, product.addend,
                    product.operand_sum, product.auxiliary);
  }
  bool tf32 = product.allow_tf32 != 0 && desc.at.inDtype == ASHLAR_RT_F32;
  cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  ASHLAR_RETURN_IF_ERROR(lt.check(lt.cublasLtMatmulDescCreate(&operation, compute, CUDA_R_32F), "cannot describe a matrix product"));
  bool flipB = product.transpose_b != 0;
  bool flipA = product.transpose_a != 0;
  ASHLAR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, flipB ? CUBLAS_OP_T : CUBLAS_OP_N));
  ASHLAR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, flipA ? CUBLAS_OP_T : CUBLAS_OP_N));
  ASHLAR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue.value));
  if (CUdeviceptr bias = desc.at.bias != 0 ? desc.at.bias : desc.at.sums; bias != 0) {
    ASHLAR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
    ASHLAR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(outType)));
  }
  if (product.auxiliary != ASHLAR_RT_AUXILIARY_NONE) { // before the heuristic, which looks at the alignment of the address
    ASHLAR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, desc.at.auxiliary));
    ASHLAR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<int64_t>(product.auxiliary_row)));
  }
  ASHLAR_RETURN_IF_ERROR(describe(first, inType, flipB ? product.k : product.n, flipB ? product.n : product.k));
  ASHLAR_RETURN_IF_ERROR(describe(second, inType, flipA ? product.m : product.k, flipA ? product.k : product.m));
  return describe(out, outType, product.n, product.m);
}

// Tells the library how aligned the operands are, and how much workspace there is.
Status ProductCall::prefer(cublasLtMatmulPreference_t preference) const {
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return lt.check(lt.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)), "cannot describe a preference");
  };
  Status status = set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, desc.workspaceBytes);
  status.update(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignmentOf(desc.at.b)));
  status.update(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignmentOf(desc.at.a)));
  status.update(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignmentOf(desc.at.out)));
  status.update(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignmentOf(desc.at.out)));
  return status;
}

Status ProductCall::propose(cublasLtHandle_t handle, std::vector<cublasLtMatmulHeuristicResult_t> &found, std::string &refusal) const {
  cublasLtMatmulPreference_t preference = nullptr;
  ASHLAR_RETURN_IF_ERROR(lt.check(lt.cublasLtMatmulPreferenceCreate(&preference), "cannot describe a preference"));
  Status status = prefer(preference);
  found.assign(kAlgorithms, {});
  int count = 0;
  if (status.ok()) {
    cublasStatus_t result =
        lt.cublasLtMatmulAlgoGetHeuristic(handle, operation, first, second, out, out, preference, kAlgorithms, found.data(), &count);
    count = result == CUBLAS_STATUS_SUCCESS ? count : 0;
    refusal = count == 0 ? fmt::format("{}: no algorithm ({})", desc.epilogueName(), lt.cublasLtGetStatusString(result)) : "";
  }
  lt.cublasLtMatmulPreferenceDestroy(preference);
  found.resize(static_cast<size_t>(count));
  return status;
}

cublasStatus_t ProductCall::run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t &algorithm, CUdeviceptr workspace,
                                CUstream stream) const {
  const float one = 1;
  const float beta = desc.adds ? 1 : 0;
  auto address = [](CUdeviceptr at) { return reinterpret_cast<void *>(at); };
  return lt.cublasLtMatmul(handle, operation, &one, address(desc.at.b), first, address(desc.at.a), second, &beta, address(desc.at.out), out,
                           address(desc.at.out), out, &algorithm, address(workspace), desc.workspaceBytes, stream);
}

} // namespace ashlar::rt
