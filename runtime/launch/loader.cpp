// SPDX-License-Identifier: Apache-2.0

#include "runtime/launch/loader.h"

#include "runtime/base/clock.h"
#include "runtime/base/dtype.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/launch/saved_pieces.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace ashlar::rt {

namespace {

constexpr const char *kLatest = "latest";
constexpr size_t kLongestPath = 1024;

std::string shapeText(const int64_t *shape, size_t rank) {
  std::string text = "[";
  for (size_t dim = 0; dim < rank; ++dim) {
    text += fmt::format("{}{}", dim == 0 ? "" : "x", shape[dim]);
  }
  return text + "]";
}

// What a tensor of the program does not find in the checkpoint; "" where it fits.
std::string misfit(const ashlar_rt_tensor &tensor, const CheckpointTensor *stored) {
  const std::string what = tensor.role == ASHLAR_RT_STATE ? "state " : "variable ";
  if (stored == nullptr) {
    return what + tensor.name + " of the program is not in it";
  }
  const size_t rank = tensor.rank;
  if (stored->shape.size() != rank || !std::equal(stored->shape.begin(), stored->shape.end(), tensor.global_shape)) {
    return fmt::format("{}{} is {} there but {} in the program", what, tensor.name, shapeText(stored->shape.data(), stored->shape.size()),
                       shapeText(tensor.global_shape, rank));
  }
  if (stored->dtype != tensor.buffer.dtype) {
    return fmt::format("{}{} is {} there but {} in the program", what, tensor.name, dtypeName(stored->dtype),
                       dtypeName(tensor.buffer.dtype));
  }
  return "";
}

} // namespace

// Rank 0 looks for the newest; the others get what it found, so that all take the same.
Status Loader::shareFolder(std::string &path) {
  Communicator &seat = *session.communicator;
  std::array<char, kLongestPath> mine = {};
  Status status;
  if (seat.rank() == 0) {
    CheckpointIndex index;
    std::vector<std::string> passedOver;
    const CheckpointFolder place(session.options->checkpointDirectory, session.image->training->checkpoint_prefix);
    path = place.findLatest(index, passedOver);
    for (const std::string &line : passedOver) {
      told.push_back("passed over " + line);
    }
    if (path.size() >= kLongestPath) {
      status = invalid("--resume: the path {} is longer than {} bytes", path, kLongestPath);
    }
    std::strncpy(mine.data(), path.c_str(), kLongestPath - 1);
  }
  ASHLAR_RETURN_IF_ERROR(seat.agree(status));
  constexpr size_t kPart = 128;
  static_assert(kPart <= kLargestGather && kLongestPath % kPart == 0);
  std::vector<char> all(kPart * static_cast<size_t>(seat.processes()));
  for (size_t begin = 0; begin < kLongestPath; begin += kPart) {
    ASHLAR_RETURN_IF_ERROR(seat.allGather(mine.data() + begin, kPart, all.data()));
    std::memcpy(mine.data() + begin, all.data(), kPart);
  }
  path = mine.data();
  return Status();
}

Status Loader::open() {
  const std::string &asked = session.options->resume;
  if (asked.empty()) {
    return Status();
  }
  std::string folder = asked;
  if (asked == kLatest) {
    ASHLAR_RETURN_IF_ERROR(shareFolder(folder));
    if (folder.empty()) {
      told.push_back(fmt::format("no checkpoint in {}: the run starts from the beginning", session.options->checkpointDirectory));
      return Status();
    }
  }
  ASHLAR_RETURN_IF_ERROR(session.communicator->agree(reader.open(folder)));
  if (session.options->seedGiven && session.options->seed != seed()) {
    return invalid("--seed {} but {} was written with seed {}; leave --seed out", session.options->seed, reader.folder(), seed()).share();
  }
  isOpen = true;
  return Status();
}

Status Loader::checkData(const DataPosition &position) const {
  if (!resumes()) {
    return Status();
  }
  const CheckpointIndex &index = reader.index();
  if (position.samplesAStep != index.samplesAStep) {
    return invalid("{} was written with {} samples a step but the program has {}; compile it with the same global_batch", reader.folder(),
                   index.samplesAStep, position.samplesAStep);
  }
  if (position.samples != index.samples) {
    return invalid("{} was written with {} samples in the train split but the data have {}; give it the same --data", reader.folder(),
                   index.samples, position.samples);
  }
  return Status();
}

Status Loader::checkTensors() {
  if (!resumes()) {
    return Status();
  }
  const CheckpointIndex &index = reader.index();
  std::vector<std::string> misfits;
  size_t fitting = 0;
  std::map<std::string, bool> known;
  for (const SavedTensor &saved : savedTensors(*session.variant)) {
    known[saved.tensor->name] = true;
    const std::string reason = misfit(*saved.tensor, index.find(saved.tensor->name));
    fitting += reason.empty() ? 1 : 0;
    if (!reason.empty()) {
      misfits.push_back(reason);
    }
  }
  for (const CheckpointTensor &stored : index.tensors) {
    if (known.count(stored.name) == 0) {
      misfits.push_back((stored.stateOf.empty() ? "" : "state ") + stored.name + " in it is not in the program");
    }
  }
  if (misfits.empty()) {
    return Status();
  }
  if (!session.options->resumePartial || fitting == 0) {
    return invalid("{} is not of this program: {}{}; {}", reader.folder(), misfits[0],
                   misfits.size() == 1 ? "" : fmt::format(", and {} more", misfits.size() - 1),
                   fitting == 0 ? "nothing of it fits" : "--resume-partial takes what fits");
  }
  for (const std::string &reason : misfits) {
    told.push_back("left out: " + reason);
  }
  return Status();
}

Status Loader::load() {
  if (!resumes()) {
    return Status();
  }
  Status status;
  const double begin = seconds();
  const ashlar_rt_variant &variant = *session.variant;
  const int first = session.communicator->firstDevice();
  for (uint32_t i = 0; i < variant.num_tensors && status.ok(); ++i) {
    const ashlar_rt_tensor &tensor = variant.tensors[i];
    const CheckpointTensor *stored = isSaved(tensor) ? reader.index().find(tensor.name) : nullptr;
    if (stored == nullptr || !misfit(tensor, stored).empty()) {
      continue;
    }
    for (int device = 0; device < session.communicator->mesh().devicesPerProcess() && status.ok(); ++device) {
      if (tensor.owner != 0 && tensor.owner != static_cast<uint32_t>(first + device) + 1) {
        continue;
      }
      const Piece wanted = pieceOf(variant, tensor, static_cast<uint32_t>(first + device));
      Status filled;
      status = session.executor->write(tensor, device, [&](char *local) {
        filled = reader.read(*stored, {tensor.rank, wanted.start.data(), wanted.size.data(), tensor.local_shape}, local);
      });
      status.update(std::move(filled));
    }
    session.communicator->noteProgress();
  }
  status.update(reader.check());
  reader.close();
  told.push_back(fmt::format("resumed from {}: {} steps done; rank 0 read {} bytes of it for {} of its own in {:.3f} s", reader.folder(),
                             stepsDone(), reader.bytesVerified(), reader.bytesCopied(), seconds() - begin));
  return status;
}

} // namespace ashlar::rt
