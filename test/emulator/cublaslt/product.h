// SPDX-License-Identifier: Apache-2.0
//
// A matrix product as cuBLASLt describes it: D = epilogue(alpha op(A) op(B) + beta C), column major, batched by strides. Products are
// summed in f32, in the order of k.

#ifndef ASHLAR_TEST_EMULATOR_CUBLASLT_PRODUCT_H
#define ASHLAR_TEST_EMULATOR_CUBLASLT_PRODUCT_H

#include "test/emulator/driver/device.h"

namespace ashlar::emulator {

// Behind a cublasLtMatrixLayout_t.
struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t ld; // elements
  int32_t order = CUBLASLT_ORDER_COL;
  int32_t batches = 1;
  int64_t batchStride = 0; // elements
};

// Behind a cublasLtMatmulDesc_t.
struct Description {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t pointerMode = CUBLASLT_POINTER_MODE_HOST;
  int32_t transposeA = CUBLAS_OP_N, transposeB = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  CUdeviceptr bias = 0;  // or its gradient
  int32_t biasType = -1; // by default D's
  int64_t biasBatchStride = 0;
  CUdeviceptr auxiliary = 0;
  int64_t auxiliaryLd = 0; // elements, of a mask bits
};

// Behind a cublasLtMatmulPreference_t.
struct Preference {
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256}; // of A, B, C, D: the caller's promises
};

struct Product {
  Description description;
  Layout a, b, c, d;
  CUdeviceptr aAddress, bAddress, cAddress, dAddress;
  float alpha, beta;
};

// Returns why cuBLASLt would not do the product, or null. Reads no address outside the description.
const char *whyNotSupported(const Description &description, const Layout &a, const Layout &b, const Layout &c, const Layout &d);

// Does the product. Throws Fault when an operand is not in device memory.
void multiply(const Product &product);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_CUBLASLT_PRODUCT_H
