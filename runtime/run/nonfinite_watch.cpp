// SPDX-License-Identifier: Apache-2.0
//
// A step has two notes, those of the next one lie beside them.

#include "runtime/run/nonfinite_watch.h"

#include "runtime/execute/numerics.h"
#include "runtime/run/log/training_log.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ashlar::rt {
namespace {

constexpr const char *kRemedy =
    "--check-numerics names the first instruction that writes a NaN, on_nonfinite: SKIP of the job leaves such steps out";

size_t placeOf(uint64_t number, size_t which) {
  return number % 2 * 2 + which;
}

// Whether a program is part of training.
bool trains(const ashlar_rt_program &program) {
  return program.id.role != ASHLAR_RT_INIT && program.id.role != ASHLAR_RT_EVAL_STEP;
}

} // namespace

TrainedTensors::TrainedTensors(const ashlar_rt_variant &variant) {
  for (uint32_t p = 0; p < variant.num_programs; ++p) {
    const ashlar_rt_program &program = variant.programs[p];
    for (uint32_t i = 0; trains(program) && i < program.num_instrs; ++i) {
      const ashlar_rt_instr &instr = program.instrs[i];
      for (uint32_t b = 0; b < instr.num_buffers; ++b) {
        const ashlar_rt_buffer &buffer = instr.buffers[b];
        if (buffer.space == ASHLAR_RT_ARENA && (instr.accesses[b] & ASHLAR_RT_WRITE) != 0) {
          writes.emplace_back(buffer.offset, buffer.offset + buffer.bytes);
        }
      }
    }
  }
  std::sort(writes.begin(), writes.end());
  size_t kept = 0;
  for (const auto &[begin, end] : writes) {
    if (kept > 0 && begin <= writes[kept - 1].second) {
      writes[kept - 1].second = std::max(writes[kept - 1].second, end);
    } else {
      writes[kept++] = {begin, end};
    }
  }
  writes.resize(kept);
}

Status TrainedTensors::check(const SavedPiece &saved, const char *data) const {
  const ashlar_rt_buffer &buffer = saved.tensor->buffer;
  auto behind = std::upper_bound(writes.begin(), writes.end(), std::pair(buffer.offset, UINT64_MAX));
  const bool isWritten = (behind != writes.begin() && std::prev(behind)->second > buffer.offset) ||
                         (behind != writes.end() && behind->first < buffer.offset + buffer.bytes);
  const int64_t element = isWritten ? findNonfinite(buffer.dtype, data, saved.bytes) : -1;
  if (element < 0) {
    return Status();
  }
  const bool isNan = findNan(buffer.dtype, data, saved.bytes) >= 0;
  return nonfinite("{} \"{}\" holds {} (element {} of the piece of device {}), so it is not saved; {}",
                   saved.tensor->role == ASHLAR_RT_VARIABLE ? "parameter" : "state", saved.tensor->name, isNan ? "nan" : "inf", element,
                   saved.device, kRemedy);
}

Status NonfiniteWatch::prepare(uint64_t batches, uint64_t stepsOfEpoch) {
  batchesPerStep = batches;
  stepsPerEpoch = stepsOfEpoch;
  ASHLAR_RETURN_IF_ERROR(loss.find(session, training.loss_tensor, /*integer=*/false));
  ASHLAR_RETURN_IF_ERROR(badNorms.findHere(session, training.bad_norms_tensor));
  return skipped.findHere(session, training.skipped_steps_tensor);
}

Status NonfiniteWatch::afterStep(uint64_t number, bool now) {
  if (!stops()) {
    return Status();
  }
  ASHLAR_RETURN_IF_ERROR(loss.note((number + 1) * batchesPerStep - 1, placeOf(number, 0)));
  ASHLAR_RETURN_IF_ERROR(badNorms.exists() ? badNorms.note(/*microBatch=*/0, placeOf(number, 1)) : Status());
  if (pending) {
    ASHLAR_RETURN_IF_ERROR(check(*pending));
  }
  pending = number;
  return now || !session.executor->runsAhead() ? check(number) : Status();
}

