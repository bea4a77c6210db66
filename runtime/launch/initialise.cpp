// SPDX-License-Identifier: Apache-2.0
//
// What happens before the first step of any program.

#include "runtime/base/dtype.h"
#include "runtime/launch/session.h"

#include <cstring>

namespace ashlar::rt {

Status initialise(Session &session) {
  Executor &executor = *session.executor;
  if (const char *name = session.image->seed_tensor) {
    const ashlar_rt_tensor *seed = executor.tensor(name);
    if (seed == nullptr || seed->rank != 0 || seed->buffer.dtype != ASHLAR_RT_I64) {
      return internal("the image names the seed tensor {} but has no i64 scalar of that name", name);
    }
    for (int device = 0; device < session.communicator->mesh().devicesPerProcess(); ++device) {
      std::memcpy(executor.address(*seed, device), &session.options->seed, sizeof(uint64_t));
    }
  }
  Program *init = executor.find("init");
  return init != nullptr ? executor.run(*init) : Status();
}

} // namespace ashlar::rt
