// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint has two parts: every rank writes its file; then the rank that leads the folder, rank 0 or one on each host, writes the index
// and gives the folder its name. Ranks agree between the parts and behind them, so they are in the same part always. State: `committing`
// tells the part, `state` how far this rank is in it.

#include "runtime/run/checkpoint/saver.h"

#include "runtime/base/dtype.h"
#include "runtime/base/host.h"
#include "runtime/base/mapped_file.h"
#include "runtime/base/output_file.h"
#include "runtime/checkpoint/checksums.h"
#include "runtime/run/checkpoint/folder_sight.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <initializer_list>
#include <new>
#include <system_error>

#include <unistd.h>

namespace ashlar::rt {

namespace {

constexpr const char *kChecksums = "checksums"; // in the metadata of a rank file

std::atomic<int> caughtSignal{0};

// The first signal asks for a checkpoint; the next one ends the process as it would have.
void onSignal(int number) {
  if (caughtSignal.exchange(number) != 0) {
    removePendingOutputs();
    std::signal(number, SIG_DFL);
    raise(number);
  }
}

// Text of a mesh: "dp=2 tp=4", with several stages "2 stages of dp=2".
std::string meshText(const ashlar_rt_variant &variant) {
  std::string text = variant.num_stages > 1 ? fmt::format("{} stages of", variant.num_stages) : "";
  for (uint32_t axis = 0; axis < variant.num_axes; ++axis) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", variant.axes[axis].name, variant.axes[axis].size);
  }
  return text;
}

std::vector<int64_t> dimsOf(const std::array<int64_t, ASHLAR_RT_MAX_RANK> &dims, uint32_t rank) {
  return std::vector<int64_t>(dims.begin(), dims.begin() + rank);
}

} // namespace

Status prepareCopies(const Options &options, Communicator &communicator, std::unique_ptr<Exchange> &copies) {
  const Place &seat = communicator.seat();
  const uint64_t parts = options.checkpointParts, hosts = static_cast<uint64_t>(seat.hosts());
  if (parts > hosts) {
    return invalid("--checkpoint-local={} but the ranks run on {} {}; give at most their number", parts, hosts,
                   hosts == 1 ? "host" : "hosts")
        .share();
  }
  std::vector<int> peers = keepersOf(seat, parts, seat.rank);
  for (int process = 0; process < seat.processes; ++process) {
    const std::vector<int> theirs = keepersOf(seat, parts, process);
    if (std::find(theirs.begin(), theirs.end(), seat.rank) != theirs.end()) {
      peers.push_back(process);
    }
  }
  if (!peers.empty() && options.savesCheckpoints) {
    copies = communicator.prepareExchange(peers);
  }
  return Status();
}

Saver::~Saver() {
  if (thread.joinable()) {
    thread.join();
  }
  lock = FolderLock();
  for (const auto &[number, action] : replaced) {
    sigaction(number, &action, nullptr);
  }
  if (const int number = replaced.empty() || honoured ? 0 : caughtSignal.load(); number != 0) {
    raise(number); // the run did not get to it
  }
}

void Saver::catchSignals() {
  if (!saves() || session.image->training->saves_on_signal == 0) {
    return;
  }
  for (int number : {SIGTERM, SIGUSR1}) {
    struct sigaction action = {}, before = {};
    action.sa_handler = onSignal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, &before);
    replaced.emplace_back(number, before);
  }
}

Status Saver::prepare(const DataPosition &where, Tell teller) {
  if (!saves()) {
    return Status();
  }
  const Options &options = *session.options;
  const ashlar_rt_training &training = *session.image->training;
  position = where;
  tell = std::move(teller);
  folder = CheckpointFolder(options.checkpointDirectory, training.checkpoint_prefix);
  const Mesh &mesh = session.communicator->mesh();
  pieces = piecesOf(*session.variant, mesh, session.communicator->rank());
  uint64_t largest = 0;
  for (const SavedPiece &saved : pieces) {
    const ashlar_rt_tensor &tensor = *saved.tensor;
    const std::vector<int64_t> shape(tensor.global_shape, tensor.global_shape + tensor.rank);
    const std::vector<int64_t> start = dimsOf(saved.piece.start, tensor.rank), size = dimsOf(saved.piece.size, tensor.rank);
    stored.push_back({pieceName(tensor.name, shape, start, size), tensor.buffer.dtype, size, bytes, saved.bytes});
    bytes += saved.bytes;
    largest = std::max(largest, saved.bytes == saved.tensor->buffer.bytes || !holds(saved) ? 0 : saved.tensor->buffer.bytes);
  }
  findCopied();
  buffer.reset(new (std::nothrow) char[bytes]);
  if (!buffer) {
    return unavailable("{} bytes for a checkpoint: out of memory", bytes);
  }
  padded.resize(largest);
  if (training.stops_on_nonfinite != 0) {
    trained.emplace(*session.variant);
  }
  return leads() ? folder.make() : Status();
}

