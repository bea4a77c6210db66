// SPDX-License-Identifier: Apache-2.0
//
// The matrix product as plain loops.

#include "runtime/kernels/reference/gemm.h"

#include <cmath>

namespace ashlar::rt {

double referenceEpilogue(uint32_t epilogue, double x) {
  switch (epilogue) {
  case ASHLAR_RT_EPILOGUE_RELU:
    return x < 0 ? 0 : x;
  case ASHLAR_RT_EPILOGUE_GELU_ERF:
    return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  case ASHLAR_RT_EPILOGUE_GELU_TANH:
    return 0.5 * x * (1 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  case ASHLAR_RT_EPILOGUE_SIGMOID:
    return 1 / (1 + std::exp(-x));
  case ASHLAR_RT_EPILOGUE_TANH:
    return std::tanh(x);
  default:
    return x;
  }
}

void referenceGemm(const ashlar_rt_gemm_desc &desc, const float *a, const float *b, const float *bias, float *out) {
  const int64_t m = desc.m, n = desc.n, k = desc.k;
  for (int64_t batch = 0; batch < desc.batch; ++batch) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = desc.addend == ASHLAR_RT_ADDEND_BIAS ? bias[j] : desc.addend == ASHLAR_RT_ADDEND_OUT ? out[i * n + j] : 0;
        for (int64_t p = 0; p < k; ++p) {
          double left = desc.transpose_a ? a[p * m + i] : a[i * k + p];
          double right = desc.transpose_b ? b[j * k + p] : b[p * n + j];
          sum += left * right;
        }
        out[i * n + j] = static_cast<float>(referenceEpilogue(desc.epilogue, sum));
      }
    }
    a += m * k;
    b += k * n;
    out += m * n;
  }
}

} // namespace ashlar::rt
