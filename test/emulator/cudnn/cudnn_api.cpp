// SPDX-License-Identifier: Apache-2.0
//
// The entries of cuDNN's backend API. A graph is one convolution, or an attention of several operations; the heuristic knows engines that a
// careful caller passes over, and one that it does not (Algorithm::Plain).

#include "test/emulator/cudnn/convolution.h"
#include "test/emulator/cudnn/graph.h"
#include "test/emulator/cudnn/run.h"
#include "test/emulator/driver/settings.h"

#include <algorithm>
#include <set>

using namespace ashlar::emulator;

struct cudnnContext {
  Device *device;
  CUstream stream = nullptr;
};

namespace {

std::set<cudnnHandle_t> &handles() {
  static auto *all = new std::set<cudnnHandle_t>;
  return *all;
}

uint64_t workspaceBytes(Algorithm algorithm) {
  return algorithm == Algorithm::Plain ? uint64_t(1) << 20 : algorithm == Algorithm::Roomy ? uint64_t(192) << 20 : 0;
}

// Whether operands are f32.
bool hasExactNumbers(const Descriptor &graph) {
  return graph.convolution && graph.convolution->tensors[X].type == CUDA_R_32F;
}

// The mode FALLBACK has the first and the last only.
std::vector<Algorithm> algorithmsFor(const Descriptor &graph, cudnnBackendHeurMode_t mode) {
  std::vector<Algorithm> result{Algorithm::Broken};
  if (mode == CUDNN_HEUR_MODE_A) {
    if (hasExactNumbers(graph)) {
      result.push_back(Algorithm::Tf32);
    }
    if (graph.composed ? hasGradients(*graph.composed) : graph.convolution->result != Y) {
      result.push_back(Algorithm::Unordered);
    }
    if (!graph.composed) {
      result.push_back(Algorithm::Winograd);
    }
    result.push_back(Algorithm::Roomy);
  }
  if (mode == CUDNN_HEUR_MODE_FALLBACK || setting("CUDNN_PLAIN", 1) != 0) {
    result.push_back(Algorithm::Plain);
  }
  const uint64_t there = setting("CUDNN_ENGINES", ~uint64_t(0));
  result.erase(std::remove_if(result.begin(), result.end(), [&](Algorithm each) { return (there >> int(each) & 1) == 0; }), result.end());
  return result;
}

// Tensor cores multiply 16-bit floats as they are, and f32 as tf32.
std::vector<cudnnBackendNumericalNote_t> notesOf(const Descriptor &graph, Algorithm algorithm) {
  std::vector<cudnnBackendNumericalNote_t> notes;
  if (algorithm == Algorithm::Tf32 || !hasExactNumbers(graph)) {
    notes.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  }
  if (algorithm == Algorithm::Unordered) {
    notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  }
  if (algorithm == Algorithm::Plain && graph.composed && hasGradients(*graph.composed)) { // weights, for a product
    notes.push_back(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  }
  if (algorithm == Algorithm::Winograd) {
    notes.push_back(CUDNN_NUMERICAL_NOTE_WINOGRAD);
  }
  return notes;
}

// Returns an engine of the graph, and a configuration of it.
DescriptorPtr configure(const Descriptor &graph, Algorithm algorithm) {
  auto engine = std::make_shared<Descriptor>();
  engine->kind = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
  engine->finalized = true;
  engine->convolution = graph.convolution;
  engine->composed = graph.composed;
  engine->handle = graph.handle;
  engine->algorithm = algorithm;
  auto config = std::make_shared<Descriptor>(*engine);
  engine->put(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, std::vector<int64_t>{int64_t(algorithm)});
  engine->put(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, notesOf(graph, algorithm));
  config->kind = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
  config->attributes[CUDNN_ATTR_ENGINECFG_ENGINE].parts = {engine};
  return config;
}

cudnnStatus_t finalizeGraph(Descriptor &graph) {
  graph.handle = graph.value<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
  const std::vector<DescriptorPtr> &operations = graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).parts;
  if (operations.size() == 1 && operations[0]->isConvolution()) {
    graph.convolution = operations[0]->convolution;
  } else {
    auto composed = std::make_shared<OperationGraph>();
    if (const cudnnStatus_t refused = describeGraph(operations, *composed)) {
      return refused;
    }
    graph.composed = composed;
  }
  return handles().count(graph.handle) != 0 ? CUDNN_STATUS_SUCCESS
                                            : refuse(CUDNN_STATUS_BAD_PARAM, "the handle of an operation graph is none");
}

cudnnStatus_t finalizeHeuristic(Descriptor &heuristic) {
  const auto mode = heuristic.value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE);
  const Descriptor &graph = heuristic.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  if (mode != CUDNN_HEUR_MODE_A && mode != CUDNN_HEUR_MODE_FALLBACK) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the modes A and FALLBACK of heuristics are played");
  }
  if (const cudnnStatus_t refused = graph.composed ? checkSupport(*graph.composed) : checkSupport(*graph.convolution)) {
    return refused;
  }
  std::vector<DescriptorPtr> &results = heuristic.attributes[CUDNN_ATTR_ENGINEHEUR_RESULTS].parts;
  results.clear();
  for (const Algorithm algorithm : algorithmsFor(graph, mode)) {
    results.push_back(configure(graph, algorithm));
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalizePlan(Descriptor &plan) {
  const Descriptor &config = plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  plan.handle = plan.value<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
  plan.convolution = config.convolution;
  plan.composed = config.composed;
  plan.algorithm = config.algorithm;
  if (plan.handle != config.handle || handles().count(plan.handle) == 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "the handle of a plan is not that of its operation graph");
  }
  if (refuseDuringCapture() != CUDA_SUCCESS) { // kernels are loaded
    return refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER, "a plan is made during a capture");
  }
  if (plan.algorithm == Algorithm::Broken) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "this engine has no plan: try the next one");
  }
  plan.put(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, std::vector<int64_t>{int64_t(workspaceBytes(plan.algorithm))});
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalizePack(const Descriptor &pack) {
  std::vector<int64_t> ids = pack.list<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  if (ids.size() != pack.list<CUdeviceptr>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size()) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a variant pack has not as many unique ids as pointers");
  }
  std::sort(ids.begin(), ids.end());
  return std::adjacent_find(ids.begin(), ids.end()) == ids.end()
             ? CUDNN_STATUS_SUCCESS
             : refuse(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "a variant pack has a unique id twice");
}

