// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of a compiled program on a GPU, by cuBLASLt. A product is prepared once, its algorithm chosen by the library's heuristic,
// and then put on a stream any number of times without allocating.

#ifndef ASHLAR_RUNTIME_KERNELS_CUDA_MATMUL_H
#define ASHLAR_RUNTIME_KERNELS_CUDA_MATMUL_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/abi/memory_sizes.h"
#include "runtime/kernels/cuda/cublaslt_library.h"

#include <cuda.h>

#include <map>
#include <memory>
#include <vector>

namespace ashlar::rt {

// The operands of a product: addresses on the device, 0 where the desc has none, and types.
struct MatmulOperands {
  CUdeviceptr a = 0, b = 0, bias = 0, out = 0, sums = 0;
  uint32_t inDtype = ASHLAR_RT_F32;  // of a and b
  uint32_t outDtype = ASHLAR_RT_F32; // of out, bias and sums
};

// Sorts the buffers of an instruction, whose addresses are given, into operands: {A, B, [bias,] out,
// [sums]}. Fails when number, sizes or types do not fit the desc.
Status sortMatmulOperands(const ashlar_rt_instr &instr, const std::vector<CUdeviceptr> &addresses, MatmulOperands &operands);

// The products of one device. Owns the library's handle. Used by one thread.
class Matmuls {
public:
  Matmuls();
  ~Matmuls();
  Matmuls(const Matmuls &) = delete;
  Matmuls &operator=(const Matmuls &) = delete;

  // Loads the library. Assumes that the device's context is current. `workspace`: kMatmulWorkspaceBytes of device memory.
  Status create(CUdeviceptr workspace);

  // Lays out a product and returns its number. Equal products share what the heuristic chose. `name` is what an error calls it.
  Status prepare(const ashlar_rt_gemm_desc &desc, const MatmulOperands &operands, const char *name, size_t &number);

  // Puts a product on the stream.
  Status enqueue(size_t number, CUstream stream) const;

private:
  struct Product;

  Status choose(Product &product, const ashlar_rt_gemm_desc &desc, const MatmulOperands &operands, const char *name);

  CublasLtLibrary lt;
  cublasLtHandle_t handle = nullptr;
  CUdeviceptr workspace = 0;
  std::vector<std::unique_ptr<Product>> products;
  std::map<std::vector<int64_t>, cublasLtMatmulAlgo_t> algorithms; // by everything that the heuristic looks at
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CUDA_MATMUL_H
