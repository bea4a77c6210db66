// SPDX-License-Identifier: Apache-2.0
//
// One distinct convolution in cuDNN's graph API, and its chosen engine: the library's proposals, the promises that each would break, and
// the choice.

#ifndef ASHLAR_RUNTIME_KERNELS_CUDA_CONVOLUTION_PLAN_H
#define ASHLAR_RUNTIME_KERNELS_CUDA_CONVOLUTION_PLAN_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/kernels/cuda/cudnn_descriptor.h"

#include <string>
#include <vector>

namespace ashlar::rt {

// The numbers by which a graph and the addresses of a run name the tensors.
enum ConvolutionTensor : int64_t { kX = 1, kWeights = 2, kY = 3 };

// Returns the tensors of a convolution in the order of its buffers.
const ConvolutionTensor (&tensorsOf(const ashlar_rt_conv_desc &desc))[3];

// Returns the number of elements of one of them.
int64_t elementsOf(const ashlar_rt_conv_desc &desc, ConvolutionTensor tensor);

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

// An engine that the library proposed, and its outcome.
struct EngineTrial {
  explicit EngineTrial(const CudnnLibrary &dnn) : configuration(dnn), execution(dnn) {}

  // Returns "engine 3: TENSOR_CORE; CUDNN_STATUS_SUCCESS, 1048576 bytes of workspace; needs tf32": its notes, the result of finalizing its
  // plan, and the promises it would break.
  std::string text() const;

  CudnnDescriptor configuration, execution;
  int64_t number = -1;        // the library's
  std::string notes;          // "none" for none
  uint32_t needs = 0;         // relaxations, because of its notes or its workspace
  bool isPlanned = false;     // finalizing the plan was tried
  std::string status;         // the result of that
  bool runs = false;          // whether it was a success
  int64_t workspaceBytes = 0; // of the plan
};

class ConvolutionPlan {
public:
  ConvolutionPlan(const CudnnLibrary &dnn, const ashlar_rt_conv_desc &desc, uint32_t dtype)
      : dnn(dnn), desc(desc), dtype(dtype), tensors{CudnnDescriptor(dnn), CudnnDescriptor(dnn), CudnnDescriptor(dnn)}, convolution(dnn),
        operation(dnn), graph(dnn) {}
  ConvolutionPlan(const ConvolutionPlan &) = delete;
  ConvolutionPlan &operator=(const ConvolutionPlan &) = delete;

  // Whether this is the plan of such a convolution.
  bool isOf(const ashlar_rt_conv_desc &other, uint32_t otherDtype) const;

  // Describes everything but the engine. Fails for a type that the library does not have; `name` is for the error.
  Status layOut(cudnnHandle_t owner, const char *name);

  // Takes the first engine that breaks no promise, or as few as possible: promises of `relaxations`, one more after the other. `mostBytes`:
  // of workspace where more than planned is allowed. Fails with the reason for refusing each engine.
  Status choose(uint32_t relaxations, uint64_t mostBytes, const char *name);

  // Plans the engines that choose() did not reach: the library then reports whether each could run.
  Status planAll();

  // The engines that were proposed, and that which was chosen, among them; null: none.
  const std::vector<EngineTrial> &engines() const { return trials; }
  const EngineTrial *chosen() const { return taken < trials.size() ? &trials[taken] : nullptr; }

private:
  Status propose(cudnnBackendHeurMode_t mode, std::vector<CudnnDescriptor> &configurations) const;
  Status proposeAll();
  Status readNotes(EngineTrial &trial) const;
  Status plan(EngineTrial &trial) const;
  uint32_t waivedBy(cudnnBackendNumericalNote_t note) const;
  std::string refusal(uint32_t relaxations, uint64_t mostBytes) const;

  const CudnnLibrary &dnn;
  cudnnHandle_t handle = nullptr;
  ashlar_rt_conv_desc desc;
  uint32_t dtype;
  CudnnDescriptor tensors[3];
  CudnnDescriptor convolution, operation, graph;
  std::vector<EngineTrial> trials;
  size_t taken = ~size_t{0};
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CUDA_CONVOLUTION_PLAN_H
