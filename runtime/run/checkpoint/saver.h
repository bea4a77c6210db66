// SPDX-License-Identifier: Apache-2.0
//
// Writes checkpoints during training (docs/checkpoints.md): copies this rank's pieces to a buffer, and lets a thread write it. The main
// threads of the ranks exchange the progress of their threads after each step.

#ifndef ASHLAR_RUNTIME_RUN_CHECKPOINT_SAVER_H
#define ASHLAR_RUNTIME_RUN_CHECKPOINT_SAVER_H

#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/run/checkpoint/saved_pieces.h"
#include "runtime/run/nonfinite_watch.h"
#include "runtime/run/session.h"

#include <atomic>
#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <thread>

namespace ashlar::rt {

// The position of a run in its data, and its units.
struct DataPosition {
  uint64_t stepsPerEpoch = 1, samplesAStep = 0, samples = 0;
};

// Lays out the exchange of copies that hosts keep of each other's parts; null: none are kept. Before Communicator::seal(). Fails alike on
// all ranks when there are fewer hosts than parts.
Status prepareCopies(const Options &options, Communicator &communicator, std::unique_ptr<Exchange> &copies);

// Used by the main thread of every rank, at the same places.
class Saver {
public:
  // Prints a line for the reader, on rank 0.
  using Tell = std::function<void(const std::string &line)>;

  explicit Saver(Session &session) : session(session) {}
  ~Saver();

  // Whether the run writes checkpoints at all.
  bool saves() const { return session.options->savesCheckpoints; }

  // Lays out this rank's pieces, and makes the rank that leads create the folder. Does nothing when nothing is saved.
  Status prepare(const DataPosition &position, Tell tell);

  // Checks that the right ranks see the folder, locks it, and numbers the next checkpoint. Does nothing when nothing is saved. All ranks
  // call it, after prepare() went well on all.
  Status openFolder();

  // From now on, while this lives, a signal to end the run only asks for a checkpoint first.
  void catchSignals();

  // Bytes of the buffer.
  uint64_t bufferBytes() const { return bytes; }

  // Called when `steps` steps since the very start are done: begins a checkpoint when one is due, or a signal asked for the last one, and
  // reports the one under way. `ends`: the run is to end now. A failed save is a warning, no failure of this, unless numbers are not
  // finite. `stops`: a number of this step is not, on this rank. Then nothing is begun on any rank, the save under way is finished, and
  // `ends` is set.
  Status afterStep(uint64_t steps, bool stops, bool &ends);

  // Whether a rank stopped.
  bool isStopped() const { return stopped; }

  // Saves the last step of the run, unless it is saved, and waits until it is on disk. Fails when it could not be written.
  Status finish(uint64_t steps);

private:
  // How far a rank is with the checkpoint.
  enum class State : uint32_t { kNone, kWriting, kWritten, kFailed };

  // The reports between ranks.
  struct Report {
    uint32_t state;
    uint32_t signal;
    uint32_t stops;
  };

  // A piece, by its number, that another rank writes, too.
  struct KeptElsewhere {
    size_t piece;
    int keeper;
  };

  // Whether this rank takes care of the folder.
  bool leads() const;
  bool holds(const SavedPiece &piece) const { return piece.process == session.communicator->rank(); }
  void findCopied();
  // The pieces that a rank writes.
  std::vector<SavedPiece> piecesOf(const ashlar_rt_variant &stage, const Mesh &mesh, int process) const;
  Status begin(uint64_t steps);
  // Looks how far all ranks are, and goes on to the next part when they are through with one.
  Status look(int &signal);
  Status wait();
  Status endPart(bool failed);
  Status exchangeCopies();
  Status writeRankFile();
  Status commit();
  void removeOld();
  Status addFile(int process, const std::vector<SavedPiece> &written, std::map<std::string, CheckpointTensor> &tensors);
  template <typename Part> void start(Part part);
  void settle(const Status &failure);

  Session &session;
  FolderLock lock; // where it leads
  CheckpointFolder folder;
  DataPosition position;
  Tell tell;
  std::vector<SavedPiece> pieces;
  std::vector<StoredTensor> stored; // the same, as the file of this rank names them
  std::vector<KeptElsewhere> copied;
  std::unique_ptr<char[]> buffer;
  std::vector<char> padded;              // a piece with its padding
  std::optional<TrainedTensors> trained; // on_nonfinite: STOP
  uint64_t bytes = 0;

  std::string name; // of the checkpoint under way, or the last one
  CheckpointIndex index;
  uint64_t lastSteps = 0; // steps of it; 0: none yet
  uint64_t number = 0;    // of the next one
  Status lastFailure;     // of it
  bool stops = false;     // this rank's report
  bool stopped = false;
  bool committing = false;
  std::thread thread;
  Status result; // of the thread, once the state is kWritten or kFailed
  std::atomic<State> state{State::kNone};
  std::vector<std::pair<int, struct sigaction>> replaced; // signals, and their former actions
  bool honoured = false;                                  // the signal that was caught
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_CHECKPOINT_SAVER_H
