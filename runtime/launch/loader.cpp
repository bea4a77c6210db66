// SPDX-License-Identifier: Apache-2.0

#include "runtime/launch/loader.h"

#include "runtime/base/clock.h"
#include "runtime/base/dtype.h"
#include "runtime/checkpoint/checksums.h"
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

// The part of a dim that two pieces have in common.
struct Overlap {
  int64_t begin = 0, size = 0; // of the global tensor
};

} // namespace

// Rank 0 looks for the newest; the others get what it found, so that all take the same.
Status Loader::shareFolder(std::string &path) {
  Communicator &seat = *session.communicator;
  std::array<char, kLongestPath> mine = {};
  Status status;
  if (seat.rank() == 0) {
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
  folder = asked;
  if (asked == kLatest) {
    ASHLAR_RETURN_IF_ERROR(shareFolder(folder));
    if (folder.empty()) {
      told.push_back(fmt::format("no checkpoint in {}: the run starts from the beginning", session.options->checkpointDirectory));
      return Status();
    }
  }
  while (folder.size() > 1 && folder.back() == '/') {
    folder.pop_back();
  }
  ASHLAR_RETURN_IF_ERROR(session.communicator->agree(readIndex(folder, index)));
  if (session.options->seedGiven && session.options->seed != index.seed) {
    return invalid("--seed {} but {} was written with seed {}; leave --seed out", session.options->seed, folder, index.seed).share();
  }
  files.resize(index.files.size());
  return Status();
}

Status Loader::checkData(const DataPosition &position) const {
  if (!resumes()) {
    return Status();
  }
  if (position.samplesAStep != index.samplesAStep) {
    return invalid("{} was written with {} samples a step but the program has {}; compile it with the same global_batch", folder,
                   index.samplesAStep, position.samplesAStep);
  }
  if (position.samples != index.samples) {
    return invalid("{} was written with {} samples in the train split but the data have {}; give it the same --data", folder, index.samples,
                   position.samples);
  }
  return Status();
}

Status Loader::checkTensors() {
  if (!resumes()) {
    return Status();
  }
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
    return invalid("{} is not of this program: {}{}; {}", folder, misfits[0],
                   misfits.size() == 1 ? "" : fmt::format(", and {} more", misfits.size() - 1),
                   fitting == 0 ? "nothing of it fits" : "--resume-partial takes what fits");
  }
  for (const std::string &reason : misfits) {
    told.push_back("left out: " + reason);
  }
  return Status();
}

// Verifies the bytes [begin, end) of a piece, with those that share their checksums.
Status Loader::verify(const CheckpointTensor &stored, const CheckpointPiece &piece, std::vector<bool> &done, uint64_t begin, uint64_t end) {
  const MappedFile &mapped = files[piece.file].mapped;
  const uint64_t bytes = countElements(piece.size) * dtypeBytes(stored.dtype);
  for (uint64_t number = begin / kChecksumBytes; number * kChecksumBytes < end; ++number) {
    if (done[number]) {
      continue;
    }
    const uint64_t first = number * kChecksumBytes, count = std::min<uint64_t>(kChecksumBytes, bytes - first);
    const uint64_t found = checksumOf(mapped.data() + piece.offset + first, count);
    if (found != piece.checksums[number]) {
      ASHLAR_RETURN_IF_ERROR(mapped.check()); // rather that it was cut
      return invalid("{}/{} is damaged: bytes {} to {}, of {}, have the checksum {:016x}, not {:016x}; take another checkpoint", folder,
                     index.files[piece.file].name, piece.offset + first, piece.offset + first + count - 1, stored.name, found,
                     piece.checksums[number]);
    }
    done[number] = true;
    read += count;
  }
  return Status();
}

// Copies what the piece of a file and that of a device have in common, run by run.
Status Loader::copyPiece(const CheckpointTensor &stored, const CheckpointPiece &piece, const ashlar_rt_tensor &tensor, const Piece &wanted,
                         char *local) {
  const size_t rank = tensor.rank, element = dtypeBytes(tensor.buffer.dtype);
  std::array<Overlap, ASHLAR_RT_MAX_RANK> overlap;
  for (size_t dim = 0; dim < rank; ++dim) {
    overlap[dim].begin = std::max(piece.start[dim], wanted.start[dim]);
    overlap[dim].size = std::min(piece.start[dim] + piece.size[dim], wanted.start[dim] + wanted.size[dim]) - overlap[dim].begin;
    if (overlap[dim].size <= 0) {
      return Status();
    }
  }
  File &file = files[piece.file];
  if (!file.isOpen) {
    ASHLAR_RETURN_IF_ERROR(MappedFile::open(folder + "/" + index.files[piece.file].name, file.mapped));
    file.isOpen = true;
  }
  std::vector<bool> &done = verified[&piece];
  done.resize(piece.checksums.size());
  // A run are the last dims that are whole on both sides, and what there is of the one before.
  size_t run = rank;
  int64_t elements = 1;
  while (run > 0) {
    --run;
    elements *= overlap[run].size;
    if (overlap[run].size != piece.size[run] || overlap[run].size != tensor.local_shape[run]) {
      break;
    }
  }
  std::array<int64_t, ASHLAR_RT_MAX_RANK> at = {}; // in the overlap, of the dims before the run
  while (true) {
    int64_t from = 0, to = 0; // elements
    for (size_t dim = 0; dim < rank; ++dim) {
      const int64_t position = overlap[dim].begin + (dim < run ? at[dim] : 0);
      from = from * piece.size[dim] + position - piece.start[dim];
      to = to * tensor.local_shape[dim] + position - wanted.start[dim];
    }
    const uint64_t begin = static_cast<uint64_t>(from) * element, count = static_cast<uint64_t>(elements) * element;
    ASHLAR_RETURN_IF_ERROR(verify(stored, piece, done, begin, begin + count));
    std::memcpy(local + to * static_cast<int64_t>(element), file.mapped.data() + piece.offset + begin, count);
    copied += count;
    size_t dim = run;
    while (dim > 0 && ++at[dim - 1] == overlap[dim - 1].size) {
      at[--dim] = 0;
    }
    if (dim == 0) {
      return Status();
    }
  }
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
    const CheckpointTensor *stored = isSaved(tensor) ? index.find(tensor.name) : nullptr;
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
        for (const CheckpointPiece &piece : stored->pieces) {
          filled.update(filled.ok() ? copyPiece(*stored, piece, tensor, wanted, local) : Status());
        }
      });
      status.update(std::move(filled));
    }
    session.communicator->noteProgress();
  }
  for (const File &file : files) {
    status.update(file.isOpen ? file.mapped.check() : Status());
  }
  files.clear();
  verified.clear();
  told.push_back(fmt::format("resumed from {}: {} steps done; rank 0 read {} bytes of it for {} of its own in {:.3f} s", folder,
                             index.stepsDone, read, copied, seconds() - begin));
  return status;
}

} // namespace ashlar::rt
