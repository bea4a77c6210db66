// SPDX-License-Identifier: Apache-2.0
//
// One call of cuBLASLt: its descriptions of operation and matrices, owned, and the algorithm that was chosen for it.

#ifndef ASHLAR_RUNTIME_KERNELS_CUDA_PRODUCT_CALL_H
#define ASHLAR_RUNTIME_KERNELS_CUDA_PRODUCT_CALL_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/abi/memory_sizes.h"
#include "runtime/kernels/cuda/cublaslt_library.h"

#include <cuda.h>

#include <string>
#include <vector>

namespace ashlar::rt {

// The operands of a product: addresses on the device, 0 where the desc has none, and types.
struct MatmulOperands {
  CUdeviceptr a = 0, b = 0, bias = 0, out = 0, sums = 0;
  uint32_t inDtype = ASHLAR_RT_F32;  // of a and b
  uint32_t outDtype = ASHLAR_RT_F32; // of out, bias, sums, and an auxiliary tensor that is no mask
  CUdeviceptr auxiliary = 0;
};

// The computation of a call: out = epilogue(A B [+ out] + bias), and sums. The library may also use `workspaceBytes`.
struct CallDesc {
  ashlar_rt_gemm_desc product = {};
  MatmulOperands at;
  bool adds = false; // to the old out
  uint64_t workspaceBytes = kMatmulWorkspaceBytes;

  // Returns everything that the library looks at to choose an algorithm.
  std::vector<int64_t> key() const;

  // Returns "1 x (m 256, n 10, k 512), bf16 to f32, BGRADB": the epilogue as the library calls it.
  std::string text() const;

  // Returns the library's name of the epilogue: "RELU_BIAS".
  const char *epilogueName() const;
};

// An algorithm of the library, or why it has none that runs.
struct AlgorithmChoice {
  cublasLtMatmulAlgo_t algorithm = {};
  int place = 0;       // in the order of the heuristic
  std::string refusal; // empty: there is one
};

class ProductCall {
public:
  explicit ProductCall(const CublasLtLibrary &lt) : lt(lt) {}
  ProductCall(const ProductCall &) = delete;
  ProductCall &operator=(const ProductCall &) = delete;
  ~ProductCall();

  // Describes everything but the algorithm. Fails for types and epilogues that the library does not have at all; `name` is for the error.
  Status layOut(const CallDesc &desc, const char *name);

  // Asks the library for algorithms, its best first. `refusal` becomes its message when there is none.
  Status propose(cublasLtHandle_t handle, std::vector<cublasLtMatmulHeuristicResult_t> &found, std::string &refusal) const;

  // Puts the call on the stream.
  cublasStatus_t run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t &algorithm, CUdeviceptr workspace, CUstream stream) const;

private:
  template <typename Value> Status set(cublasLtMatmulDescAttributes_t attribute, const Value &value);
  Status describe(cublasLtMatrixLayout_t &layout, cudaDataType_t type, int64_t rows, int64_t columns);
  Status prefer(cublasLtMatmulPreference_t preference) const;

  const CublasLtLibrary &lt;
  CallDesc desc;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr;
  cublasLtMatrixLayout_t second = nullptr;
  cublasLtMatrixLayout_t out = nullptr;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CUDA_PRODUCT_CALL_H
