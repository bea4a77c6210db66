// SPDX-License-Identifier: Apache-2.0
//
// A program of the cpu target with all its addresses resolved: a list of steps for each slot that it may work on.

#ifndef ASHLAR_RUNTIME_EXECUTE_CPU_CPU_PROGRAM_H
#define ASHLAR_RUNTIME_EXECUTE_CPU_CPU_PROGRAM_H

#include "runtime/comm/progress_thread.h"
#include "runtime/device/cpu/thread_pool.h"
#include "runtime/execute/cpu/ordered_weights.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/repeats.h"
#include "runtime/kernels/cpu/attention/attention.h"
#include "runtime/kernels/cpu/conv/conv.h"
#include "runtime/kernels/cpu/gemm.h"

#include <deque>
#include <vector>

namespace ashlar::rt {

// One instruction with its addresses: `buffers` holds numBuffers of them for each device in turn.
struct Step {
  uint32_t kind = 0;
  uint32_t numBuffers = 0;
  void **buffers = nullptr;
  const ashlar_rt_instr *moving = nullptr; // an instruction with buffers that move
  void *const *places = nullptr;           // of that one: the addresses of its buffers in first iterations
  bool readsOrdered = false;               // its weights, buffer 1, are ordered ones, which do not move
  int begin = 0;                           // devices [begin, end) of this process run it
  int end = 0;
  ashlar_rt_kernel_fn function = nullptr;
  int64_t extent = 0;
  int64_t grain = 1;
  Gemm *gemm = nullptr;
  Conv *conv = nullptr;
  Attention *attention = nullptr;
  bool hasScale = false;
  bool hasBias = false;
  bool hasResidual = false;
  const ashlar_rt_instr *insert = nullptr;
  Collective *collective = nullptr;
  bool isOrdered = false;            // a synchronous collective, which waits for the started ones
  uint32_t token = 0;                // of a collective that is started, or of its wait
  const Stopwatch *beside = nullptr; // of a collective that is started: for the time from then to its end
  size_t copyBytes = 0;

  // Moves the buffers to where they are in an iteration.
  void move(const InstrCursor &cursor);
};

// The surroundings of programs of one executor. All outlive them.
struct CpuSurroundings {
  const ashlar_rt_image &image;
  const ashlar_rt_variant &variant;
  Communicator &communicator;
  ThreadPool &pool;
  GemmWorkspace &workspace; // of the library calls of all programs: one runs at a time
  OrderStore &ordered;      // of these calls
  const ExecutorOptions &options;

  // Returns the address of a buffer on this process' device number `device`.
  char *address(const ashlar_rt_buffer &buffer, int device, uint64_t slot) const;
};

class CpuProgram final : public Program {
public:
  using Program::Program;

  // Adds the weights that its instructions, whose buffers were checked, read in an order of their own, to the surroundings.
  void addWeights(const CpuSurroundings &surroundings);

  // Lays out the instructions, whose buffers were checked, and the messages of other stages.
  Status resolve(const CpuSurroundings &surroundings);

  // The steps that work on a slot; all slots share one list where no instruction names a slot.
  std::vector<Step> &steps(uint64_t slot) { return instances[instances.size() == 1 ? 0 : slot]; }

  // Number of such lists.
  size_t numInstances() const { return instances.size(); }

  // Orders the fixed weights of all calls, unless a program has done so since change number `change` of the variables.
  void orderWeights(ThreadPool &pool, uint64_t change);

  // Orders the weights that the repeat at which the cursor is keeps.
  void orderKept(const InstrCursor &cursor, ThreadPool &pool);

  // Waits for the slot and the messages that a run for the micro-batch needs, and offers its results.
  Status receive(uint64_t microBatch, uint64_t slot);
  Status offer(uint64_t slot);

  // For the time of an instruction.
  const Stopwatch &watch(size_t instr) const { return watches[instr]; }

  // For when the program began and ended.
  Stopwatch whole;

  // Waits until other stages have all that was sent.
  Status reclaimAll();

  // "name [kernel]" of a library call.
  std::string label(size_t instr) const override;

  std::vector<uint64_t> started; // by token: the number that the thread beside gave
  uint64_t weightsOrdered = 0;   // the change of the variables at which weights were ordered; 0: they never were

private:
  Status resolveInstance(const CpuSurroundings &surroundings, uint64_t slot);
  Status resolveStep(const CpuSurroundings &surroundings, uint32_t instr, uint64_t slot, Step &step);
  Status prepareGemm(const CpuSurroundings &surroundings, uint32_t instr, uint64_t slot, Step &step);
  Status prepareConv(const CpuSurroundings &surroundings, uint32_t instr, uint64_t slot, Step &step);
  Status prepareAttention(const CpuSurroundings &surroundings, uint32_t instr, uint64_t slot, Step &step);
  template <typename Call> Status keepWeights(const CpuSurroundings &surroundings, uint32_t instr, const Call &call, Step &step);
  // Returns the repeat that keeps the weights of a call; null: they are fixed.
  const ashlar_rt_instr *keeperOf(uint32_t instr) const;
  Status prepareCollective(const CpuSurroundings &surroundings, uint32_t instr, uint64_t slot, Step &step);

  Stopwatch watchFor(const CpuSurroundings &surroundings, SpanKind kind, uint32_t index, double *sum) const;
  void layOutTransfers(const CpuSurroundings &surroundings);

  // An end of a channel and the time that it waits.
  template <typename End> struct Waiting {
    std::unique_ptr<End> end;
    Stopwatch watch;
  };

  std::vector<std::vector<Step>> instances; // by slot, or one
  std::deque<std::vector<void *>> addresses;
  std::deque<Gemm> gemms;
  std::deque<Conv> convs;
  std::deque<Attention> attentions;
  std::vector<OrderedWeights *> orderedWeights; // of its calls, each once
  std::vector<int64_t> repeatOf;                // by instruction: the number of the innermost repeat around it; -1: none
  std::vector<std::unique_ptr<Collective>> collectives;
  std::vector<Stopwatch> watches, besides; // by instruction; the second of collectives that are started
  std::vector<Waiting<SendingEnd>> sends;
  std::vector<Waiting<ReceivingEnd>> receives;
  std::vector<Stopwatch> offers; // by send
  uint64_t slots = 1;
};

// Runs a step on the devices of this process.
Status runStep(const Step &step, ThreadPool &pool, ProgressThread &progress, std::vector<uint64_t> &started);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_CPU_CPU_PROGRAM_H
