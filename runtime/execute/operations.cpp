// SPDX-License-Identifier: Apache-2.0
//
// See operations.h.

#include "runtime/execute/operations.h"

namespace ashlar::rt {

double operationsOf(const ashlar_rt_instr &instr) {
  if (instr.kind == ASHLAR_RT_GEMM) {
    const auto &desc = *static_cast<const ashlar_rt_gemm_desc *>(instr.desc);
    return 2.0 * static_cast<double>(desc.batch) * static_cast<double>(desc.m) * static_cast<double>(desc.n) * static_cast<double>(desc.k);
  }
  if (instr.kind == ASHLAR_RT_ATTENTION) {
    const auto &desc = *static_cast<const ashlar_rt_attention_desc *>(instr.desc);
    const bool backward = desc.kind == ASHLAR_RT_ATTENTION_BACKWARD;
    const auto columns = static_cast<double>(backward ? 3 * desc.width + 2 * desc.value_width : desc.width + desc.value_width);
    return (desc.causal != 0 ? 1.0 : 2.0) * static_cast<double>(desc.batch * desc.heads * desc.rows) * static_cast<double>(desc.keys) *
           columns;
  }
  if (instr.kind != ASHLAR_RT_CONV) {
    return 0;
  }
  const auto &desc = *static_cast<const ashlar_rt_conv_desc *>(instr.desc);
  double count = 2.0 * static_cast<double>(desc.batch * desc.groups) * static_cast<double>(desc.channels_in * desc.channels_out);
  for (const ashlar_rt_conv_dim &dim : desc.dims) {
    count *= static_cast<double>(dim.out * dim.kernel);
  }
  return count;
}

bool isNarrow(const ashlar_rt_instr &instr) {
  switch (instr.kind) {
  case ASHLAR_RT_GEMM:
    return static_cast<const ashlar_rt_gemm_desc *>(instr.desc)->narrow != 0;
  case ASHLAR_RT_CONV:
    return static_cast<const ashlar_rt_conv_desc *>(instr.desc)->narrow != 0;
  case ASHLAR_RT_ATTENTION: {
    const uint32_t dtype = static_cast<const ashlar_rt_attention_desc *>(instr.desc)->dtype;
    return dtype == ASHLAR_RT_BF16 || dtype == ASHLAR_RT_F16;
  }
  default:
    return false;
  }
}

} // namespace ashlar::rt
