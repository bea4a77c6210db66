// SPDX-License-Identifier: Apache-2.0
//
// The messages of a rank on a GPU to and from other pipeline stages: on the streams of links, ordered by events with the compute stream, in
// the order that message_order.h gives all ranks. The host waits for nothing.

#ifndef ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_MESSAGES_H
#define ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_MESSAGES_H

#include "runtime/execute/cuda/cuda_program.h"
#include "runtime/execute/message_order.h"

#include <deque>

namespace ashlar::rt {

// Used in this order: plan(), create(), then begin() and end() around each run. All of it does nothing where there is one stage.
class CudaMessages {
public:
  explicit CudaMessages(CudaContext &context) : context(context) {}

  // Works out the order of messages, and lays them out at the links. `programs`: as the variant numbers them.
  Status plan(const ashlar_rt_image &image, const ashlar_rt_variant &variant, const std::deque<std::unique_ptr<Program>> &programs);

  // Makes the events once memory is allocated. `profile`: with events that measure waits.
  Status create(bool profile);

  // Puts the messages on the device that precede a run, and makes the compute stream wait for the run's own.
  Status begin(const Program &program, uint64_t microBatch);

  // Notes that the run is on the compute stream, and puts the messages on the device that follow the last run of a step.
  Status end(const Program &program, uint64_t microBatch);

  // Sends and receives one message on every channel, in the slots of micro-batch 0: the first use of libraries, with their setup.
  Status rehearse();

  // Makes the compute stream wait for all messages.
  Status join();

  // Adds the time that the last run waited for its messages to the program's `waits`. Assumes that the run is over, and `profile`.
  Status collectTimes(Program &program) const;

private:
  // The end of one transfer in a program: its send, or receive.
  struct End {
    size_t message = 0;               // at the links
    std::vector<CUdeviceptr> address; // by slot
    std::vector<CUevent> done;        // by slot: the message is through
    std::vector<uint32_t> runsAfter;  // programs whose runs on the slot come before it: the one that sends, or those on its bytes
    size_t wait = 0;                  // index into the waits of the program
    bool isAside = false;             // of a receive: it comes to a place of its own first,
    CUdeviceptr aside = 0;            // here,
    CUevent taken = nullptr;          // and its run has taken it from there
  };

  // One program's part in it.
  struct Part {
    std::vector<End> sends, receives;
    std::vector<CUevent> ran;      // by slot: the last run there is done
    std::vector<IssuedRun> issued; // by micro-batch of a step
    std::vector<CUevent> marks;    // only when profiling: before the first wait, and after each
  };

  Status planStep(const std::vector<std::vector<ashlar_rt_run>> &runs, uint64_t microBatches);
  Status planEvaluation(const std::vector<std::vector<ashlar_rt_run>> &step);
  Status issue(const std::vector<MessageEnd> &ends, uint64_t firstMicroBatch);
  Status takeAside(const Part &part, uint64_t slot);
  Status issueGroup(const MessageEnd *first, size_t count, uint64_t firstMicroBatch);
  const End &find(const MessageEnd &end) const;
  uint32_t indexOf(const Program &program) const;
  uint64_t slotOf(uint64_t microBatch) const { return microBatch % slotsOf(*variant); }
  bool exist() const { return context.links != nullptr; }
  Status record(CUevent event, CUstream stream) const;
  Status await(CUstream stream, CUevent event) const;

  CudaContext &context;
  const ashlar_rt_variant *variant = nullptr;
  std::vector<Part> parts;   // by program
  std::vector<CUevent> last; // by link: all that was put on it
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_MESSAGES_H
