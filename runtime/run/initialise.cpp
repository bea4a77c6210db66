// SPDX-License-Identifier: Apache-2.0
//
// What happens before the first step of any program.

#include "runtime/base/clock.h"
#include "runtime/run/session.h"

#include <cstdio>
#include <cstring>

namespace ashlar::rt {

Status writeNumber(Session &session, const char *name, uint64_t number) {
  if (name == nullptr) {
    return Status();
  }
  const ashlar_rt_tensor *any = Stages(*session.variant).find(name), *own = session.executor->tensor(name);
  if (any == nullptr || any->rank != 0 || any->buffer.dtype != ASHLAR_RT_I64) {
    return internal("the image names the tensor {} but has no i64 scalar of that name", name);
  }
  for (int device = 0; own != nullptr && device < session.communicator->mesh().devicesPerProcess(); ++device) {
    auto fill = [&](char *data) { std::memcpy(data, &number, sizeof(number)); };
    ASHLAR_RETURN_IF_ERROR(session.executor->write(*own, device, fill));
  }
  return Status();
}

Status initialise(Session &session) {
  Executor &executor = *session.executor;
  ASHLAR_RETURN_IF_ERROR(writeNumber(session, session.image->seed_tensor, session.options->seed));
  double begin = seconds();
  if (Program *init = executor.find(ASHLAR_RT_INIT)) {
    ASHLAR_RETURN_IF_ERROR(executor.run(*init));
    ASHLAR_RETURN_IF_ERROR(executor.wait());
  }
  if (std::string times = executor.startTimes(); session.options->profile && session.communicator->rank() == 0 && !times.empty()) {
    std::fputs(fmt::format("start: {}, init {:.1f} ms\n", times, 1e3 * (seconds() - begin)).c_str(), stdout);
  }
  return Status();
}

} // namespace ashlar::rt