Status Saver::openFolder() {
  if (!saves()) {
    return Status();
  }
  Communicator &communicator = *session.communicator;
  ASHLAR_RETURN_IF_ERROR(checkFolderSight(session.options->checkpointDirectory, session.options->checkpointParts != 0, communicator));
  ASHLAR_RETURN_IF_ERROR(communicator.agree(leads() ? folder.prepare(lock) : Status()));
  // One number for all folders of hosts.
  const uint64_t mine = leads() ? folder.nextNumber() : 0;
  std::vector<uint64_t> all(static_cast<size_t>(communicator.processes()));
  ASHLAR_RETURN_IF_ERROR(communicator.allGather(&mine, sizeof(mine), all.data()));
  number = *std::max_element(all.begin(), all.end());
  return Status();
}

bool Saver::leads() const {
  return leadsFolder(*session.communicator, session.options->checkpointParts != 0);
}

std::vector<SavedPiece> Saver::piecesOf(const ashlar_rt_variant &stage, const Mesh &mesh, int process) const {
  const uint64_t parts = session.options->checkpointParts;
  return parts != 0 ? hostPieces(stage, session.communicator->seat(), parts, process)
                    : savedPieces(stage, mesh, mesh.firstDeviceOf(process), mesh.devicesPerProcess());
}

// Finds which of this rank's pieces its keepers write, in the order in which they expect them.
void Saver::findCopied() {
  const uint64_t parts = session.options->checkpointParts;
  const Place &seat = session.communicator->seat();
  for (const int keeper : keepersOf(seat, parts, seat.rank)) {
    for (const SavedPiece &kept : hostPieces(*session.variant, seat, parts, keeper)) {
      const auto found = std::find_if(pieces.begin(), pieces.end(), [&](const SavedPiece &own) {
        return own.piece == kept.piece && std::strcmp(own.tensor->name, kept.tensor->name) == 0;
      });
      if (holds(kept)) {
        copied.push_back({static_cast<size_t>(found - pieces.begin()), keeper});
      }
    }
  }
}

// Runs a part in the thread.
template <typename Part> void Saver::start(Part part) {
  if (thread.joinable()) {
    thread.join();
  }
  state = State::kWriting;
  auto body = [this, part] {
    allowAllCores();
    try {
      result = part();
    } catch (const std::bad_alloc &) {
      result = unavailable("a checkpoint does not fit into memory");
    }
    state = result.ok() ? State::kWritten : State::kFailed;
  };
  try {
    thread = std::thread(body);
  } catch (const std::system_error &) {
    body(); // no thread to be had: training waits
  }
}

Status Saver::begin(uint64_t steps) {
  lastSteps = steps;
  lastFailure = Status();
  const uint64_t epoch = (steps - 1) / position.stepsPerEpoch + 1, step = (steps - 1) % position.stepsPerEpoch + 1;
  name = folder.name(epoch, step);
  const Status made = session.communicator->agree(leads() ? folder.begin(name) : Status());
  if (!made.ok()) {
    if (!made.isShared()) {
      return made;
    }
    settle(made);
    return Status();
  }
  ASHLAR_RETURN_IF_ERROR(session.executor->wait());
  for (size_t i = 0; i < pieces.size(); ++i) {
    const SavedPiece &saved = pieces[i];
    if (!holds(saved)) {
      continue;
    }
    char *to = buffer.get() + stored[i].begin;
    const bool isPadded = saved.bytes != saved.tensor->buffer.bytes;
    ASHLAR_RETURN_IF_ERROR(
        session.executor->read(*saved.tensor, saved.device - session.communicator->firstDevice(), isPadded ? padded.data() : to));
    if (isPadded) {
      packPiece(saved, padded.data(), to);
    }
  }
  index = CheckpointIndex();
  index.model = session.image->model_name;
  index.target = session.image->target;
  index.mesh = meshText(*session.variant);
  index.ranks = static_cast<uint64_t>(session.communicator->processes());
  if (const Place &seat = session.communicator->seat(); session.options->checkpointParts != 0) {
    index.host = static_cast<uint64_t>(seat.hostOfProcess[static_cast<size_t>(seat.rank)]);
    index.hosts = static_cast<uint64_t>(seat.hosts());
    index.parts = session.options->checkpointParts;
  }
  index.number = number++;
  index.epoch = epoch;
  index.step = step;
  index.stepsDone = steps;
  index.samplesAStep = position.samplesAStep;
  index.samples = position.samples;
  index.seed = session.options->seed;
  committing = false;
  start([this] { return writeRankFile(); });
  return Status();
}

