// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of a compiled program on a GPU, by cuBLASLt. A product is prepared once and then put on a stream any number of times
// without allocating. Preparing chooses an algorithm that was seen to run; where the library refuses a bias, the sums of an operand or an
// auxiliary tensor, the product becomes several calls that need none, or a call and a kernel.

#ifndef ASHLAR_RUNTIME_KERNELS_CUDA_MATMUL_H
#define ASHLAR_RUNTIME_KERNELS_CUDA_MATMUL_H

#include "runtime/device/cuda/device.h"
#include "runtime/kernels/cuda/activation_kernels.h"
#include "runtime/kernels/cuda/product_call.h"

#include <map>
#include <memory>
#include <vector>

namespace ashlar::rt {

// Sorts the buffers of an instruction, whose addresses are given, into operands: {A, B, [bias,] [auxiliary read,] out, [sums,] [auxiliary
// written]}. Fails when number, sizes or types do not fit the desc.
Status sortMatmulOperands(const ashlar_rt_instr &instr, const std::vector<CUdeviceptr> &addresses, MatmulOperands &operands);

// The products of one device. Owns the library's handle. Used by one thread.
class Matmuls {
public:
  Matmuls();
  ~Matmuls();
  Matmuls(const Matmuls &) = delete;
  Matmuls &operator=(const Matmuls &) = delete;

  // Loads the library. Assumes that the context of the device, which outlives the products, is current. `workspace`: kMatmulWorkspaceBytes
  // of device memory. `stream`: where trials run.
  Status create(CudaDevice &gpu, CUdeviceptr workspace, CUstream stream);

  // Lays out a product and returns its number. For distinct products every candidate algorithm runs once, on the operands, which overwrites
  // `out` and `sums`. `name` is its name in an error; if no algorithm is left, the error names all that were tried.
  Status prepare(const ashlar_rt_gemm_desc &desc, const MatmulOperands &operands, const char *name, size_t &number);

  // Ends a program: of the products prepared since the last call either the library writes and reads all masks of relu, or kernels do.
  // Nobody documents the order of a mask's bits, so one side has to do both.
  Status settle();

  // Puts a product on the stream. Assumes that it is settled.
  Status enqueue(size_t number, CUstream stream) const;

  // Returns why a product takes several calls: the library's reason for refusing one; "" for most.
  const std::string &refusal(size_t number) const;

  // Returns which algorithm of the heuristic the last call of a product runs; 0 is its first.
  int algorithmPlace(size_t number) const;

  // Returns a line for each kind of product that takes several calls, with its reason.
  std::vector<std::string> replacements() const;

private:
  struct Ones;
  struct Step;
  struct Prepared;

  // The replacements for one reason, of products of one type.
  struct Replacement {
    std::string text;
    std::string first; // product
    size_t count = 0;
  };

  // A product with a mask, until its program is settled.
  struct Masked {
    size_t number;
    CallDesc desc;
    std::string name;
  };

  Status layOut(const CallDesc &whole, const char *name, Prepared &prepared, std::string &lost);
  Status replace(const CallDesc &whole, const char *name, const std::string &reason, Prepared &prepared, std::string &lost);
  Status tryKernel(const CallDesc &whole, const char *name, Prepared &prepared, std::string &refusal);
  Status tryParts(const CallDesc &whole, const char *name, Prepared &prepared, std::string &refusal);
  Status tryOne(const CallDesc &desc, const Ones &ones, const char *name, Prepared &prepared, std::string &refusal);
  Status choose(const ProductCall &call, const CallDesc &desc, const char *name, AlgorithmChoice &choice);
  Status waitForTrial(const CallDesc &desc, const char *name) const;
  void noteReplacement(const CallDesc &desc, const char *name, const std::string &refusal);

  CudaDevice *device = nullptr;
  CublasLtLibrary lt;
  cublasLtHandle_t handle = nullptr;
  CUdeviceptr workspace = 0;
  CUstream trials = nullptr;
  CUevent tried = nullptr;
  bool splitsSums = false;        // ASHLAR_NO_PRODUCT_SUMS
  bool splitsActivations = false; // ASHLAR_NO_PRODUCT_AUXILIARY
  ActivationKernels kernels;
  std::vector<Masked> masked;
  std::vector<std::unique_ptr<Prepared>> products;
  std::map<std::vector<int64_t>, AlgorithmChoice> choices; // by everything that the heuristic looks at
  std::vector<Replacement> replaced;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CUDA_MATMUL_H
