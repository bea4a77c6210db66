// SPDX-License-Identifier: Apache-2.0
//
// The library's matrices are column major, so a row-major (r, c) is its (c, r) with leading dimension c, and out = A B becomes
// out^T = B^T A^T: our B is its first operand and our A its second. Its rows are our columns, which is why a bias has one entry a row
// there.

#include "runtime/kernels/cuda/matmul.h"

#include "runtime/base/dtype.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

// Largest alignment that the library asks about.
constexpr CUdeviceptr kMostAlignment = 256;

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

// The epilogue that does what the desc asks for.
bool toEpilogue(const ashlar_rt_gemm_desc &desc, cublasLtEpilogue_t &epilogue) {
  bool bias = desc.has_bias != 0;
  if (desc.operand_sum != ASHLAR_RT_SUM_OF_NONE) {
    // The library sees out transposed: its A is our B.
    epilogue = desc.operand_sum == ASHLAR_RT_SUM_OF_A ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
    return !bias && desc.epilogue == ASHLAR_RT_EPILOGUE_NONE && desc.batch == 1;
  }
  switch (desc.epilogue) {
  case ASHLAR_RT_EPILOGUE_NONE:
    epilogue = bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    return true;
  case ASHLAR_RT_EPILOGUE_RELU:
    epilogue = bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    return true;
  case ASHLAR_RT_EPILOGUE_GELU_TANH:
    epilogue = bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    return true;
  default:
    return false;
  }
}

uint32_t alignmentOf(CUdeviceptr address) {
  return static_cast<uint32_t>(address == 0 ? kMostAlignment : std::min(kMostAlignment, address & (~address + 1)));
}

} // namespace

Status sortMatmulOperands(const ashlar_rt_instr &instr, const std::vector<CUdeviceptr> &addresses, MatmulOperands &operands) {
  const auto &desc = *static_cast<const ashlar_rt_gemm_desc *>(instr.desc);
  uint32_t at = 0;
  bool sums = desc.operand_sum != ASHLAR_RT_SUM_OF_NONE;
  uint32_t wanted = 3 + (desc.has_bias != 0) + sums;
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
  operands.outDtype = instr.buffers[2 + (desc.has_bias != 0)].dtype;
  operands.a = take("A", desc.batch * desc.m * desc.k, operands.inDtype);
  operands.b = take("B", desc.batch * desc.k * desc.n, operands.inDtype);
  operands.bias = desc.has_bias != 0 ? take("the bias", desc.n, operands.outDtype) : 0;
  operands.out = take("out", desc.batch * desc.m * desc.n, operands.outDtype);
  operands.sums = sums ? take("the sums", desc.operand_sum == ASHLAR_RT_SUM_OF_A ? desc.m : desc.n, operands.outDtype) : 0;
  return status;
}

// One product: the library's descriptions of it, owned, and what was chosen.
struct Matmuls::Product {
  explicit Product(const CublasLtLibrary &lt) : lt(lt) {}
  Product(const Product &) = delete;
  ~Product() {
    for (cublasLtMatrixLayout_t layout : {first, second, out}) {
      if (layout != nullptr) {
        lt.cublasLtMatrixLayoutDestroy(layout);
      }
    }
    if (operation != nullptr) {
      lt.cublasLtMatmulDescDestroy(operation);
    }
  }

  template <typename Value> Status set(cublasLtMatmulDescAttributes_t attribute, const Value &value) {
    return lt.check(lt.cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)), "cannot describe a matrix product");
  }

  // A batch of matrices, one after the other.
  Status describe(cublasLtMatrixLayout_t &layout, cudaDataType_t type, int64_t rows, int64_t columns, int64_t batch) {
    ASHLAR_RETURN_IF_ERROR(
        lt.check(lt.cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows),
                 "cannot describe a matrix"));
    int32_t count = static_cast<int32_t>(batch);
    int64_t stride = rows * columns;
    ASHLAR_RETURN_IF_ERROR(lt.check(lt.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
                                    "cannot describe a batch of matrices"));
    return lt.check(lt.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
                    "cannot describe a batch of matrices");
  }

  // Describes everything but the algorithm.
  Status layOut(const ashlar_rt_gemm_desc &desc, const MatmulOperands &at, cudaDataType_t inType, cudaDataType_t outType,
                cublasLtEpilogue_t epilogue) {
    bool tf32 = desc.allow_tf32 != 0 && at.inDtype == ASHLAR_RT_F32;
    cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    ASHLAR_RETURN_IF_ERROR(lt.check(lt.cublasLtMatmulDescCreate(&operation, compute, CUDA_R_32F), "cannot describe a matrix product"));
    cublasOperation_t flipFirst = desc.transpose_b != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t flipSecond = desc.transpose_a != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
    ASHLAR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, flipFirst));
    ASHLAR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, flipSecond));
    ASHLAR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
    if (CUdeviceptr bias = at.bias != 0 ? at.bias : at.sums; bias != 0) {
      ASHLAR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
      ASHLAR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(outType)));
    }
    bool flipB = desc.transpose_b != 0;
    bool flipA = desc.transpose_a != 0;
    ASHLAR_RETURN_IF_ERROR(describe(first, inType, flipB ? desc.k : desc.n, flipB ? desc.n : desc.k, desc.batch));
    ASHLAR_RETURN_IF_ERROR(describe(second, inType, flipA ? desc.m : desc.k, flipA ? desc.k : desc.m, desc.batch));
    return describe(out, outType, desc.n, desc.m, desc.batch);
  }

  const CublasLtLibrary &lt;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr;
  cublasLtMatrixLayout_t second = nullptr;
  cublasLtMatrixLayout_t out = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  MatmulOperands at;
};