cudnnStatus_t finalize(Descriptor &descriptor) {
  if (descriptor.finalized) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor is finalized twice");
  }
  if (const char *name = descriptor.missing()) {
    return refuse(CUDNN_STATUS_BAD_PARAM, std::string(name) + " is not set");
  }
  switch (descriptor.kind) {
  case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    return checkTensor(descriptor);
  case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
    return checkConvolution(descriptor);
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    return finalizeGraph(descriptor);
  case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    return finalizeHeuristic(descriptor);
  case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
    return finalizePlan(descriptor);
  case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    return finalizePack(descriptor);
  case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
  case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
  case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
    return CUDNN_STATUS_SUCCESS;
  default:
    return isGraphOperation(descriptor) ? checkGraphOperation(descriptor)
           : descriptor.isOperation()   ? describeOperation(descriptor)
                                        : refuse(CUDNN_STATUS_BAD_PARAM, "engines and their configurations come from a heuristic only");
  }
}

} // namespace

extern "C" {

size_t CUDNNWINAPI cudnnGetVersion(void) {
  return CUDNN_VERSION;
}

const char *CUDNNWINAPI cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
#define ASHLAR_CUDNN_STATUS(name)                                                                                                          \
  case name:                                                                                                                               \
    return #name;
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_SUCCESS)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_NOT_INITIALIZED)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_BAD_PARAM)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_BAD_PARAM_NULL_POINTER)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_NOT_SUPPORTED)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_NOT_SUPPORTED_SHAPE)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_NOT_SUPPORTED_PADDING)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_EXECUTION_FAILED)
    ASHLAR_CUDNN_STATUS(CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER)