// Hands pieces to their keepers, and receives those that this rank keeps. Nothing comes before it that may fail: the others wait for it.
Status Saver::exchangeCopies() {
  if (session.copies == nullptr) {
    return Status();
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!holds(pieces[i])) {
      session.copies->receive(pieces[i].process, Part{buffer.get() + stored[i].begin, stored[i].bytes});
    }
  }
  for (const KeptElsewhere &one : copied) {
    session.copies->send(one.keeper, Part{buffer.get() + stored[one.piece].begin, stored[one.piece].bytes});
  }
  return session.copies->wait();
}

// What the thread of every rank does.
Status Saver::writeRankFile() {
  ASHLAR_RETURN_IF_ERROR(exchangeCopies());
  for (size_t i = 0; trained && i < pieces.size(); ++i) {
    ASHLAR_RETURN_IF_ERROR(trained->check(pieces[i], buffer.get() + stored[i].begin));
  }
  std::string checksums;
  for (const StoredTensor &tensor : stored) {
    checksums += checksumText(checksumsOf(buffer.get() + tensor.begin, tensor.bytes)) + "\n";
  }
  const std::string header = writeSafetensorsHeader(stored, {{kChecksums, checksums}});
  OutputFile file;
  ASHLAR_RETURN_IF_ERROR(
      file.create(folder.partial(name) + "/" + CheckpointFolder::rankFile(static_cast<uint64_t>(session.communicator->rank()))));
  ASHLAR_RETURN_IF_ERROR(file.write(header.data(), header.size()));
  ASHLAR_RETURN_IF_ERROR(file.write(buffer.get(), bytes));
  ASHLAR_RETURN_IF_ERROR(file.sync());
  return file.commit();
}

// What the thread of the rank that leads does when all have written: it reads the checksums that the others put into their files. Which
// pieces those hold follows from the mesh.
Status Saver::commit() {
  std::map<std::string, CheckpointTensor> tensors;
  for (const SavedTensor &saved : savedTensors(*session.variant)) {
    const ashlar_rt_tensor &tensor = *saved.tensor;
    CheckpointTensor &entry = tensors[tensor.name];
    entry.name = tensor.name;
    entry.dtype = tensor.buffer.dtype;
    entry.stateOf = tensor.state_of != nullptr ? tensor.state_of : "";
    entry.shape.assign(tensor.global_shape, tensor.global_shape + tensor.rank);
  }
  const Place &seat = session.communicator->seat();
  for (const ashlar_rt_variant &stage : Stages(*session.variant)) {
    const Mesh mesh(stage);
    for (int process = mesh.firstRank(); process < mesh.firstRank() + mesh.processes(); ++process) {
      const std::vector<int> &hosts = seat.hostOfProcess;
      if (index.hosts == 0 || hosts[static_cast<size_t>(process)] == hosts[static_cast<size_t>(seat.rank)]) {
        ASHLAR_RETURN_IF_ERROR(addFile(process, piecesOf(stage, mesh, process), tensors));
      }
    }
  }
  for (auto &[tensor, entry] : tensors) {
    index.tensors.push_back(std::move(entry));
  }
  ASHLAR_RETURN_IF_ERROR(folder.commit(name, index));
  if (index.hosts == 0) { // else once all hosts have theirs
    removeOld();
  }
  return Status();
}

void Saver::removeOld() {
  if (const Status removed = folder.removeOld(session.options->checkpointKeep); !removed.ok()) { // this one is saved all the same
    std::fputs(fmt::format("warning: an older checkpoint stays: {}\n", removed.message()).c_str(), stderr);
  }
}

