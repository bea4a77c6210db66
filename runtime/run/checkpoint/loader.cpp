// SPDX-License-Identifier: Apache-2.0

#include "runtime/run/checkpoint/loader.h"

#include "runtime/base/clock.h"
#include "runtime/base/dtype.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/data/element.h"
#include "runtime/run/checkpoint/saved_pieces.h"
#include "runtime/run/same_options.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <set>

#include <fmt/ranges.h>

namespace ashlar::rt {

namespace {

constexpr size_t kLongestPath = 1024;
constexpr int64_t kConvertedAtOnce = 1024; // elements

std::string shapeText(const int64_t *shape, size_t rank) {
  std::string text = "[";
  for (size_t dim = 0; dim < rank; ++dim) {
    text += fmt::format("{}{}", dim == 0 ? "" : "x", shape[dim]);
  }
  return text + "]";
}

// Whether numbers of one type can start those of another: floats are rounded, anything else is to be the same.
bool canBecome(uint32_t from, uint32_t to) {
  bool areFloats = true;
  for (uint32_t dtype : {from, to}) {
    withDtype(dtype, [&](auto element) { areFloats = areFloats && isFloatElement<decltype(element)>(); });
  }
  return from == to || areFloats;
}

// What a tensor of the program does not find in the checkpoint; "" where it fits. `converts`: whether another type of floats does.
std::string misfit(const ashlar_rt_tensor &tensor, const CheckpointTensor *stored, bool converts) {
  const std::string what = tensor.role == ASHLAR_RT_STATE ? "state " : "variable ";
  if (stored == nullptr) {
    return what + tensor.name + " of the program is not in it";
  }
  if (!stored->unreadable.empty()) {
    return fmt::format("{}{} cannot be taken: {}", what, tensor.name, stored->unreadable);
  }
  const size_t rank = tensor.rank;
  if (stored->shape.size() != rank || !std::equal(stored->shape.begin(), stored->shape.end(), tensor.global_shape)) {
    return fmt::format("{}{} is {} there but {} in the program", what, tensor.name, shapeText(stored->shape.data(), stored->shape.size()),
                       shapeText(tensor.global_shape, rank));
  }
  if (converts ? !canBecome(stored->dtype, tensor.buffer.dtype) : stored->dtype != tensor.buffer.dtype) {
    return fmt::format("{}{} is {} there but {} in the program", what, tensor.name, dtypeName(stored->dtype),
                       dtypeName(tensor.buffer.dtype));
  }
  return "";
}

// Kinds of state: "momentum" of each parameter, "ashlar.loss_scale" of all.
using StateKinds = std::set<std::string>;

void addKind(StateKinds &kinds, const std::string &name, const std::string &stateOf) {
  kinds.insert(stateOf.empty() ? name : name.substr(std::min(name.size(), stateOf.size() + 1)));
}

std::string kindsText(const StateKinds &kinds) {
  return kinds.empty() ? "none" : fmt::format("{}", fmt::join(kinds, ", "));
}

// ", and 3 more".
std::string andMore(size_t count) {
  return count == 0 ? "" : fmt::format(", and {} more", count);
}

} // namespace

Status Loader::shareText(std::string &text) {
  Communicator &seat = *session.communicator;
  std::array<char, kLongestPath> mine = {};
  const Status fits = text.size() < kLongestPath ? Status() : invalid("--resume: the path {} is longer than {} bytes", text, kLongestPath);
  ASHLAR_RETURN_IF_ERROR(seat.agree(seat.rank() == 0 ? fits : Status()));
  std::strncpy(mine.data(), text.c_str(), kLongestPath - 1);
  constexpr size_t kPart = 128;
  static_assert(kPart <= kLargestGather && kLongestPath % kPart == 0);
  std::vector<char> all(kPart * static_cast<size_t>(seat.processes()));
  for (size_t begin = 0; begin < kLongestPath; begin += kPart) {
    ASHLAR_RETURN_IF_ERROR(seat.allGather(mine.data() + begin, kPart, all.data()));
    std::memcpy(mine.data() + begin, all.data(), kPart);
  }
  text = mine.data();
  return Status();
}

// Rank 0 looks for the newest; the others get what it found, so that all take the same.
Status Loader::findLatest(std::string &path) {
  path.clear();
  if (session.communicator->rank() == 0) {
    CheckpointIndex index;
    std::vector<std::string> passedOver;
    const CheckpointFolder place(session.options->checkpointDirectory, session.image->training->checkpoint_prefix);
    path = place.findLatest(index, passedOver);
    for (const std::string &line : passedOver) {
      told.push_back("passed over " + line);
    }
  }
  return shareText(path);
}

// Rank 0 proposes its checkpoints, the newest first, until each rank has that one.
Status Loader::findLatestOfHosts(std::string &path) {
  Communicator &seat = *session.communicator;
  const CheckpointFolder place(session.options->checkpointDirectory, session.image->training->checkpoint_prefix);
  const std::vector<std::string> own = place.list();
  for (size_t next = 0;; ++next) {
    std::string name = seat.rank() == 0 && next < own.size() ? own[next] : "";
    ASHLAR_RETURN_IF_ERROR(shareText(name));
    if (name.empty()) {
      break;
    }
    CheckpointIndex index;
    Status common = seat.agree(readIndex(place.place(name), index));
    common = common.ok() ? checkSamePosition(place.place(name), index) : common;
    if (common.ok() || !common.isShared()) {
      path = place.place(name);
      return common;
    }
    told.push_back(fmt::format("passed over {}: {}", name, common.message()));
  }
  // A run from the start would overwrite what one host lost and others still have.
  path.clear();
  return seat.agree(own.empty()
                        ? Status()
                        : invalid("{} is on this host but not on all; copy the lost part back, or move this one away to start from the "
                                  "beginning",
                                  place.place(own[0])));
}

Status Loader::checkSamePosition(const std::string &path, const CheckpointIndex &index) {
  Communicator &seat = *session.communicator;
  const std::array<uint64_t, 4> mine = {index.stepsDone, index.number, index.seed, index.hosts};
  std::vector<std::array<uint64_t, 4>> all(static_cast<size_t>(seat.processes()));
  ASHLAR_RETURN_IF_ERROR(seat.allGather(mine.data(), sizeof(mine), all.data()));
  return seat.agree(mine == all[0] ? Status()
                                   : invalid("{} has {} steps done and the number {}, but rank 0's has {} and {}; resume one checkpoint",
                                             path, mine[0], mine[1], all[0][0], all[0][1]));
}

Status Loader::open() {
  ASHLAR_RETURN_IF_ERROR(openCheckpoint());
  return source == Source::kNone && !session.options->initFrom.empty() ? openWeights() : Status();
}

Status Loader::openCheckpoint() {
  const Options &options = *session.options;
  if (options.resume.empty()) {
    return Status();
  }
  std::string folder = options.resume;
  if (folder == kLatest) {
    ASHLAR_RETURN_IF_ERROR(options.checkpointParts != 0 ? findLatestOfHosts(folder) : findLatest(folder));
    if (folder.empty()) {
      told.push_back(fmt::format("no checkpoint in {}: the run starts from {}", options.checkpointDirectory,
                                 options.initFrom.empty() ? "the beginning" : options.initFrom));
      return Status();
    }
  }
  ASHLAR_RETURN_IF_ERROR(session.communicator->agree(reader.open(folder)));
  ASHLAR_RETURN_IF_ERROR(checkSamePosition(folder, reader.index()));
  source = Source::kCheckpoint;
  if (options.seedGiven && options.seed != seed()) {
    return invalid("--seed {} but {} was written with seed {}; leave --seed out", options.seed, reader.folder(), seed()).share();
  }
  return Status();
}

Status Loader::openWeights() {
  const Options &options = *session.options;
  DataFacts facts;
  Status status = reader.openWeights(options.initFrom, options.renames);
  if (status.ok()) {
    facts.what = "--init-from";
    facts.text = fmt::format("{} tensors in {} files", reader.index().tensors.size(), reader.index().files.size());
    status = reader.forEachFile([&](const MappedFile &file) { mixContents(facts.contents, file.data(), file.size()); });
  }
  ASHLAR_RETURN_IF_ERROR(session.communicator->agree(status));
  source = Source::kWeights;
  return session.communicator->agree(checkSameData({facts}, *session.communicator));
}

bool Loader::isWanted(const ashlar_rt_tensor &tensor) const {
  return isSaved(tensor) && (source == Source::kCheckpoint || tensor.role == ASHLAR_RT_VARIABLE);
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
  if (source == Source::kNone) {
    return Status();
  }
  const CheckpointIndex &index = reader.index();
  std::vector<std::string> misfits, unused;
  std::set<std::string> known;
  StateKinds ofProgram, ofCheckpoint;
  for (const SavedTensor &saved : savedTensors(*session.variant)) {
    if (!isWanted(*saved.tensor)) {
      continue;
    }
    known.insert(saved.tensor->name);
    if (saved.tensor->role == ASHLAR_RT_STATE) {
      addKind(ofProgram, saved.tensor->name, saved.tensor->state_of != nullptr ? saved.tensor->state_of : "");
    }
    const std::string reason = misfit(*saved.tensor, index.find(saved.tensor->name), source == Source::kWeights);
    taken += reason.empty() ? 1 : 0;
    if (!reason.empty()) {
      misfits.push_back(reason);
    }
  }
  for (const CheckpointTensor &stored : index.tensors) {
    if (!stored.isParameter() && !stored.isPosition()) {
      addKind(ofCheckpoint, stored.name, stored.stateOf);
    }
    if (known.count(stored.name) != 0 || stored.isPosition()) {
      continue;
    }
    if (source == Source::kWeights) {
      unused.push_back(stored.name);
    } else {
      misfits.push_back((stored.isParameter() ? "" : "state ") + stored.name + " in it is not in the program");
    }
  }
  std::string others; // what a rename, or another job, may have to be made of
  if (!unused.empty()) {
    others = fmt::format("; not used of it: {}{}", unused[0], andMore(unused.size() - 1));
  } else if (source == Source::kCheckpoint && ofProgram != ofCheckpoint) {
    others =
        fmt::format("; its optimizer and loss scale have the state {}, the program's {}", kindsText(ofCheckpoint), kindsText(ofProgram));
  }
  return settle(misfits, unused, others);
}

Status Loader::settle(const std::vector<std::string> &misfits, const std::vector<std::string> &unused, const std::string &others) {
  const bool starts = source == Source::kWeights;
  const bool takesPart = starts ? session.options->initPartial : session.options->resumePartial;
  if (!misfits.empty() && (!takesPart || taken == 0)) {
    const char *remedy = taken == 0 ? starts ? "nothing of it fits; --rename FROM=TO gives its tensors other names" : "nothing of it fits"
                         : starts   ? "--rename FROM=TO gives its tensors other names, --init-partial loads only matching tensors"
                                    : "--resume-partial loads only matching tensors";
    return invalid("{} is not of this program: {}{}{}; {}", reader.folder(), misfits[0], andMore(misfits.size() - 1), others, remedy);
  }
  for (const std::string &reason : misfits) {
    told.push_back("left out: " + reason);
  }
  if (!unused.empty()) {
    told.push_back(fmt::format("not used of {}: {}", reader.folder(), fmt::join(unused, ", ")));
  }
  return Status();
}

// Copies what the device has of a tensor, in the program's type.
Status Loader::fill(const ashlar_rt_tensor &tensor, const CheckpointTensor &stored, const Piece &wanted, char *local) {
  const Box box = {tensor.rank, wanted.start.data(), wanted.size.data(), tensor.local_shape};
  if (stored.dtype == tensor.buffer.dtype) {
    return reader.read(stored, box, local);
  }
  const auto from = static_cast<int64_t>(dtypeBytes(stored.dtype)), to = static_cast<int64_t>(dtypeBytes(tensor.buffer.dtype));
  std::array<double, kConvertedAtOnce> aligned; // the file need not be
  return reader.read(stored, box, [&](const char *numbers, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; i += kConvertedAtOnce) {
      const int64_t part = std::min(count - i, kConvertedAtOnce);
      std::memcpy(aligned.data(), numbers + i * from, static_cast<size_t>(part * from));
      convertElements(stored.dtype, aligned.data(), tensor.buffer.dtype, local + (first + i) * to, part, /*scale=*/1, /*shift=*/0);
    }
  });
}

