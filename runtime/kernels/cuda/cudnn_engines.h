// SPDX-License-Identifier: Apache-2.0
//
// The engines that cuDNN proposes for an operation graph: the promises that each would break, its plan, and the choice.

#ifndef ASHLAR_RUNTIME_KERNELS_CUDA_CUDNN_ENGINES_H
#define ASHLAR_RUNTIME_KERNELS_CUDA_CUDNN_ENGINES_H

#include "runtime/kernels/cuda/cudnn_descriptor.h"

#include <string>
#include <vector>

namespace ashlar::rt {

// Promises of the compiler that the user may waive (ASHLAR_CUDNN_RELAX), as bits; in the order in which they are.
enum Relaxation : uint32_t {
  kMoreWorkspace = 1,    // than the memory plan counts
  kTf32 = 2,             // operands in f32 rounded to tf32 where the job does not allow it
  kTransforms = 4,       // Winograd or FFT, which spread infinities
  kNondeterministic = 8, // sums in another order each time
  kNever = 16            // anything else: operands or sums in fewer bits
};

// Reads ASHLAR_CUDNN_RELAX: words with commas between. Fails for one that it does not know.
Status readRelaxations(const char *text, uint32_t &relaxations);

// Returns the words of some relaxations: "workspace,tf32".
std::string relaxationWords(uint32_t relaxations);

// Returns cuDNN's type of a dtype; false for one that it does not compute with.
bool toCudnnType(uint32_t dtype, cudnnDataType_t &type);

// Of the memory that is free at start, one part in so many is left to the libraries, which load kernels when they first run.
constexpr size_t kReservedShare = 8;

// An engine that the library proposed, and its outcome.
struct EngineTrial {
  explicit EngineTrial(const CudnnLibrary &dnn) : configuration(dnn), execution(dnn) {}

  // Returns "engine 3: TENSOR_CORE; CUDNN_STATUS_SUCCESS, 1048576 bytes of workspace; needs tf32": its notes, the result of finalizing its
  // plan, and the promises it would break.
  std::string text() const;

  CudnnDescriptor configuration, execution;
  int64_t number = -1;        // the library's
  std::string notes;          // "no notes" for none
  uint32_t needs = 0;         // relaxations, because of its notes or its workspace
  bool isPlanned = false;     // finalizing the plan was tried
  std::string status;         // the result of that
  bool runs = false;          // whether it was a success
  int64_t workspaceBytes = 0; // of the plan
};

// What engines do with operands besides multiplying them as they are.
enum class EngineOperands {
  AsTheyAre,     // nothing is asked or allowed
  ExactF32,      // f32, which tensor cores would round
  RoundedInside, // the graph has inner tensors of fewer bits than it computes them in
};

// The engines of one graph, which outlives them.
class CudnnEngines {
public:
  // `plannedBytes`: the workspace that the memory plan has.
  CudnnEngines(const CudnnLibrary &dnn, const CudnnDescriptor &graph, uint64_t plannedBytes, EngineOperands operands)
      : dnn(dnn), graph(graph), plannedBytes(plannedBytes), operands(operands) {}
  CudnnEngines(const CudnnEngines &) = delete;

  // Takes the first engine that breaks no promise, or as few as possible: promises of `relaxations`, one more after the other. `mostBytes`:
  // of workspace where more than planned is allowed. Fails with "NAME: cuDNN VERSION has no engine for WHAT" and the reason for refusing
  // each engine.
  Status choose(cudnnHandle_t owner, uint32_t relaxations, uint64_t mostBytes, const char *name, const std::string &what);

  // Plans the engines that choose() did not reach: the library then reports whether each could run.
  Status planAll();

  // The engines that were proposed, and that which was chosen, among them; null: none.
  const std::vector<EngineTrial> &all() const { return trials; }
  const EngineTrial *chosen() const { return taken < trials.size() ? &trials[taken] : nullptr; }

private:
  Status propose(cudnnBackendHeurMode_t mode, std::vector<CudnnDescriptor> &configurations) const;
  Status proposeAll();
  Status readNotes(EngineTrial &trial) const;
  Status plan(EngineTrial &trial) const;
  uint32_t waivedBy(cudnnBackendNumericalNote_t note) const;
  std::string refusal(uint32_t relaxations, uint64_t mostBytes) const;

  const CudnnLibrary &dnn;
  const CudnnDescriptor &graph;
  uint64_t plannedBytes;
  EngineOperands operands;
  cudnnHandle_t handle = nullptr;
  std::vector<EngineTrial> trials;
  size_t taken = ~size_t{0};
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CUDA_CUDNN_ENGINES_H