// Adds the file of a rank to the index, and its pieces to their tensors.
Status Saver::addFile(int process, const std::vector<SavedPiece> &written, std::map<std::string, CheckpointTensor> &tensors) {
  const uint32_t number = static_cast<uint32_t>(index.files.size());
  const std::string file = CheckpointFolder::rankFile(static_cast<uint64_t>(process)), path = folder.partial(name) + "/" + file;
  MappedFile mapped;
  ASHLAR_RETURN_IF_ERROR(MappedFile::open(path, mapped));
  SafetensorsHeader header;
  ASHLAR_RETURN_IF_ERROR(readSafetensorsHeader({mapped.data(), mapped.size()}, mapped.size(), path, header));
  index.files.push_back({file, mapped.size()});
  std::string_view checksums = header.metadata[kChecksums];
  uint64_t begin = 0;
  for (const SavedPiece &saved : written) {
    CheckpointPiece piece;
    piece.file = number;
    piece.offset = header.bytes + begin;
    piece.start = dimsOf(saved.piece.start, saved.tensor->rank);
    piece.size = dimsOf(saved.piece.size, saved.tensor->rank);
    const size_t line = checksums.find('\n');
    if (line == std::string_view::npos || !readChecksums(checksums.substr(0, line), piece.checksums)) {
      return internal("{} has no checksums of {}", path, saved.tensor->name);
    }
    checksums.remove_prefix(line + 1);
    begin += saved.bytes;
    tensors[saved.tensor->name].pieces.push_back(std::move(piece));
  }
  return mapped.check();
}

// The checkpoint is done with: written, or given up.
void Saver::settle(const Status &failure) {
  state = State::kNone;
  committing = false;
  lastFailure = failure;
  if (!failure.ok() && leads()) {
    folder.discard(name);
  }
  if (failure.ok() && leads() && index.hosts != 0) {
    removeOld();
  }
  if (session.communicator->rank() != 0) {
    return;
  }
  if (failure.ok()) {
    tell(fmt::format("saved {}", folder.place(name)));
  } else if (failure.code() != StatusCode::kNonfinite) { // else the run ends with it
    std::fputs(
        fmt::format("warning: {} was not saved: {}; older checkpoints are as they were\n", folder.place(name), failure.message()).c_str(),
        stderr);
  }
}

// All ranks are through with a part.
Status Saver::endPart(bool failed) {
  if (failed) {
    const Status failure = session.communicator->agree(state == State::kFailed ? result : Status());
    if (!failure.ok() && !failure.isShared()) {
      return failure;
    }
    settle(failure);
    return failure.code() == StatusCode::kNonfinite ? failure : Status();
  }
  if (committing) {
    settle(Status());
  } else {
    committing = true;
    if (leads()) {
      start([this] { return commit(); });
    } else {
      state = State::kWritten; // nothing to do
    }
  }
  return Status();
}

Status Saver::look(int &signal) {
  const Report mine = {static_cast<uint32_t>(state.load()), static_cast<uint32_t>(caughtSignal.load()), stops};
  std::vector<Report> all(static_cast<size_t>(session.communicator->processes()));
  ASHLAR_RETURN_IF_ERROR(session.communicator->allGather(&mine, sizeof(mine), all.data()));
  bool writing = false, failed = false;
  for (const Report &report : all) {
    writing = writing || report.state == static_cast<uint32_t>(State::kWriting);
    failed = failed || report.state == static_cast<uint32_t>(State::kFailed);
    signal = std::max(signal, static_cast<int>(report.signal));
    stopped = stopped || report.stops != 0;
  }
  return writing || all[0].state == static_cast<uint32_t>(State::kNone) ? Status() : endPart(failed);
}

// Waits until the checkpoint under way is done with.
Status Saver::wait() {
  int signal = 0;
  while (state != State::kNone) {
    ASHLAR_RETURN_IF_ERROR(look(signal));
    if (state == State::kWriting) {
      usleep(200);
    }
    session.communicator->noteProgress();
  }
  return Status();
}

Status Saver::afterStep(uint64_t steps, bool isNonfinite, bool &ends) {
  int signal = 0;
  stops = isNonfinite;
  ASHLAR_RETURN_IF_ERROR(look(signal));
  if (stopped) {
    ends = true;
    return wait();
  }
  ends = signal != 0;
  const uint64_t every = session.options->saveEvery;
  if (ends || (every != 0 && steps % every == 0)) {
    ASHLAR_RETURN_IF_ERROR(wait());
    ASHLAR_RETURN_IF_ERROR(begin(steps));
  }
  if (ends || session.options->syncCheckpoint) {
    ASHLAR_RETURN_IF_ERROR(wait());
  }
  honoured = honoured || ends;
  if (ends && session.communicator->rank() == 0) {
    tell(fmt::format("signal {} ({}): the run ends after {} steps", signal, strsignal(signal), steps));
  }
  return Status();
}

Status Saver::finish(uint64_t steps) {
  ASHLAR_RETURN_IF_ERROR(wait());
  if (steps != lastSteps && steps != 0) {
    ASHLAR_RETURN_IF_ERROR(begin(steps));
    ASHLAR_RETURN_IF_ERROR(wait());
  }
  return lastFailure.ok() ? Status() : unavailable("the last checkpoint was not saved: {}", lastFailure.message()).share();
}

} // namespace ashlar::rt