Matmuls::Matmuls() = default;

Matmuls::~Matmuls() {
  products.clear();
  if (handle != nullptr) {
    lt.cublasLtDestroy(handle);
  }
}

Status Matmuls::create(CUdeviceptr memory) {
  workspace = memory;
  ASHLAR_RETURN_IF_ERROR(CublasLtLibrary::load(lt));
  return lt.check(lt.cublasLtCreate(&handle), "cannot initialise cuBLASLt");
}

Status Matmuls::prepare(const ashlar_rt_gemm_desc &desc, const MatmulOperands &operands, const char *name, size_t &number) {
  cudaDataType_t inType = CUDA_R_32F;
  cudaDataType_t outType = CUDA_R_32F;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  if (!toCudaType(operands.inDtype, inType) || !toCudaType(operands.outDtype, outType)) {
    return internal("{}: a matrix product of {} with a result of {} on cuda", name, dtypeName(operands.inDtype),
                    dtypeName(operands.outDtype));
  }
  if (!toEpilogue(desc, epilogue)) {
    return internal("{}: cuBLASLt has no epilogue {} with bias {} and sums {}", name, desc.epilogue, desc.has_bias, desc.operand_sum);
  }
  auto product = std::make_unique<Product>(lt);
  product->at = operands;
  ASHLAR_RETURN_IF_ERROR(product->layOut(desc, operands, inType, outType, epilogue));
  ASHLAR_RETURN_IF_ERROR(choose(*product, desc, operands, name));
  number = products.size();
  products.push_back(std::move(product));
  return Status();
}

Status Matmuls::choose(Product &product, const ashlar_rt_gemm_desc &desc, const MatmulOperands &at, const char *name) {
  uint32_t alignments[] = {alignmentOf(at.b), alignmentOf(at.a), alignmentOf(at.out)};
  uint32_t epilogueAlignment = std::min(alignmentOf(at.bias), alignmentOf(at.sums));
  std::vector<int64_t> key = {desc.batch,    desc.m,        desc.n,           desc.k,           desc.transpose_a, desc.transpose_b,
                              desc.has_bias, desc.epilogue, desc.operand_sum, desc.allow_tf32,  at.inDtype,       at.outDtype,
                              alignments[0], alignments[1], alignments[2],    epilogueAlignment};
  if (auto known = algorithms.find(key); known != algorithms.end()) {
    product.algorithm = known->second;
    return Status();
  }
  cublasLtMatmulPreference_t preference = nullptr;
  ASHLAR_RETURN_IF_ERROR(lt.check(lt.cublasLtMatmulPreferenceCreate(&preference), "cannot describe a preference"));
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const void *value, size_t bytes) {
    return lt.check(lt.cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, bytes), "cannot describe a preference");
  };
  Status status = set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kMatmulWorkspaceBytes, sizeof(kMatmulWorkspaceBytes));
  status.update(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignments[0], sizeof(uint32_t)));
  status.update(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignments[1], sizeof(uint32_t)));
  status.update(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignments[2], sizeof(uint32_t)));
  status.update(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignments[2], sizeof(uint32_t)));
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  if (status.ok()) {
    cublasStatus_t result = lt.cublasLtMatmulAlgoGetHeuristic(handle, product.operation, product.first, product.second, product.out,
                                                              product.out, preference, /*requestedAlgoCount=*/1, &found, &count);
    if (result != CUBLAS_STATUS_SUCCESS || count == 0) {
      status = unavailable("{}: cuBLASLt {} has no algorithm for {} x ({}, {}, {}), {} to {}, epilogue {}, sums {} ({})", name,
                           lt.cublasLtGetVersion(), desc.batch, desc.m, desc.n, desc.k, dtypeName(at.inDtype), dtypeName(at.outDtype),
                           desc.epilogue, desc.operand_sum, lt.cublasLtGetStatusString(result));
    }
  }
  lt.cublasLtMatmulPreferenceDestroy(preference);
  product.algorithm = found.algo;
  if (status.ok()) {
    algorithms.emplace(key, found.algo);
  }
  return status;
}

Status Matmuls::enqueue(size_t number, CUstream stream) const {
  static const float one = 1;
  static const float zero = 0;
  const Product &product = *products[number];
  auto address = [](CUdeviceptr at) { return reinterpret_cast<void *>(at); };
  cublasStatus_t result = lt.cublasLtMatmul(handle, product.operation, &one, address(product.at.b), product.first, address(product.at.a),
                                            product.second, &zero, address(product.at.out), product.out, address(product.at.out),
                                            product.out, &product.algorithm, address(workspace), kMatmulWorkspaceBytes, stream);
  return lt.check(result, "cuBLASLt failed to start a matrix product");
}

} // namespace ashlar::rt