Status Loader::load() {
  if (source == Source::kNone) {
    return Status();
  }
  Status status;
  const double begin = seconds();
  const ashlar_rt_variant &variant = *session.variant;
  const int first = session.communicator->firstDevice();
  for (uint32_t i = 0; i < variant.num_tensors && status.ok(); ++i) {
    const ashlar_rt_tensor &tensor = variant.tensors[i];
    const CheckpointTensor *stored = isWanted(tensor) ? reader.index().find(tensor.name) : nullptr;
    if (stored == nullptr || !misfit(tensor, stored, source == Source::kWeights).empty()) {
      continue;
    }
    for (int device = 0; device < session.communicator->mesh().devicesPerProcess() && status.ok(); ++device) {
      if (tensor.owner != 0 && tensor.owner != static_cast<uint32_t>(first + device) + 1) {
        continue;
      }
      const Piece wanted = pieceOf(variant, tensor, static_cast<uint32_t>(first + device));
      Status filled;
      status = session.executor->write(tensor, device, [&](char *local) { filled = fill(tensor, *stored, wanted, local); });
      status.update(std::move(filled));
    }
    session.communicator->noteProgress();
  }
  status.update(status.ok() && resumes() ? writeNumber(session, session.image->step_tensor, stepsDone()) : Status());
  status.update(reader.check());
  reader.close();
  ASHLAR_RETURN_IF_ERROR(status);
  const double elapsed = seconds() - begin;
  if (resumes()) {
    told.push_back(fmt::format("resumed from {}: {} steps done; rank 0 read {} bytes of it for {} of its own in {:.3f} s", reader.folder(),
                               stepsDone(), reader.bytesVerified(), reader.bytesCopied(), elapsed));
  } else {
    told.push_back(fmt::format("started from {}: {} variables; rank 0 read {} bytes of it in {:.3f} s", reader.folder(), taken,
                               reader.bytesCopied(), elapsed));
  }
  return Status();
}

} // namespace ashlar::rt
