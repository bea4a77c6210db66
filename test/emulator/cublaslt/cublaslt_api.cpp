// SPDX-License-Identifier: Apache-2.0
//
// The entries of cuBLASLt. The heuristic knows one algorithm, which remembers the alignments and the workspace it was promised, and as many
// that do not run ahead of it as ASHLAR_EMULATOR_CUBLASLT_FAILING says.

#include "test/emulator/cublaslt/product.h"
#include "test/emulator/driver/settings.h"

#include <cstring>

using namespace ashlar::emulator;

namespace {

constexpr uint64_t kAlgorithm = 0x4153484c41520001; // first word of ours
constexpr size_t kWorkspaceAlignment = 16;

// What cublasLtMatmulAlgo_t holds.
struct Algorithm {
  uint64_t magic;
  uint64_t workspace;
  uint32_t alignment[4];
  uint32_t runs;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

Description *of(cublasLtMatmulDesc_t handle) {
  return reinterpret_cast<Description *>(handle);
}
Layout *of(cublasLtMatrixLayout_t handle) {
  return reinterpret_cast<Layout *>(handle);
}
Preference *of(cublasLtMatmulPreference_t handle) {
  return reinterpret_cast<Preference *>(handle);
}

// Copies an attribute of exactly its size.
template <class T> cublasStatus_t set(T &field, const void *value, size_t bytes) {
  if (!value || bytes != sizeof(T)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(&field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t unknown(const char *what, int attribute) {
  say(std::string("cuBLASLt: ") + what + " attribute " + std::to_string(attribute) + " is not played");
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t refuse(cublasStatus_t status, const std::string &reason) {
  say("cuBLASLt: " + reason);
  return status;
}

CUdeviceptr address(const void *pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

// Returns why the operands are not what the algorithm was chosen for, or null.
const char *whyNotPromised(const Algorithm &algorithm, const Product &product, const void *workspace, size_t workspaceBytes) {
  const CUdeviceptr addresses[] = {product.aAddress, product.bAddress, product.cAddress, product.dAddress};
  for (size_t i = 0; i < 4; ++i) {
    if (addresses[i] % algorithm.alignment[i] != 0) {
      return "an operand is less aligned than the preference promised (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_*, 256 bytes by default)";
    }
  }
  if (workspaceBytes < algorithm.workspace) {
    return "the workspace is smaller than the algorithm needs";
  }
  if (workspaceBytes != 0 &&
      (address(workspace) % kWorkspaceAlignment != 0 || !Driver::get().resolve(address(workspace), workspaceBytes))) {
    return "the workspace is not aligned, or not in device memory";
  }
  return nullptr;
}

} // namespace

extern "C" {

size_t CUBLASWINAPI cublasLtGetVersion(void) {
  return CUBLAS_VERSION;
}

const char *CUBLASWINAPI cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_SUCCESS:
    return "CUBLAS_STATUS_SUCCESS";
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "CUBLAS_STATUS_NOT_INITIALIZED";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "CUBLAS_STATUS_INVALID_VALUE";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "CUBLAS_STATUS_NOT_SUPPORTED";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "CUBLAS_STATUS_EXECUTION_FAILED";
  default:
    return "CUBLAS_STATUS_UNKNOWN";
  }
}

cublasStatus_t CUBLASWINAPI cublasLtCreate(cublasLtHandle_t *handle) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  if (!Driver::current()) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  *handle = reinterpret_cast<cublasLtHandle_t>(new Device *(Driver::current()));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<Device **>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *handle, cublasComputeType_t compute, cudaDataType_t scale) {
  *handle = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{compute, scale});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  delete of(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                                                           const void *value, size_t bytes) {
  Description &description = *of(handle);
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_POINTER_MODE:
    return set(description.pointerMode, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return set(description.transposeA, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return set(description.transposeB, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return set(description.epilogue, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return set(description.bias, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return set(description.biasType, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
    return set(description.biasBatchStride, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return set(description.auxiliary, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return set(description.auxiliaryLd, value, bytes);
  default:
    return unknown("matmul", attribute);
  }
}

cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *handle, cudaDataType type, uint64_t rows, uint64_t columns,
                                                       int64_t ld) {
  *handle = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, ld});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  delete of(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle, cublasLtMatrixLayoutAttribute_t attribute,
                                                             const void *value, size_t bytes) {
  Layout &layout = *of(handle);
  switch (attribute) {
  case CUBLASLT_MATRIX_LAYOUT_ORDER:
    return set(layout.order, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
    return set(layout.batches, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
    return set(layout.batchStride, value, bytes);
  default:
    return unknown("layout", attribute);
  }
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *handle) {
  *handle = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  delete of(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                                 cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                                 size_t bytes) {
  Preference &preference = *of(handle);
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return set(preference.workspace, value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    return set(preference.alignment[0], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    return set(preference.alignment[1], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    return set(preference.alignment[2], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return set(preference.alignment[3], value, bytes);
  default:
    return unknown("preference", attribute);
  }
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                                           cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                                           cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int requested,
                                                           cublasLtMatmulHeuristicResult_t results[], int *count) {
  *count = 0;
  if (!handle || requested < 1) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (const char *reason = whyNotSupported(*of(description), *of(a), *of(b), *of(c), *of(d))) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, reason);
  }
  const int failing = static_cast<int>(setting("CUBLASLT_FAILING", 0));
  for (*count = 0; *count < requested && *count <= failing; ++*count) {
    Algorithm algorithm{kAlgorithm, of(preference)->workspace / 2, {}, *count == failing};
    std::memcpy(algorithm.alignment, of(preference)->alignment, sizeof algorithm.alignment);
    cublasLtMatmulHeuristicResult_t &result = results[*count] = {};
    std::memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = algorithm.workspace;
    result.state = *count == 0 && failing > 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void *alpha, const void *a,
                                           cublasLtMatrixLayout_t aLayout, const void *b, cublasLtMatrixLayout_t bLayout, const void *beta,
                                           const void *c, cublasLtMatrixLayout_t cLayout, void *d, cublasLtMatrixLayout_t dLayout,
                                           const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspaceBytes,
                                           cudaStream_t streamHandle) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  if (!handle || !Driver::current()) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  if (of(description)->pointerMode != CUBLASLT_POINTER_MODE_HOST) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "alpha and beta must be on the host");
  }
  if (const char *reason = whyNotSupported(*of(description), *of(aLayout), *of(bLayout), *of(cLayout), *of(dLayout))) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, reason);
  }
  Product product{
      *of(description), *of(aLayout), *of(bLayout), *of(cLayout), *of(dLayout), address(a), address(b), address(c), address(d), 0, 0};
  std::memcpy(&product.alpha, alpha, sizeof product.alpha);
  std::memcpy(&product.beta, beta, sizeof product.beta);
  Algorithm algorithm{};
  if (algo) {
    std::memcpy(&algorithm, algo, sizeof algorithm);
    if (algorithm.magic != kAlgorithm) {
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "the algorithm is not one of the heuristic");
    }
    if (algorithm.runs == 0) {
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "ASHLAR_EMULATOR_CUBLASLT_FAILING: this algorithm does not run");
    }
    if (const char *reason = whyNotPromised(algorithm, product, workspace, workspaceBytes)) {
      return refuse(CUBLAS_STATUS_INVALID_VALUE, reason);
    }
  }
  CUstream stream = Driver::get().streamOf(reinterpret_cast<CUstream>(streamHandle));
  if (!stream || enqueue(stream, once([product] { multiply(product); })) != CUDA_SUCCESS) {
    return refuse(CUBLAS_STATUS_EXECUTION_FAILED, "the stream takes no work");
  }
  return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
