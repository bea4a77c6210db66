// SPDX-License-Identifier: Apache-2.0
//
// Reads scalars on the ranks that have them.

#include "runtime/run/scalar.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace ashlar::rt {

Status Scalar::find(const Session &session, const char *name, bool integer) {
  const ashlar_rt_variant &last = Stages(*session.variant).last();
  executor = session.executor;
  tensor = findTensor(last, name);
  ofStage = last.stage;
  isHere = &last == session.variant;
  if (tensor == nullptr) {
    return internal("the image names the tensor {} but has none of that name", name);
  }
  return check(integer);
}

Status Scalar::findHere(const Session &session, const char *name) {
  executor = session.executor;
  tensor = name != nullptr ? findTensor(*session.variant, name) : nullptr;
  ofStage = session.variant->stage;
  isHere = tensor != nullptr;
  return isHere ? check(/*integer=*/true) : Status();
}

Status Scalar::findFirst(const Session &session, const char *name) {
  executor = session.executor;
  for (const ashlar_rt_variant &each : Stages(*session.variant)) {
    tensor = name != nullptr ? findTensor(each, name) : nullptr;
    if (tensor != nullptr) {
      ofStage = each.stage;
      isHere = &each == session.variant;
      return check(/*integer=*/false);
    }
  }
  return name == nullptr ? Status() : internal("the image names the tensor {} but has none of that name", name);
}

Status Scalar::check(bool integer) const {
  const bool fits = integer ? dtype() == ASHLAR_RT_I64 : dtype() == ASHLAR_RT_F32 || dtype() == ASHLAR_RT_F64;
  return tensor->rank == 0 && fits
             ? Status()
             : internal("tensor {} has rank {} and dtype {}, not a scalar that the runtime reads", tensor->name, tensor->rank, dtype());
}

Status Scalar::read(uint64_t microBatch, double &value) const {
  value = 0;
  if (!isHere) {
    return Status();
  }
  char bytes[sizeof(double)] = {};
  ASHLAR_RETURN_IF_ERROR(executor->read(*tensor, /*device=*/0, bytes, microBatch));
  value = valueOf(bytes);
  return Status();
}

Status Scalar::note(uint64_t microBatch, size_t place) const {
  return isHere ? executor->note(*tensor, microBatch, place) : Status();
}

Status Scalar::recall(size_t place, double &value) const {
  value = 0;
  if (!isHere) {
    return Status();
  }
  char bytes[kNoteBytes] = {};
  ASHLAR_RETURN_IF_ERROR(executor->recall(place, bytes));
  value = valueOf(bytes);
  return Status();
}

double Scalar::valueOf(const char *bytes) const {
  auto as = [&](auto number) {
    std::memcpy(&number, bytes, sizeof(number));
    return static_cast<double>(number);
  };
  const double value = dtype() == ASHLAR_RT_F64 ? as(double{}) : dtype() == ASHLAR_RT_I64 ? as(int64_t{}) : as(float{});
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value; // without a sign, which would be printed
}

Status fromStages(const Session &session, double *values, const std::vector<uint32_t> &stages) {
  Communicator &seat = *session.communicator;
  if (Stages(*session.variant).size() == 1) {
    return Status();
  }
  const size_t count = stages.size();
  std::vector<double> all(static_cast<size_t>(seat.processes()) * count);
  ASHLAR_RETURN_IF_ERROR(seat.allGather(values, count * sizeof(double), all.data()));
  for (size_t i = 0; i < count; ++i) {
    const size_t firstRank = stages[i] * static_cast<size_t>(seat.mesh().processes());
    values[i] = all[firstRank * count + i];
  }
  return Status();
}

Status fromLastStage(const Session &session, double *values, size_t count) {
  return fromStages(session, values, std::vector<uint32_t>(count, Stages(*session.variant).size() - 1));
}

} // namespace ashlar::rt
