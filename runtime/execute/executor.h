// SPDX-License-Identifier: Apache-2.0
//
// Runs the programs of one variant on the devices of this process. Differences between targets are behind this interface; everything is
// laid out when it is made, so that a run is a tight loop over resolved steps that allocates nothing.

#ifndef ASHLAR_RUNTIME_EXECUTE_EXECUTOR_H
#define ASHLAR_RUNTIME_EXECUTE_EXECUTOR_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/recorder.h"
#include "runtime/base/stages.h"
#include "runtime/base/status.h"
#include "runtime/comm/communicator.h"
#include "runtime/data/pipeline.h"
#include "runtime/device/cpu/thread_pool.h"

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ashlar::rt {

// How an executor runs its programs.
struct ExecutorOptions {
  bool profile = false;         // measure every instruction
  bool checkNumerics = false;   // check the results of every instruction for NaN
  bool graph = true;            // cuda: capture a program when it is run again, and replay it
  Recorder *recorder = nullptr; // records the spans of runs; null: none
};

// Notes that an executor keeps of tensors, and bytes of one.
inline constexpr size_t kNotes = 4, kNoteBytes = 8;

// Time in which a program waited, under the name that the profile gives it.
struct Waited {
  std::string label;
  double seconds = 0;
};

// One program, laid out. The targets derive from it.
class Program {
public:
  explicit Program(const ashlar_rt_program &program)
      : source(program), seconds(program.num_instrs, 0.0), skips(program.num_instrs, 0), besideSeconds(program.num_instrs, 0.0) {}
  virtual ~Program() = default;
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  // The name of an instruction in the profile.
  virtual std::string label(size_t instr) const { return source.instrs[instr].name; }

  // Add to `waits` that it waits for a message of another stage, or until the other stage has one, and return where.
  size_t addReceive(const ashlar_rt_variant &variant, const ashlar_rt_transfer &transfer);
  size_t addSend(const ashlar_rt_variant &variant, const ashlar_rt_transfer &transfer);

  const ashlar_rt_program &source;
  std::vector<double> seconds; // by instruction; only when profiling
  std::vector<uint64_t> skips; // by instruction: how often the condition of a repeat did not hold
  // By instruction, only when profiling: of an asynchronous collective the time from its start to its end.
  std::vector<double> besideSeconds;
  // Its waits before it ran: for messages of other stages, and for their reads of its own. Only when profiling.
  std::vector<Waited> waits;
  uint64_t runs = 0;
};

// Whether a device runs the instruction.
inline bool runsOn(const ashlar_rt_instr &instr, int device) {
  return instr.owner == 0 || instr.owner == static_cast<uint32_t>(device) + 1;
}

// Brings batches from a pipeline to the input tensors. Both outlive it.
class Feed {
public:
  virtual ~Feed() = default;

  // Puts the next batch into the input tensors of all devices of this process, for the run of that micro-batch that follows.
  virtual Status next(uint64_t microBatch = 0) = 0;

  // Gets the batch after that under way. To be called after the run was started, when another one will follow.
  virtual Status prefetch() { return Status(); }

  // Seconds that prefetch() has waited so far, for the devices or for the pipeline.
  double waitedSeconds = 0;

  // Whether every next() takes the first batch, so that a step is measured without the preparation and transport of batches.
  bool repeats = false;
};

// A part of the memory that a process holds.
struct HeldPart {
  const char *name;
  uint64_t bytes;
};

// How long runs of a program take.
struct Benchmark {
  std::vector<double> seconds;   // one a run
  uint64_t copyBytes = 0;        // 0: not measured
  double copyBytesPerSecond = 0; // of a copy within the device, bytes read and bytes written counted
};

// Owns the resolved programs of a variant. One thread uses it.
class Executor {
public:
  virtual ~Executor() = default;

  // Returns the first program of a role; null when the variant has none.
  Program *find(ashlar_rt_program_role role);

  // Returns a program by its index in the variant.
  Program &at(size_t program) { return *programs[program]; }

  // Returns the tensor of that name; null when the variant has none.
  const ashlar_rt_tensor *tensor(const std::string &name) const;

  // Runs the program once on all devices of this process, for a micro-batch: its number since the start decides which slot the program
  // works on. The devices may still be at it on return.
  virtual Status run(Program &program, uint64_t microBatch = 0) = 0;

  // With a recorder: called before the first run, for a window of so many runs of programs; before the window is opened, and after it was
  // closed. Where the host does not know the times of programs, they are recorded at the end.
  virtual Status reserveTrace(size_t runs) { return Status(); }
  virtual Status beginTrace() { return Status(); }
  virtual Status endTrace() { return Status(); }

  // Whether a message occupies both devices until it is through, so that the stages of a pipeline run the programs of an evaluation batch
  // by batch.
  virtual bool messagesMeet() const { return false; }

  // Whether run() only starts the devices, so that the host has time of its own.
  virtual bool runsAhead() const { return false; }

  // Waits until the devices have done everything.
  virtual Status wait() { return Status(); }

  // Calls fill(data) with the bytes of a tensor on this process' device number `device`, to be written; of a tensor in a slot, in the
  // micro-batch's slot.
  virtual Status write(const ashlar_rt_tensor &tensor, int device, const std::function<void(char *data)> &fill,
                       uint64_t microBatch = 0) = 0;

  // Reads the bytes of a tensor of this process' device number `device`; of a tensor in a slot, in the micro-batch's slot.
  virtual Status read(const ashlar_rt_tensor &tensor, int device, void *data, uint64_t microBatch = 0) = 0;

  // Notes a tensor of at most kNoteBytes of this process' first device, as the runs so far leave it, at one of kNotes places, without
  // waiting for the devices. recall() waits until the note is there.
  virtual Status note(const ashlar_rt_tensor &tensor, uint64_t microBatch, size_t place);
  virtual Status recall(size_t place, char (&data)[kNoteBytes]);

  // Communicator::fetch() of a tensor of a stage, which lies in no slot. Every process of all stages calls it, after a barrier.
  virtual Status fetch(uint32_t stage, const ashlar_rt_tensor &tensor, const std::function<void(int device, const char *data)> &sink) = 0;

  // Makes a feed for the inputs that the pipeline has.
  virtual Status createFeed(Pipeline &pipeline, std::unique_ptr<Feed> &feed) = 0;

  // Runs the program `count` times, after runs to warm up, and measures each.
  virtual Status benchmark(Program &program, uint64_t count, Benchmark &result);

  // Returns the memory of this process on its device, or on the cpu itself, by the names of --plan; `batchBytes`: bytes of its pipelines.
  virtual std::vector<HeldPart> held(uint64_t batchBytes) const = 0;

  // Fails when that is more than the program was compiled for.
  Status checkMemory(uint64_t batchBytes) const;

  // Waits for the devices and lets go of the other ranks, which may end from now on. To be called when the job went well.
  virtual Status close() { return Status(); }

  // Whether its work may never finish after a failure: the process then has to end without destroying it.
  virtual bool mayHang() const { return false; }

  // Returns the parts of the time to start: "driver 20.1 ms, module 3.0 ms"; "" when there are none.
  virtual std::string startTimes() const { return ""; }

  // Returns where the time of each program went (profile.h), `all` of it. Assumes that they were profiled.
  std::string profile(bool all) const;

protected:
  // Sets up the common part of all executors, after checking the places of everything in the image. All arguments outlive the executor.
  Status setUp(const ashlar_rt_image &image, const ashlar_rt_variant &variant, Communicator &communicator, const ExecutorOptions &options);

  // Checks the repeats of a program, and that the buffers of its instructions lie in the arena, a slot and the constants.
  Status checkInstrs(const ashlar_rt_program &program) const;

  // Checks an instruction in repeats of these counts.
  Status checkInstr(const ashlar_rt_instr &instr, const std::vector<uint64_t> &counts) const;

  // Checks that the slots lie in the arena, and every tensor in the arena or a slot.
  Status checkTensors() const;

  // Bytes of the constants that the variant reads.
  uint64_t constantBytes() const;

  const ashlar_rt_image *image = nullptr;
  const ashlar_rt_variant *variant = nullptr;
  Communicator *communicator = nullptr;
  ExecutorOptions options;
  int devices = 0;
  char notes[kNotes][kNoteBytes] = {};
  std::deque<std::unique_ptr<Program>> programs;
};

// The parts of an executor. Referenced objects outlive the executor.
struct ExecutorParts {
  const ashlar_rt_image &image;
  const ashlar_rt_variant &variant;
  Communicator &communicator;
  ThreadPool &pool;
  ExecutorOptions options;

  // Prints a failure and ends the other ranks. For a thread that finds the main one stuck in a library.
  std::function<void(const Status &)> fail;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_EXECUTOR_H