#undef ASHLAR_CUDNN_STATUS
  default:
    return "CUDNN_UNKNOWN_STATUS";
  }
}

cudnnStatus_t CUDNNWINAPI cudnnCreate(cudnnHandle_t *handle) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  if (!Driver::current() || stickyError() != CUDA_SUCCESS) {
    return refuse(CUDNN_STATUS_NOT_INITIALIZED, "no context is current, or its device has faulted");
  }
  if (refuseDuringCapture() != CUDA_SUCCESS) { // memory is allocated
    return refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER, "a handle is made during a capture");
  }
  *handle = new cudnnContext{Driver::current()};
  handles().insert(*handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnDestroy(cudnnHandle_t handle) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  if (handles().erase(handle) == 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "what is destroyed is no handle");
  }
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  const CUstream_st *found = Driver::current() ? Driver::get().streamOf(stream) : nullptr;
  if (handles().count(handle) == 0 || !found || found->device != handle->device) {
    return refuse(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, "the handle is none, or the stream is none of its device");
  }
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t *descriptor) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  *descriptor = Descriptor::create(kind);
  return *descriptor ? CUDNN_STATUS_SUCCESS
                     : refuse(CUDNN_STATUS_NOT_SUPPORTED, "descriptors of kind " + std::to_string(kind) + " are not played");
}

cudnnStatus_t CUDNNWINAPI cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  return Descriptor::destroy(descriptor) ? CUDNN_STATUS_SUCCESS
                                         : refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "what is destroyed is no descriptor");
}

cudnnStatus_t CUDNNWINAPI cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle, cudnnBackendAttributeName_t name,
                                                   cudnnBackendAttributeType_t type, int64_t count, const void *elements) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  const DescriptorPtr descriptor = Descriptor::of(handle);
  return descriptor ? descriptor->set(name, type, count, elements)
                    : refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "an attribute of no descriptor is set");
}

cudnnStatus_t CUDNNWINAPI cudnnBackendGetAttribute(cudnnBackendDescriptor_t const handle, cudnnBackendAttributeName_t name,
                                                   cudnnBackendAttributeType_t type, int64_t requested, int64_t *count, void *elements) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  const DescriptorPtr descriptor = Descriptor::of(handle);
  return descriptor ? descriptor->get(name, type, requested, count, elements)
                    : refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "an attribute of no descriptor is read");
}

cudnnStatus_t CUDNNWINAPI cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  const DescriptorPtr descriptor = Descriptor::of(handle);
  if (!descriptor) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "what is finalized is no descriptor");
  }
  const cudnnStatus_t refused = finalize(*descriptor);
  descriptor->finalized |= refused == CUDNN_STATUS_SUCCESS;
  return refused;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t planHandle,
                                              cudnnBackendDescriptor_t packHandle) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  const DescriptorPtr plan = Descriptor::of(planHandle), pack = Descriptor::of(packHandle);
  if (!plan || plan->kind != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || !pack || pack->kind != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "what is executed is no plan, or its arguments are no variant pack");
  }
  if (!plan->finalized || !pack->finalized) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a plan or a variant pack is executed that is not finalized");
  }
  if (handles().count(handle) == 0 || plan->handle != handle || Driver::current() != handle->device) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "the handle is not that of the plan, or its device is not current");
  }
  RunMemory memory;
  if (const cudnnStatus_t refused = findMemory(*handle->device, *plan, *pack, memory)) {
    return refused;
  }
  CUstream stream = Driver::get().streamOf(handle->stream);
  if (stickyError() != CUDA_SUCCESS || !stream || enqueue(stream, workOf(*plan, memory)) != CUDA_SUCCESS) {
    return refuse(CUDNN_STATUS_EXECUTION_FAILED, "the stream takes no work");
  }
  return CUDNN_STATUS_SUCCESS;
}

} // extern "C"
