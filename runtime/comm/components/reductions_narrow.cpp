// SPDX-License-Identifier: Apache-2.0
//
// The component of reductions of types of one and two bytes.

#include "runtime/base/dtype.h"
#include "runtime/comm/reduce_kernels.h"

namespace ashlar::rt {

bool ASHLAR_RT_COMPONENT(reductions_narrow)(uint32_t dtype, uint32_t reduction, Reducer &reducer) {
  bool known = false;
  withDtype(dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (sizeof(T) <= 2 && !std::is_same_v<T, bool>) {
      known = ReducerKernels::setElement<T>(reduction, reducer);
    }
  });
  return known;
}

} // namespace ashlar::rt