Status NonfiniteWatch::check(uint64_t number) {
  pending.reset();
  double value = 0, norms = 0;
  ASHLAR_RETURN_IF_ERROR(loss.recall(placeOf(number, 0), value));
  ASHLAR_RETURN_IF_ERROR(badNorms.exists() ? badNorms.recall(placeOf(number, 1), norms) : Status());
  const std::string step = fmt::format("step {} (epoch: {} step: {})", number + 1, number / stepsPerEpoch + 1, number % stepsPerEpoch + 1);
  if (!std::isfinite(value)) {
    return nonfinite("the loss of {} is {}; {}", step, lossText(value, loss.dtype()), kRemedy);
  }
  return norms == 0 ? Status() : nonfinite("the norm of the gradients of {} is infinite or nan; {}", step, kRemedy);
}

// An element of the inputs of the last run that is not finite; "" when there is none. Inputs keep their memory for themselves.
std::string NonfiniteWatch::inputFault() {
  const ashlar_rt_dataset &dataset = training.dataset;
  for (uint32_t i = 0; i < dataset.num_features; ++i) {
    const ashlar_rt_tensor *tensor = findTensor(*session.variant, dataset.features[i].tensor);
    if (tensor == nullptr || tensor->buffer.space != ASHLAR_RT_ARENA) {
      continue;
    }
    std::vector<char> data(tensor->buffer.bytes);
    for (int device = 0; device < session.communicator->mesh().devicesPerProcess(); ++device) {
      const Status read = session.executor->read(*tensor, device, data.data(), /*microBatch=*/0);
      const int64_t element = read.ok() ? findNonfinite(tensor->buffer.dtype, data.data(), data.size()) : -1;
      if (element >= 0) {
        return fmt::format("element {} of its input \"{}\" is infinite or nan: look at the data", element, tensor->name);
      }
    }
  }
  return "";
}

Status NonfiniteWatch::agreeOnFailure(const Status &mine) {
  const std::string fault = session.executor->runsAhead() || mine.ok() ? "" : inputFault(); // there the next batch is in place
  ASHLAR_RETURN_IF_ERROR(session.communicator->agree(fault.empty() ? Status() : nonfinite("{}; {}", mine.message(), fault)));
  return session.communicator->agree(mine);
}

Status NonfiniteWatch::checkState() {
  Communicator &seat = *session.communicator;
  if (!stops()) {
    return Status();
  }
  const TrainedTensors trained(*session.variant);
  const Mesh &mesh = seat.mesh();
  Status status;
  std::vector<char> data, local;
  for (const SavedPiece &saved : savedPieces(*session.variant, mesh, seat.firstDevice(), mesh.devicesPerProcess())) {
    local.resize(std::max<size_t>(local.size(), saved.tensor->buffer.bytes));
    data.resize(std::max<size_t>(data.size(), saved.bytes));
    status.update(session.executor->read(*saved.tensor, saved.device - seat.firstDevice(), local.data()));
    packPiece(saved, local.data(), data.data());
    status.update(status.ok() ? trained.check(saved, data.data()) : Status());
    seat.noteProgress();
  }
  return seat.agree(status);
}

Status NonfiniteWatch::checkEvaluation(double value) const {
  return !stops() || std::isfinite(value)
             ? Status()
             : nonfinite("the loss of the evaluation is {}; --check-numerics names the first instruction that writes a NaN", value).share();
}

Status NonfiniteWatch::skippedSteps(uint64_t &count) {
  double value = 0;
  count = 0;
  if (training.skipped_steps_tensor == nullptr) {
    return Status();
  }
  ASHLAR_RETURN_IF_ERROR(skipped.exists() ? skipped.read(/*microBatch=*/0, value) : Status());
  Communicator &seat = *session.communicator;
  std::vector<double> all(1, value);
  if (Stages(*session.variant).size() > 1) { // one of them counts
    all.resize(static_cast<size_t>(seat.processes()));
    ASHLAR_RETURN_IF_ERROR(seat.allGather(&value, sizeof(value), all.data()));
  }
  count = static_cast<uint64_t>(*std::max_element(all.begin(), all.end()));
  return Status();
}

} // namespace ashlar::rt
